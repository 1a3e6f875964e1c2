"""thinwire report: the page of runs, as a file and, where Chromium is installed, as somebody sees it."""

import html
import html.parser
import json
import os
import pathlib
import re
import shutil
import sys
import unittest

from program import ROOT, TINY, ProgramTest

sys.path.insert(0, str(ROOT / "tools"))
import browser  # noqa: E402

VOID = {"meta", "link", "br", "hr", "img", "input"}
STRATEGIES = {"all_reduce": (1, 2.9), "diloco": (10, 2.6), "co2": (10, 2.5)}  # period and loss of the made-up runs


class Page(html.parser.HTMLParser):
    """Elements in their order, the texts of some; complains about tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.wrong, self.all, self.text = [], [], [], ""
        self.feed(text)
        self.close()
        self.wrong += [f"<{tag}> is never closed" for tag in self.open]

    def handle_starttag(self, tag, attributes):
        self.all.append((tag, dict(attributes), tuple(self.open)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.all.append((tag, dict(attributes), tuple(self.open)))

    def handle_endtag(self, tag):
        if not self.open or self.open.pop() != tag:
            self.wrong.append(f"</{tag}> at {self.getpos()} closes something else")

    def handle_data(self, data):
        if not {"style", "script"} & set(self.open):
            self.text += " " + data

    def count(self, tag, **attributes):
        return sum(t == tag and attributes.items() <= a.items() for t, a, _ in self.all)


class ReportTest(ProgramTest):
    def make_run(self, name, strategy, period=10, loss=2.5, steps=120, entropy=None):
        """A run directory as `train` leaves it, of a run that never was."""
        run = self.home / name
        run.mkdir(parents=True)
        (run / "recipe.toml").write_text(
            f'[model]\nname = "gpt"\nlayers = 4\nwidth = 128\nheads = 4\ncontext = 64\n[data]\nsource = "text"\n'
            f'[strategy]\nname = "{strategy}"\nperiod = {period}\n[workers]\nreplicas = 4\n[link]\n'
            f'replicas = "100mbit/20ms"\n[train]\nseconds = 14\nbatch = 4\n')
        wait = 0.4 if period == 1 else 0.0 if strategy == "co2" else 0.04
        lines = []
        for step in range(1, steps + 1):
            at = {"step": step, "seconds": step * (0.1 + wait), "wire_bytes": 5.2e6 * (step // period)}
            fallen = loss + 3 / step
            lines.append({"event": "step", "tokens": step * 1024, "loss": fallen, "lr": 0.002, **at,
                          "compute_s": 0.1 * step, "exposed_s": wait * step})
            if step % 10 == 0:
                lines.append({"event": "eval", "val_loss": fallen + 0.05, **at,
                              "consensus_distance": 0 if period == 1 else 0.001 / step})
        (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        seconds = steps * (0.1 + wait)
        result = {"event": "done", "strategy": strategy, "steps": steps, "tokens": steps * 1024, "val_loss": loss,
                  "seconds": seconds, "compute_s": 0.1 * steps, "exposed_s": wait * steps, "utilisation": 0.1 / (0.1 + wait),
                  "tokens_per_s": steps * 1024 / seconds, "wire_bytes": 5.2e6 * (steps // period), "setup_bytes": 0,
                  "finish_bytes": 0, "finish_s": 0, "weights_hash": "0123456789abcdef", "parameters": 861312, "replicas": 4,
                  "link": "100mbit/20ms", "machine": {"cores": 2, "cpu": "A CPU"}, "command": "thinwire compare demo.toml"}
        if entropy:
            result["entropy"] = entropy
        (run / "result.json").write_text(json.dumps(result))
        rounds = [[0.5 * i, 0.5 * i + 0.5] for i in range(6)]
        rank = {"steps": rounds, "waits": [[end - 0.4, end] for _, end in rounds] if wait else [],
                "transfers": [[end - 0.45, end, 5.2e6] for _, end in rounds]}
        (run / "timeline.json").write_text(json.dumps({"from_step": steps - 5, "to_step": steps, "ranks": [rank] * 4}))
        return name

    def make_comparison(self, **options):
        for strategy, (period, loss) in STRATEGIES.items():
            self.make_run(f"compared/{strategy}", strategy, period, loss, **options)
        return "compared"

    def train_pipeline(self, name, **keys):
        """A real run of two replicas, each of two stages."""
        staged = self.small(24, strategy__name="all_reduce", workers__stages=2, link__stages="100mbit/1ms", **keys)
        done = self.train(*staged, "--dir", name)
        self.assertEqual("done", done["event"])
        return name

    def report(self, *arguments):
        done = self.run_program("report", *arguments)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        path = self.home / re.fullmatch(r"report: (.+)\n", done.stdout)[1]
        return path, path.read_text()

    def refused(self, *arguments):
        failed = self.run_program("report", *arguments)
        self.assertEqual((2, ""), (failed.returncode, failed.stdout))
        return failed.stderr


class Report(ReportTest):
    def test_is_one_well_formed_page_that_loads_nothing(self):
        path, text = self.report(self.make_comparison())
        page = Page(text)
        self.assertEqual([], page.wrong)
        self.assertEqual(self.home / "compared/report.html", path)
        for tag, attributes, _ in page.all:
            for name in ("src", "href"):
                self.assertRegex(attributes.get(name) or "data:", r"^(data:|#)", f"<{tag}> loads something")
        self.assertNotRegex(text, r"https?://|@import|url\((?!#)")

    def test_every_picture_has_a_title(self):
        page = Page(self.report(self.make_comparison())[1])
        after = [page.all[i + 1][0] for i, (tag, _, _) in enumerate(page.all) if tag == "svg"]
        self.assertGreater(len(after), 10)
        self.assertEqual({"title"}, set(after))

    def test_has_every_section(self):
        page = Page(self.report(self.make_comparison(entropy=2.2))[1])
        for wanted in ("steps", "seconds", "bytes", "distance"):
            self.assertEqual(1, page.count("figure", id=wanted), wanted)
        for wanted in ("timeline", "time", "again"):
            self.assertEqual(1, page.count("section", id=wanted), wanted)
        self.assertEqual(1, page.count("table", id="results"))
        self.assertEqual(7, page.count("line", **{"class": "floor"}))  # one chart at three sizes, two at two
        for words in ("861k", "100\u00a0Mbit/s, 20\u00a0ms", "2 cores, A CPU", "In the same 14 seconds", "2.5000", "−0.4000",
                      "thinwire compare demo.toml", "smoothed", "01234567", 'name = "diloco"', "yardstick"):
            self.assertIn(words, page.text)

    def test_curves_are_thinned_out(self):
        self.make_run("long", "co2", steps=3000)
        page = Page(self.report("long")[1])
        lengths = [len(a["points"].split()) for tag, a, _ in page.all if tag == "polyline"]
        self.assertEqual(600, max(lengths))

    def test_joins_runs_in_a_page_here(self):
        path, text = self.report(self.make_run("monday", "co2"), self.make_run("tuesday", "co2", loss=2.4))
        self.assertEqual(self.home / "report.html", path)
        self.assertIn("<strong>tuesday</strong> reached the lowest", text)

    def test_writes_where_it_is_told(self):
        path, _ = self.report(self.make_run("a", "co2"), "--out", "mine.html")
        self.assertEqual(self.home / "mine.html", path)
        self.assertFalse((self.home / "a/report.html").exists())
        self.assertIn("there is no directory", self.refused("a", "--out", "nowhere/mine.html"))

    def test_replaces_only_plain_files(self):
        self.make_run("a", "co2")
        os.mkfifo(self.home / "pipe")
        (self.home / "link").symlink_to("a/recipe.toml")
        before = self.left()
        for out, what in (("/dev/null", "a device"), ("/dev/stdout", "a link"), ("pipe", "a pipe"), ("link", "a link")):
            self.assertIn(f"{out} is {what}: only a plain file is replaced", self.refused("a", "--out", out))
        self.assertTrue(pathlib.Path("/dev/null").is_char_device())
        self.assertEqual(before, self.left())

    def test_tells_programs_where(self):
        self.assertEqual([{"event": "report", "path": "a/report.html"}],
                         self.events("report", self.make_run("a", "co2")))

    def test_what_is_missing_or_damaged_is_named(self):
        self.assertIn("there is no nowhere", self.refused("nowhere"))
        self.make_run("a", "co2")
        (self.home / "a/metrics.jsonl").write_text('{"event": 1}\n')
        self.assertIn("a/metrics.jsonl:1: event is not a text", self.refused("a"))
        (self.home / "a/metrics.jsonl").unlink()
        self.assertIn("a/metrics.jsonl cannot be read", self.refused("a"))
        self.assertFalse((self.home / "a/report.html").exists())

    def test_braces_in_a_recipe_are_text(self):
        for strategy in ("co2", "drip"):
            self.make_run(strategy, strategy)
            recipe = self.home / strategy / "recipe.toml"
            for value in ('"{p}"', '"{"', '"{0} {p} {n}"', '"{:1000000000}"'):
                keys = "\n".join(f"{key} = {value}" for key in ("period", "slices", "delay", "every", "codec"))
                recipe.write_text(re.sub(r"\[strategy\]", f"[strategy]\n{keys}", re.sub(r"(?m)^period.*", "", recipe.read_text())))
                self.assertIn(html.escape(value), self.report(strategy)[1])
                recipe.write_text(recipe.read_text().replace(keys, ""))

    def test_a_pipe_among_the_files_is_refused_and_not_waited_for(self):
        for name in ("recipe.toml", "metrics.jsonl", "result.json", "timeline.json"):
            self.make_run("a", "co2")
            (self.home / "a" / name).unlink()
            os.mkfifo(self.home / "a" / name)
            self.assertIn(f"a/{name} cannot be read: not a plain file", self.refused("a"))
            shutil.rmtree(self.home / "a")

    def test_a_real_comparison_has_a_page(self):
        self.events("compare", TINY, *self.small(train__eval_every=4), "--strategies", "all_reduce,co2", "--dir", "compared")
        page = Page(self.report("compared")[1])
        self.assertEqual([], page.wrong)
        self.assertEqual(2 * (3 + 2 + 2 + 3), page.count("polyline"))  # two runs; four charts, each at some sizes
        self.assertEqual(3, page.count("tr"))


class ReportOfAPipeline(ReportTest):
    def test_has_the_plan_and_what_happened(self):
        page = Page(self.report(self.train_pipeline("run"))[1])
        self.assertEqual([], page.wrong)
        self.assertEqual(1, page.count("section", id="pipeline"))
        self.assertEqual(2 * 3, page.count("svg", **{"class": "stages"}))  # two pictures at three sizes
        for kind in ("forward", "backward", "update", "idle"):
            self.assertGreater(page.count("rect", **{"class": kind}), 2, kind)
        self.assertEqual(0, page.count("rect", **{"class": "weights"}))
        for words in ("2 in a replica, async_1f1b with hop 1", "2 replicas of 2 stages", "2 and 1 versions of the weights",
                      "100\u00a0Mbit/s, 1\u00a0ms"):
            self.assertIn(words, page.text)

    def test_of_a_synchronous_one_has_no_hop(self):
        text = self.report(self.train_pipeline("run", pipeline__schedule="zero_bubble_h1", pipeline__microbatches=2))[1]
        page = Page(text)
        self.assertGreater(page.count("rect", **{"class": "weights"}), 2)
        self.assertNotIn("hop 1", page.text)
        self.assertIn("microbatch 2 of step", text)

    def test_is_in_no_other_report(self):
        text = self.report(self.make_comparison())[1]
        self.assertNotIn('id="pipeline"', text)
        self.assertNotIn("between stages", text)

    def test_damage_is_named(self):
        run = self.home / self.train_pipeline("run")
        record = json.loads((run / "pipeline.json").read_text())
        (run / "pipeline.json").write_text(json.dumps(record | {"hop": "one"}))
        self.assertIn("run/pipeline.json: hop is not a number", self.refused("run"))


@unittest.skipUnless(browser.find(), "there is no Chromium: what the page looks like was not tested")
class ReportInABrowser(ReportTest):
    def setUp(self):
        super().setUp()
        self.page = self.report(self.make_comparison(entropy=2.2))[0]
        self.browser = browser.Browser().__enter__()
        self.addCleanup(self.browser.__exit__)

    def point_at(self, selector, wanted):
        self.browser.evaluate(f"document.querySelector({selector!r}).scrollIntoView({{block: 'center'}})")
        x, y = self.browser.evaluate(f"(b => [b.left + b.width / 2, b.top + b.height / 2])"
                                     f"(document.querySelector({selector!r}).getBoundingClientRect())")
        self.browser.point_at(x, y)
        self.assertEqual("block", self.browser.evaluate("document.getElementById('tip').style.display"))
        self.assertRegex(self.browser.evaluate("document.getElementById('tip').textContent"), wanted)

    def mark(self, name):
        return self.browser.evaluate(f"document.documentElement.dataset.{name}")

    def shown(self, selector):
        return self.browser.evaluate(f"[...document.querySelectorAll({selector!r})].filter(e => e.checkVisibility()).length")

    def test_wide_and_narrow_light_and_dark(self):
        for width in (360, 375, 768, 1200, 2000):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    self.browser.open(self.page, width=width, dark=dark)
                    self.assertEqual([], self.browser.complaints())
                    self.assertEqual([self.page.as_uri()], [u for u in self.browser.requests() if not u.startswith("data:")])
                    self.assertEqual("0", self.mark("overflow"))
                    self.assertEqual("dark" if dark else "light", self.mark("scheme"))
                    self.assertEqual((4, 3, 1), (self.shown("svg.chart"), self.shown("svg.lanes"), self.shown("svg.bars")))
                    paper = self.browser.evaluate("getComputedStyle(document.body).backgroundColor")
                    self.assertEqual(dark, int(re.findall(r"\d+", paper)[0]) < 128)

    def test_a_pipeline_wide_and_narrow_light_and_dark(self):
        page = self.report(self.train_pipeline("run"))[0]
        for width in (360, 768, 1200):
            for dark in (False, True):
                with self.subTest(width=width, dark=dark):
                    self.browser.open(page, width=width, dark=dark)
                    self.assertEqual([], self.browser.complaints())
                    self.assertEqual(("0", 2), (self.mark("overflow"), self.shown("svg.stages")))
                    self.see_that_texts_are_readable(width)
        self.point_at(".wide .stages .backward", r"^stage 0, backward, minibatch \d+: \d+(\.\d+)?\u00a0ms$")
        self.point_at(".wide .stages .idle", r"^stage \d, idle: \d")
        self.point_at(".wide .stages .lane", r"^stage 0, medians: forward .*, backward .* and update ")

    def test_text_is_large_enough_on_a_phone_and_names_stay_in_the_picture(self):
        for width in (375, 768, 1200):
            self.browser.open(self.page, width=width)
            self.see_that_texts_are_readable(width)

    def see_that_texts_are_readable(self, width):
        texts = self.browser.evaluate(
            "[...document.querySelectorAll('svg text')].filter(e => e.checkVisibility()).map(e => {"
            "const t = e.getBoundingClientRect(), s = e.ownerSVGElement.getBoundingClientRect();"
            "return [e.textContent, t.height, t.left - s.left, s.right - t.right]})")
        for text, height, left, right in texts:
            self.assertGreater(height, 10, text)
            self.assertGreater(min(left, right), -3, f"{text} at {width}")

    def test_pointing_shows_values(self):
        self.browser.open(self.page, width=1200, height=900)
        for selector, wanted in (("#seconds .wide svg", r"^\d+(\.\d+)? sall_reduce\d\.\d+$"), (".wide .lanes .wire", "on the wire: 5.20\u00a0MB in 450\u00a0ms"),
                                 (".wide .bars .compute", "computing: 12.0")):
            self.point_at(selector, wanted)
        self.browser.point_at(1, 1)
        self.assertEqual("none", self.browser.evaluate("document.getElementById('tip').style.display"))


if __name__ == "__main__":
    if not browser.find():
        print("report_test: there is no Chromium here, so the part that looks at the page did not run", file=sys.stderr)
    unittest.main()
