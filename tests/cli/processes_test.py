"""thinwire as several processes: under mpirun the program, under torchrun `python -m thinwire`. The same weights as by
threads, one voice, and an end for all when one of them is lost. Nothing here is skipped: what is missing is a failure."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import unittest

from program import PROGRAM, TINY, ProgramTest

BUILD = pathlib.Path(os.environ["THINWIRE_BUILD"])
LIMIT_S = 240
# As a person has it, but for what a test machine needs: root, more processes than cores, quiet Python.
ENVIRONMENT = os.environ | {
    "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1", "OMPI_MCA_rmaps_base_oversubscribe": "1",
    "OMPI_MCA_mpi_yield_when_idle": "1", "PYTHONWARNINGS": "ignore", "PYTHONPATH": str(BUILD / "package")}


def mpirun(size):
    return ["mpirun", "-n", str(size), PROGRAM]


def torchrun(size):
    return [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(size), "-m", "thinwire"]


class ProcessesTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.assertIsNotNone(shutil.which("mpirun"), "there is no mpirun: run `make setup`")
        self.assertTrue(list((BUILD / "package/thinwire").glob("_C*")), "no module: are Python's headers there?")

    def launch(self, command, *arguments, environment=ENVIRONMENT):
        return subprocess.run([*command, *map(str, arguments)], cwd=self.home, capture_output=True, text=True,
                              timeout=LIMIT_S, env=environment)

    def events_by(self, command, *arguments):
        done = self.launch(command, *arguments, "--json")
        self.assertEqual(0, done.returncode, done.stderr)
        return [json.loads(line) for line in done.stdout.splitlines()]


class SameWeights(ProcessesTest):
    def check(self, size, **keys):
        small = self.small(14, optim__lr=3e-3, **keys)
        expected = self.weights_hash(*small, "--dir", "threads", recipe="plain.toml")
        for launcher in (mpirun, torchrun):
            with self.subTest(launcher=launcher.__name__):
                events = self.events_by(launcher(size), "train", "plain.toml", *small, "--dir", launcher.__name__)
                self.assertEqual(expected, events[-1]["weights_hash"])
                steps = [event["step"] for event in events if event["event"] == "step"]
                self.assertEqual(list(range(1, 15)), steps, "only rank 0 speaks")
                self.assertTrue((self.home / launcher.__name__ / "report.html").exists())
                self.assertEqual([], list(self.home.glob("*.rank-*")), "they share a disk")

    def test_all_reduce_with_a_codec(self):
        self.check(3, workers__replicas=3, strategy__name="all_reduce", strategy__codec="int8")

    def test_drip_over_an_emulated_link(self):
        self.check(2, workers__replicas=2, strategy__name="drip", link__replicas="20mbit/2ms")

    def test_a_pipeline(self):
        self.check(3, workers__replicas=1, workers__stages=3, model__layers=3, pipeline__hop=2,
                   link__stages="50mbit/1ms", strategy__name="all_reduce")

    def test_a_mesh(self):
        self.check(4, workers__replicas=2, workers__stages=2, model__layers=2, strategy__name="slowmo",
                   strategy__period=4)

    def test_compare(self):
        arguments = ["compare", "plain.toml", *self.small(8), "--strategies", "all_reduce,co2"]
        hashes = lambda events: [(e["strategy"], e["weights_hash"]) for e in events if e["event"] == "result"]
        expected = hashes(self.events(*arguments, "--dir", "threads"))
        self.assertEqual(2, len(expected))
        self.assertEqual(expected, hashes(self.events_by(mpirun(2), *arguments, "--dir", "processes")))


class WrongUse(ProcessesTest):
    def assert_refused(self, done, *about):
        told = [line for line in done.stderr.splitlines() if line.startswith("thinwire: ")]
        self.assertEqual(1, len(told), done.stderr)
        for words in about:
            self.assertIn(words, told[0])
        self.assertNotEqual(0, done.returncode)
        self.assertEqual([], [path.name for path in self.home.glob("runs*")])

    def test_another_number_of_processes_is_refused_with_both_numbers(self):
        for launcher in (mpirun, torchrun):
            with self.subTest(launcher=launcher.__name__):
                done = self.launch(launcher(3), "train", TINY, *self.small(workers__stages=2), "--dir", "runs")
                self.assert_refused(done, "2 replicas x 2 stages = 4 ranks", "there are 3 processes")

    def test_processes_that_cannot_join_do_not_train_each_alone(self):
        for variables in ({"WORLD_SIZE": "2", "RANK": "1"}, {"SLURM_NTASKS": "2", "SLURM_PROCID": "0"},
                          {"PMI_SIZE": "2", "PMI_RANK": "0"}):
            with self.subTest(variables):
                done = self.launch([PROGRAM], "train", TINY, *self.small(), "--dir", "runs",
                                   environment=ENVIRONMENT | variables)
                self.assert_refused(done, *(f"{key}=2" for key in variables if "2" == variables[key]))
                self.assertEqual(2, done.returncode)
        done = self.launch([sys.executable, "-m", "thinwire"], "train", TINY, *self.small(), "--dir", "runs",
                           environment=ENVIRONMENT | {"OMPI_COMM_WORLD_SIZE": "2"})
        self.assert_refused(done, "OMPI_COMM_WORLD_SIZE=2", "use the program")

    def test_what_is_wrong_for_all_is_said_once(self):
        self.assert_refused(self.launch(mpirun(2), "train", TINY, "--nonsense"), "--nonsense")
        self.assert_refused(self.launch(mpirun(2), "trian", TINY), "did you mean 'train'?")

    def test_a_directory_that_is_taken_is_refused_by_all(self):
        (self.home / "taken").mkdir()
        (self.home / "taken/file").write_text("mine")
        done = self.launch(mpirun(2), "train", TINY, *self.small(), "--dir", "taken")
        self.assert_refused(done, "taken exists and is not empty")
        self.assertEqual(2, done.returncode)


class OtherVerbs(ProcessesTest):
    def test_run_on_rank_0(self):
        alone = self.run_program("keys").stdout
        self.assertEqual(alone, self.launch(mpirun(2), "keys").stdout)
        self.assertEqual(alone, self.launch(torchrun(2), "keys").stdout)

    def test_python_has_every_verb_without_a_launcher(self):
        module = [sys.executable, "-m", "thinwire"]
        self.assertEqual(self.run_program("--help").stdout, self.launch(module, "--help").stdout)
        self.assertEqual(self.weights_hash(*self.small(), "--dir", "program"),
                         self.events_by(module, "train", TINY, *self.small(), "--dir", "module")[-1]["weights_hash"])
        self.assertEqual(2, self.launch(module, "train", "nothing.toml").returncode)


class Loss(ProcessesTest):
    """A run of three replicas that would never end, and what becomes of it."""

    def start(self, command, directory, *keys):
        arguments = ["train", TINY, *self.small(10**6, workers__replicas=3, train__save_every=5), *keys]
        with (self.home / "stderr").open("w") as errors:
            process = subprocess.Popen([*command, *arguments, "--dir", directory, "--json"], cwd=self.home, text=True,
                                       stdout=subprocess.PIPE, stderr=errors, env=ENVIRONMENT)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for line in process.stdout:
            if json.loads(line)["event"] == "saved":
                return process
        self.fail((self.home / "stderr").read_text())

    def ranks_of(self, directory):
        """Process ids by rank."""
        found = {}
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                words = (folder / "cmdline").read_bytes().split(b"\0")
                variables = dict(v.split(b"=", 1) for v in (folder / "environ").read_bytes().split(b"\0") if b"=" in v)
                here = os.readlink(folder / "cwd") == str(self.home)
            except OSError:
                continue
            rank = variables.get(b"RANK", variables.get(b"OMPI_COMM_WORLD_RANK"))
            if here and rank is not None and directory.encode() in words:
                found[int(rank)] = int(folder.name)
        self.assertEqual({0, 1, 2}, set(found))
        return found

    def said(self):
        # torchrun's SIGTERM after a loss may be quicker than the news of the loss.
        return [line for line in (self.home / "stderr").read_text().splitlines()
                if line.startswith("thinwire: ") and "stopping after this step" not in line]

    def assert_whole(self, directory):
        """The newest checkpoint can be gone on from: every file of it is read, and its hash compared."""
        newest = max(int(path.name.split("-")[1]) for path in (self.home / directory / "checkpoints").glob("step-*"))
        events = self.events("train", TINY, *self.small(newest + 2, workers__replicas=3), "--from", directory, "--dir",
                             directory + "-after")
        self.assertEqual((newest, newest + 2), (events[0]["from_step"], events[-1]["steps"]))

    def assert_gone(self, ranks):
        def lives(pid):
            try:
                return pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
            except OSError:
                return False
        until = time.monotonic() + 2
        while any(map(lives, ranks.values())) and time.monotonic() < until:
            time.sleep(0.01)
        self.assertEqual([], [rank for rank, pid in ranks.items() if lives(pid)])

    def test_of_a_killed_process_is_noticed_and_named_by_all_others(self):
        process = self.start(torchrun(3), "run")
        ranks = self.ranks_of("run")
        os.kill(ranks[1], signal.SIGKILL)
        killed = time.monotonic()
        while len(self.said()) < 2 and time.monotonic() < killed + 60:
            time.sleep(0.01)
        noticed = time.monotonic() - killed
        process.stdout.read()
        self.assertEqual(1, process.wait(timeout=60))
        host = os.uname().nodename
        lost = f"rank 1 (host {host}) was lost: its connection closed"
        self.assertEqual({f"thinwire: rank {rank} (host {host}): {lost}" for rank in (0, 2)}, set(self.said()))
        self.assertLess(noticed, 2)
        self.assert_gone(ranks)
        self.assert_whole("run")

    def test_of_a_killed_process_ends_all_under_mpirun(self):
        process = self.start(mpirun(3), "run")
        ranks = self.ranks_of("run")
        os.kill(ranks[2], signal.SIGKILL)
        process.stdout.read()
        self.assertNotEqual(0, process.wait(timeout=60))
        self.assertIn("process rank 2", (self.home / "stderr").read_text())
        self.assert_gone(ranks)
        self.assert_whole("run")

    def test_of_a_stopped_process_is_a_timeout_that_ends_all(self):
        process = self.start(mpirun(3), "run", "train.timeout=2")
        ranks = self.ranks_of("run")
        os.kill(ranks[1], signal.SIGSTOP)
        process.stdout.read()
        self.assertEqual(1, process.wait(timeout=60))
        late = "nothing came from rank 1 for 2.0 s"  # the stopped one may say something else, when it is ended
        self.assertEqual([late] * 2, [line.split("): ")[1] for line in self.said() if "thinwire: rank 1" not in line])
        self.assert_gone(ranks)

    def test_sigterm_stops_after_a_checkpoint_and_counts_once(self):
        for launcher in (mpirun, torchrun):
            with self.subTest(launcher=launcher.__name__):
                process = self.start(launcher(3), launcher.__name__)
                for _ in range(2):
                    for pid in self.ranks_of(launcher.__name__).values():
                        os.kill(pid, signal.SIGTERM)
                last = json.loads(process.stdout.read().splitlines()[-1])
                self.assertEqual(("stopped", 0), (last["event"], process.wait(timeout=60)))
                self.assert_whole(launcher.__name__)


class Resume(ProcessesTest):
    def test_goes_on_under_another_launcher(self):
        keys = self.small(12, workers__replicas=2, train__save_every=5, strategy__name="drip")
        expected = self.weights_hash(*keys, "--dir", "whole", recipe="plain.toml")
        process = subprocess.Popen([*torchrun(2), "train", "plain.toml", *keys, "--dir", "run", "--json"], cwd=self.home,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=ENVIRONMENT)
        with process:
            process.stdout.read()
        shutil.rmtree(self.home / "run/checkpoints/step-12")
        self.assertEqual(expected, self.events_by(mpirun(2), "train", "plain.toml", *keys, "--dir", "run",
                                                  "--resume")[-1]["weights_hash"])


if __name__ == "__main__":
    unittest.main()
