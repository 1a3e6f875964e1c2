"""Makes the cases that both sides play: cases.py FOLDER. The same bytes every time.

A case is a folder FOLDER/<optimizer>-<workers>:
    case.json     optimizer, workers, steps, shapes of the tensors, and the options; lr has a value for every step
    weights.f32   where all workers start: the tensors one after the other
    grads.f32     [steps][workers][elements]
Numbers are fp32, little end first. Gradients are given, not computed, so that a difference cannot feed itself through
a model. They have a part that all workers share and noise of their own, and their size drifts, so that the second
moment, and with it LAMB's factor, has something to follow.

A number that is a rounding error away from zero has its sign from the order of a sum. Such a sign changes the scale,
the scale other signs, and 30 steps later the runs are 5 % apart, both of them right. So the seeds are chosen: in these
cases no number that is turned into a bit comes nearer to zero than 6e-6 of its scale, and rounding errors are 1e-7.
"""
import json
import pathlib
import sys

import numpy as np

STEPS = 60

# One tensor each for the Adams: DeepSpeed's compress tensor by tensor, Thinwire's the whole model at once. 2021 is a
# number of elements that leaves padding in 2 and in 4 chunks of whole bytes.
ADAM = {"optimizer": "one_bit_adam", "seeds": {2: 841, 4: 493}, "shapes": [[43, 47]], "scales": [0.5],
        "lr": [round(0.01 * (1 - 0.5 * t / STEPS), 6) for t in range(STEPS)], "betas": [0.9, 0.99], "eps": 1e-6,
        "weight_decay": 0.01, "freeze": 20}
# The tensors' scales make the coefficient meet both of its bounds, and a norm that is zero; the short memory of the
# second moment makes the factor meet all of its own.
LAMB = {**ADAM, "optimizer": "one_bit_lamb", "seeds": {2: 423, 4: 754},
        "shapes": [[30, 40], [40], [20, 25], [7], [104], [10, 17]],
        "scales": [0.5, 0.0, 0.002, 1.0, 30.0, 2.0], "betas": [0.9, 0.8], "weight_decay": 0.1}
# Dense steps 1 apart to step 6, 2 apart to 12, 4 apart to the freeze after 21, 1-bit gradients between them; then local
# steps: they meet at every step to 29, every 2nd to 37, every 4th from there on, where the clipper holds.
ZERO_ONE = {**ADAM, "optimizer": "zero_one_adam", "seeds": {2: 5, 4: 507},
            "var_update_scaler": 4, "local_step_scaler": 8, "local_step_clipper": 4}


def size_of_gradient(t):
    """Largest at the freeze, a sixth of that 17 steps later, then large again."""
    return np.exp(0.9 * np.cos(2 * np.pi * (t - 20) / 34))


class Random:
    """numpy promises to keep the bits of PCG64 from version to version, not the numbers its Generator makes of them."""

    def __init__(self, seed):
        self.bits = np.random.PCG64(seed)

    def uniform(self, low, high, n):
        return low + (high - low) * (self.bits.random_raw(n) >> np.uint64(11)) * 2.0**-53

    def normal(self, n):
        return np.sqrt(-2 * np.log(1 - self.uniform(0, 1, n))) * np.cos(2 * np.pi * self.uniform(0, 1, n))


def make(case, workers, folder):
    random = Random(case["seeds"][workers])
    sizes = [int(np.prod(shape)) for shape in case["shapes"]]
    numel = sum(sizes)
    weights = np.concatenate([scale * random.normal(n) for scale, n in zip(case["scales"], sizes)])
    # Elements and tensors differ in size, by a factor that keeps the smallest well above eps.
    tensor = np.repeat(np.exp(random.uniform(-1.5, 1.5, len(sizes))), sizes)
    size = tensor * np.exp(random.uniform(-1.0, 1.0, numel))
    direction = random.normal(numel)
    grads = np.empty((STEPS, workers, numel), "<f4")
    for t in range(1, STEPS + 1):
        direction = 0.95 * direction + 0.3 * random.normal(numel)
        noise = random.normal(workers * numel).reshape(workers, numel)
        grads[t - 1] = 0.1 * size_of_gradient(t) * size * (direction + 0.7 * noise)
    folder.mkdir(parents=True, exist_ok=True)
    facts = {key: value for key, value in case.items() if key not in ("scales", "seeds")}
    (folder / "case.json").write_text(json.dumps({**facts, "workers": workers, "steps": STEPS}) + "\n")
    weights.astype("<f4").tofile(folder / "weights.f32")
    grads.tofile(folder / "grads.f32")


def main():
    place = pathlib.Path(sys.argv[1])
    for case in (ADAM, LAMB, ZERO_ONE):
        for workers in case["seeds"]:
            make(case, workers, place / f"{case['optimizer']}-{workers}")


if __name__ == "__main__":
    main()
