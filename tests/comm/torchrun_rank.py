"""torchrun_rank.py FOLDER TIMEOUT WORDS..., under torchrun: as rank_by_mpi, over a Gloo group."""

import datetime
import pathlib
import signal
import sys

import torch.distributed as dist

import rank_by_c10d


def main():
    folder, timeout, *words = sys.argv[1:]
    # The agent ends all processes once one has failed; these are to tell first what they have seen of it.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    # A short timeout of the group's own, which must not matter.
    dist.init_process_group("gloo", timeout=datetime.timedelta(seconds=2 if words[0] == "idle" else 60))
    say = (pathlib.Path(folder) / str(dist.get_rank())).write_text
    failed = rank_by_c10d.run(dist.group.WORLD.group_name, float(timeout), words, say)
    dist.destroy_process_group()
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
