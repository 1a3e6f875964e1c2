"""What the tests of the program share: a folder with a small text, ways to run it, and to see what it left there."""

import fcntl
import json
import os
import pathlib
import pty
import random
import re
import shutil
import struct
import subprocess
import tempfile
import termios
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
PROGRAM = os.environ.get("THINWIRE_PROGRAM", str(ROOT / "build/bin/thinwire"))
TINY = str(ROOT / "recipes/tiny.toml")
STRATEGIES = ["all_reduce", "local_sgd", "slowmo", "diloco", "delayed_diloco", "eager_diloco", "cocod", "co2", "sparta",
              "async_sparta", "asyncmesh", "loscar", "drip", "one_bit_adam", "one_bit_lamb", "zero_one_adam"]
# What train ends with ("done") and compare prints for each strategy ("result").
RESULT = {"event": str, "strategy": str, "steps": int, "tokens": int, "val_loss": float, "seconds": float,
          "compute_s": float, "update_s": float, "exposed_s": float, "utilisation": float, "tokens_per_s": float,
          "wire_bytes": float, "setup_bytes": float, "finish_bytes": float, "control_bytes": float, "finish_s": float, "weights_hash": str}
LIMIT_S = 300  # no test waits longer for a program; none should come near


class ProgramTest(unittest.TestCase):
    """Every test has a folder of its own, with text.txt and a recipe for any strategy in it; programs run there."""

    def setUp(self):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix="thinwire_cli_"))
        self.addCleanup(shutil.rmtree, self.home, ignore_errors=True)
        words = "a thin wire joins slow and distant machines that train together".split()
        choose = random.Random(1)
        (self.home / "text.txt").write_text(" ".join(choose.choice(words) for _ in range(3000)))

        plain = re.sub(r"(?s)\[strategy\].*?(?=\[)", "", pathlib.Path(TINY).read_text())
        (self.home / "plain.toml").write_text(plain)

    def small(self, steps=12, **keys):
        """Keys that make recipes/tiny.toml tinier. A keyword like train__seed=2 stands for train.seed=2."""
        small = {"model.context": 16, "data.path": "text.txt", "train.batch": 2, "train.steps": steps,
                 "train.eval_every": 0, "train.eval_windows": 8}
        small.update({key.replace("__", "."): value for key, value in keys.items()})
        return [f"{key}={value}" for key, value in small.items()]

    def run_program(self, *arguments, **options):
        return subprocess.run([PROGRAM, *map(str, arguments)], cwd=self.home, capture_output=True, text=True,
                              timeout=LIMIT_S, **options)

    def on_a_terminal(self, *arguments, width=80, **environment):
        """All that the program prints on a terminal of so many columns."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        clean = {key: value for key, value in os.environ.items() if key != "NO_COLOR"} | {"TERM": "xterm"}
        with subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.home, stdout=its, stderr=its, stdin=its,
                              env=clean | environment) as process:
            os.close(its)
            text = b""
            try:
                while part := os.read(ours, 4096):
                    text += part
            except OSError:  # how Linux says that the other side is closed
                pass
            self.assertEqual(0, process.wait(), text)
        os.close(ours)
        return text.decode()

    def start_program(self, *arguments, **options):
        process = subprocess.Popen([PROGRAM, *map(str, arguments)], cwd=self.home, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **options)
        self.addCleanup(process.stderr.close)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def events(self, *arguments, **options):
        """Runs it with --json and expects success; every line of stdout as an object."""
        done = self.run_program(*arguments, "--json", **options)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return [json.loads(line) for line in done.stdout.splitlines()]

    def train(self, *arguments, recipe=TINY, **options):
        """The last event of a training run."""
        return self.events("train", recipe, *arguments, **options)[-1]

    def weights_hash(self, *arguments, **options):
        last = self.train(*arguments, **options)
        self.assertEqual("done", last["event"])
        return last["weights_hash"]

    def metrics(self, run):
        return [json.loads(line) for line in (self.home / run / "metrics.jsonl").read_text().splitlines()]

    def assert_as_before(self, before, after):
        changed = [path for path in before if after.get(path, "gone") != before[path]]
        self.assertEqual([], changed, "changed or gone")

    def left(self, path="."):
        """Every file below a path and its bytes; folders and pipes have none."""
        paths = sorted((self.home / path).rglob("*"))
        return {str(p.relative_to(self.home)): p.read_bytes() if p.is_file() else None for p in paths}
