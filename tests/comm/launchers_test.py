"""The transports of MPI and torch.distributed, between real processes: every case of rank_cases.cpp, under mpirun and
under torchrun, against what threads say. Nothing here is skipped: what is missing is a failure that names it."""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

HERE = pathlib.Path(__file__).resolve().parent
BUILD = pathlib.Path(os.environ["THINWIRE_BUILD"])
LIMIT_S = 240  # no case comes near


def environment():
    """As a person has it, but for what a test machine needs: root, more processes than cores, quiet Python."""
    return os.environ | {
        "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1", "PYTHONWARNINGS": "ignore",
        "PYTHONPATH": os.pathsep.join([str(BUILD / "package"), str(BUILD / "tests")]),
    }


class Cases:
    """What every launcher's processes must do. The same words, said by threads, are what is expected."""

    def setUp(self):
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="thinwire_launchers_"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def said(self, size, command):
        done = subprocess.run([*map(str, command)], env=environment(), capture_output=True, text=True, timeout=LIMIT_S)
        texts = [self.folder / str(rank) for rank in range(size)]
        self.complaints = done.stderr
        return done.returncode, [path.read_text() if path.exists() else None for path in texts]

    def by_threads(self, size, *words):
        code, texts = self.said(size, [BUILD / "bin/rank_by_mpi", "--threads", size, self.folder, *words])
        self.assertEqual(0, code, self.complaints)
        for path in self.folder.iterdir():
            path.unlink()
        return texts

    def by_processes(self, size, *words, timeout=60):
        return self.said(size, [*self.launch(size), self.folder, timeout, *words])

    def assert_all_say(self, expected, size, *words, **options):
        code, texts = self.by_processes(size, *words, **options)
        self.assertEqual((0, expected), (code, texts), self.complaints)

    def test_every_collective_gives_the_bits_of_threads(self):
        for size in (2, 4):
            texts = self.by_threads(size, "collectives")
            self.assertGreater(texts[0].count("\n"), 3 * 3 * 4 * 8)
            self.assert_all_say(texts, size, "collectives")

    def test_bytes_and_errors_are_exchanged_as_by_threads(self):
        self.assert_all_say(self.by_threads(3, "world"), 3, "world")

    def test_an_emulated_link_takes_its_time(self):
        self.assert_all_say(["sum 128000"] * 4, 4, "link")

    def test_transfer_time_does_not_count_for_ranks_that_have_no_part_in_it(self):
        self.assert_all_say(["in its own time"] * 3, 3, "transfer", timeout=1.5)

    def test_a_rank_that_throws_is_named_to_all_others_with_its_words(self):
        code, texts = self.by_processes(4, "loss", "thrown", timeout=600)
        lost = "PeerLost 2: rank 2 was lost: out of luck"
        self.assertEqual([lost, lost, "error: out of luck", lost], texts, self.complaints)
        self.assertNotEqual(0, code)

    def test_a_rank_that_ends_in_peace_is_not_lost_and_what_it_sent_arrives(self):
        self.assert_all_say(["gone", "sevens", "sevens"], 3, "early")

    def test_a_busy_rank_is_a_timeout_on_all(self):
        self.assert_all_say(["Timeout 1: nothing came from rank 1 for 2.0 s"] * 3, 3, "stuck", "busy", timeout=2)

    def test_a_stopped_rank_is_a_timeout_on_all_others(self):
        _, texts = self.by_processes(3, "stuck", "stopped", timeout=2)
        late = "Timeout 1: nothing came from rank 1 for 2.0 s"
        self.assertEqual([late, late], [texts[0], texts[2]], self.complaints)

    def test_a_rank_that_waits_for_a_stopped_one_is_not_blamed_for_it(self):
        _, texts = self.by_processes(3, "chain", timeout=2)
        late = "Timeout 1: nothing came from rank 1 for 2.0 s"
        self.assertEqual([late, late], [texts[0], texts[2]], self.complaints)

    def test_ranks_that_have_nothing_to_say_for_a_while_are_not_lost(self):
        self.assert_all_say(["still here"] * 2, 2, "idle")


class Mpi(Cases, unittest.TestCase):
    def launch(self, size):
        self.assertIsNotNone(shutil.which("mpirun"), "there is no mpirun: run `make setup`")
        return ["mpirun", "-n", size, BUILD / "bin/rank_by_mpi"]


class Torchrun(Cases, unittest.TestCase):
    def launch(self, size):
        self.assertTrue(list((BUILD / "tests").glob("rank_by_c10d*")), "no module: are Python's headers there?")
        return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", size, HERE / "torchrun_rank.py"]

    def test_a_rank_that_is_killed_is_named_to_all_others_at_once(self):  # mpirun ends all
        code, texts = self.by_processes(4, "loss", "killed", timeout=600)
        lost = "PeerLost 2: rank 2 was lost: its connection closed"
        self.assertEqual([lost, lost, None, lost], texts, self.complaints)
        self.assertNotEqual(0, code)

    def test_groups_that_cannot_be_used_are_refused_in_words(self):
        script = self.folder / "refuse.py"
        script.write_text(REFUSALS)
        done = subprocess.run([sys.executable, script], env=environment(), capture_output=True, text=True,
                              timeout=LIMIT_S)
        self.assertEqual(0, done.returncode, done.stderr)
        none, python, fake = done.stdout.splitlines()
        self.assertIn("[comm] there is no c10d process group called 'nobody'", none)
        self.assertIn("is implemented in Python, which cannot be called from the engine's threads", python)
        self.assertIn("must be of Gloo for CPU tensors, it is of fake", fake)


REFUSALS = """
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, _register_process_group
from torch.testing._internal.distributed.fake_pg import FakeStore
import rank_by_c10d

class Own(dist.ProcessGroup):
    def __init__(self):
        super().__init__(0, 1)
    def getBackendName(self):
        return "own"

own = Own()
_register_process_group("own", own)
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
for name in ("nobody", "own", dist.group.WORLD.group_name):
    print(rank_by_c10d.refusal(name), flush=True)
"""

if __name__ == "__main__":
    unittest.main()
