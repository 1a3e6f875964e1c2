"""A run that is stopped or killed at any moment and resumed ends on the weights of one that was not."""

import json
import os
import random
import shutil
import shlex
import signal
import subprocess
import time
import unittest

from program import PROGRAM, TINY, ProgramTest


STOPPING = "thinwire: stopping after this step, with a checkpoint; a second signal ends it at once\n"


class Resume(ProgramTest):
    def read_until_step(self, process, step):
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "step" and event["step"] >= step:
                return

    def assert_every_step_once(self, run, steps):
        self.assertEqual(list(range(1, steps + 1)), [e["step"] for e in self.metrics(run) if e["event"] == "step"])

    def assert_same_model(self, one, other):
        self.assertEqual((self.home / one / "model.safetensors").read_bytes(),
                         (self.home / other / "model.safetensors").read_bytes())

    def check_signal(self, number, strategy):
        keys = self.small(30, strategy__name=strategy) + ["strategy.period=4"] * (strategy != "all_reduce")
        whole = self.weights_hash(*keys, "--dir", "whole", recipe="plain.toml")
        keys.append("link.replicas=20mbit")  # sees to it that the run is not over before the signal comes
        process = self.start_program("train", "plain.toml", *keys, "--dir", "run", "--json")
        self.read_until_step(process, 7)
        process.send_signal(number)
        last = [json.loads(line) for line in process.stdout][-1]
        self.assertEqual((0, STOPPING), (process.wait(), process.stderr.read()))
        self.assertEqual("stopped", last["event"])
        self.assertIn(last["steps"], range(7, 30))
        self.assertNotIn("val_loss", last)
        self.assert_every_step_once("run", last["steps"])
        self.assertEqual([f"step-{last['steps']}"], [p.name for p in (self.home / "run/checkpoints").iterdir()])

        start, *_, done = self.events("train", "plain.toml", *keys, "--dir", "run", "--resume")
        self.assertEqual(("start", last["steps"]), (start["event"], start["from_step"]))
        self.assertEqual(("done", whole, 30), (done["event"], done["weights_hash"], done["steps"]))
        self.assert_every_step_once("run", 30)
        self.assert_same_model("whole", "run")

    def test_after_ctrl_c_ends_on_the_same_weights(self):
        self.check_signal(signal.SIGINT, "co2")

    def test_after_a_sigterm_ends_on_the_same_weights(self):
        self.check_signal(signal.SIGTERM, "all_reduce")

    def test_after_a_hang_up_ends_on_the_same_weights(self):
        self.check_signal(signal.SIGHUP, "local_sgd")

    def test_a_hang_up_that_is_ignored_stays_ignored(self):
        process = self.start_program("train", TINY, *self.small(30, link__replicas="20mbit"), "--dir", "run", "--json",
                                     preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.read_until_step(process, 3)
        process.send_signal(signal.SIGHUP)
        last = [json.loads(line) for line in process.stdout][-1]
        self.assertEqual((0, "", "done"), (process.wait(), process.stderr.read(), last["event"]))

    def test_usr1_saves_and_the_run_goes_on(self):
        keys = self.small(30)
        whole = self.weights_hash(*keys, "--dir", "whole")
        process = self.start_program("train", TINY, *keys, "link.replicas=20mbit", "--dir", "run", "--json")
        self.read_until_step(process, 5)
        process.send_signal(signal.SIGUSR1)
        events = [json.loads(line) for line in process.stdout]
        self.assertEqual((0, ""), (process.wait(), process.stderr.read()))
        saved = [event["step"] for event in events if event["event"] == "saved"]
        self.assertEqual(2, len(saved), saved)  # when it was asked to, and at the end
        self.assertIn(saved[0], range(5, 30))
        self.assertEqual(whole, events[-1]["weights_hash"])

    def test_a_run_saves_by_time_and_loses_minutes_only(self):
        keys = self.small(40, train__save_minutes=0.002, train__keep_checkpoints=100)
        whole = self.weights_hash(*self.small(40), "--dir", "whole")
        events = self.events("train", TINY, *keys, "link.replicas=20mbit", "--dir", "run")
        saved = [event["step"] for event in events if event["event"] == "saved"]
        self.assertGreater(len(saved), 2)
        self.assertEqual(whole, events[-1]["weights_hash"])
        shutil.rmtree(self.home / f"run/checkpoints/step-{saved[-1]}")
        start, *_, done = self.events("train", TINY, *keys, "--dir", "run", "--resume")
        self.assertEqual((saved[-2], whole), (start["from_step"], done["weights_hash"]))

    def test_keys_that_decide_no_weight_may_differ(self):
        whole = self.weights_hash(*self.small(20), "--dir", "whole")
        self.train(*self.small(20, train__save_every=10), "--dir", "run")
        shutil.rmtree(self.home / "run/checkpoints/step-20")
        shutil.move(self.home / "text.txt", self.home / "elsewhere.txt")
        start, *_, done = self.events("train", TINY, *self.small(20), "data.path=elsewhere.txt", "link.replicas=1gbit/1ms",
                                      "train.timeout=100", "train.keep_checkpoints=3", "--dir", "run", "--resume")
        self.assertEqual((10, whole), (start["from_step"], done["weights_hash"]))
        self.assertIn("elsewhere.txt", (self.home / "run/recipe.toml").read_text())

    def damaged(self, damage):
        """A run of 30 steps whose checkpoint of step 20 went bad, and one that nothing happened to."""
        keys = self.small(30, train__save_every=10, train__keep_checkpoints=3)
        whole = self.weights_hash(*keys, "--dir", "whole")
        shutil.copytree(self.home / "whole", self.home / "run")
        shutil.rmtree(self.home / "run/checkpoints/step-30")
        damage(self.home / "run/checkpoints/step-20")
        return keys, whole

    def check_refused_and_taken_up_earlier(self, damage, reason):
        keys, whole = self.damaged(damage)
        before = self.left("run")
        done = self.run_program("train", TINY, *keys, "--dir", "run", "--resume")
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertRegex(done.stderr, r"^thinwire: run/checkpoints/step-20/.*" + reason +
                         ".*; the checkpoint before it is whole: go on from there with --resume=step-10\n$")
        self.assert_as_before(before, self.left("run"))
        start, *_, done = self.events("train", TINY, *keys, "--dir", "run", "--resume=step-10")
        self.assertEqual((10, whole), (start["from_step"], done["weights_hash"]))
        self.assert_every_step_once("run", 30)
        self.assertEqual({"step-10", "step-20", "step-30"}, {p.name for p in (self.home / "run/checkpoints").iterdir()})

    def test_a_checkpoint_without_a_manifest_is_refused_and_an_older_one_named(self):
        self.check_refused_and_taken_up_earlier(lambda path: (path / "manifest.json").unlink(), "No such file")

    def test_a_damaged_checkpoint_is_refused_and_an_older_one_named(self):
        def damage(path):
            data = bytearray((path / "all.safetensors").read_bytes())
            data[-1] ^= 1
            (path / "all.safetensors").write_bytes(data)

        self.check_refused_and_taken_up_earlier(damage, "damaged")

    @unittest.skipUnless(shutil.which("setpriv") and os.geteuid() == 0, "needs root, to become somebody who is not")
    def test_checkpoints_that_cannot_be_read_are_no_reason_to_start_again(self):
        nobody = ["setpriv", "--reuid=65534", "--clear-groups", PROGRAM]
        if subprocess.run([*nobody, "--version"], capture_output=True).returncode != 0:
            self.skipTest(f"only root can run {PROGRAM}")
        keys, _ = self.damaged(lambda path: path.chmod(0))
        before = self.left("run")
        for path in [self.home, *self.home.rglob("*")]:
            os.chown(path, 65534, 65534)
        done = subprocess.run([*nobody, "train", TINY, *keys, "--dir", "run", "--resume"], cwd=self.home,
                              capture_output=True, text=True, timeout=60)
        self.assertEqual((1, ""), (done.returncode, done.stdout))
        self.assertIn("Permission denied; the checkpoint before it is whole", done.stderr)
        self.assert_as_before(before, self.left("run"))

    def test_a_checkpoint_that_is_not_there_is_named_with_those_that_are(self):
        keys, _ = self.damaged(lambda path: None)
        for value, why in (("step-15", "run has no checkpoint step-15: it has step-10, step-20"),
                           ("15", "--resume=15 should name a checkpoint, like --resume=step-40")):
            done = self.run_program("train", TINY, *keys, "--dir", "run", f"--resume={value}")
            self.assertEqual((2, f"thinwire: {why}\n"), (done.returncode, done.stderr))

    def test_starting_again_for_lack_of_a_checkpoint_is_said(self):
        keys, whole = self.damaged(lambda path: None)
        shutil.rmtree(self.home / "run/checkpoints")
        start, *_, done = self.events("train", TINY, *keys, "--dir", "run", "--resume")
        self.assertEqual((0, whole), (start["from_step"], done["weights_hash"]))
        self.assertEqual(["run has no checkpoint yet: training starts again from its beginning"], start["notes"])

    def test_a_directory_with_a_run_under_way_is_refused_and_left_alone(self):
        process = self.start_program("train", TINY, *self.small(100000), "--dir", "run", "--json")
        self.read_until_step(process, 3)
        for more in (["--resume"], []):
            done = self.run_program("train", TINY, *self.small(100000), "--dir", "run", *more)
            self.assertEqual((2, ""), (done.returncode, done.stdout))
            if more:
                self.assertRegex(done.stderr, rf"^thinwire: run is in use by process {process.pid} on \S+: ")
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        self.assertEqual(0, process.wait())
        self.assertFalse((self.home / "run/lock").exists())

    def test_the_directory_of_a_killed_run_is_taken_over_with_a_word(self):
        process = self.start_program("train", TINY, *self.small(30, link__replicas="20mbit"), "--dir", "run", "--json")
        self.read_until_step(process, 3)
        process.kill()
        process.wait()
        start, *_, done = self.events("train", TINY, *self.small(30), "--dir", "run", "--resume")
        self.assertRegex(start["notes"][0], rf"^the run in run was cut off \(process {process.pid} on ")
        self.assertEqual("done", done["event"])

    def test_runs_that_start_in_the_same_second_get_directories_of_their_own(self):
        processes = [self.start_program("train", TINY, *self.small(2), "--quiet") for _ in range(6)]
        self.assertEqual([0] * 6, [process.wait() for process in processes])
        self.assertEqual(6, len(list((self.home / "runs").iterdir())))

    def test_a_refused_run_leaves_no_directory_behind(self):
        done = self.run_program("train", TINY, *self.small(workers__stages=63))
        self.assertEqual(2, done.returncode, done.stderr)
        self.assertEqual([], list((self.home / "runs").glob("*")))

    def test_info_of_a_run_that_rotates_its_checkpoints_finds_no_damage(self):
        process = self.start_program("train", TINY, *self.small(100000, train__save_every=1, train__keep_checkpoints=2),
                                     "--dir", "run", "--json")
        self.read_until_step(process, 5)
        for _ in range(12):
            done = self.run_program("info", "run")
            self.assertEqual((0, ""), (done.returncode, done.stderr))
            self.assertNotIn("DAMAGED", done.stdout)

    def test_time_in_which_a_run_was_suspended_counts_towards_no_timeout(self):
        whole = self.weights_hash(*self.small(60), "--dir", "whole")
        process = self.start_program("train", TINY, *self.small(60, link__replicas="20mbit"), "train.timeout=3", "--dir",
                                     "run", "--json")
        for step in (5, 9):
            self.read_until_step(process, step)
            process.send_signal(signal.SIGSTOP)
            time.sleep(4.5)
            process.send_signal(signal.SIGCONT)
        lines = process.stdout.read().splitlines()
        self.assertEqual((0, ""), (process.wait(), process.stderr.read()))
        self.assertEqual(whole, json.loads(lines[-1])["weights_hash"])

    def test_a_stopped_run_says_how_to_go_on_in_words_that_a_shell_takes(self):
        process = self.start_program("train", TINY, *self.small(100000, strategy__name="drip", strategy__slices="8, at 500 4"),
                                     "--dir", "a run")
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        last = process.stdout.read().splitlines()[-1]
        self.assertEqual(0, process.wait())
        self.assertRegex(last, r"^stopped after step \d+; go on with: thinwire train .*train.steps=100000.* --resume$")
        words = shlex.split(last.split("go on with: ", 1)[1])
        self.assertIn("strategy.slices=8, at 500 4", words)
        self.assertEqual("a run", words[words.index("--dir") + 1])

    def test_a_second_signal_ends_it_at_once(self):
        # The first weights take hours to send, so nobody will look at the first signal.
        process = self.start_program("train", TINY, *self.small(link__replicas="1kbit"), "--dir", "run")
        while not (self.home / "run/recipe.toml").exists():
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        self.assertEqual(-signal.SIGINT, process.wait(timeout=60))

    def kill_until_done(self, keys, dice):
        kills = 0
        while True:
            process = self.start_program("train", "plain.toml", *keys, "--dir", "run", "--resume", "--json")
            lines = dice.randint(1, 14) if kills < 6 else 10**9
            for _, line in zip(range(lines), process.stdout):
                if json.loads(line)["event"] == "done":
                    self.assertEqual(0, process.wait())
                    return json.loads(line), kills
            time.sleep(dice.choice([0, 0, 0.002, 0.005, 0.02]))
            process.kill()
            process.wait()
            kills += 1

    def test_killed_at_random_moments_ends_on_the_same_weights(self):
        for strategy, seed in (("co2", 1), ("all_reduce", 2)):
            with self.subTest(strategy=strategy, dice=seed):
                keys = self.small(30, strategy__name=strategy) + ["strategy.period=4"] * (strategy != "all_reduce")
                whole = self.weights_hash(*keys, "--dir", "whole", recipe="plain.toml")
                keys.append("train.save_every=3")
                done, kills = self.kill_until_done(keys, random.Random(seed))
                self.assertGreater(kills, 2)
                self.assertEqual(whole, done["weights_hash"])
                self.assert_every_step_once("run", 30)
                self.assert_same_model("whole", "run")
                shutil.rmtree(self.home / "whole")
                shutil.rmtree(self.home / "run")

    def test_of_a_finished_run_gives_the_same_weights_and_metrics(self):
        first = self.train(*self.small(), "--dir", "run")
        lasting = lambda: {path: bytes_ for path, bytes_ in self.left("run").items()
                           if "checkpoints/" in path or path.endswith((".toml", ".jsonl", ".safetensors"))}
        before = lasting()
        again = self.train(*self.small(), "--dir", "run", "--resume")
        for key in ("weights_hash", "val_loss", "steps", "tokens", "wire_bytes", "seconds", "finish_bytes"):
            self.assertEqual(first[key], again[key], key)
        self.assert_as_before(before, lasting())

    def test_without_a_checkpoint_starts_at_step_0(self):
        whole = self.weights_hash(*self.small(), "--dir", "whole")
        for name in ("absent", "empty", "no_checkpoint", "killed_at_its_start", "half_written"):
            with self.subTest(name):
                run = self.home / name
                if name != "absent":
                    run.mkdir()
                if name == "killed_at_its_start":
                    (run / ".recipe.toml.123-0.tmp").write_text("[mod")
                if name in ("no_checkpoint", "half_written"):
                    shutil.copy(self.home / "whole/recipe.toml", run)
                    (run / "metrics.jsonl").write_text('{"event":"step","step":1,"loss":5}\n{"event":"st')
                if name == "half_written":
                    (run / "checkpoints/.step-3.tmp").mkdir(parents=True)
                    (run / "checkpoints/.step-3.tmp/all.safetensors").write_bytes(b"123")
                start, *_, done = self.events("train", TINY, *self.small(), "--dir", name, "--resume")
                self.assertEqual(0, start["from_step"])
                self.assertEqual(whole, done["weights_hash"])
                self.assert_every_step_once(name, 12)
                self.assertEqual(["step-12"], [path.name for path in (run / "checkpoints").iterdir()])

    def test_from_an_older_checkpoint_does_the_later_steps_again(self):
        keys = self.small(train__save_every=5, train__eval_every=4)
        whole = self.weights_hash(*keys, "--dir", "run")
        metrics = self.metrics("run")
        shutil.rmtree(self.home / "run/checkpoints/step-12")
        start, *_, done = self.events("train", TINY, *keys, "--dir", "run", "--resume")
        self.assertEqual((10, whole), (start["from_step"], done["weights_hash"]))
        for before, after in zip(metrics, self.metrics("run"), strict=True):
            for key in ("event", "step", "loss", "lr", "val_loss", "wire_bytes", "final"):
                self.assertEqual(before.get(key), after.get(key), (before, after))

    def test_with_another_recipe_names_the_key(self):
        self.train(*self.small(), "--dir", "run")
        before = self.left("run")
        for key, value, there, here in (("optim.lr", "0.5", "0.003", "0.5"), ("train.steps", "13", "12", "13"),
                                        ("train.seconds", "2", "0.0", "2.0"), ("strategy.name", "slowmo", '"co2"', '"slowmo"'),
                                        ("model.width", "32", "64", "32"),
                                        ("workers.replicas", "3", "2", "3"), ("strategy.delay", "0", "1", "0")):
            with self.subTest(key):
                failed = self.run_program("train", TINY, *self.small(), f"{key}={value}", "--dir", "run", "--resume")
                self.assertEqual((2, ""), (failed.returncode, failed.stdout))
                self.assertEqual(f"thinwire: run was started with another recipe: {key} is {there} there and {here} here\n",
                                 failed.stderr)
        self.assert_as_before(before, self.left("run"))


if __name__ == "__main__":
    unittest.main()
