"""What a person sees: plain lines in a pipe, a live line and colour on a terminal, help."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import unittest

from program import PROGRAM, ROOT, TINY, ProgramTest

COLOUR = re.compile(r"\x1b\[\d+m")


class Terminal(ProgramTest):
    def on_a_terminal(self, *arguments, width=80, **environment):
        """All that the program prints on a terminal of so many columns."""
        ours, its = pty.openpty()
        fcntl.ioctl(its, termios.TIOCSWINSZ, struct.pack("HHHH", 24, width, 0, 0))
        clean = {key: value for key, value in os.environ.items() if key != "NO_COLOR"}
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

    def live_lines(self, text):
        return [line for line in re.findall(r"\r([^\r\n]*?)\x1b\[K", text) if line]

    def test_a_live_line_has_step_loss_speed_waiting_bytes_and_time_left(self):
        lines = self.live_lines(self.on_a_terminal("train", TINY, *self.small(60), "--dir", "run", width=120))
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(line, r"^  step +\d+/60  loss \d+\.\d{4}  +\S+ tokens/s  exposed +\d+ %  wire +\S+ MB(  ETA [\d:]+)?$")
        self.assertTrue(any("ETA" in line for line in lines))

    def test_a_live_line_never_exceeds_the_width(self):
        for width in (1, 5, 40, 79):
            with self.subTest(width):
                text = self.on_a_terminal("train", TINY, *self.small(40), "--dir", f"run{width}", width=width)
                for line in self.live_lines(text):
                    self.assertLess(len(line), max(width, 1))

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
        self.assertEqual("co2: gpt of 132.4k parameters, 2 replicas over no emulated link, 64 tokens a step", lines[0])
        self.assertRegex(lines[-3], r"^done: held-out loss \d+\.\d{4} after 12 steps, 768 tokens in \S+ s$")
        self.assertRegex(lines[-1], r"^      weights [0-9a-f]{16} in run/model.safetensors$")

    def test_that_is_full_is_a_failure(self):
        with open("/dev/full", "w") as full:
            failed = subprocess.run([PROGRAM, "keys"], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(1, failed.returncode)
        self.assertRegex(failed.stderr, r"^thinwire: .*No space left on device\n$")


class Help(ProgramTest):
    def test_of_every_verb_has_an_example(self):
        top = self.run_program("--help")
        self.assertEqual((0, ""), (top.returncode, top.stderr))
        listed = re.split("subcommands:", top.stdout, flags=re.IGNORECASE)[1]
        verbs = re.findall(r"^  (\w+)  ", listed, re.MULTILINE)
        self.assertEqual({"train", "compare", "keys"}, set(verbs))
        self.assertIn("thinwire compare recipes/demo.toml", top.stdout)
        for verb in verbs:
            shown = self.run_program(verb, "--help")
            self.assertEqual((0, ""), (shown.returncode, shown.stderr))
            self.assertRegex(shown.stdout, rf"Examples:\n  thinwire {verb} ")

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
