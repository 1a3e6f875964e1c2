"""Sources are formatted as .clang-format says; `make format` does it."""
import pathlib
import shutil
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
FOLDERS = ("thinwire", "cli", "tests", "benchmarks", "examples", "peers", "python")


class Format(unittest.TestCase):
    def test_every_source_is_formatted(self):
        tool = shutil.which("clang-format-14")  # versions differ in taste; `make setup` installs this one
        self.assertIsNotNone(tool, "clang-format-14 is missing: run `make setup`")
        files = [p for folder in FOLDERS for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cpp")]
        done = subprocess.run([tool, "--dry-run", "-Werror", *files], capture_output=True, text=True)
        first = "\n".join(done.stderr.splitlines()[:5])
        self.assertEqual(done.returncode, 0, f"run `make format`:\n{first}")


if __name__ == "__main__":
    unittest.main()
