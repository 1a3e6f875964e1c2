"""thinwire bench: figures are there, and add up; how large they are is not a test's business."""

import unittest

from program import ProgramTest

KERNELS = ["triad", "copy", "adamw", "sgd", "outer update, waiting", "outer update, late", "sum of squares"]


class Bench(ProgramTest):
    def test_kernels_are_measured_against_a_triad(self):
        figures = self.events("bench", "kernels")
        self.assertEqual(KERNELS, [figure["name"] for figure in figures])
        self.assertEqual(1, figures[0]["share_of_triad"])
        for figure in figures:
            self.assertGreater(figure["gigabytes_per_s"], 0)
            self.assertAlmostEqual(figure["share_of_triad"], figure["gigabytes_per_s"] / figures[0]["gigabytes_per_s"])

    def test_comm_is_measured_by_ranks_and_size_and_over_links(self):
        figures = self.events("bench", "comm")
        reduces = [figure for figure in figures if figure["event"] == "all_reduce"]
        self.assertEqual([(ranks, size) for ranks in (2, 4) for size in (1 << 16, 1 << 20, 1 << 24)],
                         [(figure["ranks"], figure["bytes"]) for figure in reduces])
        for figure in reduces:
            sent = 2 * (figure["ranks"] - 1) / figure["ranks"] * figure["bytes"]
            self.assertAlmostEqual(sent / figure["seconds"] / 1e9, figure["gigabytes_per_s"])
        links = [figure for figure in figures if figure["event"] == "link"]
        self.assertEqual(["1gbit/1ms", "100mbit/20ms", "10mbit/80ms"], [figure["link"] for figure in links])
        for figure in links:  # an emulated link may be late, but is never faster than it was asked to be
            self.assertGreaterEqual(figure["obtained_s"], 0.999 * figure["asked_s"])

    def test_shows_tables(self):
        shown = self.run_program("bench")
        self.assertEqual((0, ""), (shown.returncode, shown.stderr))
        for line in (r"  adamw +4 \+ 3 +\d+\.\d +\d+\.\d\d", r"  4 +16MiB +\d+\.\d{3} ms +\d+\.\d\d +\d+\.\d\d",
                     r"  100mbit/20ms +1MiB +123\.89 ms +\d+\.\d\d ms +\d+\.\d{3}"):
            self.assertRegex(shown.stdout, f"(?m)^{line}$")

    def test_an_unknown_part_is_refused(self):
        refused = self.run_program("bench", "kernel")
        self.assertEqual((2, ""), (refused.returncode, refused.stdout))
        self.assertEqual('thinwire: bench must be one of kernels, comm, got "kernel"; did you mean "kernels"?\n', refused.stderr)


if __name__ == "__main__":
    unittest.main()
