"""Whatever is wrong: one line on stderr, exit code 2 for wrong use and 1 for a failure, and nothing that existed is lost."""

import json
import os
import resource
import shutil
import signal
import subprocess
import unittest

from program import PROGRAM, TINY, ProgramTest


def no_file_longer_than(size):
    """For preexec_fn: a disk that is full, as seen by one program."""
    def limit():
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))
    return limit


class BadInputTest(ProgramTest):
    def assert_fails(self, code, about, *arguments, new_files=False, **options):
        """Runs it; what was there must be there as it was. Wrong use makes no file either."""
        before = self.left()
        failed = self.run_program(*arguments, **options)
        after = self.left()
        self.assertRegex(failed.stderr, r"\Athinwire: [^\n]+\n\Z")
        self.assertIn(about, failed.stderr)
        self.assertNotIn("Exception raised from", failed.stderr)
        self.assertEqual(code, failed.returncode)
        self.assert_as_before(before, after)
        if not new_files:
            self.assertEqual(set(before), set(after))

    def check(self, cases):
        for arguments, code, about in cases:
            with self.subTest(" ".join(arguments)):
                self.assert_fails(code, about, *arguments)


class WrongUse(BadInputTest):
    def test_of_the_command_line(self):
        self.check([
            ([], 2, "subcommand is required"),
            (["trian", TINY], 2, "there is no verb 'trian'; did you mean 'train'?"),
            (["train"], 2, "recipe is required"),
            (["train", TINY, "--jsno"], 2, "--jsno"),
            (["train", TINY, "--dir"], 2, "--dir"),
            (["train", TINY, "steps=3"], 2, "'steps=3' is not section.key=value"),
            (["train", TINY, "--resume"], 2, "--resume needs --dir"),
        ])

    def test_of_keys(self):
        train = lambda *keys: ["train", TINY, *self.small(), "--dir", "run", *keys]
        self.check([
            (train("train.step=3"), 2, "unknown key train.step; did you mean train.steps?"),
            (train("optim.xyzzyplugh=1"), 2, "unknown key optim.xyzzyplugh (there are: name, rest, lr,"),
            (train("strategy.bucket=1MiB"), 2, "unknown key strategy.bucket"),
            (train("strategy.name=c02"), 2, 'got "c02"; did you mean "co2"?'),
            (train("trian.steps=3"), 2, "unknown section [trian]; did you mean [train]?"),
            (train("compare.co2=3"), 2, "unknown section [compare]"),
            (train("model.name=bert"), 2, "model.name must be one of gpt, mlp, got \"bert\""),
            (train("model.heads=3"), 2, "model.width must be a multiple of model.heads, got 64 and 3"),
        ])

    def test_of_numbers_and_units(self):
        train = lambda *keys: ["train", TINY, *self.small(), "--dir", "run", *keys]
        self.check([
            (train("link.replicas=100mb"), 2, "link.replicas: '100mb' is not a rate"),
            (train("link.replicas=0mbit"), 2, "link.replicas: a link needs a rate above 0"),
            (train("train.steps=0"), 2, "train.steps must be at least 1, got 0"),
            (train("train.steps=2.5"), 2, "train.steps must be a whole number, got 2.5"),
            (train("train.batch=9000000000000000000"), 2, "train.batch must be at least 1 and at most"),
            (train("optim.lr=nan"), 2, "optim.lr must be above 0 and at most 1000, got nan"),
            (train("optim.betas=[0.9, nan]"), 2, "optim.betas must be at least 0 and below 1, got nan"),
            (train("strategy.keep=2/M"), 2, 'strategy.keep must be a number or "1/M"'),
            (train("strategy.period=0"), 2, "strategy.period must be at least 1"),
            (train("workers.replicas=0"), 2, "workers.replicas must be at least 1"),
            (train("model.context=1979-05-27"), 2, "model.context: wanted a number"),
        ])

    def test_of_compare(self):
        compare = lambda *more: ["compare", TINY, *self.small(), "--dir", "compared", *more]
        self.check([
            (compare("--strategies", "all_reduce,c02"), 2, "there is no strategy 'c02'; did you mean 'co2'?"),
            (compare("--strategies", "all_reduce,,co2"), 2, "there is no strategy ''"),
            (compare("--strategies", ""), 2, "--strategies"),
            (compare("--strategies", "co2,co2"), 2, "strategy 'co2' is named twice"),
            (compare("strategy.nesterov=true"), 2, "unknown key strategy.nesterov: none of"),
            (compare("strategy.name=c02"), 2, 'did you mean "co2"?'),
            (compare("strategy.period=0"), 2, "strategy.period must be at least 1"),
            (compare("data.path=nowhere"), 2, "no file or folder"),
        ])


class BadRecipe(BadInputTest):
    def test_that_cannot_be_read(self):
        (self.home / "folder").mkdir()
        os.mkfifo(self.home / "pipe")
        for recipe, about in (("nowhere.toml", "there is no recipe nowhere.toml"), ("folder", "cannot be read as a recipe"),
                              ("pipe", "cannot be read as a recipe"),
                              ("text.txt", "text.txt:1: "), ("/proc/self/mem", "cannot be read as a recipe")):
            with self.subTest(recipe):
                self.assert_fails(2, about, "train", recipe)

    def test_that_is_broken(self):
        for text, about in (
            ("[model]\nname = gpt\n", "broken.toml:2: "),
            ("[model\n", "broken.toml:1: "),
            ("[train]\nsteps = 3\nsteps = 4\n", "broken.toml:3: "),
            ("steps = 3\n", "broken.toml: steps is outside any section"),
            ("[trian]\nsteps = 3\n", "broken.toml: unknown section [trian]; did you mean [train]?"),
            ("[train]\nsteps = 3\nseconds = 4\n", "a run has one length, got train.steps and train.seconds"),
            ("[compare.co2]\nlr = 3\n", "unknown section [compare.co2.lr]"),
            ("[compare.nobody]\noptim.lr = 3\n", "[compare.nobody]: there is no strategy 'nobody'"),
            ("[train]\nseed = \"\x00\"\n", "broken.toml:2: "),
        ):
            with self.subTest(text):
                (self.home / "broken.toml").write_text(text)
                self.assert_fails(2, about, "train", "broken.toml", "--dir", "run")

    def test_that_is_not_unicode(self):
        (self.home / "broken.toml").write_bytes(b"[model]\nname = \"\xff\xfe\"\n")
        self.assert_fails(2, "broken.toml:2: ", "train", "broken.toml", "--dir", "run")


class BadText(BadInputTest):
    def test_is_named(self):
        (self.home / "empty.txt").touch()
        (self.home / "short.txt").write_text("0123456789")
        (self.home / "tail.txt").write_text("x" * 200)  # its held-out part has 10 bytes
        (self.home / "binary").mkdir()
        (self.home / "binary/a.bin").write_bytes(bytes(1000))
        (self.home / "hollow").mkdir()
        (self.home / "broken_link").symlink_to("nowhere")
        os.mkfifo(self.home / "pipe")
        for path, about in (
            ("nowhere", "no file or folder"),
            ("broken_link", "no file or folder"),
            ("empty.txt", "is empty"),
            ("short.txt", "must be at least context + 1 = 17 bytes, got 10"),
            ("tail.txt", "the held-out part of"),
            ("hollow", "no text file in folder"),
            ("binary", "no text file in folder"),
            ("pipe", "is neither a file nor a folder"),
            ("/proc/self/mem", "cannot read file"),
        ):
            with self.subTest(path):
                self.assert_fails(2, about, "train", TINY, *self.small(data__path=path), "--dir", "run")


class BadDirectory(BadInputTest):
    def test_that_exists_stays_as_it_was(self):
        (self.home / "file").write_text("precious")
        (self.home / "full").mkdir()
        (self.home / "full/file").write_text("precious")
        for verb in ("train", "compare"):
            for name, about in (("file", "file "), ("full", "full exists and is not empty"), ("file/run", "file is not a directory")):
                with self.subTest(verb=verb, dir=name):
                    self.assert_fails(2, about, verb, TINY, *self.small(), "--dir", name)

    def test_that_is_no_run_cannot_be_resumed(self):
        (self.home / "full").mkdir()
        (self.home / "full/file").write_text("precious")
        self.assert_fails(2, "full holds no run", "train", TINY, *self.small(), "--dir", "full", "--resume")
        (self.home / "full/recipe.toml").write_text("[model\n")
        self.assert_fails(2, "full/recipe.toml:1: ", "train", TINY, *self.small(), "--dir", "full", "--resume")

    def test_that_holds_a_run_is_not_run_again(self):
        self.train(*self.small(2), "--dir", "run")
        self.assert_fails(2, "go on with it by --resume", "train", TINY, *self.small(2), "--dir", "run")


class BadCheckpoint(BadInputTest):
    def setUp(self):
        super().setUp()
        self.keys = self.small(train__save_every=5)
        self.whole = self.weights_hash(*self.keys, "--dir", "run")
        shutil.rmtree(self.home / "run/checkpoints/step-12")  # as if killed at the end: metrics go on to step 12
        (self.home / "run/model.safetensors").unlink()
        self.checkpoint = self.home / "run/checkpoints/step-10"
        self.resume = ["train", TINY, *self.keys, "--dir", "run", "--resume"]

    def test_is_named_and_nothing_is_lost(self):
        for path in sorted(self.checkpoint.iterdir()):
            good = path.read_bytes()
            middle = len(good) // 2
            damages = {"a flipped bit": good[:middle] + bytes([good[middle] ^ 4]) + good[middle + 1:],
                       "half of it": good[:middle], "nothing left": b""}
            for damage, bad in damages.items():
                with self.subTest(file=path.name, damage=damage):
                    path.write_bytes(bad)
                    self.assert_fails(1, f"step-10/{path.name}", *self.resume)
            path.write_bytes(good)
        self.assertEqual(self.whole, self.weights_hash(*self.keys, "--dir", "run", "--resume"))

    def test_of_another_run_is_refused(self):
        for key, value in (("train.seed", "2"), ("model.layers", "1"), ("workers.replicas", "3")):
            with self.subTest(key):
                self.train(*self.keys, f"{key}={value}", "--dir", "other")
                shutil.rmtree(self.checkpoint)
                shutil.copytree(self.home / "other/checkpoints/step-10", self.checkpoint)
                shutil.rmtree(self.home / "other")
                self.assert_fails(2, f"step-10 is of another recipe: {key} is {value} there and ", *self.resume)

    def test_of_another_step_is_refused(self):
        self.checkpoint.rename(self.checkpoint.parent / "step-11")
        self.assert_fails(2, "step-11 is of step 10", *self.resume)

    def test_of_another_text_is_refused(self):
        text = self.home / "text.txt"
        text.write_text(text.read_text().replace("wire", "rope"))
        self.assert_fails(2, "is not the one this run was trained on", *self.resume)


class FullDisk(BadInputTest):
    def test_loses_no_checkpoint(self):
        keys = self.small(train__save_every=5)
        whole = self.weights_hash(*keys, "--dir", "run")
        shutil.rmtree(self.home / "run/checkpoints/step-12")
        before = self.left("run/checkpoints")
        failed = self.run_program("train", TINY, *keys, "--dir", "run", "--resume", preexec_fn=no_file_longer_than(100_000))
        self.assertEqual(1, failed.returncode)
        self.assertRegex(failed.stderr, r"\Athinwire: the checkpoint of step 12 [^\n]*step-12[^\n]*File too large; the checkpoint of step 10 is whole\n\Z")
        self.assert_as_before(before, self.left("run/checkpoints"))
        self.assertEqual(set(before), set(self.left("run/checkpoints")))
        self.assertEqual(whole, self.weights_hash(*keys, "--dir", "run", "--resume"))

    def test_loses_no_metrics(self):
        keys = self.small(train__save_every=5)
        whole = self.weights_hash(*keys, "--dir", "run")
        size = (self.home / "run/metrics.jsonl").stat().st_size
        self.assert_fails(1, "metrics.jsonl", "train", TINY, *keys, "--dir", "run", "--resume", new_files=True,
                          preexec_fn=no_file_longer_than(size // 2))
        self.assertEqual(whole, self.weights_hash(*keys, "--dir", "run", "--resume"))

    def test_at_the_start_leaves_nothing_in_the_way(self):
        for limit in (0, 100):
            with self.subTest(limit):
                self.assert_fails(1, "recipe.toml", "train", TINY, *self.small(), "--dir", f"run{limit}", new_files=True,
                                  preexec_fn=no_file_longer_than(limit))
                self.assertEqual("done", self.train(*self.small(), "--dir", f"run{limit}")["event"])

    def test_ends_a_comparison(self):
        self.assert_fails(1, "compared", "compare", TINY, *self.small(2), "--dir", "compared", new_files=True,
                          preexec_fn=no_file_longer_than(100_000))


class Resources(ProgramTest):
    """What a machine cannot do is refused before anything is written, with both numbers."""

    def refused(self, *keys):
        failed = self.run_program("train", TINY, *self.small(), *keys, "--dir", "run")
        self.assertEqual((2, ""), (failed.returncode, failed.stdout), failed.stderr)
        self.assertEqual(1, failed.stderr.count("\n"))
        self.assertFalse((self.home / "run").exists())
        return failed.stderr

    def test_more_memory_than_there_is(self):
        for key in ("train.batch=1000000", "model.width=262144"):
            with self.subTest(key):
                self.assertRegex(self.refused(key), r"^thinwire: this run needs at least \d+\.\d GB of memory, "
                                                    r"this machine has \d+\.\d GB \(train.force=true tries it\)$")

    def test_more_threads_than_there_can_be(self):
        self.assertRegex(self.refused("workers.replicas=256", "train.threads=1024"),
                         r"^thinwire: this run needs 262400 threads, this machine allows \d+ ")

    def test_numbers_beyond_any_machine(self):
        self.assertEqual("thinwire: model.layers must be at least 1 and at most 10000, got 1000000000\n", self.refused("model.layers=1000000000"))

    def test_force_starts_it_anyway(self):
        self.train(*self.small(), "train.force=true", "--dir", "run")


class Hostile(ProgramTest):
    def test_a_key_of_very_many_parts_is_refused(self):
        (self.home / "deep.toml").write_text("a" + ".a" * 400_000 + " = 1\n")
        failed = self.run_program("train", "deep.toml")
        self.assertEqual((2, ""), (failed.returncode, failed.stdout))
        self.assertIn("more than 1000 dots", failed.stderr)

    def test_progress_goes_nowhere_where_stdout_is_closed(self):
        done = self.run_program("train", TINY, *self.small(), "--dir", "run", preexec_fn=lambda: os.close(1))
        self.assertEqual(0, done.returncode, done.stderr)
        for line in (self.home / "run/metrics.jsonl").read_text().splitlines():
            self.assertIn("event", json.loads(line))

    def test_a_path_that_is_not_utf8_is_refused_before_training(self):
        failed = subprocess.run([PROGRAM.encode(), b"train", TINY.encode(), b"data.path=te\xffxt.txt"], cwd=self.home,
                                capture_output=True)
        self.assertEqual(2, failed.returncode)
        self.assertNotIn(b"\xff", failed.stderr)

    def test_escape_codes_of_a_file_name_do_not_reach_the_terminal(self):
        failed = self.run_program("info", "\x1b[31mred")
        self.assertEqual(2, failed.returncode)
        self.assertNotIn("\x1b", failed.stderr)

    def test_a_bad_line_of_metrics_does_not_undo_a_training(self):
        keys = self.small(12, train__save_every=6)
        self.train(*keys, "--dir", "run")
        metrics = self.home / "run/metrics.jsonl"
        metrics.write_text('{"event":"step","step":"one"}\n{"event":"step","step":1,"loss":"low"}\n' + metrics.read_text())
        again = self.run_program("train", TINY, *keys, "--dir", "run", "--resume")
        self.assertEqual(0, again.returncode, again.stderr)
        self.assertIn("training is done, but there is no report", again.stderr)


if __name__ == "__main__":
    unittest.main()
