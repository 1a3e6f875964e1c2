"""Plays cases through DeepSpeed's own 1-bit optimizers, on CPUs: deepspeed_replay.py CASE...

A case is a folder (cases.py says what is in it). Its workers are processes; the weights of rank 0 after every step go to
deepspeed.f32, [steps][elements]. The optimizers and their compressed all-reduce are DeepSpeed's, as installed. Replaced
is only what lies below them (stand_in_for_cupy, stand_in_for_all_gather) and the engine above them (Engine).
"""
import contextlib
import json
import os
import pathlib
import sys
import tempfile
import types
import warnings

import numpy as np
import torch
import torch.distributed
import torch.multiprocessing


def stand_in_for_cupy():
    """numpy packs bits as cupy does, first element in the highest bit."""
    cupy = types.ModuleType("cupy")
    cupy.zeros, cupy.split, cupy.packbits, cupy.unpackbits = np.zeros, np.split, np.packbits, np.unpackbits
    cupy.from_dlpack = lambda capsule: torch.utils.dlpack.from_dlpack(capsule).numpy()
    nothing = types.SimpleNamespace(use=lambda: None, synchronize=lambda: None)
    cupy.cuda = types.SimpleNamespace(Device=lambda number: nothing, get_current_stream=lambda: nothing)
    sys.modules["cupy"] = cupy


def stand_in_for_all_gather(comm):
    """Gloo wants what is sent in the shape of what is received; NCCL, for which DeepSpeed wrote this, only the size."""
    original = comm.all_gather

    def all_gather(tensor_list, tensor, **options):
        return original(tensor_list, tensor.reshape(tensor_list[0].shape), **options)

    comm.all_gather = all_gather


class Engine:
    """What the optimizers ask of DeepSpeed's engine: they switch its averaging of gradients on and off."""

    def __init__(self, rank):
        self.mpu = None
        self.local_rank = rank
        self.enable_backward_allreduce = True

    def backward(self, parameters, gradients):
        for parameter, gradient in zip(parameters, gradients):
            parameter.grad = gradient.clone()
            if self.enable_backward_allreduce:
                torch.distributed.all_reduce(parameter.grad)
                parameter.grad.div_(torch.distributed.get_world_size())


def make_optimizer(case, parameters, engine):
    from deepspeed.runtime.fp16.onebit import OnebitAdam, OnebitLamb, ZeroOneAdam

    # A group for every tensor keeps them in order: LAMB lays its momentum out group by group. Vectors do not decay.
    groups = [{"params": [p], "weight_decay": case["weight_decay"] if p.dim() > 1 else 0.0} for p in parameters]
    options = {"deepspeed": engine, "lr": case["lr"][0], "betas": tuple(case["betas"]), "eps": case["eps"]}
    if case["optimizer"] == "one_bit_adam":
        return OnebitAdam(groups, freeze_step=case["freeze"], **options)
    if case["optimizer"] == "one_bit_lamb":
        return OnebitLamb(groups, freeze_step=case["freeze"], **options)
    if case["optimizer"] == "zero_one_adam":
        own = {key: case[key] for key in ("var_update_scaler", "local_step_scaler", "local_step_clipper")}
        return ZeroOneAdam(groups, var_freeze_step=case["freeze"], **own, **options)
    raise ValueError(f"no such optimizer: {case['optimizer']}")


def in_shapes(flat, shapes):
    pieces = flat.split([int(np.prod(shape)) for shape in shapes])
    return [piece.reshape(shape).clone() for piece, shape in zip(pieces, shapes)]


def check_agreement(folder, case, t, x, start, synced):
    """Ranks hold the same weights, to the bit. 0/1 Adam: only where they have just met, and to rounding, because it
    finds its way back to the meeting point by subtracting what it had added."""
    everyone = [torch.empty_like(x) for _ in range(case["workers"])]
    torch.distributed.all_gather(everyone, x)
    apart = max(float((other - x).norm()) for other in everyone)
    allowed = 0.0
    if case["optimizer"] == "zero_one_adam":
        allowed = 2e-6 * float((x - start).norm()) if synced else float("inf")
    if apart > allowed:
        raise SystemExit(f"{folder}: DeepSpeed's ranks are {apart:.3g} apart after step {t}")


def play(folder, rank):
    case = json.loads((folder / "case.json").read_text())
    start = torch.from_numpy(np.fromfile(folder / "weights.f32", "<f4"))
    gradients = np.memmap(folder / "grads.f32", "<f4", "r", shape=(case["steps"], case["workers"], start.numel()))
    parameters = [torch.nn.Parameter(x) for x in in_shapes(start, case["shapes"])]
    engine = Engine(rank)
    optimizer = make_optimizer(case, parameters, engine)
    weights = np.empty((case["steps"], start.numel()), "<f4")
    for t in range(1, case["steps"] + 1):
        engine.backward(parameters, in_shapes(torch.from_numpy(gradients[t - 1, rank].copy()), case["shapes"]))
        # Read before the step, which may lengthen the interval after it has used it.
        interval = optimizer.state[parameters[0]].get("local_step_interval", 1)
        for group in optimizer.param_groups:
            group["lr"] = case["lr"][t - 1]
        optimizer.step()
        x = torch.cat([p.detach().reshape(-1) for p in parameters])
        check_agreement(folder, case, t, x, start, synced=t % interval == 0)
        weights[t - 1] = x.numpy()
    if rank == 0:
        weights.tofile(folder / "deepspeed.f32")


def rank_main(rank, size, meeting, folders):
    torch.set_num_threads(1)
    stand_in_for_cupy()
    warnings.filterwarnings("ignore")  # DeepSpeed calls torch in ways that torch has since deprecated
    with open(os.devnull, "w") as nowhere, contextlib.redirect_stdout(nowhere):
        import deepspeed.comm

        torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=size)
        deepspeed.comm.init_distributed("gloo", auto_mpi_discovery=False, verbose=False)
        stand_in_for_all_gather(deepspeed.comm)
        for folder in folders:
            play(folder, rank)
        torch.distributed.destroy_process_group()


def main():
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    by_size = {}
    for folder in map(pathlib.Path, sys.argv[1:]):
        by_size.setdefault(json.loads((folder / "case.json").read_text())["workers"], []).append(folder)
    for size, folders in by_size.items():
        with tempfile.TemporaryDirectory() as place:
            torch.multiprocessing.spawn(rank_main, (size, f"{place}/meeting", folders), nprocs=size)


if __name__ == "__main__":
    main()
