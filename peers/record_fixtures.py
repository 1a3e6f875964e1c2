"""Records short runs of DeepSpeed's 1-bit optimizers for `make test`: record_fixtures.py. The same bytes every time.

    peers/setup && build/peers-venv/bin/python peers/record_fixtures.py

Writes tests/dp/fixtures/reference.h, which tests/dp/reference_test.cpp replays. DeepSpeed plays by deepspeed_replay.py.
Start and gradients are not stored: start() and gradient() are formulas of whole numbers, and the test has the same.

The rules are also played here, in double precision, straight from the papers (class Mean and the functions below it).
That run chooses the seed, the first one with which no number that becomes a bit is nearer to zero than MARGIN of its
scale (README.md says why), and DeepSpeed must agree with it.
"""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
TARGET = HERE.parent / "tests/dp/fixtures/reference.h"
MARGIN = 2e-4
LIMIT = 1e-5

# A tensor: rows, columns (0: a vector), largest weight at the start, size of its gradients up to the freeze and after.
# DeepSpeed's Adams compress tensor by tensor, Thinwire's the whole model: so DeepSpeed is given all of them as one.
MATRICES = [(5, 7, 0.5, 1, 0.5), (1, 6, 0.25, 2, 1), (3, 4, 1, 0.5, 1)]
ADAM = {"optimizer": "one_bit_adam", "workers": (2, 3), "tensors": MATRICES, "betas": [0.9, 0.99], "eps": 1e-6,
        "weight_decay": 0.01, "freeze": 6, "recorded": [2, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20]}
# Momenta of very different size, so that s counts; starts that meet both bounds of the coefficient, and one of norm 0;
# gradients that shrink after the freeze, some more than others, so that the factor meets its bounds (2 workers: both).
LAMB = {**ADAM, "optimizer": "one_bit_lamb", "workers": (2, 4), "betas": [0.9, 0.8], "weight_decay": 0.1,
        "tensors": [(5, 6, 0.5, 1, 2**-6), (7, 0, 0, 8, 0.125), (4, 5, 2**-9, 2**-4, 2**-6), (3, 0, 1, 0.25, 0.25),
                    (11, 0, 8, 2, 2**-5)],
        "recorded": [2, 6, 7, 8, 9, 10, 12, 14, 16, 18, 20, 22, 24, 26]}
# Dense steps 2, 3, 4, 6 and 8, 1-bit gradients between them; meetings at every step to 12, every 2nd to 16, every 4th
# to 28: the clipper holds.
ZERO_ONE = {**ADAM, "optimizer": "zero_one_adam", "freeze": 7, "var_update_scaler": 2, "local_step_scaler": 4,
            "local_step_clipper": 4, "recorded": [2, 4, 5, 7, 8, 9, 10, 12, 13, 14, 16, 18, 20, 22, 24, 27, 28]}


def sizes(case):
    return [rows * max(columns, 1) for rows, columns, *_ in case["tensors"]]


def rate(t):
    return (64 - t) / 4096


def mixed(seed, t, who, numel):
    """64 bits for every element: splitmix64 of its number."""
    element = np.arange(numel, dtype=np.uint64)
    with np.errstate(over="ignore"):
        z = (np.uint64((seed * 4096 + t) * 16 + who) * np.uint64(65536) + element) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def unit(seed, t, who, numel):
    """Odd multiples of 1/1024 between -1 and 1."""
    return (2 * (mixed(seed, t, who, numel) >> np.uint64(54)).astype(np.int64) - 1023) / 1024


def by_element(case, column):
    return np.repeat([float(tensor[column]) for tensor in case["tensors"]], sizes(case))


def start(case, seed):
    return by_element(case, 2) * unit(seed, 0, 0, sum(sizes(case)))


def gradient(case, seed, t, rank):
    """Exact in fp32: a direction that stays, one that all share in this step, and the rank's own noise."""
    n = sum(sizes(case))
    size = by_element(case, 3 if t <= case["freeze"] else 4) * ((3 + t % 3) / 4)
    spread = ((mixed(seed, 0, 2, n) >> np.uint64(61)).astype(np.int64) + 1) / 4
    return size * spread * (unit(seed, 0, 1, n) + unit(seed, t, 0, n) + unit(seed, t, rank + 1, n))


class Mean:
    """The compressed mean of `workers` vectors, with DeepSpeed's padding."""

    def __init__(self, workers, n, carry):
        unit = workers * math.lcm(workers, 8)
        self.n, self.carry, padded = n, carry, -(-n // unit) * unit
        self.given, self.worker_error = np.zeros((workers, padded)), np.zeros((workers, padded))
        self.server_error = np.zeros((workers, padded // workers))
        self.margin = np.inf

    def bits(self, c):
        scale = np.sqrt((c**2).mean(axis=1, keepdims=True))
        near = np.abs(c / scale)[c != 0]  # an exact zero is one on both sides
        self.margin = min(self.margin, near.min())
        return np.where(c >= 0, scale, -scale)

    def __call__(self, x):
        self.given[:, :self.n] = x
        if not self.carry:
            self.given[:, self.n:] = 0
        c = self.given + self.worker_error
        sent = self.bits(c)
        self.worker_error = c - sent
        h = sent.mean(axis=0).reshape(self.server_error.shape) + self.server_error
        answer = self.bits(h)
        self.server_error = h - answer
        self.given[:] = answer.reshape(-1)
        return self.given[0, :self.n].copy()


def play_adam(case, x, grads, mean, facts):
    (b1, b2), eps = case["betas"], case["eps"]
    m, v = np.zeros_like(x), np.zeros_like(x)
    for t, g in enumerate(grads, 1):
        if t > 1:  # DeepSpeed's first step only allocates
            if t <= case["freeze"]:
                m, v = b1 * m + (1 - b1) * g.mean(axis=0), b2 * v + (1 - b2) * g.mean(axis=0)**2
            else:
                m = mean(b1 * m + (1 - b1) * g)
            x = x - rate(t) * (m / (np.sqrt(v) + eps) + case["weight_decay"] * x)
        yield x


def play_lamb(case, x, grads, mean, facts):
    (b1, b2), eps = case["betas"], case["eps"]
    ends = np.cumsum(sizes(case))
    parts = [slice(end - size, end) for end, size in zip(ends, sizes(case))]
    decays = [case["weight_decay"] if tensor[1] else 0 for tensor in case["tensors"]]
    m, v = np.zeros_like(x), np.zeros_like(x)
    cbar, r, s = np.zeros(len(parts)), np.ones(len(parts)), np.ones_like(x)

    def norm(y):
        return np.sqrt((y**2).sum())

    for t, g in enumerate(grads, 1):
        if t == 1:
            yield x
            continue
        x = x.copy()
        if t <= case["freeze"]:
            m, v = b1 * m + (1 - b1) * g.mean(axis=0), b2 * v + (1 - b2) * g.mean(axis=0)**2
        else:
            last = m
            m = mean((b1 * m + (1 - b1) * g) * s) / s
            fresh = b2 * fresh + (1 - b2) * ((m - b1 * last) / (1 - b1))**2
        for l, (part, wd) in enumerate(zip(parts, decays)):
            root = np.sqrt(v[part]) + eps
            u = m[part] / root + wd * x[part]
            if t <= case["freeze"]:
                zero = norm(x[part]) == 0 or norm(u) == 0
                step = 1 if zero else min(max(norm(x[part]) / norm(u), 0.01), 10)
                facts.setdefault("coefficient", []).append(step)
                if step != 1:
                    cbar[l] = 0.9 * cbar[l] + 0.1 * step
            else:
                ratio = (root / (np.sqrt(fresh[part]) + eps)).max()
                if wd > 0:
                    q = min(1, norm(m[part] / root) / norm(u))
                    ratio = ratio * q + 1 - q
                r[l] = min(max(min(max(ratio, 0.5), 4), 0.9 * r[l]), 1.1 * r[l])
                facts.setdefault("factor", []).append(float(r[l]))
                step = cbar[l] * r[l]
            x[part] -= rate(t) * step * u
        if t == case["freeze"]:
            fresh = v
            rms = np.array([np.sqrt((m[part]**2).mean()) for part in parts])
            s = np.repeat(rms.mean() / rms, sizes(case))
            facts["s"] = list(map(float, rms.mean() / rms))
        yield x


def play_zero_one(case, x, grads, mean, facts):
    (b1, b2), eps, wd = case["betas"], case["eps"], case["weight_decay"]
    m, v = np.zeros_like(x), np.zeros_like(x)
    gap, renewals, interval, moved, total = 1, 0, 1, 0, 0
    for t, g in enumerate(grads, 1):
        if t == 1:
            yield x
        elif t <= case["freeze"] + 1:
            if t % gap == 0:
                g = g.mean(axis=0)
                v = b2 * v + (1 - b2) * g**2
                facts.setdefault("dense", []).append(t)
                renewals += 1
                if renewals == case["var_update_scaler"]:
                    gap, renewals = 2 * gap, 0
            else:
                g = mean(g)
            m = b1 * m + (1 - b1) * g
            x = x - rate(t) * (m / (np.sqrt(v) + eps) + wd * x)
            if t == case["freeze"] + 1:
                root, synced, own = np.sqrt(v) + eps, x, x
                mean.worker_error[:], mean.server_error[:] = 0, 0
            yield x
        else:  # m, moved and own by rank
            m = b1 * m + (1 - b1) * g
            moved = moved - rate(t) * (m / root + wd * own)
            own, total = synced + moved, total + rate(t)
            if t % interval == 0:
                h = mean(moved * root)
                synced = synced + h / root
                own, m, moved, total = synced, -h / total, 0, 0
                facts.setdefault("meetings", []).append(t)
            if (t - case["freeze"] - 1) % case["local_step_scaler"] == 0:
                interval = min(2 * interval, case["local_step_clipper"])
            yield np.broadcast_to(own, g.shape)[0]


RULES = {"one_bit_adam": play_adam, "one_bit_lamb": play_lamb, "zero_one_adam": play_zero_one}


def play(case, workers, seed):
    """Weights of rank 0 [steps][numel] in double precision, the smallest margin, and what occurred."""
    grads = all_gradients(case, workers, seed)
    mean, facts = Mean(workers, grads.shape[2], carry=case["optimizer"] == "one_bit_lamb"), {}
    weights = np.array(list(RULES[case["optimizer"]](case, start(case, seed), grads, mean, facts)))
    return weights, mean.margin, facts


def all_gradients(case, workers, seed):
    return np.array([[gradient(case, seed, t, rank) for rank in range(workers)]
                     for t in range(1, case["recorded"][-1] + 1)])


def choose_seed(case, workers):
    return next(seed for seed in range(1, 1000) if play(case, workers, seed)[1] >= MARGIN)


def write_case(case, workers, seed, folder):
    """As deepspeed_replay.py wants it."""
    folder.mkdir()
    steps, x, grads = case["recorded"][-1], start(case, seed), all_gradients(case, workers, seed)
    for numbers, name in ((x, "weights.f32"), (grads, "grads.f32")):
        assert (numbers.astype("<f4") == numbers).all()
        numbers.astype("<f4").tofile(folder / name)
    lamb = case["optimizer"] == "one_bit_lamb"
    shapes = [[rows, columns] if columns else [rows] for rows, columns, *_ in case["tensors"]]
    (folder / "case.json").write_text(json.dumps(
        {**case, "workers": workers, "steps": steps, "lr": [rate(t) for t in range(1, steps + 1)],
         "shapes": shapes if lamb else [[x.size, 1]]}))


def apart(case, seed, ours, theirs):
    """The largest ||ours - theirs|| / ||theirs - start|| of a step and a tensor."""
    largest = 0.0
    for a, b in zip(ours[1:], theirs[1:]):
        cuts = np.cumsum(sizes(case))[:-1]
        for p, q, x in zip(*(np.split(y, cuts) for y in (a, b, start(case, seed)))):
            largest = max(largest, np.linalg.norm(p - q) / np.linalg.norm(q - x))
    return largest


def literal(x):
    text = f"{x:.9g}"
    return text + ("f" if "." in text or "e" in text else ".f")


def lines(items, indent="    "):
    line = indent
    for item in items:
        if len(line) + len(item) + 2 > 119:
            yield line.rstrip()
            line = indent
        line += item + ", "
    yield line.rstrip()


HEAD = """\
// Written by peers/record_fixtures.py, not by hand: rank 0's weights under DeepSpeed 0.19.6's 1-bit optimizers, after
// some steps of runs whose start and gradients are formulas. The formulas are in that script and in reference_test.cpp;
// peers/README.md says how DeepSpeed was run. The Adams had all tensors as one parameter. To record again:
//     peers/setup && build/peers-venv/bin/python peers/record_fixtures.py
// clang-format off
#pragma once

#include <cstdint>
#include <span>

namespace thinwire::dp::reference {

struct Tensor {
  int64_t rows, columns;  // columns 0: a vector
  double start;           // largest weight
  double before, after;   // size of its gradients up to the freeze and after it
};

struct Recording {
  const char* strategy;
  int workers;
  uint64_t seed;  // no number that becomes a bit is nearer to zero than %g of its scale
  int64_t freeze;
  double beta1, beta2, eps, weight_decay;
  int64_t var_update_scaler, local_step_scaler, local_step_clipper;  // zero_one_adam
  std::span<const Tensor> tensors;
  std::span<const int64_t> steps;  // after which the weights were recorded
  std::span<const float> weights;  // [steps][elements]: the tensors one after the other
};
"""


def header(runs):
    yield HEAD % MARGIN
    entries = []
    for case, workers, seed, weights in runs:
        name, key = f"{case['optimizer']}_{workers}", case["optimizer"]
        if workers == case["workers"][0]:
            yield f"inline constexpr Tensor {key}_tensors[] = {{"
            yield from (f"    {{{', '.join(f'{x:.9g}' for x in tensor)}}}," for tensor in case["tensors"])
            yield f"}};\ninline constexpr int64_t {key}_steps[] = {{{', '.join(map(str, case['recorded']))}}};\n"
        yield f"inline constexpr float {name}[] = {{"
        for t in case["recorded"]:
            yield f"    // step {t}"
            yield from lines([literal(x) for x in weights[t - 1]])
        yield "};\n"
        own = [case.get(k, 1) for k in ("var_update_scaler", "local_step_scaler", "local_step_clipper")]
        numbers = [workers, seed, case["freeze"], *case["betas"], case["eps"], case["weight_decay"], *own]
        entries.append(f'    {{"{key}", {", ".join(map(str, numbers))},\n     {key}_tensors, {key}_steps, {name}}},')
    yield "inline constexpr Recording kRuns[] = {"
    yield from entries
    yield "};\n\n}  // namespace thinwire::dp::reference"


def main():
    runs = []
    with tempfile.TemporaryDirectory() as place:
        cases = [(case, workers, choose_seed(case, workers))
                 for case in (ADAM, LAMB, ZERO_ONE) for workers in case["workers"]]
        folders = [pathlib.Path(place) / str(number) for number in range(len(cases))]
        for (case, workers, seed), folder in zip(cases, folders):
            write_case(case, workers, seed, folder)
        subprocess.run([sys.executable, HERE / "deepspeed_replay.py", *folders], check=True)
        for (case, workers, seed), folder in zip(cases, folders):
            theirs = np.fromfile(folder / "deepspeed.f32", "<f4").reshape(case["recorded"][-1], -1)
            ours, margin, facts = play(case, workers, seed)
            worst = apart(case, seed, ours, theirs.astype(np.float64))
            print(f"{case['optimizer']}, {workers} workers: seed {seed}, margin {margin:.1e}, apart {worst:.1e}")
            for name, values in facts.items():
                shown = values if len(values) < 12 else [min(values), "to", max(values)]
                print(f"  {name}:", *(x if isinstance(x, (int, str)) else f"{x:.3g}" for x in shown))
            if worst > LIMIT or (theirs[0] != start(case, seed)).any():
                raise SystemExit("that is too far")
            runs.append((case, workers, seed, theirs))
    TARGET.parent.mkdir(exist_ok=True)
    TARGET.write_text("\n".join(header(runs)) + "\n")


if __name__ == "__main__":
    main()
