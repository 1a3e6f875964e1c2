"""thinwire train, from recipe to run directory."""

import unittest

from program import RESULT, ROOT, STRATEGIES, TINY, ProgramTest

STEP = {"event": str, "strategy": str, "step": int, "tokens": int, "loss": float, "lr": float, "seconds": float,
        "compute_s": float, "exposed_s": float, "wire_bytes": float}


class TrainJson(ProgramTest):
    def test_ends_with_done_and_every_measure(self):
        *before, done = self.events("train", TINY, *self.small(), "--dir", "run")
        self.assertEqual("done", done["event"])
        self.assertEqual(RESULT, {key: type(value) for key, value in done.items()})
        self.assertEqual(("co2", 12, 12 * 2 * 2 * 16), (done["strategy"], done["steps"], done["tokens"]))
        self.assertRegex(done["weights_hash"], "^[0-9a-f]{16}$")
        self.assertAlmostEqual(done["utilisation"], done["compute_s"] / (done["compute_s"] + done["exposed_s"]))
        self.assertAlmostEqual(done["tokens_per_s"], done["tokens"] / done["seconds"], places=3)
        self.assertGreater(done["wire_bytes"], 0)
        self.assertGreater(done["setup_bytes"], 0)
        self.assertNotIn("done", [event["event"] for event in before])

    def test_prints_an_event_a_step_a_save_and_an_evaluation(self):
        events = self.events("train", TINY, *self.small(train__eval_every=6, train__save_every=5), "--dir", "run")
        of = lambda name: [event for event in events if event["event"] == name]
        self.assertEqual(list(range(1, 13)), [event["step"] for event in of("step")])
        for event in of("step"):
            self.assertEqual(STEP, {key: type(value) for key, value in event.items()})
        self.assertEqual([5, 10, 12], [event["step"] for event in of("saved")])
        self.assertEqual([(6, None), (12, None), (12, True)], [(e["step"], e.get("final")) for e in of("eval")])
        self.assertEqual([0], [event["from_step"] for event in of("start")])
        self.assertEqual({"co2"}, {event["strategy"] for event in events})

    def test_learns(self):
        steps = [e for e in self.events("train", TINY, *self.small(40), "--dir", "run") if e["event"] == "step"]
        self.assertLess(steps[-1]["loss"], steps[0]["loss"] - 1)

    def test_one_replica_sends_nothing(self):
        done = self.train(*self.small(workers__replicas=1), "--dir", "run")
        self.assertEqual((0, 0, 0), (done["wire_bytes"], done["setup_bytes"], done["finish_bytes"]))

    def test_trains_every_model(self):
        models = ({"model__name": "mlp"}, {"model__tied": "true"}, {"model__heads": 4, "model__layers": 1})
        for number, keys in enumerate(models):
            with self.subTest(keys):
                self.assertEqual("done", self.train(*self.small(3, **keys), "--dir", f"run{number}")["event"])

    def test_takes_tokens_for_a_length(self):
        done = self.train(*self.small(train__tokens=300), "--dir", "run")  # 64 tokens a step
        self.assertEqual(5, done["steps"])


class TrainSeconds(ProgramTest):
    def test_stops_when_the_time_is_up(self):
        done = self.train(*self.small(train__seconds=0.3), "--dir", "run")
        self.assertGreaterEqual(done["seconds"], 0.25)
        self.assertLess(done["seconds"], 20)  # a step is milliseconds, but the machine may be busy

    def test_gives_the_weights_of_as_many_steps_at_a_constant_rate(self):
        timed = self.train(*self.small(train__seconds=0.3), "--dir", "timed")
        counted = self.train(*self.small(timed["steps"], optim__schedule="constant"), "--dir", "counted")
        self.assertEqual(timed["steps"], counted["steps"])
        self.assertEqual(timed["weights_hash"], counted["weights_hash"])

    def test_a_resumed_run_whose_time_was_up_does_no_further_step(self):
        timed = self.train(*self.small(train__seconds=0.3), "--dir", "run")
        again = self.train(*self.small(train__seconds=0.3), "--dir", "run", "--resume")
        self.assertEqual((timed["steps"], timed["weights_hash"]), (again["steps"], again["weights_hash"]))


class WeightsHash(ProgramTest):
    def hashes(self, *arguments):
        results = self.events("compare", TINY, *self.small(), "--strategies", ",".join(STRATEGIES), *arguments)
        return {event["strategy"]: event["weights_hash"] for event in results if event["event"] == "result"}

    def test_depends_on_the_recipe_and_not_on_the_link_or_the_run(self):
        unlinked = self.hashes("--dir", "bare")
        self.assertEqual(STRATEGIES, list(unlinked))
        self.assertEqual(unlinked, self.hashes("--dir", "again"))
        self.assertEqual(unlinked, self.hashes("link.replicas=30mbit", "--dir", "thin"))
        self.assertEqual(len(STRATEGIES), len(set(unlinked.values())), "each strategy is another algorithm")
        self.assertEqual(unlinked["co2"], self.weights_hash(*self.small(), "--dir", "alone"))
        self.assertEqual(unlinked["co2"], self.weights_hash(*self.small(), "link.replicas=100mbit/20ms", "--dir", "far"))

    def test_changes_with_the_seed_and_not_with_what_is_looked_at(self):
        first = self.weights_hash(*self.small(), "--dir", "1")
        self.assertNotEqual(first, self.weights_hash(*self.small(train__seed=2), "--dir", "2"))
        looked = self.small(train__eval_every=3, train__save_every=2, train__eval_windows=5)
        self.assertEqual(first, self.weights_hash(*looked, "--dir", "3"))


class RunDirectory(ProgramTest):
    def test_holds_recipe_metrics_checkpoints_and_model(self):
        self.train(*self.small(train__save_every=5), "--dir", "run")
        self.assertLessEqual({"recipe.toml", "metrics.jsonl", "checkpoints", "model.safetensors"},
                             {path.name for path in (self.home / "run").iterdir()})
        self.assertEqual([], [str(path) for path in (self.home / "run").rglob("*.tmp")])
        self.assertEqual({"step-10", "step-12"}, {path.name for path in (self.home / "run/checkpoints").iterdir()})
        self.assertEqual({"manifest.json", "all.safetensors", "replica-0.safetensors", "replica-1.safetensors"},
                         {path.name for path in (self.home / "run/checkpoints/step-12").iterdir()})

    def test_metrics_are_the_events_of_steps_and_evaluations(self):
        events = self.events("train", TINY, *self.small(train__eval_every=6), "--dir", "run")
        told = [{k: v for k, v in e.items() if k != "strategy"} for e in events if e["event"] in ("step", "eval")]
        self.assertEqual(told, self.metrics("run"))

    def test_recipe_is_complete_and_makes_the_same_run_again(self):
        done = self.train(*self.small(), "--dir", "run")
        stored = (self.home / "run/recipe.toml").read_text()
        every = self.run_program("keys", TINY, *self.small()).stdout
        self.assertEqual(every, stored)
        again = self.events("train", "run/recipe.toml", "--dir", "again")[-1]
        self.assertEqual(done["weights_hash"], again["weights_hash"])
        self.assertEqual(stored, (self.home / "again/recipe.toml").read_text())

    def test_model_is_equal_however_the_weights_came_about(self):
        self.train(*self.small(), "--dir", "1")
        self.train(*self.small(), "link.replicas=100mbit", "--dir", "2")
        self.assertEqual((self.home / "1/model.safetensors").read_bytes(), (self.home / "2/model.safetensors").read_bytes())

    def test_has_a_name_of_its_own_without_dir(self):
        self.train(*self.small(2))
        self.train(*self.small(2))
        runs = sorted(path.name for path in (self.home / "runs").iterdir())
        self.assertEqual(2, len(runs))
        for name in runs:
            self.assertTrue(name.startswith("tiny-co2-"), name)

    def test_may_exist_if_it_is_empty(self):
        (self.home / "run").mkdir()
        self.assertEqual("done", self.train(*self.small(2), "--dir", "run")["event"])


class Keys(ProgramTest):
    def test_prints_a_recipe_with_every_key(self):
        printed = self.run_program("keys", "strategy.name=co2", "strategy.period=7")
        self.assertEqual(0, printed.returncode)
        (self.home / "mine.toml").write_text(printed.stdout)
        self.assertEqual(printed.stdout, self.run_program("keys", "mine.toml").stdout)
        for line in ("[model]", "[strategy]", 'name = "co2"', "period = 7", "[link]", 'replicas = "none"', "[train]"):
            self.assertIn(line, printed.stdout)

    def test_every_recipe_of_the_tree_is_good(self):
        for path in sorted((ROOT / "recipes").glob("*.toml")):
            with self.subTest(path.name):
                printed = self.run_program("keys", path)
                self.assertEqual((0, ""), (printed.returncode, printed.stderr))


if __name__ == "__main__":
    unittest.main()
