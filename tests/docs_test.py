"""What the pages say holds: links lead somewhere, commands run, code is code that is compiled elsewhere."""
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGES = sorted(p for p in [*ROOT.glob("*.md"), *ROOT.glob("docs/*.md"), *ROOT.glob("benchmarks/*/README.md"), *ROOT.glob("peers/README.md")])
# Keys that make a run a matter of seconds; given last, they win.
QUICK = {"train": ["train.steps=2", "train.eval_every=0"], "compare": ["train.steps=2", "train.eval_every=0"]}


def blocks(page, language):
    return re.findall(rf"^```{language}\n(.*?)^```", page.read_text(), re.M | re.S)


def commands(page):
    """Lines of sh blocks that call the program, comments cut off, continuation lines joined."""
    for block in blocks(page, "sh"):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if words and words[0].split("/")[-1] == "thinwire":
                yield words[1:]


def squeezed(text):
    return re.sub(r"\s+", " ", text).strip()


class Docs(unittest.TestCase):
    def test_every_relative_link_leads_to_a_file(self):
        for page in PAGES:
            for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
                if re.match(r"[a-z]+:", target) or target.startswith("#"):
                    continue
                with self.subTest(page=page.name, link=target):
                    self.assertTrue((page.parent / target.split("#")[0]).exists())

    def test_every_command_runs(self):
        program = pathlib.Path(os.environ["THINWIRE_PROGRAM"])
        seen = 0
        with tempfile.TemporaryDirectory() as place:
            place = pathlib.Path(place)
            (place / "my/texts").mkdir(parents=True)
            (place / "my/texts/a.txt").write_text("All happy families are alike; " * 400)
            (place / "recipes").symlink_to(ROOT / "recipes")
            run = lambda words: subprocess.run([program, *words], cwd=place, capture_output=True, text=True,
                                               errors="replace", timeout=300)
            made = run(["train", "recipes/tiny.toml", "data.path=my/texts", "--dir", "runs/mine", *QUICK["train"]])
            self.assertEqual(made.returncode, 0, made.stderr)  # what examples call runs/mine
            for page in PAGES:
                for words in commands(page):
                    with self.subTest(page=page.name, command=" ".join(words)):
                        seen += 1
                        if "--resume" not in words and "--dir" in words:
                            shutil.rmtree(place / words[words.index("--dir") + 1], ignore_errors=True)
                        if ">" in words:
                            words = words[: words.index(">")]
                        beyond = ["train.steps=4"] if "--from" in words else []  # what it begins with has done two
                        done = run([*words, *QUICK.get(words[0], []), *beyond])
                        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertGreater(seen, 3)

    def test_every_piece_of_cpp_stands_in_a_file_that_is_compiled(self):
        sources = [squeezed(p.read_text()) for folder in ("examples", "tests", "thinwire", "cli")
                   for p in (ROOT / folder).rglob("*") if p.suffix in (".h", ".cpp")]
        for page in PAGES:
            for block in blocks(page, "cpp"):
                with self.subTest(page=page.name, code=block[:60]):
                    self.assertTrue(any(squeezed(block) in source for source in sources))

    def test_every_key_of_a_recipe_on_a_page_exists(self):
        program = os.environ["THINWIRE_PROGRAM"]
        for page in PAGES:
            for block in blocks(page, "toml"):
                with self.subTest(page=page.name, block=block[:60]), tempfile.TemporaryDirectory() as place:
                    recipe = pathlib.Path(place) / "page.toml"
                    recipe.write_text(block)
                    done = subprocess.run([program, "keys", recipe], capture_output=True, text=True, timeout=60)
                    self.assertEqual(done.returncode, 0, done.stderr)


if __name__ == "__main__":
    unittest.main()
