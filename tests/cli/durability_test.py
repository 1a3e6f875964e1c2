"""Killed, short of space or without power at any file operation, a run loses nothing that it has said it saved.

file_faults.cpp stands between the program and its files. THINWIRE_THOROUGH=1 disturbs every operation of several kinds
of run (tools/durability); otherwise every few of one kind.
"""

import errno
import json
import os
import shutil
import subprocess
import unittest

from program import LIMIT_S, PROGRAM, ROOT, ProgramTest

FAULTS = os.environ.get("THINWIRE_FILE_FAULTS", str(ROOT / "build/tests/libfile_faults.so"))
THOROUGH = os.environ.get("THINWIRE_THOROUGH") == "1"
KINDS = {
    "all_reduce": ["strategy.name=all_reduce"],
    "co2": ["strategy.name=co2", "strategy.period=3"],
    "drip": ["strategy.name=drip", "strategy.slices=4"],
    "mesh": ["strategy.name=local_sgd", "strategy.period=3", "workers.stages=2", "model.layers=2"],
}


class Disk:
    """What survives a power cut after each of the recorded calls.

    A file keeps the bytes of its last fsync. A folder keeps the names of its last fsync, or (`names_survive`, as on
    file systems that write names in order but bytes late) all of them.
    """

    class File:
        def __init__(self):
            self.bytes = self.durable = b""

    class Folder:
        def __init__(self):
            self.names, self.durable = {}, {}

    def __init__(self, root, names_survive):
        self.root, self.names_survive, self.top = root, names_survive, Disk.Folder()

    def place(self, path):
        *folders, name = os.path.relpath(path, self.root).split("/")
        folder = self.top
        for part in folders:
            folder = folder.names[part]
        return folder, name

    def at(self, path):
        if path == self.root:
            return self.top
        folder, name = self.place(path)
        return folder.names[name]

    def apply(self, call):
        if call["call"] == "said":
            return
        if call["call"] == "fsync":
            node = self.at(call["path"])
            node.durable = dict(node.names) if isinstance(node, Disk.Folder) else node.bytes
            return
        folder, name = self.place(call["path"])
        if call["call"] == "create":
            folder.names[name] = Disk.File()
        elif call["call"] == "mkdir":
            folder.names[name] = Disk.Folder()
        elif call["call"] == "write":
            folder.names[name].bytes += bytes.fromhex(call["data"])
        elif call["call"] == "truncate":
            folder.names[name].bytes = folder.names[name].bytes[:call["size"]]
        elif call["call"] in ("unlink", "rmdir"):
            del folder.names[name]
        else:
            other, old = self.place(call["from"])
            mine = other.names.pop(old)
            if call["call"] == "exchange":
                other.names[old] = folder.names[name]
            folder.names[name] = mine

    def surviving(self, folder=None, prefix=""):
        """{path: bytes, or None for a folder}"""
        folder = folder or self.top
        found = {}
        for name, node in (folder.names if self.names_survive else folder.durable).items():
            if isinstance(node, Disk.Folder):
                found[prefix + name] = None
                found.update(self.surviving(node, prefix + name + "/"))
            else:
                found[prefix + name] = node.durable
        return found


class Durability(ProgramTest):
    def setUp(self):
        super().setUp()
        (self.home / "runs").mkdir()

    def arguments(self, kind):
        keys = self.small(8, workers__replicas=2, train__save_every=3, train__keep_checkpoints=2)
        return ["train", "plain.toml", *keys, *KINDS[kind], "--dir", "runs/run", "--json"]

    def disturbed(self, kind, *more, **settings):
        """Runs it with file_faults between it and runs/."""
        environment = os.environ | {"LD_PRELOAD": FAULTS, "FAULTS_UNDER": str(self.home / "runs")}
        environment |= {"FAULTS_" + name.upper(): str(value) for name, value in settings.items()}
        return subprocess.run([PROGRAM, *self.arguments(kind), *more], cwd=self.home, capture_output=True, text=True,
                              timeout=LIMIT_S, env=environment)

    def recorded(self, kind):
        """Of a run that nobody disturbs: the hash of its weights, what it said, and its calls."""
        log = self.home / "calls"
        done = self.disturbed(kind, log=log)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        said = [json.loads(line) for line in done.stdout.splitlines()]
        calls = [json.loads(line) for line in log.read_text().splitlines()]
        shutil.rmtree(self.home / "runs/run")
        return said[-1]["weights_hash"], said, calls

    def assert_resumes(self, kind, weights, at_least, about):
        """Goes on, from that step or a later one, and ends on these weights with every step in its metrics once."""
        done = self.run_program(*self.arguments(kind), *(["--resume"] if (self.home / "runs/run").exists() else []))
        self.assertEqual((0, ""), (done.returncode, done.stderr), about)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertGreaterEqual(events[0]["from_step"], at_least, about)
        self.assertEqual(weights, events[-1]["weights_hash"], about)
        steps = [event["step"] for event in self.metrics("runs/run") if event["event"] == "step"]
        self.assertEqual(list(range(1, 9)), steps, about)
        self.assertEqual([], [p for p in (self.home / "runs/run").rglob("*") if p.name.startswith(".")], about)

    def each(self, count, stride):
        """Numbers of calls, from 1."""
        return range(1, count + 1, 1 if THOROUGH else stride)

    def kinds(self):
        return KINDS if THOROUGH else ["co2"]

    def test_a_power_cut_after_any_operation_takes_nothing_that_was_saved(self):
        for kind in self.kinds():
            weights, said, calls = self.recorded(kind)
            seen = set()
            for names_survive in (False, True):
                disk = Disk(str(self.home / "runs"), names_survive)
                saved = 0
                for number, call in enumerate(calls, 1):
                    disk.apply(call)
                    event = said[call["lines"] - 1] if call.get("lines", 1e9) <= len(said) else {}
                    if event.get("event") == "saved":
                        saved = event["step"]
                    left = disk.surviving()
                    key = (saved, *sorted(left.items()))
                    if key in seen:
                        continue
                    seen.add(key)
                    shutil.rmtree(self.home / "runs")
                    (self.home / "runs").mkdir()
                    for path, data in sorted(left.items()):
                        (self.home / "runs" / path).mkdir() if data is None else (
                            self.home / "runs" / path).write_bytes(data)
                    about = f"{kind}, power cut after call {number} ({call}), names survive: {names_survive}"
                    self.assert_resumes(kind, weights, saved, about)
                self.assertEqual(left["run/model.safetensors"], (self.home / "runs/run/model.safetensors").read_bytes())
            print(f"{kind}: {len(seen)} different disks after power cuts in {len(calls)} calls", flush=True)

    def test_a_kill_at_any_operation_is_resumed_to_the_same_weights(self):
        for kind in self.kinds():
            weights, _, calls = self.recorded(kind)
            count = sum(call["call"] != "said" for call in calls)
            for number in self.each(count, 15):
                killed = self.disturbed(kind, at=number)
                self.assertEqual(-9, killed.returncode, killed.stderr)
                self.assert_resumes(kind, weights, 0, f"{kind}, killed at call {number}")
                shutil.rmtree(self.home / "runs/run")
            print(f"{kind}: killed at {len(self.each(count, 15))} of {count} calls", flush=True)

    def test_one_failed_operation_is_survived_or_named(self):
        """At the start a run is refused, with the reason; later it is tried again and the run does not end."""
        for kind in self.kinds():
            weights, _, calls = self.recorded(kind)
            count, survived = sum(call["call"] != "said" for call in calls), 0
            for number in self.each(count, 19):
                error = [errno.ENOSPC, errno.EIO, errno.EROFS][number % 3]
                done = self.disturbed(kind, at=number, error=error)
                about = f"{kind}, call {number} fails with {os.strerror(error)}: {done.stderr}"
                if done.returncode == 0:
                    survived += 1
                    self.assertEqual(weights, json.loads(done.stdout.splitlines()[-1])["weights_hash"], about)
                else:
                    self.assertEqual(1, done.returncode, about)
                    self.assertIn(os.strerror(error), done.stderr, about)
                    self.assertEqual(1, len(done.stderr.splitlines()), about)
                    self.assert_resumes(kind, weights, 0, about)
                shutil.rmtree(self.home / "runs/run", ignore_errors=True)
            print(f"{kind}: {survived} of {len(self.each(count, 19))} single faults survived", flush=True)

    def test_a_disk_that_stays_full_ends_the_run_with_the_reason_and_nothing_lost(self):
        for kind in self.kinds():
            weights, said, calls = self.recorded(kind)
            count = sum(call["call"] != "said" for call in calls)
            for number in self.each(count, 41):
                full = self.disturbed(kind, at=number, error=errno.ENOSPC, forever=1)
                about = f"{kind}, the disk is full from call {number} on: {full.stderr}"
                if full.returncode != 0:
                    self.assertIn("No space left on device", full.stderr, about)
                saved = [json.loads(line)["step"] for line in full.stdout.splitlines() if '"saved"' in line]
                self.assert_resumes(kind, weights, max(saved, default=0), about)
                shutil.rmtree(self.home / "runs/run")


if __name__ == "__main__":
    unittest.main()
