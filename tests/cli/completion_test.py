"""thinwire completion: each script is run by its shell, where that shell is installed."""

import re
import shlex
import shutil
import subprocess
import unittest

from program import STRATEGIES, ProgramTest

SCHEDULES = ["gpipe", "1f1b", "zero_bubble_h1", "async_1f1b", "steady"]


class Completion(ProgramTest):
    def setUp(self):
        super().setUp()
        for name in ("mine.toml", "other.toml", "notes.txt"):
            (self.home / name).touch()
        (self.home / "runs/first").mkdir(parents=True)

    def script(self, shell):
        shown = self.run_program("completion", shell)
        self.assertEqual((0, ""), (shown.returncode, shown.stderr))
        (self.home / f"script.{shell}").write_text(shown.stdout)
        return shown.stdout

    def verbs(self):
        return re.findall(r"^  (\w+)  ", self.run_program("--help").stdout.split("Verbs:\n")[1], re.MULTILINE)

    def keys(self):
        """Every key of every strategy and source, as `thinwire keys` prints them."""
        keys = set()
        for words in [[f"strategy.name={name}"] for name in STRATEGIES] + [["data.source=synthetic"]]:
            section = ""
            for line in self.run_program("keys", *words).stdout.splitlines():
                section = line.strip("[]") if line.startswith("[") else section
                if " = " in line:
                    keys.add(f"{section}.{line.split(' = ')[0]}")
        return keys

    def shell(self, *command):
        done = subprocess.run(command, cwd=self.home, capture_output=True, text=True, timeout=60)
        self.assertEqual((0, ""), (done.returncode, done.stderr))
        return done.stdout.splitlines()


class Bash(Completion):
    def complete(self, line, before=""):
        """What bash offers for the word at the end of the line."""
        if not (self.home / "script.bash").exists():
            self.script("bash")
        return self.shell("bash", "--norc", "-c", f"""{before} . ./script.bash
            complete -p thinwire >/dev/null
            COMP_LINE={shlex.quote(line)} COMP_POINT={len(line)}
            _thinwire; printf '%s\\n' "${{COMPREPLY[@]}}" """)

    def test_completes_verbs(self):
        self.assertEqual(self.verbs(), self.complete("thinwire "))
        self.assertEqual(["compare", "completion"], self.complete("thinwire comp"))

    def test_completes_flags_of_each_verb(self):
        self.assertEqual(["--help", "--version"], self.complete("thinwire -"))
        for verb in self.verbs():
            flags = re.findall(r"^  (?:-h, )?(--[\w-]+)", self.run_program(verb, "--help").stdout, re.MULTILINE)
            self.assertEqual(flags, self.complete(f"thinwire {verb} --"))
        self.assertEqual(["--temperature"], self.complete("thinwire sample runs/first --te"))

    def test_completes_recipes_first_and_keys_after_it(self):
        offered = set(self.complete("thinwire train "))
        self.assertLessEqual({"mine.toml", "other.toml", "runs"}, offered)
        self.assertNotIn("notes.txt", offered)
        self.assertEqual(["mine.toml"], self.complete("thinwire compare mi"))
        self.assertEqual({f"{key}=" for key in self.keys()}, set(self.complete("thinwire train mine.toml ")))
        self.assertEqual(["strategy.period=", "strategy.penalty="], self.complete("thinwire train mine.toml strategy.pe"))
        self.assertEqual(["strategy.name="], self.complete("thinwire keys strategy.na"))

    def test_completes_values_of_keys(self):
        self.assertEqual(STRATEGIES, self.complete("thinwire train mine.toml strategy.name="))
        self.assertEqual(["cocod", "co2"], self.complete("thinwire train mine.toml strategy.name=co"))
        self.assertEqual(["true", "false"], self.complete("thinwire keys model.tied="))
        self.assertEqual(["notes.txt"], self.complete("thinwire train mine.toml data.path=no"))
        self.assertEqual([""], self.complete("thinwire train mine.toml optim.lr="))

    def test_completes_values_where_an_equals_sign_is_part_of_a_word(self):
        whole = self.complete("thinwire train mine.toml strategy.name=co", before="COMP_WORDBREAKS=' '\n")
        self.assertEqual(["strategy.name=cocod", "strategy.name=co2"], whole)

    def test_completes_strategies_one_after_another(self):
        self.assertEqual(STRATEGIES, self.complete("thinwire compare mine.toml --strategies "))
        self.assertEqual(["co2,slowmo"], self.complete("thinwire compare mine.toml --strategies co2,sl"))
        self.assertEqual(["co2,slowmo"], self.complete("thinwire compare mine.toml --strategies=co2,sl"))

    def test_completes_schedules_one_after_another(self):
        self.assertEqual(SCHEDULES, self.complete("thinwire compare mine.toml --schedules "))
        self.assertEqual(["gpipe,steady"], self.complete("thinwire compare mine.toml --schedules gpipe,st"))

    def test_completes_folders_and_words(self):
        self.assertEqual(["runs"], self.complete("thinwire train mine.toml --dir "))
        self.assertEqual(["runs/first"], self.complete("thinwire info runs/"))
        self.assertEqual(["kernels", "comm"], self.complete("thinwire bench "))
        self.assertEqual(["bash", "zsh", "fish"], self.complete("thinwire completion "))
        self.assertEqual([""], self.complete("thinwire sample runs/first --prompt "))


class Zsh(Completion):
    STUBS = """
        compadd() { while [[ $1 != -- ]]; do [[ $1 == -S ]] && local after=$2; shift; done; shift; print -rl -- ${@/%/$after} }
        compset() { :; }; compdef() { :; }
        _describe() { print -rl -- ${${(P)2}%%:*} }
        _files() { print -r -- files $@ }
    """

    def test_knows_every_verb_key_and_strategy(self):
        script = self.script("zsh")
        self.assertTrue(script.startswith("#compdef thinwire\n"))
        for word in [*self.verbs(), *self.keys(), *STRATEGIES]:
            self.assertRegex(script, rf"[ (']{re.escape(word)}[ ):']")

    @unittest.skipUnless(shutil.which("zsh"), "zsh is not installed")
    def test_completes_in_zsh(self):
        self.script("zsh")

        def complete(*words):  # zsh's own part of the work is played: it needs a terminal
            line = " ".join(map(shlex.quote, ("thinwire",) + words))
            return self.shell("zsh", "-fc", f"{self.STUBS}\n. ./script.zsh\nwords=({line}) CURRENT=$#words; _thinwire")

        self.assertEqual(self.verbs(), complete(""))
        self.assertIn("--resume", complete("train", "--"))
        self.assertEqual(["files -g *.toml"], complete("train", ""))
        self.assertEqual({f"{key}=" for key in self.keys()}, set(complete("train", "mine.toml", "")))
        self.assertEqual(STRATEGIES, complete("train", "mine.toml", "strategy.name=c"))
        self.assertEqual(STRATEGIES, complete("compare", "mine.toml", "--strategies", "co2,"))
        self.assertEqual(SCHEDULES, complete("compare", "mine.toml", "--schedules", "gpipe,"))
        self.assertEqual(["files -/"], complete("info", ""))
        self.assertEqual(["kernels", "comm"], complete("bench", ""))


class Fish(Completion):
    def test_knows_every_verb_key_and_strategy(self):
        script = self.script("fish")
        for verb in self.verbs():
            self.assertIn(f"-n __thinwire_at -a {verb} -d ", script)
        for key in self.keys():
            self.assertIn(f"\n    {key}=", script)
        for strategy in STRATEGIES:
            self.assertIn(f"\n    strategy.name={strategy} ", script)

    @unittest.skipUnless(shutil.which("fish"), "fish is not installed")
    def test_completes_in_fish(self):
        self.script("fish")

        def complete(line):
            offered = self.shell("fish", "--no-config", "-c", f"source script.fish; complete -C {shlex.quote(line)}")
            return {line.split("\t")[0] for line in offered}

        self.assertEqual(set(self.verbs()), complete("thinwire "))
        self.assertEqual({"--temperature"}, complete("thinwire sample runs --te"))
        self.assertEqual({f"strategy.name={name}" for name in STRATEGIES}, complete("thinwire train mine.toml strategy.na"))
        self.assertEqual({"co2,slowmo"}, complete("thinwire compare mine.toml --strategies co2,sl"))
        self.assertEqual({"gpipe,steady"}, complete("thinwire compare mine.toml --schedules gpipe,st"))
        self.assertLessEqual({"mine.toml", "other.toml"}, complete("thinwire train "))
        self.assertEqual({"kernels", "comm"}, complete("thinwire bench "))


class Usage(ProgramTest):
    def test_an_unknown_shell_is_refused(self):
        refused = self.run_program("completion", "bsh")
        self.assertEqual((2, ""), (refused.returncode, refused.stdout))
        self.assertEqual('thinwire: completion must be one of bash, zsh, fish, got "bsh"; did you mean "bash"?\n', refused.stderr)


if __name__ == "__main__":
    unittest.main()
