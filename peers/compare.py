"""Prints how far the two sides are apart: compare.py CASE... Exit 1 if a difference is above the limit.

The measure is ||ours - theirs|| / ||theirs - start||, after every step and for every tensor by itself: a wrong rule for
small tensors would be lost in the norm of the large ones. The largest counts. Where theirs stays put, ours must too.
"""
import json
import pathlib
import sys

import numpy as np

LIMIT = 1e-5


def differences(folder, case):
    """[steps][tensors]"""
    ends = np.cumsum([np.prod(shape, dtype=int) for shape in case["shapes"]])
    start = np.fromfile(folder / "weights.f32", "<f4").astype(np.float64)
    theirs, ours = (np.fromfile(folder / name, "<f4").reshape(case["steps"], -1).astype(np.float64)
                    for name in ("deepspeed.f32", "thinwire.f32"))

    def norms(x):
        return np.stack([np.linalg.norm(part, axis=1) for part in np.split(x, ends[:-1], axis=1)], axis=1)

    apart, travelled = norms(ours - theirs), norms(theirs - start)
    ratio = np.full_like(apart, np.inf)  # stays so where there is a NaN
    np.divide(apart, travelled, out=ratio, where=np.isfinite(apart) & (travelled > 0))
    ratio[apart == 0] = 0
    return ratio


def main():
    print(f"{'optimizer':<14}{'workers':>8}{'steps':>7}{'difference':>12}  {'after step':>10}{'limit':>9}")
    good = True
    for folder in map(pathlib.Path, sys.argv[1:]):
        case = json.loads((folder / "case.json").read_text())
        by_step = differences(folder, case).max(axis=1)
        worst = int(by_step.argmax())
        ok = by_step[worst] <= LIMIT
        good = good and ok
        print(f"{case['optimizer']:<14}{case['workers']:>8}{case['steps']:>7}{by_step[worst]:>12.1e}  {worst + 1:>10}"
              f"{LIMIT:>9.0e}  {'ok' if ok else 'FAILED'}")
        if not ok:
            print(f"  above the limit first after step {int((by_step > LIMIT).argmax()) + 1}")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
