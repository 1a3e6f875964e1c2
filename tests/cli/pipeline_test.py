"""A model cut into stages, as train and info show it."""

import re
import unittest

from program import RESULT, TINY, ProgramTest


class Pipeline(ProgramTest):
    def staged(self, **keys):
        return self.small(6, workers__stages=2, link__stages="1gbit/1ms", **keys)

    def shown(self, *arguments):
        done = self.run_program("train", TINY, *arguments)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout.splitlines()

    def test_starts_with_who_is_joined_by_what_and_a_chart_of_the_schedule(self):
        lines = self.shown(*self.staged(link__replicas="100mbit"), "--dir", "run")
        self.assertIn(", 2 replicas of 2 stages over 100mbit and 1gbit/1ms between stages, ", lines[0])
        self.assertEqual("  async_1f1b with hop 1, if F takes 1, B 2 and transfers nothing:", lines[1])
        self.assertRegex(lines[2], "^  0-9 forward .* idle ")
        self.assertRegex(lines[3], r"^  stage 0  01\.\.aa2bb3cc4.* +\d+ %$")
        self.assertRegex(lines[4], r"^  stage 1  \.0aa1bb2cc.* +\d+ %$")
        self.assertRegex(lines[5], "^  step ")

    def test_ends_with_what_a_stage_sent(self):
        ended = "\n".join(self.shown(*self.staged(), "--dir", "two", "--quiet"))
        self.assertRegex(ended, r", \S+ MB sent by a stage to other replicas and \S+ MB to its neighbours\n")
        alone = "\n".join(self.shown(*self.staged(workers__replicas=1), "--dir", "one", "--quiet"))
        self.assertRegex(alone, r", \S+ MB sent by a stage to its neighbours\n")

    def test_the_chart_fits_the_terminal_and_is_left_out_of_a_small_one(self):
        for width, charts in ((120, 2), (62, 2), (40, 0)):
            text = self.on_a_terminal("train", TINY, *self.staged(), "--dir", f"run{width}", width=width)
            lines = re.findall(r"(?m)^  stage \d  .*%", text)
            self.assertEqual(charts, len(lines), text)
            self.assertLessEqual(max(map(len, lines), default=0), width)

    def test_the_chart_is_for_people_and_for_a_beginning(self):
        self.assertEqual([], [line for line in self.shown(*self.staged(), "--dir", "run", "--quiet") if "stage 0" in line])
        self.assertEqual([], [line for line in self.shown(*self.staged(), "--dir", "run", "--resume") if "stage 0" in line])
        compared = self.run_program("compare", TINY, *self.staged(), "--strategies", "all_reduce,co2", "--dir", "compared")
        self.assertNotIn("stage 0", compared.stdout)

    def test_tells_programs_about_stages(self):
        start, *_, done = self.events("train", TINY, *self.staged(), "--dir", "run")
        self.assertEqual((2, "1gbit/1ms"), (start["stages"], start["stage_link"]))
        self.assertEqual(RESULT | {"stage_bytes": float}, {key: type(value) for key, value in done.items()})
        (told,) = self.events("info", "run")
        self.assertEqual((2, "1gbit/1ms"), (told["stages"], told["stage_link"]))
        self.assertIn("2 replicas of 2 stages over no emulated link and 1gbit/1ms between stages",
                      self.run_program("info", "run").stdout)

    def test_one_stage_is_not_mentioned(self):
        start, *_, done = self.events("train", TINY, *self.small(2), "--dir", "run")
        for told in (start, done, *self.events("info", "run")):
            self.assertEqual([], [key for key in told if "stage" in key])
        self.assertFalse((self.home / "run/pipeline.json").exists())
        self.assertNotIn("stage", "".join(self.shown(*self.small(2), "--dir", "again")))


if __name__ == "__main__":
    unittest.main()
