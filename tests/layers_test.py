"""The rooms and who may include whom: the one place where it is written down. Reads every #include of thinwire/ and cli/."""

import pathlib
import re
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent

# room -> rooms it may include. A room that does not exist yet may be named; one that exists must be.
MAY_INCLUDE = {
    "base": set(),
    "kernels": {"base"},
    "comm": {"base"},
    "net": {"base", "comm"},
    "compress": {"base", "kernels", "comm"},
    "optim": {"base", "kernels"},
    "dp": {"base", "comm", "compress", "kernels", "optim"},
    "zero": {"base", "comm", "optim", "dp"},
    "pipeline": {"base", "comm", "compress", "kernels", "optim", "dp"},
    "plan": {"base"},
    "models": {"base"},
    "data": {"base"},
    "checkpoint": {"base", "comm"},
    "train": {"base", "kernels", "comm", "net", "compress", "optim", "dp", "zero", "pipeline", "plan", "models", "data",
              "checkpoint"},
    "report": {"base", "train"},
    "cli": {"base", "dp", "train", "report", "plan"},
}
# Headers a room may include although it may not include their rooms: they are values without a process behind them.
ALSO_HEADERS = {
    "cli": r"comm/(errors|identity|launcher|shared_disk|mpi/mpi)\.h",  # a process joins before it trains
    "plan": r"net/(link|topology)\.h|pipeline/schedule\.h|dp/\w+_schedule\.h",
    "report": r"pipeline/(schedule|chart)\.h|dp/(catalog|traits)\.h",
}
# Libraries that one room alone may talk to, and the rooms that may use autograd and torch's modules.
ONLY_IN = {
    r"(torch/csrc/distributed|c10d|mpi)\b.*": {"comm"},
    r"torch/(nn|csrc/autograd|csrc/api)\b.*": {"dp", "zero", "pipeline", "train", "models", "data"},
    r"CLI/.*": {"cli"},
}
# Rooms that hand tensors to kernels and never look at memory themselves.
NO_POINTERS = {"compress", "optim", "dp", "zero", "pipeline"}
# Names that say nothing about what is in a file.
EMPTY_NAMES = {"util", "utils", "helper", "helpers", "common", "misc"}

INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)
SOURCES = {".h", ".hpp", ".cuh", ".cpp", ".cc", ".cu"}


def room_of(path):
    """'thinwire/dp/slices.h' -> 'dp', 'cli/main.cpp' -> 'cli', 'thinwire/thinwire.h' and 'fmt/format.h' -> None."""
    parts = pathlib.PurePosixPath(path).parts
    if parts[0] == "cli":
        return "cli"
    return parts[1] if parts[0] == "thinwire" and len(parts) > 2 else None


def sources(root):
    found = [path for top in ("thinwire", "cli") for path in sorted((root / top).rglob("*")) if path.suffix in SOURCES]
    return {path.relative_to(root).as_posix(): path.read_text() for path in found}


def complaints_about(path, text):
    """What is wrong with the includes and the name of one file."""
    room = room_of(path)
    if pathlib.PurePosixPath(path).stem in EMPTY_NAMES:
        yield f"{path}: the name says nothing about what is in it"
    if room is None:
        return  # thinwire/thinwire.h is the door to all rooms
    if room not in MAY_INCLUDE:
        yield f"{path}: there is no room {room} in the table"
        return
    if room in NO_POINTERS and "data_ptr" in text:
        yield f"{path}: {room} may not touch a tensor's memory: that is for kernels"
    for header in INCLUDE.findall(text):
        for library, rooms in ONLY_IN.items():
            if re.fullmatch(library, header) and room not in rooms:
                yield f"{path}: only {', '.join(sorted(rooms))} may include <{header}>"
        other = room_of(header)
        inner = header.removeprefix("thinwire/")
        if other in (None, room) or other in MAY_INCLUDE[room]:
            continue
        if not re.fullmatch(ALSO_HEADERS.get(room, "(?!)"), inner):
            yield f"{path}: {room} may not include {header}"


def cycle_in(graph):
    """A list of rooms that leads back to its first one, or nothing."""
    closed = set()

    def visit(room, way):
        if room in way:
            return way[way.index(room):] + [room]
        if room in closed:
            return []
        for other in sorted(graph.get(room, ())):
            if found := visit(other, way + [room]):
                return found
        closed.add(room)
        return []

    return next((found for room in sorted(graph) if (found := visit(room, []))), [])


def rooms_graph(files):
    graph = {}
    for path, text in files.items():
        for header in INCLUDE.findall(text):
            if room_of(path) and room_of(header) and room_of(path) != room_of(header):
                graph.setdefault(room_of(path), set()).add(room_of(header))
    return graph


class TheTree(unittest.TestCase):
    def test_it_is_found(self):
        self.assertGreater(len(sources(ROOT)), 20)
        for room in ("base", "comm", "dp", "train", "cli"):
            self.assertIn(room, {room_of(path) for path in sources(ROOT)})

    def test_every_room_includes_only_rooms_it_may(self):
        wrong = [line for path, text in sources(ROOT).items() for line in complaints_about(path, text)]
        self.assertEqual([], wrong, "\n" + "\n".join(wrong))

    def test_rooms_include_each_other_in_one_direction_only(self):
        self.assertEqual([], cycle_in(rooms_graph(sources(ROOT))))

    def test_own_headers_are_included_by_their_address(self):
        for path, text in sources(ROOT).items():
            for header in re.findall(r'#\s*include\s*"([^"]+)"', text):
                with self.subTest(path=path, header=header):
                    self.assertTrue((ROOT / header).is_file(), "the include path is the path from the root")

    def test_a_test_lives_in_the_folder_of_its_room(self):
        for path in (ROOT / "tests").glob("*/*_test.cpp"):
            with self.subTest(path=path.name):
                self.assertIn(path.parent.name, MAY_INCLUDE)


class TheTable(unittest.TestCase):
    def test_names_only_rooms_and_has_no_cycle(self):
        for room, others in MAY_INCLUDE.items():
            self.assertLessEqual(others, set(MAY_INCLUDE), room)
        self.assertEqual([], cycle_in(MAY_INCLUDE))

    def test_the_linker_is_told_no_more_than_the_table(self):
        rooms = re.findall(r"^thinwire_room\((.*)\)$", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)
        self.assertGreater(len(rooms), 5)
        for room, *others in map(str.split, rooms):
            self.assertLessEqual(set(others), MAY_INCLUDE[room], room)


class TheChecker(unittest.TestCase):
    def assert_complains(self, path, text, about):
        found = list(complaints_about(path, text))
        self.assertEqual(1, len(found), found)
        self.assertIn(about, found[0])

    def assert_content(self, path, text):
        self.assertEqual([], list(complaints_about(path, text)))

    def test_sees_a_forbidden_room(self):
        self.assert_complains("thinwire/optim/a.cpp", '#include "thinwire/comm/group.h"', "optim may not include")
        self.assert_complains("thinwire/base/a.h", ' #  include <thinwire/dp/strategy.h>', "base may not include")
        self.assert_complains("cli/a.cpp", '#include "thinwire/comm/world.h"', "cli may not include")
        self.assert_complains("thinwire/train/a.cpp", '#include "cli/show.h"', "train may not include")

    def test_allows_what_the_table_allows(self):
        self.assert_content("thinwire/dp/a.cpp", '#include "thinwire/dp/b.h"\n#include "thinwire/comm/group.h"\n')
        self.assert_content("thinwire/train/a.cpp", '#include <torch/csrc/autograd/variable.h>\n#include <vector>\n')
        self.assert_content("thinwire/comm/a.cpp", "#include <torch/csrc/distributed/c10d/Backend.hpp>\n#include <mpi.h>")
        self.assert_content("thinwire/thinwire.h", '#include "thinwire/train/run.h"')

    def test_sees_process_groups_outside_comm(self):
        self.assert_complains("thinwire/dp/a.cpp", "#include <torch/csrc/distributed/c10d/Work.hpp>", "only comm")
        self.assert_complains("thinwire/net/a.cpp", "#include <mpi.h>", "only comm")
        self.assert_complains("thinwire/net/a.cpp", "#include <c10d/Store.hpp>", "only comm")

    def test_sees_autograd_in_a_room_without_it(self):
        self.assert_complains("thinwire/optim/a.cpp", "#include <torch/nn.h>", "torch/nn.h")

    def test_lets_the_planner_see_values_only(self):
        self.assert_content("thinwire/plan/a.cpp", '#include "thinwire/net/link.h"\n#include "thinwire/dp/slices_schedule.h"')
        self.assert_complains("thinwire/plan/a.cpp", '#include "thinwire/net/emulated_transport.h"', "plan may not include")
        self.assert_complains("thinwire/plan/a.cpp", '#include "thinwire/dp/strategy.h"', "plan may not include")

    def test_lets_the_report_see_records_and_no_run(self):
        self.assert_content("thinwire/report/a.cpp", '#include "thinwire/train/run_record.h"\n#include "thinwire/pipeline/chart.h"')
        self.assert_complains("thinwire/report/a.cpp", '#include "thinwire/pipeline/stage.h"', "report may not include")
        self.assert_complains("thinwire/train/a.cpp", '#include "thinwire/report/report.h"', "train may not include")
        self.assert_complains("thinwire/checkpoint/a.cpp", '#include "thinwire/train/recipe.h"', "checkpoint may not include")

    def test_sees_an_empty_name_and_an_unknown_room(self):
        self.assert_complains("thinwire/base/utils.h", "", "says nothing")
        self.assert_complains("cli/common.cpp", "", "says nothing")
        self.assert_complains("thinwire/attic/a.h", "", "no room attic")

    def test_sees_a_pointer_outside_kernels(self):
        self.assert_complains("thinwire/dp/a.cpp", "x.const_data_ptr<float>()", "may not touch")
        self.assert_content("thinwire/kernels/a.cpp", "x.const_data_ptr<float>()")

    def test_does_not_take_a_comment_for_an_include(self):
        self.assert_content("thinwire/base/a.h", '// #include "thinwire/train/run.h"')

    def test_sees_a_cycle(self):
        self.assertEqual(["a", "b", "c", "a"], cycle_in({"a": {"b"}, "b": {"c"}, "c": {"a"}}))
        self.assertEqual([], cycle_in({"a": {"b", "c"}, "b": {"c"}}))

    def test_reads_files_of_a_tree(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for path, text in {
                "thinwire/base/a.h": '#include "thinwire/comm/b.h"\n',
                "thinwire/comm/b.h": '#include "thinwire/base/a.h"\n',
                "thinwire/comm/notes.txt": '#include "thinwire/train/run.h"\n',
            }.items():
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).write_text(text)
            files = sources(root)
            self.assertEqual({"thinwire/base/a.h", "thinwire/comm/b.h"}, set(files))
            self.assertEqual(["base", "comm", "base"], cycle_in(rooms_graph(files)))
            wrong = [line for path, text in files.items() for line in complaints_about(path, text)]
            self.assertEqual(["thinwire/base/a.h: base may not include thinwire/comm/b.h"], wrong)


if __name__ == "__main__":
    unittest.main()
