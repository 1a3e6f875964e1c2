"""The start and the gradients that tests/optim/replay.cpp has, and the weights that it ends with."""
import os, struct, subprocess

import torch

PROGRAM = os.path.join(os.environ["THINWIRE_BUILD"], "bin", "optim_replay")
SHAPES = [(20, 16), (48, 64), (64, 48), (96, 32), (40,)]
STEPS = range(1, 21)
LR = 0.02


def numbers(shape, salt):
    n = torch.Size(shape).numel()
    values = [(i * 7919 + salt * 104729) % 2003 / 1001 - 1 for i in range(n)]
    return torch.tensor(values, dtype=torch.float64).to(torch.float32).reshape(shape)


def start(i):
    return numbers(SHAPES[i], i + 1)


def gradient(i, t):
    return numbers(SHAPES[i], 100 * t + i + 1)


def ours(*settings):
    """Every parameter, flat, after the steps of the rule that the settings ("name=muon") describe."""
    lines = subprocess.run([PROGRAM, *settings], check=True, capture_output=True, text=True).stdout.split()
    flat = torch.tensor([struct.unpack(">f", bytes.fromhex(line))[0] for line in lines])
    return flat.split([torch.Size(s).numel() for s in SHAPES])
