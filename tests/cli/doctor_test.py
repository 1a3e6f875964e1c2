"""thinwire doctor: what works here, what does not, what to do."""

import json
import os
import re
import unittest

from program import ProgramTest

CHECKS = ["thinwire", "compiler", "LibTorch", "CPU", "CPU features", "threads", "MPI", "CUDA", "disk", "runs/", "text",
          "clock"]


class Doctor(ProgramTest):
    def checks(self, **options):
        done = self.run_program("doctor", "--json", **options)
        checks = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual(CHECKS, [check["what"] for check in checks])
        return done, {check["what"]: check for check in checks}

    def test_looks_at_everything_and_finds_no_problem_here(self):
        done, checks = self.checks()
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        for check in checks.values():
            self.assertIn(check["verdict"], ("ok", "note"))
            self.assertEqual(check["verdict"] != "ok", "advice" in check)

    def test_tells_versions_and_where_libtorch_is(self):
        checks = self.checks()[1]
        self.assertEqual(self.run_program("--version").stdout, f"thinwire {checks['thinwire']['value']}\n")
        self.assertRegex(checks["compiler"]["value"], r"^(GCC|Clang) \d+\.")
        version, folder = re.fullmatch(r"(\d+\.\d+\.\d+) in (/.*)", checks["LibTorch"]["value"]).groups()
        self.assertGreaterEqual(tuple(map(int, version.split("."))), (2, 9))
        self.assertTrue(os.path.exists(os.path.join(folder, "libtorch_cpu.so")))

    def test_tells_how_many_threads_were_asked_for(self):
        checks = self.checks(env=os.environ | {"OMP_NUM_THREADS": "1"})[1]
        self.assertIn("1 by default, OMP_NUM_THREADS 1;", checks["threads"]["value"])

    def test_says_what_is_built_in_and_what_is_not(self):
        checks = self.checks()[1]
        self.assertEqual("ok", checks["MPI"]["verdict"], "make setup installs one")
        self.assertRegex(checks["MPI"]["value"], r"built in: .*\d")
        self.assertEqual(("note", "not built in this version"), (checks["CUDA"]["verdict"], checks["CUDA"]["value"]))
        self.assertIn("NVIDIA driver", checks["CUDA"]["advice"])

    def test_a_problem_has_advice_and_an_exit_code(self):
        (self.home / "runs").write_text("in the way")
        done, checks = self.checks()
        self.assertEqual((1, "thinwire: 1 problem found\n"), (done.returncode, done.stderr))
        self.assertEqual("problem", checks["runs/"]["verdict"])
        self.assertIn("--dir", checks["runs/"]["advice"])

    @unittest.skipIf(os.geteuid() == 0, "root can write everywhere")
    def test_a_folder_that_cannot_be_written_is_a_problem(self):
        self.home.chmod(0o500)
        self.addCleanup(self.home.chmod, 0o700)
        self.assertEqual("problem", self.checks()[1]["runs/"]["verdict"])

    def test_shows_a_line_a_check_with_advice_below(self):
        shown = self.run_program("doctor")
        self.assertEqual((0, ""), (shown.returncode, shown.stderr))
        lines = [line for line in shown.stdout.splitlines() if not line.startswith(" ")]
        self.assertEqual(CHECKS, [line[8:22].strip() for line in lines])
        self.assertRegex(shown.stdout, r"\nnote    CUDA          not built in this version\n {22}\w+")

    def test_has_colour_on_a_terminal_unless_it_is_unwanted(self):
        self.assertIn("\x1b[32mok", self.on_a_terminal("doctor"))
        self.assertNotIn("\x1b", self.on_a_terminal("doctor", NO_COLOR="1"))

    def test_writes_nothing(self):
        before = self.left()
        self.checks()
        self.assertEqual(before, self.left())


if __name__ == "__main__":
    unittest.main()
