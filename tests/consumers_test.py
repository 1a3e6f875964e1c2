"""The library as others use it, from outside the tree: installed and found, and one room as a subdirectory."""
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(HERE)
BUILD = os.environ["THINWIRE_BUILD"]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout


def build_and_run(source, place, *settings):
    """Configures and builds a consumer in `place`, and returns what it prints."""
    run("cmake", "-S", os.path.join(HERE, "consumers", source), "-B", place, "-G", "Ninja", "-DCMAKE_BUILD_TYPE=Release",
        f"-DTHINWIRE_PYTHON={sys.executable}", *settings)
    run("cmake", "--build", place)
    return run(os.path.join(place, "consumer"))


class Consumers(unittest.TestCase):
    def setUp(self):
        place = tempfile.TemporaryDirectory()
        self.addCleanup(place.cleanup)
        self.place = place.name

    def test_an_installed_library_is_found_and_trains(self):
        prefix = os.path.join(self.place, "prefix")
        run("cmake", "--install", BUILD, "--prefix", prefix)
        first, second = build_and_run("installed", os.path.join(self.place, "build"),
                                      f"-DCMAKE_PREFIX_PATH={prefix}").split()
        self.assertEqual(first, second)
        self.assertTrue(run(os.path.join(prefix, "bin", "thinwire"), "--version").strip())

    def test_another_torch_is_refused(self):
        prefix = os.path.join(self.place, "prefix")
        run("cmake", "--install", BUILD, "--prefix", prefix)
        for folder, _, files in os.walk(prefix):
            if "thinwire-config.cmake" in files:
                config = os.path.join(folder, "thinwire-config.cmake")
        with open(config) as file:
            text = file.read()
        start = text.index('TORCH "') + len('TORCH "')
        with open(config, "w") as file:
            file.write(text[:start] + "2.8.0" + text[text.index('"', start):])
        with self.assertRaisesRegex(AssertionError, "was built with torch 2.8.0"):
            build_and_run("installed", os.path.join(self.place, "build"), f"-DCMAKE_PREFIX_PATH={prefix}")

    def test_one_room_of_a_subdirectory_is_built_without_the_rest(self):
        printed = build_and_run("one_room", os.path.join(self.place, "build"), f"-DTHINWIRE={ROOT}",
                                "-DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON")
        self.assertEqual(printed.strip(), "4000")


if __name__ == "__main__":
    unittest.main()
