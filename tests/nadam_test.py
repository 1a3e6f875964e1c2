"""nadamw against torch.optim.NAdam, in double precision, on the same numbers."""
import unittest

import torch

from replay import LR, SHAPES, STEPS, gradient, ours, start

torch.set_num_threads(1)
torch.set_default_dtype(torch.float64)  # torch keeps its product of momenta in it


def torchs(**options):
    """Matrices decay, the vector does not."""
    parameters = [torch.nn.Parameter(start(i).double()) for i in range(len(SHAPES))]
    nadam = torch.optim.NAdam([{"params": parameters[:4], "weight_decay": 0.1}, {"params": parameters[4:]}],
                              lr=LR, decoupled_weight_decay=True, **options)
    for t in STEPS:
        for i, p in enumerate(parameters):
            p.grad = gradient(i, t).double()
        nadam.step()
    return [p.detach().reshape(-1) for p in parameters]


class Nadam(unittest.TestCase):
    def assert_equal_to_rounding(self, ours, torchs):
        for i, (a, b) in enumerate(zip(ours, torchs, strict=True)):
            self.assertLess((a.double() - b).norm() / b.norm(), 1e-6, f"parameter {i}")

    def test_with_its_own_defaults_it_equals_torchs(self):
        self.assert_equal_to_rounding(ours("name=nadamw"), torchs(betas=(0.99, 0.999), momentum_decay=0.004))

    def test_with_a_fast_ramp_it_equals_torchs(self):
        self.assert_equal_to_rounding(ours("name=nadamw", "momentum_decay=2"),
                                      torchs(betas=(0.99, 0.999), momentum_decay=2))

    def test_without_a_ramp_it_equals_torchs(self):
        self.assert_equal_to_rounding(ours("name=nadamw", "momentum_decay=inf"),
                                      torchs(betas=(0.99, 0.999), momentum_decay=float("inf")))


if __name__ == "__main__":
    unittest.main()
