"""thinwire sample: text from a trained model."""

import signal
import subprocess
import unittest

from program import PROGRAM, ProgramTest


class Sample(ProgramTest):
    def setUp(self):
        super().setUp()
        keys = self.small(6, train__save_every=3, strategy__name="local_sgd", strategy__period=3)
        self.done = self.train(*keys, "--dir", "run")

    def sample(self, *arguments, run="run"):
        """The bytes it prints in a pipe."""
        done = subprocess.run([PROGRAM, "sample", run, *map(str, arguments)], cwd=self.home, capture_output=True)
        self.assertEqual((0, b""), (done.returncode, done.stderr))
        return done.stdout

    def refused(self, *arguments):
        refused = self.run_program("sample", *arguments)
        self.assertEqual((2, ""), (refused.returncode, refused.stdout))
        return refused.stderr

    def unfinished(self):
        (self.home / "run/model.safetensors").unlink()

    def test_prints_the_prompt_and_so_many_bytes_more(self):
        text = self.sample("--prompt", "a thin ", "--tokens", 30)
        self.assertEqual(b"a thin ", text[:7])
        self.assertEqual(37, len(text))
        self.assertEqual(200, len(self.sample()))

    def test_depends_on_the_seed_and_nothing_else(self):
        first = self.sample("--seed", 3)
        self.assertEqual(first, self.sample("--seed", 3))
        self.assertNotEqual(first, self.sample("--seed", 4))

    def test_with_temperature_0_the_seed_does_not_matter(self):
        self.assertEqual(self.sample("--temperature", 0, "--seed", 1), self.sample("--top-k", 1, "--seed", 2))

    def test_takes_a_prompt_longer_than_the_context(self):
        self.assertEqual(1005, len(self.sample("--prompt", "x" * 1000, "--tokens", 5)))

    def test_uses_the_weights_the_run_ended_on(self):
        (told,) = self.events("sample", "run", "--tokens", 9)
        self.assertEqual(("sample", "", 9), (told["event"], told["prompt"], told["tokens"]))
        self.assertEqual((True, self.done["weights_hash"]), (told["finished"], told["weights_hash"]))

    def test_of_an_unfinished_run_uses_the_newest_checkpoint_and_says_so(self):
        before = self.sample()
        self.unfinished()
        shown = subprocess.run([PROGRAM, "sample", "run"], cwd=self.home, capture_output=True)
        self.assertEqual((0, before), (shown.returncode, shown.stdout))
        self.assertEqual(b"thinwire: run is not finished: these are the weights of run/checkpoints/step-6\n", shown.stderr)
        (told,) = self.events("sample", "run")
        self.assertEqual((False, self.done["weights_hash"]), (told["finished"], told["weights_hash"]))

    def test_of_a_checkpoint_uses_what_the_replicas_agreed_on(self):
        (last,) = self.events("sample", "run/checkpoints/step-6")
        (earlier,) = self.events("sample", "run/checkpoints/step-3")
        self.assertEqual(self.done["weights_hash"], last["weights_hash"])
        self.assertNotEqual(self.done["weights_hash"], earlier["weights_hash"])

    def test_of_a_checkpoint_of_all_reduce_uses_the_weights_that_all_have(self):
        (self.home / "own.toml").write_text('[strategy]\nname = "all_reduce"\n')
        done = self.train(*self.small(3), "--dir", "plain", recipe="own.toml")
        (told,) = self.events("sample", "plain/checkpoints/step-3")
        self.assertEqual(done["weights_hash"], told["weights_hash"])

    def test_samples_every_model(self):
        for number, keys in enumerate(({"model__name": "mlp"}, {"model__tied": "true"})):
            done = self.train(*self.small(2, **keys), "--dir", f"run{number}")
            (told,) = self.events("sample", f"run{number}", "--tokens", 3)
            self.assertEqual(done["weights_hash"], told["weights_hash"])

    def test_needs_neither_the_text_nor_the_folder_where_it_was_trained(self):
        (self.home / "text.txt").unlink()
        (self.home / "run").rename(self.home / "elsewhere")
        self.assertEqual(200, len(self.sample(run="elsewhere")))

    def test_numbers_out_of_range_are_named(self):
        for flag, value, wanted in (("--temperature", "-1", "at least 0"), ("--tokens", "0", "at least 1"),
                                    ("--top-k", "-2", "at least 0"), ("--seed", "-5", "at least 0"),
                                    ("--temperature", "nan", "at least 0")):
            self.assertEqual(f"thinwire: {flag} must be {wanted}, got {value}\n", self.refused("run", flag, value))
        self.assertIn("--top-k", self.refused("run", "--top-k", "some"))

    def test_what_is_no_run_is_named(self):
        (self.home / "empty").mkdir()
        self.assertEqual("thinwire: there is no nowhere\n", self.refused("nowhere"))
        self.assertIn("empty is neither a run (recipe.toml) nor a checkpoint", self.refused("empty"))
        self.assertIn("holds several runs: name one of ./run", self.refused("."))

    def test_a_run_without_weights_is_an_error(self):
        (self.home / "new").mkdir()
        (self.home / "run/recipe.toml").rename(self.home / "new/recipe.toml")
        self.assertEqual("thinwire: new has no weights yet: neither model.safetensors nor a checkpoint\n", self.refused("new"))

    def test_weights_of_another_model_are_an_error(self):
        recipe = self.home / "run/recipe.toml"
        recipe.write_text(recipe.read_text().replace("layers = 2 ", "layers = 3 "))
        failed = self.run_program("sample", "run")
        self.assertEqual((1, ""), (failed.returncode, failed.stdout))
        self.assertRegex(failed.stderr, "run/model.safetensors: [0-9]+ bytes cannot hold the [0-9]+ weights of the recipe's model")
        recipe.write_text(recipe.read_text().replace("layers = 3 ", "layers = 1 ").replace("width = 64 ", "width = 66 "))
        self.assertIn("run/model.safetensors: blocks.0.attention.", self.run_program("sample", "run").stderr)

    def test_damaged_weights_are_an_error(self):
        (self.home / "run/model.safetensors").write_bytes(b"\x00" * 100)
        failed = self.run_program("sample", "run")
        self.assertEqual((1, ""), (failed.returncode, failed.stdout))
        self.assertRegex(failed.stderr, "^thinwire: run/model.safetensors: ")

    def test_a_flipped_byte_is_found_wherever_it_is(self):
        for path in ("run/model.safetensors", *(f"run/checkpoints/step-3/{name}" for name in (
                "manifest.json", "all.safetensors", "replica-0.safetensors", "replica-1.safetensors"))):
            whole = (self.home / path).read_bytes()
            for share in (0.2, 0.6, 0.9999):
                flipped = bytearray(whole)
                flipped[int(share * len(whole))] ^= 1
                (self.home / path).write_bytes(flipped)
                failed = self.run_program("sample", "run" if "step" not in path else "run/checkpoints/step-3")
                self.assertEqual((1, ""), (failed.returncode, failed.stdout), path)
                self.assertRegex(failed.stderr, f"^thinwire: {path}: ")
            (self.home / path).write_bytes(whole)

    def test_bytes_come_as_they_are_made_and_ctrl_c_ends_it(self):
        process = subprocess.Popen([PROGRAM, "sample", "run", "--tokens", "100000000"], cwd=self.home,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            self.assertEqual(20, len(process.stdout.read(20)))
            process.send_signal(signal.SIGINT)
            process.stdout.read()
            self.assertEqual((0, b""), (process.wait(timeout=60), process.stderr.read()))

    def test_a_reader_that_leaves_ends_it(self):
        process = subprocess.Popen([PROGRAM, "sample", "run", "--tokens", "100000000"], cwd=self.home,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        with process:
            process.stdout.read(5)
            process.stdout.close()
            self.assertEqual(1, process.wait(timeout=60))
            self.assertIn(b"thinwire: stdout: ", process.stderr.read())

    def test_a_terminal_gets_characters_only(self):
        wild = ["sample", "run", "--temperature", 100, "--tokens", 2000, "--prompt", "caf\u00e9 \u20ac \U0001f600"]
        text = self.on_a_terminal(*wild)  # decoding it checks that it is UTF-8
        self.assertTrue(text.startswith("caf\u00e9 \u20ac \U0001f600"))
        self.assertIn("\ufffd", text)
        self.assertEqual(set(), {c for c in text if ord(c) < 32 or 127 <= ord(c) < 160} - set("\r\n\t"))
        self.assertTrue(text.endswith("\n"))


if __name__ == "__main__":
    unittest.main()
