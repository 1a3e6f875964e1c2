"""python -m thinwire: every verb of the program. Under torchrun the ranks of a run are its processes."""

from __future__ import annotations

import datetime
import fcntl
import json
import os
import socket
import struct
import sys
import time

import torch.distributed as dist

from thinwire import _C

SIOCGIFADDR = 0x8915  # of Linux
# How long until all processes are there. Waits of a run have a limit of their own, train.timeout.
CONNECT = datetime.timedelta(seconds=300)


def address_of(interface: str) -> str | None:
    """The IPv4 address of a network interface."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            answer = fcntl.ioctl(probe.fileno(), SIOCGIFADDR, struct.pack("256s", interface.encode()))
        except OSError:
            return None
        return socket.inet_ntoa(answer[20:24])


def interface_towards(host: str, port: int) -> str | None:
    """The network interface by which this machine reaches another one; nothing where that is this machine itself, or
    IPv4 does not lead there."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.connect((host, port))  # sends nothing
        except OSError:
            return None
        own = probe.getsockname()[0]
    if own.startswith("127."):
        return None
    return next((name for _, name in socket.if_nameindex() if address_of(name) == own), None)


def make_group() -> str:
    """Joins the processes of torchrun in a Gloo group of its own, and returns its name."""
    # Gloo would take the address that the machine's own name stands for, which on many is that of the loopback.
    if "GLOO_SOCKET_IFNAME" not in os.environ:
        if interface := interface_towards(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])):
            os.environ["GLOO_SOCKET_IFNAME"] = interface
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
