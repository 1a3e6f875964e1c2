"""Muon against torch.optim.Muon, step by step on the same numbers."""
import unittest

import torch

from replay import LR, STEPS, gradient, ours, start

torch.set_num_threads(1)


def torchs():
    """torch.optim.Muon on the matrices (q, k and v apart), torch.optim.AdamW on the rest."""
    parts = [[start(0)], [start(1)], [start(2)], start(3).chunk(3), [start(4)]]
    parts = [[torch.nn.Parameter(p.clone()) for p in part] for part in parts]
    muon = torch.optim.Muon(parts[1] + parts[2] + parts[3], lr=LR, weight_decay=0.1, momentum=0.95,
                            adjust_lr_fn="match_rms_adamw")
    adamw = torch.optim.AdamW([{"params": parts[0], "weight_decay": 0.1}, {"params": parts[4], "weight_decay": 0.0}],
                              lr=LR, betas=(0.9, 0.99), eps=1e-8)
    for t in STEPS:
        for i, part in enumerate(parts):
            for p, g in zip(part, gradient(i, t).chunk(len(part))):
                p.grad = g.clone()
        muon.step()
        adamw.step()
    return [torch.cat([p.detach().reshape(-1) for p in part]) for part in parts]


def in_double():
    """The same rule, written out, in double precision."""
    matrices = [m.double() for i in (1, 2, 3) for m in start(i).chunk(3 if i == 3 else 1)]
    momenta = [torch.zeros_like(m) for m in matrices]
    for t in STEPS:
        grads = [g.double() for i in (1, 2, 3) for g in gradient(i, t).chunk(3 if i == 3 else 1)]
        for k, g in enumerate(grads):
            momenta[k] = 0.95 * momenta[k] + 0.05 * g
            u = 0.95 * momenta[k] + 0.05 * g
            x = u / u.norm().clamp(min=1e-7)
            if x.shape[0] > x.shape[1]:
                x = x.T
            for _ in range(5):
                a = x @ x.T
                x = 3.4445 * x + (-4.7750 * a + 2.0315 * a @ a) @ x
            if u.shape[0] > u.shape[1]:
                x = x.T
            matrices[k] = matrices[k] * (1 - LR * 0.1) - 0.2 * max(u.shape) ** 0.5 * LR * x
    flat = [m.reshape(-1) for m in matrices]
    return [flat[0], flat[1], torch.cat(flat[2:])]


class Muon(unittest.TestCase):
    def test_in_bf16_it_equals_torchs_bit_for_bit(self):
        for i, (a, b) in enumerate(zip(ours("name=muon", "ns_dtype=bfloat16"), torchs())):
            if i in (1, 2, 3):
                self.assertTrue(torch.equal(a, b), f"parameter {i}: {(a - b).abs().max()}")
            else:
                self.assertLess((a - b).norm() / b.norm(), 1e-6, f"parameter {i}")

    def test_in_fp32_it_equals_the_rule_in_double_precision(self):
        for i, (a, b) in enumerate(zip(ours("name=muon", "ns_dtype=float32")[1:4], in_double())):
            self.assertLess((a.double() - b).norm() / b.norm(), 1e-5, f"matrix {i + 1}")


if __name__ == "__main__":
    unittest.main()
