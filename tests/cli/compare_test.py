"""thinwire compare: the same run under several strategies."""

import json
import signal
import unittest

from program import RESULT, TINY, ProgramTest


class Compare(ProgramTest):
    def results(self, *arguments, recipe=TINY):
        events = self.events("compare", recipe, *self.small(), "--dir", "compared", *arguments)
        return {event["strategy"]: event for event in events if event["event"] == "result"}

    def recipe_of(self, strategy):
        return (self.home / "compared" / strategy / "recipe.toml").read_text()

    def recipe(self, text):
        (self.home / "mine.toml").write_text(text)
        return "mine.toml"

    def test_gives_one_result_a_strategy_in_the_order_asked(self):
        results = self.results("--strategies", "co2,all_reduce,diloco")
        self.assertEqual(["co2", "all_reduce", "diloco"], list(results))
        for result in results.values():
            shape = {key: type(value) for key, value in result.items()}
            self.assertEqual(float, shape.pop("noise_scale", float))  # where gradients are averaged, once it is known
            self.assertEqual(RESULT, shape)
        lines = (self.home / "compared/results.jsonl").read_text().splitlines()
        self.assertEqual(list(results.values()), [json.loads(line) for line in lines])

    def test_keeps_a_whole_run_of_each(self):
        self.results("--strategies", "all_reduce,co2")
        for strategy in ("all_reduce", "co2"):
            self.assertIn(f'name = "{strategy}"', self.recipe_of(strategy))
            self.assertEqual(12, self.metrics(f"compared/{strategy}")[-1]["step"])

    def test_all_reduce_sends_more(self):
        results = self.results("--strategies", "all_reduce,co2")
        self.assertGreater(results["all_reduce"]["wire_bytes"], 2 * results["co2"]["wire_bytes"])

    def test_a_strategy_key_goes_to_those_that_have_it(self):
        self.results("strategy.period=4", "strategy.momentum=0.3", "strategy.bucket=64KiB", "--strategies",
                     "all_reduce,local_sgd,slowmo")
        self.assertIn('bucket = "64KiB"', self.recipe_of("all_reduce"))
        self.assertNotIn("period", self.recipe_of("all_reduce"))
        self.assertIn("period = 4", self.recipe_of("local_sgd"))
        self.assertNotIn("momentum = 0.3", self.recipe_of("local_sgd"))
        self.assertIn("momentum = 0.3", self.recipe_of("slowmo"))

    def test_a_strategy_key_that_none_has_is_an_error(self):
        failed = self.run_program("compare", TINY, *self.small(), "strategy.bucket=1MiB", "--strategies", "slowmo,co2")
        self.assertEqual((2, ""), (failed.returncode, failed.stdout))
        self.assertIn("strategy.bucket: none of slowmo, co2 has it", failed.stderr)

    def test_a_section_of_a_strategy_overrides_any_key_for_it_alone(self):
        path = self.recipe('[model]\ncontext = 16\n[optim]\nlr = 0.001\n[strategy]\nperiod = 4\n[compare.co2]\n'
                           'strategy.period = 6\noptim.lr = 0.002\n[compare.slowmo.train]\nseed = 9\n')
        results = self.results("--strategies", "local_sgd,slowmo,co2", recipe=path)
        self.assertEqual(3, len({result["weights_hash"] for result in results.values()}))
        for strategy, lines in {"local_sgd": ["period = 4", "lr = 0.001", "seed = 1"],
                                "slowmo": ["period = 4", "lr = 0.001", "seed = 9"],
                                "co2": ["period = 6", "lr = 0.002", "seed = 1"]}.items():
            for line in lines:
                self.assertIn(f"\n{line} ", self.recipe_of(strategy))

    def test_gives_the_hash_that_train_gives_for_the_same_recipe(self):
        results = self.results("--strategies", "slowmo")
        alone = self.events("train", "compared/slowmo/recipe.toml", "--dir", "alone")[-1]
        self.assertEqual(results["slowmo"]["weights_hash"], alone["weights_hash"])

    def test_checks_all_recipes_before_the_first_run(self):
        path = self.recipe("[compare.co2]\noptim.lr = -1\n")
        failed = self.run_program("compare", path, *self.small(), "--strategies", "all_reduce,co2", "--dir", "compared")
        self.assertEqual(2, failed.returncode)
        self.assertIn("optim.lr must be above 0", failed.stderr)
        self.assertFalse((self.home / "compared").exists())

    def test_a_section_of_a_strategy_that_does_not_exist_is_an_error(self):
        failed = self.run_program("compare", self.recipe("[compare.c02]\noptim.lr = 1\n"), "--strategies", "co2")
        self.assertEqual(2, failed.returncode)
        self.assertIn("[compare.c02]: there is no strategy 'c02'; did you mean 'co2'?", failed.stderr)

    def test_a_section_of_a_strategy_cannot_make_it_another(self):
        failed = self.run_program("compare", self.recipe('[compare.co2]\nstrategy.name = "slowmo"\n'), "--strategies", "co2")
        self.assertEqual(2, failed.returncode)
        self.assertIn("compare.co2.strategy.name cannot be set", failed.stderr)

    def test_prints_a_table_with_the_gap_to_all_reduce(self):
        shown = self.run_program("compare", TINY, *self.small(), "--strategies", "all_reduce,co2", "--dir", "compared")
        self.assertEqual((0, ""), (shown.returncode, shown.stderr))
        rows = [line.split() for line in shown.stdout.splitlines()]
        header = next(row for row in rows if row[:2] == ["strategy", "loss"])
        self.assertEqual("strategy loss gap to all_reduce steps seconds tokens/s utilisation exposed s wire".split(), header)
        reduced, co2 = (next(row for row in rows if row[:1] == [name]) for name in ("all_reduce", "co2"))
        self.assertEqual("+0.0000", reduced[2])
        self.assertAlmostEqual(float(co2[1]) - float(reduced[1]), float(co2[2]), delta=2e-4)

    SCHEDULES = ["gpipe", "1f1b", "async_1f1b", "steady"]

    def schedules(self, *arguments, **keys):
        return ["compare", "plain.toml", *self.small(20, workers__stages=2, workers__replicas=1, optim__name="muon",
                                                     pipeline__microbatches=2, **keys), *arguments]

    def test_compares_schedules_of_a_pipeline(self):
        events = self.events(*self.schedules("--schedules", ",".join(self.SCHEDULES), "--dir", "compared"))
        results = {event["schedule"]: event for event in events if event["event"] == "result"}
        self.assertEqual(self.SCHEDULES, list(results))
        self.assertEqual({"all_reduce"}, {event["strategy"] for event in events})
        self.assertEqual(results["gpipe"]["weights_hash"], results["1f1b"]["weights_hash"])
        self.assertEqual(3, len({result["weights_hash"] for result in results.values()}))
        self.assertEqual(2, results["steady"]["sync_steps"])  # 10% of 20
        self.assertEqual({"steady"}, {name for name, result in results.items() if "sync_utilisation" in result})
        for name, lines in {"gpipe": ['preset = "none"', 'schedule = "gpipe"', "microbatches = 2", 'rest = "adamw"'],
                            "async_1f1b": ['preset = "none"', "predict = 0.0", "sync_steps = 0", 'rest = "adamw"'],
                            "steady": ['schedule = "async_1f1b"', "predict = 1.0", "sync_steps = 2", "microbatches = 2",
                                       'rest = "nadamw"']}.items():
            for line in lines:
                self.assertIn(f"\n{line} ", self.recipe_of(name))
        self.assertIn("<th>gap to gpipe<small>", (self.home / "compared/report.html").read_text())
        self.assertIn("The first <strong>2</strong> steps went by 1f1b", (self.home / "compared/report.html").read_text())

    def test_prints_schedules_with_the_gap_to_the_first_synchronous_one(self):
        shown = self.run_program(*self.schedules("--schedules", "steady,1f1b", "--dir", "compared"))
        self.assertEqual((0, ""), (shown.returncode, shown.stderr))
        rows = [line.split() for line in shown.stdout.splitlines()]
        self.assertIn("schedule loss gap to 1f1b".split(), [row[:5] for row in rows])
        self.assertRegex(shown.stdout, r"\nsteady +[\d.]+ .* \d+, then \d+ % ")
        again = self.run_program(*self.schedules("--schedules", "steady,1f1b", "--dir", "compared", "--resume"))
        self.assertEqual((0, ""), (again.returncode, again.stderr))

    def test_wrong_comparisons_of_schedules_say_what_was_wanted(self):
        for arguments, text in (
                (["--schedules", "gpip"], "there is no schedule 'gpip'; did you mean 'gpipe'?"),
                (["--schedules", "gpipe,gpipe"], "schedule 'gpipe' is named twice"),
                (["--schedules", ""], "--schedules wants names with commas between, like gpipe,steady"),
                (["--schedules", "gpipe", "--strategies", "co2"], "are two comparisons: give one of them"),
                (["--schedules", "gpipe", "workers.stages=1"], "workers.stages must be at least 2, got 1"),
                (["--schedules", "gpipe", "pipeline.hopp=1"], "unknown key pipeline.hopp: none of gpipe has it"),
                (["--schedules", "gpipe,steady", "optim.name=adamw"], 'needs optim.name = "muon", got "adamw"')):
            failed = self.run_program(*self.schedules(*arguments, "--dir", "compared"))
            self.assertEqual((2, ""), (failed.returncode, failed.stdout), arguments)
            self.assertIn(text, failed.stderr)
            self.assertFalse((self.home / "compared").exists(), arguments)

    def test_a_signal_stops_all_that_is_left(self):
        process = self.start_program("compare", TINY, *self.small(100000), "--strategies", "co2,all_reduce", "--json",
                                     "--dir", "compared")
        while json.loads(process.stdout.readline())["event"] != "step":
            pass
        process.send_signal(signal.SIGTERM)
        last = [json.loads(line) for line in process.stdout][-1]
        self.assertEqual((0, "thinwire: stopping after this step; a second signal ends it at once\n"),
                         (process.wait(), process.stderr.read()))
        self.assertEqual(("stopped", "co2"), (last["event"], last["strategy"]))
        self.assertFalse((self.home / "compared/all_reduce").exists())
        self.assertFalse((self.home / "compared/results.jsonl").exists())


    def test_what_was_stopped_goes_on_by_resume(self):
        keys = self.small(40, train__save_every=10)
        whole = self.events("compare", "plain.toml", *keys, "--strategies", "local_sgd,all_reduce", "--dir", "whole")
        process = self.start_program("compare", "plain.toml", *keys, "link.replicas=20mbit", "--strategies",
                                     "local_sgd,all_reduce", "--json", "--dir", "run")
        for line in process.stdout:
            event = json.loads(line)
            if event["event"] == "step" and event["strategy"] == "all_reduce" and event["step"] >= 12:
                break
        process.kill()
        process.wait()
        again = self.events("compare", "plain.toml", *keys, "--strategies", "local_sgd,all_reduce", "--dir", "run", "--resume")
        self.assertEqual({"all_reduce"}, {event["strategy"] for event in again})
        self.assertEqual(10, again[0]["from_step"])
        hashes = lambda events: {e["strategy"]: e["weights_hash"] for e in events if e["event"] == "result"}
        self.assertEqual(hashes(whole)["all_reduce"], hashes(again)["all_reduce"])
        lines = [json.loads(line) for line in (self.home / "run/results.jsonl").read_text().splitlines()]
        self.assertEqual(hashes(whole), {e["strategy"]: e["weights_hash"] for e in lines})
        table = self.run_program("compare", "plain.toml", *keys, "--strategies", "local_sgd,all_reduce", "--dir", "run", "--resume")
        self.assertEqual(0, table.returncode, table.stderr)
        self.assertRegex(table.stdout, r"local_sgd +\d")

    def test_a_strategy_that_diverges_is_named_and_the_others_go_on(self):
        recipe = (self.home / "plain.toml").read_text()
        (self.home / "wild.toml").write_text(recipe + "\n[compare.local_sgd]\noptim.lr = 1000.0\noptim.weight_decay = 1.0\n"
                                             "optim.warmup_steps = 0\n")
        done = self.run_program("compare", "wild.toml", *self.small(40, train__save_every=1), "--strategies",
                                "local_sgd,all_reduce", "--dir", "run")
        self.assertEqual(1, done.returncode)
        self.assertRegex(done.stderr, "^thinwire: 1 of 2 strategies failed; local_sgd: .*try a smaller optim.lr")
        self.assertRegex(done.stdout, r"local_sgd +failed")
        self.assertRegex(done.stdout, r"all_reduce +\d")
        self.assertTrue((self.home / "run/report.html").exists())
        # What it kept is from before: all of it can be read, and is finite.
        kept = self.run_program("info", "run/local_sgd")
        self.assertIn("whole", kept.stdout)
        self.assertNotIn("DAMAGED", kept.stdout)


if __name__ == "__main__":
    unittest.main()
