"""What a person sees: plain lines in a pipe, a live line and colour on a terminal, help."""

import re
import subprocess
import unittest

from program import PROGRAM, ROOT, TINY, ProgramTest

COLOUR = re.compile(r"\x1b\[\d+m")


class Terminal(ProgramTest):
    def live_lines(self, text):
        return [line for line in re.findall(r"\r([^\r\n]*?)\x1b\[K", text) if line]

    def test_a_live_line_has_step_loss_speed_utilisation_bytes_and_time_left(self):
        lines = self.live_lines(self.on_a_terminal("train", TINY, *self.small(600), "--dir", "run", width=120))
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(line, r"^  step +\d+/600  loss \d+\.\d{4}  +\S+ tokens/s  util +\d+ %  wire +\S+ MB(  ETA [\d:]+)?$")
        self.assertTrue(any("ETA" in line for line in lines))

    def test_a_live_line_never_exceeds_the_width(self):
        for width in (1, 5, 40, 79):
            with self.subTest(width):
                text = self.on_a_terminal("train", TINY, *self.small(40), "--dir", f"run{width}", width=width)
                for line in self.live_lines(text):
                    self.assertLess(len(line), max(width, 1))

    def test_a_full_disk_behind_stdout_is_an_error_and_no_abort(self):
        with open("/dev/full", "w") as full:
            done = subprocess.run([PROGRAM, "train", TINY, *self.small(), "--dir", "run"], cwd=self.home, stdout=full,
                                  stderr=subprocess.PIPE, text=True)
        self.assertEqual(1, done.returncode, done.stderr)
        self.assertTrue(done.stderr.startswith("thinwire: "), done.stderr)

    def test_the_live_line_is_gone_at_the_end(self):
        text = self.on_a_terminal("train", TINY, *self.small(), "--dir", "run")
        cleared, last_words = text.rsplit("\x1b[K", 1)
        self.assertTrue(cleared.endswith("\x1b[K\r"), "the live line, then an empty one")
        self.assertRegex(last_words, r"^  step +12  held-out loss .*\r\ndone: ")

    def test_a_finished_run_resumed_shows_no_progress_it_did_not_make(self):
        self.on_a_terminal("train", TINY, *self.small(), "--dir", "run")
        text = self.on_a_terminal("train", TINY, *self.small(), "--dir", "run", "--resume")
        self.assertEqual([], self.live_lines(text))
        self.assertIn("resumed after step 12", text)

    def test_the_table_has_colour_unless_it_is_unwanted(self):
        compare = ["compare", TINY, *self.small(2), "--strategies", "all_reduce,co2", "--dir"]
        self.assertRegex(self.on_a_terminal(*compare, "1"), COLOUR)
        self.assertNotRegex(self.on_a_terminal(*compare, "2", NO_COLOR="1"), COLOUR)
        self.assertRegex(self.on_a_terminal(*compare, "3", NO_COLOR=""), COLOUR)

    def test_a_live_line_is_drawn_only_when_it_changed(self):
        text = self.on_a_terminal("train", TINY, *self.small(60), "--dir", "run", width=9)  # all look alike when cut
        lines = self.live_lines(text)
        self.assertTrue(lines)
        self.assertFalse(any(one == two for one, two in zip(lines, lines[1:])))

    def test_a_terminal_that_cannot_go_back_gets_plain_lines(self):
        self.assertNotIn("\x1b", self.on_a_terminal("train", TINY, *self.small(2), "--dir", "run", TERM="dumb"))

    def test_json_is_plain_on_a_terminal_too(self):
        self.assertNotIn("\x1b", self.on_a_terminal("train", TINY, *self.small(2), "--dir", "run", "--json"))


class Pipe(ProgramTest):
    def test_has_plain_lines_only(self):
        for verb in ("train", "compare"):
            shown = self.run_program(verb, TINY, *self.small(train__eval_every=4), "--dir", verb)
            self.assertEqual((0, ""), (shown.returncode, shown.stderr))
            self.assertNotRegex(shown.stdout, r"[\x00-\x09\x0b-\x1f\x7f]")

    def test_says_what_is_trained_and_what_came_out(self):
        lines = self.run_program("train", TINY, *self.small(), "--dir", "run").stdout.splitlines()
        self.assertEqual("co2: gpt of 132.4k parameters, 2 replicas over no emulated link, 64 tokens a step, adamw inside", lines[0])
        self.assertRegex(lines[-3], r"^      adamw took \d+ % of the computing$")
        self.assertRegex(lines[-5], r"^done: held-out loss \d+\.\d{4} after 12 steps, 768 tokens in \S+ s$")
        self.assertRegex(lines[-2], r"^      weights [0-9a-f]{16} in run/model.safetensors$")
        self.assertEqual("      report in run/report.html", lines[-1])

    def test_that_is_full_is_a_failure(self):
        for verb, why in (("keys", "stdout: No space left on device"), ("doctor", "stdout: not all could be written")):
            with open("/dev/full", "w") as full:
                failed = subprocess.run([PROGRAM, verb], stdout=full, stderr=subprocess.PIPE, text=True)
            self.assertEqual((1, f"thinwire: {why}\n"), (failed.returncode, failed.stderr))


class Quiet(ProgramTest):
    def test_train_prints_its_result_only(self):
        keys = self.small(train__eval_every=4)
        lines = self.run_program("train", TINY, *keys, "--dir", "run", "--quiet").stdout.splitlines()
        self.assertRegex(lines[0], "^done: ")
        self.assertEqual([], [line for line in lines if re.match("co2:|  step", line)])
        events = self.events("train", TINY, *keys, "--dir", "again", "--quiet")
        self.assertEqual(["done"], [event["event"] for event in events])

    def test_compare_prints_its_table_only(self):
        compare = ["compare", TINY, *self.small(2), "--strategies", "all_reduce,co2", "--quiet", "--dir"]
        lines = self.run_program(*compare, "1").stdout.splitlines()
        self.assertEqual(["strategy", "all_reduce", "co2"], [line.split()[0] for line in lines if line][:3])
        self.assertEqual(["result", "result"], [event["event"] for event in self.events(*compare, "2")])

    def test_shows_no_live_line(self):
        text = self.on_a_terminal("train", TINY, *self.small(), "--dir", "run", "--quiet")
        self.assertRegex(text, r"^done: ")
        self.assertNotIn("\x1b", text)


class Help(ProgramTest):
    def test_of_every_verb_has_an_example(self):
        top = self.run_program("--help")
        self.assertEqual((0, ""), (top.returncode, top.stderr))
        listed = top.stdout.split("Verbs:\n")[1]
        verbs = re.findall(r"^  (\w+)  ", listed, re.MULTILINE)
        self.assertLessEqual({"train", "compare", "keys", "sample", "info", "bench", "doctor", "completion"}, set(verbs))
        self.assertIn("thinwire compare recipes/demo.toml", top.stdout)
        for verb in verbs:
            shown = self.run_program(verb, "--help")
            self.assertEqual((0, ""), (shown.returncode, shown.stderr))
            self.assertRegex(shown.stdout, rf"^thinwire {verb}: \S.*\n\nUsage: thinwire {verb}")
            self.assertRegex(shown.stdout, rf"\nExamples:\n  thinwire {verb}\b")
            self.assertLessEqual(max(map(len, shown.stdout.splitlines())), 110)

    def test_examples_name_recipes_and_keys_that_exist(self):
        for verb in ("train", "compare"):
            for example in re.findall(rf"^  thinwire {verb} (.*)", self.run_program(verb, "--help").stdout, re.MULTILINE):
                words = [word for word in example.split() if "=" in word and not word.startswith("--")]
                recipe = ROOT / example.split()[0]
                with self.subTest(example):
                    checked = self.run_program("keys", recipe, *words)
                    self.assertEqual((0, ""), (checked.returncode, checked.stderr))

    def test_version_is_one_line(self):
        shown = self.run_program("--version")
        self.assertEqual((0, ""), (shown.returncode, shown.stderr))
        self.assertRegex(shown.stdout, r"^thinwire \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    unittest.main()
