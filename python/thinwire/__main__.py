"""python -m thinwire: every verb of the program. Under torchrun the ranks of a run are its processes."""

import datetime
import json
import os
import socket
import sys
import time

import torch.distributed as dist

from thinwire import _C

# How long until all processes are there. Waits of a run have a limit of their own, train.timeout.
CONNECT = datetime.timedelta(seconds=300)


def make_group() -> str:
    """Joins the processes of torchrun in a Gloo group that nobody else uses, and returns its name."""
    store, rank, size = next(dist.rendezvous("env://", timeout=CONNECT))
    dist.init_process_group("gloo", store=dist.PrefixStore("thinwire", store), rank=rank, world_size=size,
                            timeout=CONNECT)
    return dist.group.WORLD.group_name


def tell_agent(error: str) -> None:
    """Leaves what went wrong where torchrun looks for it: it shows the first error of all processes."""
    file = os.environ.get("TORCHELASTIC_ERROR_FILE")
    if not file:
        return
    now = str(int(time.time()))
    message = {"message": error, "extraInfo": {"py_callstack": "", "timestamp": now, "host": socket.gethostname()}}
    with open(file, "w") as out:
        json.dump({"message": message}, out)


def main() -> int:
    code, error = _C.run(["thinwire", *sys.argv[1:]], make_group)
    if code != 0:
        tell_agent(error)
        sys.stdout.flush()
        os._exit(code)  # at once: connections to lost processes have nothing to be closed for
    if dist.is_initialized():
        dist.destroy_process_group()
    return code


if __name__ == "__main__":
    sys.exit(main())
