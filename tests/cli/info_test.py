"""thinwire info: what a run or a checkpoint holds, where it stands, and whether it is whole."""

import json
import os
import shlex
import shutil
import signal
import unittest

from program import TINY, ProgramTest


class Info(ProgramTest):
    def setUp(self):
        super().setUp()
        self.done = self.train(*self.small(6, train__save_every=3, train__eval_every=3), "--dir", "run")

    def info(self, path="run"):
        (told,) = self.events("info", path)
        return told

    def flip(self, path, at=-1):
        data = bytearray((self.home / path).read_bytes())
        data[at] ^= 1
        (self.home / path).write_bytes(data)

    def damaged(self, path="run"):
        """What it says of something damaged, as JSON and to a person; both end with exit code 1 and name the file."""
        as_json, shown = self.run_program("info", path, "--json"), self.run_program("info", path)
        self.assertEqual((1, 1), (as_json.returncode, shown.returncode))
        self.assertEqual(as_json.stderr, shown.stderr)
        return json.loads(as_json.stdout), shown.stdout, shown.stderr

    def test_of_a_finished_run_has_all_there_is_to_know(self):
        told = self.info()
        self.assertEqual(("run", "run", "co2", "gpt"), (told["event"], told["dir"], told["strategy"], told["model"]))
        self.assertEqual((132416, 2, "none"), (told["parameters"], told["replicas"], told["link"]))
        self.assertEqual((6, 6, True), (told["steps"], told["planned_steps"], told["finished"]))
        self.assertEqual((self.done["weights_hash"], self.done["val_loss"]), (told["weights_hash"], told["val_loss"]))
        self.assertEqual(self.metrics("run")[-3]["loss"], told["loss"])
        self.assertNotIn("resume", told)
        self.assertEqual([("run/checkpoints/step-3", 3, 4, True), ("run/checkpoints/step-6", 6, 4, True)],
                         [(c["folder"], c["step"], c["files"], c["whole"]) for c in told["checkpoints"]])
        for c in told["checkpoints"]:
            files = (self.home / c["folder"]).iterdir()
            self.assertEqual(sum(path.stat().st_size for path in files), c["bytes"])
            self.assertTrue(0 <= c["age_s"] < 600)

    def test_shows_the_same_to_a_person(self):
        shown = self.run_program("info", "run/")
        self.assertEqual((0, ""), (shown.returncode, shown.stderr))
        for line in ("co2: gpt of 132.4k parameters, 2 replicas over no emulated link, 64 tokens a step, adamw inside",
                     "recipe +2 layers of width 64, context 16; adamw lr 0.003, batch 2 a replica, 6 steps, seed 1; .*text.txt",
                     r"stands +finished: 6 of 6 steps in \S+ s", r"loss +\d\.\d{4} in training, \d\.\d{4} held out",
                     f"weights +{self.done['weights_hash']} in run/model.safetensors",
                     "checkpoints +read whole, and every hash checked:", r"step-3 +\S+ MB in 4 files +\d+ s ago  whole"):
            self.assertRegex(shown.stdout, f"(?m)^ *{line}$")

    def test_of_a_stopped_run_has_the_command_that_goes_on(self):
        process = self.start_program("train", TINY, *self.small(20, link__replicas="5mbit"), "--dir", "a run", "--json")
        while json.loads(process.stdout.readline())["event"] != "step":
            pass
        process.send_signal(signal.SIGINT)
        self.assertEqual("stopped", json.loads(process.stdout.read().splitlines()[-1])["event"])
        self.assertEqual(0, process.wait())
        told = self.info("a run")
        self.assertEqual((False, 20), (told["finished"], told["planned_steps"]))
        self.assertEqual(told["steps"], told["resumes_after"])
        self.assertIn(f"go on with  {told['resume']}\n", self.run_program("info", "a run").stdout)
        program, *words = shlex.split(told["resume"])
        self.assertEqual("thinwire", program)
        self.assertEqual("done", self.events(*words)[-1]["event"])
        self.assertTrue(self.info("a run")["finished"])

    def test_tells_which_steps_a_killed_run_will_do_again(self):
        (self.home / "run/model.safetensors").unlink()
        shutil.rmtree(self.home / "run/checkpoints/step-6")
        self.assertEqual((6, 3), (self.info()["steps"], self.info()["resumes_after"]))
        self.assertIn("(the steps after 3 are done again)", self.run_program("info", "run").stdout)

    def test_of_a_run_that_was_killed_at_its_start_says_so(self):
        for path in ("metrics.jsonl", "model.safetensors"):
            (self.home / "run" / path).unlink()
        shutil.rmtree(self.home / "run/checkpoints")
        told = self.info()
        self.assertEqual((0, 0, [], False), (told["steps"], told["resumes_after"], told["checkpoints"], told["finished"]))
        self.assertNotIn("loss", told)

    def test_of_a_checkpoint_lists_what_is_in_it(self):
        told = self.info("run/checkpoints/step-3")
        self.assertEqual(("checkpoint", 3, True), (told["event"], told["step"], told["whole"]))
        self.assertEqual("float32 [135168], all replicas alike", told["entries"]["strategy.z"])
        self.assertEqual("3, all replicas alike", told["entries"]["strategy.inner"])
        shown = self.run_program("info", "run/checkpoints/step-3").stdout
        self.assertRegex(shown, "^checkpoint after step 3: .* 4 files, .* every hash checked\n")
        self.assertIn("    strategy.z              float32 [135168], all replicas alike\n", shown)

    def test_names_a_damaged_file_of_any_replica(self):
        for name in ("all.safetensors", "replica-0.safetensors", "replica-1.safetensors", "manifest.json"):
            with self.subTest(name):
                path = f"run/checkpoints/step-3/{name}"
                self.flip(path, at=100)
                told, shown, error = self.damaged()
                self.assertEqual([False, True], [c["whole"] for c in told["checkpoints"]])
                self.assertRegex(error, f"^thinwire: {path}: ")
                self.assertRegex(shown, rf"step-3 .* DAMAGED {path}: .*\n +step-6 .* whole\n")
                self.assertFalse(self.damaged("run/checkpoints/step-3")[0]["whole"])
                self.flip(path, at=100)
                self.assertTrue(self.info()["checkpoints"][0]["whole"])

    def test_names_a_missing_file(self):
        (self.home / "run/checkpoints/step-6/replica-1.safetensors").unlink()
        self.assertIn("run/checkpoints/step-6/replica-1.safetensors: No such file", self.damaged()[2])
        (self.home / "run/checkpoints/step-6/manifest.json").unlink()
        self.assertIn("run/checkpoints/step-6/manifest.json: No such file", self.damaged()[2])

    def test_names_damaged_weights(self):
        self.flip("run/model.safetensors")
        told, shown, error = self.damaged()
        self.assertIn(f"run/model.safetensors: damaged, the run ended on weights {self.done['weights_hash']}", error)
        self.assertIn("DAMAGED run/model.safetensors", shown)
        self.assertIn("run/model.safetensors", told["damage"])

    def test_what_is_no_run_is_refused(self):
        for path, wanted in (("nowhere", "there is no nowhere"), ("text.txt", "text.txt is neither a run"),
                             (".", "holds several runs: name one of ./run")):
            refused = self.run_program("info", path)
            self.assertEqual((2, ""), (refused.returncode, refused.stdout))
            self.assertIn(wanted, refused.stderr)

    def test_a_pipe_or_a_link_among_the_files_is_refused_and_not_waited_for(self):
        for name in ("recipe.toml", "metrics.jsonl", "result.json", "model.safetensors", "checkpoints/step-3/manifest.json",
                     "checkpoints/step-3/all.safetensors", "checkpoints/step-3/replica-1.safetensors"):
            path = self.home / "run" / name
            path.rename(self.home / "aside")
            for make, what in ((lambda: os.mkfifo(path), "not a plain file"),
                               (lambda: path.symlink_to(self.home / "aside"), "a link, and links are not followed here")):
                make()
                asked = [("info", "run"), ("sample", "run")]
                if "step-3" in name:
                    asked = [("info", "run"), ("info", "run/checkpoints/step-3"), ("sample", "run/checkpoints/step-3")]
                elif name == "metrics.jsonl":
                    asked = [("info", "run")]
                for arguments in asked:
                    with self.subTest(name, arguments=arguments):
                        refused = self.run_program(*arguments)
                        self.assertIn(refused.returncode, (1, 2))
                        self.assertRegex(refused.stderr, f"^thinwire: run/{name}.*: {what}\n$")
                path.unlink()
            (self.home / "aside").rename(path)
        self.info()

    def test_escape_codes_in_a_recipe_do_not_reach_the_terminal(self):
        shutil.copy(self.home / "text.txt", self.home / "\x1b[31m.txt")
        self.train(*self.small(3, data__path="\x1b[31m.txt", train__save_every=3), "--dir", "red\x1b[31m")
        for path in ("red\x1b[31m", "red\x1b[31m/checkpoints/step-3"):
            shown = self.run_program("info", path)
            self.assertEqual(0, shown.returncode, shown.stderr)
            self.assertIn("?[31m.txt", shown.stdout)
            self.assertNotIn("\x1b", shown.stdout + shown.stderr)
        (self.home / "red\x1b[31m/model.safetensors").unlink()
        for told in (self.run_program("report", "red\x1b[31m").stdout,
                     self.run_program("sample", "red\x1b[31m", "--temperature", 0, "--prompt", "a", errors="replace").stderr):
            self.assertIn("red?[31m", told)
            self.assertNotIn("\x1b", told)

    def test_writes_nothing(self):
        before = self.left()
        self.info()
        self.info("run/checkpoints/step-3")
        self.assertEqual(before, self.left())


if __name__ == "__main__":
    unittest.main()
