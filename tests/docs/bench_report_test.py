"""Tests of scripts/bench-report: JSON files in, documents and a picture out.

    bench_report_test.py SOURCE    (the project's root)
"""
import json
import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.etree.ElementTree

SOURCE = os.path.abspath(sys.argv.pop(1))
SVG = "{http://www.w3.org/2000/svg}"

MACHINE = {"date": "2026-01-02 03:04 UTC", "commit": "0123456789ab", "options": [], "processor": "A <fast> | processor",
           "cores": 2, "memory": "8.0 GiB", "kernel": "Linux 6.1.0 x86_64", "system": "Debian", "compiler": "g++ 12.2.0",
           "flags": "-O3"}


def row(name, value, peer, peer_value, unit="ns/op", better="lower", target="-", holds=None):
    ratio = value / peer_value if value is not None and peer_value else None
    return {"name": name, "value": value, "unit": unit, "peer": peer, "peer_value": peer_value, "better": better,
            "ratio": ratio, "target": target, "holds": holds}


LOCKS = [row("mutex, alone", 1.4, "std::mutex", 12.8, target="<= 0.6", holds=True),
         row("read | write, <2> threads", 39.04, "nsync*_mu", 30.0, target="<= 1", holds=False),
         row("reads", 1660.4, "std::mutex", 36.9, unit="M/s", better="higher"),
         row("reads", 1660.4, "ours, 1 thread", 800, unit="M/s", better="higher"),
         row("on top", -0.01234, "a \\ counter", 6.4, unit="ns"),
         row("commands", 45512.3, "another", 45490, unit="1/s", better="higher"),
         row("loads", 1, "no protection", 0, unit="loads", target="= 1 loads", holds=True),
         row("broken", None, "std::mutex", None)]

LOCKS_TABLE = r"""## locks

| name | Stockade | peer | peer's | ratio | result | target | holds |
| --- | ---: | --- | ---: | ---: | --- | --- | --- |
| mutex, alone | 1.40 ns/op | std::mutex | 12.8 ns/op | 0.109 | better | &lt;= 0.6 | holds |
| read \| write, &lt;2> threads | 39.0 ns/op | nsync\*_mu | 30 ns/op | 1.30 | **worse** | &lt;= 1 | **short** |
| reads | 1,660 M/s | std::mutex | 36.9 M/s | 45.0 | better | - | - |
| reads | 1,660 M/s | ours, 1 thread | 800 M/s | 2.08 | - | - | - |
| on top | -0.0123 ns | a \\ counter | 6.40 ns | -0.00193 | better | - | - |
| commands | 45,500/s | another | 45,500/s | 1.00 | equal | - | - |
| loads | 1 loads | no protection | 0 loads | - | **worse** | = 1 loads | holds |
| broken | - | std::mutex | - | - | - | - | - |
"""

SUMMARY = """| area | measured at | commit | rows | against others | better | worse | targets | short |
| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |
| [locks](#locks) | 2026-01-02 03:04 UTC | 0123456789ab | 8 | 6 | 3 | 2 | 3 | 1 |
| [empty-area](#empty-area) | 2026-01-02 03:04 UTC | 0123456789ab | 0 | 0 | 0 | 0 | 0 | 0 |
| absent | not measured | | | | | | | |
"""

CHART_ROWS = """# A comment.
a mutex: locks "mutex, alone" "std::mutex"
reads & <writes>: locks "read | write, <2> threads" "nsync*_mu"
"""

PAGE = """A mutex takes <!-- bench: locks "mutex, alone" "std::mutex" value -->9 ns<!-- /bench -->, others
<!-- bench: locks "mutex, alone" "std::mutex" peer -->9 ns<!-- /bench --> and
<!-- bench: absent "row" "peer" ratio -->9<!-- /bench -->.

<!-- bench:begin
one: lock, `alone`: locks "mutex, alone" "std::mutex"
two: locks "read | write, <2> threads" "nsync*_mu"
three: absent "row" "peer"
-->
old
<!-- bench:end -->

```
<!-- bench: locks "mutex, alone" "std::mutex" value -->9 ns<!-- /bench -->
```
"""

PAGE_UPDATED = r"""A mutex takes <!-- bench: locks "mutex, alone" "std::mutex" value -->1.40 ns/op<!-- /bench -->, others
<!-- bench: locks "mutex, alone" "std::mutex" peer -->12.8 ns/op<!-- /bench --> and
<!-- bench: absent "row" "peer" ratio -->9<!-- /bench -->.

<!-- bench:begin
one: lock, `alone`: locks "mutex, alone" "std::mutex"
two: locks "read | write, <2> threads" "nsync*_mu"
three: absent "row" "peer"
-->

| | Stockade | peer | peer's | ratio | result |
| --- | ---: | --- | ---: | ---: | --- |
| one: lock, `alone` | 1.40 ns/op | std::mutex | 12.8 ns/op | 0.109 | better |
| two | 39.0 ns/op | nsync\*_mu | 30 ns/op | 1.30 | **worse** |
| three | not measured | | | | |

<!-- bench:end -->

```
<!-- bench: locks "mutex, alone" "std::mutex" value -->9 ns<!-- /bench -->
```
"""


def luminance(colour):
    parts = [int(colour[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


class BenchReportTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = folder.name
        self.write("bench/CMakeLists.txt", "".join(f"stockade_add_bench({area}\n  SOURCES a.cc)\n"
                                                   for area in ("locks", "empty-area", "absent")))
        self.write("bench/chart.txt", CHART_ROWS)
        self.measure("locks", LOCKS)
        self.measure("empty-area", [])
        self.write("docs/PAGE.md", "No quotes.\n")

    def write(self, path, text):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    def read(self, path):
        with open(os.path.join(self.root, path), encoding="utf-8") as file:
            return file.read()

    def measure(self, area, rows, **machine):
        self.write(f"build/bench/{area}.json", json.dumps(rows))
        self.write(f"build/bench/machine/{area}.json", json.dumps({**MACHINE, **machine}))

    def run_script(self, *options, fails_with=None):
        run = subprocess.run([sys.executable, os.path.join(SOURCE, "scripts", "bench-report"), "--root", self.root,
                              *options], capture_output=True, text=True, check=False)
        self.assertNotIn("Traceback", run.stderr)
        if fails_with is None:
            self.assertEqual(run.returncode, 0, run.stderr)
        else:
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(fails_with, run.stderr)
        return run.stdout

    def test_benchmarks_of_all_kinds_of_rows(self):
        self.run_script("--partial")
        text = self.read("docs/BENCHMARKS.md")
        self.assertIn(LOCKS_TABLE, text)
        self.assertIn(SUMMARY, text)
        self.assertIn("| processor | A &lt;fast> \\| processor |\n| cores | 2 |\n", text)
        self.assertTrue(text.endswith("## empty-area\n\nNo rows.\n\n## absent\n\nNot measured.\n"), text)

    def test_same_json_gives_the_same_files(self):
        self.run_script("--partial")
        before = self.read("docs/BENCHMARKS.md")
        self.assertEqual(self.run_script("--partial"), "", "nothing is written again")
        self.assertEqual(self.read("docs/BENCHMARKS.md"), before)

    def test_nothing_measured_gives_a_document_that_says_so(self):
        for area in ("locks", "empty-area"):
            os.remove(os.path.join(self.root, f"build/bench/{area}.json"))
        self.run_script("--partial")
        self.assertIn("## Machine\n\nNot measured.\n", self.read("docs/BENCHMARKS.md"))
        self.assertIn("Not measured.", self.read("docs/images/benchmarks.svg"))
        self.run_script("--check")

    def test_missing_area_is_refused_unless_partial(self):
        self.run_script(fails_with="not measured: absent")
        self.assertFalse(os.path.exists(os.path.join(self.root, "docs/BENCHMARKS.md")))

    def test_areas_that_were_not_measured_keep_their_figures(self):
        self.run_script("--partial")
        os.remove(os.path.join(self.root, "build/bench/locks.json"))
        self.measure("absent", [row("stock", 2, "others", 1)])
        self.run_script("--keep")
        text = self.read("docs/BENCHMARKS.md")
        self.assertIn(LOCKS_TABLE, text)
        self.assertIn(SUMMARY.split("| absent")[0] + "| [absent](#absent) | 2026-01-02 03:04 UTC |", text)
        self.assertIn("| stock | 2 ns/op | others | 1 ns/op |", text)
        self.assertEqual(self.run_script("--keep"), "", "nothing is written again")

    def test_figures_of_another_machine_are_not_kept(self):
        self.run_script("--partial")
        os.remove(os.path.join(self.root, "build/bench/locks.json"))
        self.measure("empty-area", [], cores=64)
        self.run_script("--keep", "--partial", fails_with="is of another machine or build: --keep cannot be used")

    def test_part_of_an_area_is_refused(self):
        self.measure("locks", LOCKS, options=["--quick"])
        self.run_script("--partial", fails_with="locks was measured with --quick")

    def test_rows_of_another_machine_are_refused(self):
        self.measure("empty-area", [], cores=64)
        self.run_script("--partial", fails_with="different machines or builds: cores: 2, 64")

    def test_rows_without_a_machine_are_refused(self):
        os.remove(os.path.join(self.root, "build/bench/machine/locks.json"))
        self.run_script("--partial", fails_with="build/bench/machine/locks.json is missing")

    def test_picture_is_well_formed_and_legible(self):
        self.run_script("--partial")
        svg = self.read("docs/images/benchmarks.svg")
        root = xml.etree.ElementTree.fromstring(svg)
        self.assertEqual(root.get("role"), "img")
        self.assertTrue(root.find(f"{SVG}title").text)
        self.assertIn("a mutex: 9.2 times std::mutex. reads & <writes>: 0.77 times nsync*_mu.",
                      root.find(f"{SVG}desc").text)
        self.assertEqual([rect.get("class") for rect in root.iter(f"{SVG}rect")],
                         [None, "better", "worse", "better", "worse"])
        background = next(root.iter(f"{SVG}rect"))
        self.assertEqual(background.get("fill"), "#ffffff")
        fills = re.findall(r"fill: (#\w{6})", root.find(f"{SVG}style").text)
        self.assertEqual(len(fills), 4)
        for fill in fills:
            self.assertGreaterEqual(1.05 / (luminance(fill) + 0.05), 4.5, fill)
        texts = [text.text for text in root.iter(f"{SVG}text")]
        for expected in ("a mutex", "reads & <writes>", "9.2\u00d7", "0.77\u00d7", "2 cores, A <fast> | processor"):
            self.assertIn(expected, texts)

    def test_quotes_become_those_of_the_benchmarks(self):
        self.write("docs/PAGE.md", PAGE)
        self.assertIn("not compared, because an area was not measured: docs/PAGE.md", self.run_script("--partial"))
        self.assertEqual(self.read("docs/PAGE.md"), PAGE_UPDATED)
        self.run_script("--check")

    def test_check_needs_no_json_and_finds_a_changed_quote(self):
        self.write("docs/PAGE.md", PAGE)
        self.run_script("--partial")
        os.remove(os.path.join(self.root, "build/bench/locks.json"))
        self.write("docs/PAGE.md", PAGE_UPDATED.replace("12.8 ns/op<", "13.8 ns/op<"))
        self.run_script("--check", fails_with="these differ from docs/BENCHMARKS.md: docs/PAGE.md;")
        self.assertIn("13.8 ns/op<", self.read("docs/PAGE.md"), "--check writes nothing")
        self.run_script("--quotes")
        self.assertEqual(self.read("docs/PAGE.md"), PAGE_UPDATED)

    def test_check_finds_a_changed_benchmark(self):
        self.write("docs/PAGE.md", PAGE)
        self.run_script("--partial")
        text = self.read("docs/BENCHMARKS.md").replace("1.40 ns/op | std::mutex", "1.30 ns/op | std::mutex")
        self.write("docs/BENCHMARKS.md", text)
        self.run_script("--check", fails_with="these differ from docs/BENCHMARKS.md: docs/PAGE.md;")

    def test_check_finds_a_changed_picture(self):
        self.run_script("--partial")
        self.write("docs/images/benchmarks.svg", self.read("docs/images/benchmarks.svg").replace("9.2", "9.3"))
        self.run_script("--check", fails_with="these differ from docs/BENCHMARKS.md: docs/images/benchmarks.svg;")

    def test_quotes_of_rows_that_are_not_there_are_errors(self):
        page = PAGE.replace("mutex, alone", "mutex, together")
        self.write("docs/PAGE.md", page)
        self.write("bench/chart.txt", 'a: locks "nothing" "nobody"\n')
        self.run_script("--partial", fails_with='docs/PAGE.md: docs/BENCHMARKS.md has no row locks "mutex, together"')
        self.run_script("--quotes", fails_with='bench/chart.txt: docs/BENCHMARKS.md has no row locks "nothing" "nobody"')
        self.assertEqual(self.read("docs/PAGE.md"), page)
        self.assertIn("## locks", self.read("docs/BENCHMARKS.md"), "where the names of the rows can be read")

    def test_malformed_markers_are_errors(self):
        for wrong in ("<!-- bench: locks mutex value -->9<!-- /bench -->",
                      '<!-- bench: locks "mutex, alone" "std::mutex" speed -->9<!-- /bench -->',
                      '<!-- bench: locks "mutex, alone" "std::mutex" value -->9',
                      "9<!-- /bench -->", "<!-- bench:begin\na: b\n-->\n"):
            with self.subTest(wrong):
                self.write("docs/PAGE.md", wrong + "\n")
                self.run_script("--partial", fails_with="docs/PAGE.md: a marker is malformed")
        self.write("docs/PAGE.md", "<!-- bench:begin\na: b\n-->\n<!-- bench:end -->\n")
        self.run_script("--partial", fails_with="docs/PAGE.md: this is not `label: area")


    def test_figures_in_tables_are_generated_or_marked(self):
        for wrong in ("| take | 1,660 M/s | other |", "| take | 12 ns an operation |", "| a | 10 to 20 us |"):
            with self.subTest(wrong):
                self.write("docs/PAGE.md", wrong + "\n")
                self.run_script("--partial", fails_with="docs/PAGE.md: a figure in a table is neither generated nor")
        self.write("docs/PAGE.md", '| a lease | 30 s |\n| take | '
                   '<!-- bench: locks "reads" "std::mutex" value -->1 M/s<!-- /bench --> |\n```\n| a | 1 ns |\n```\n')
        self.run_script("--partial")


class ChartRowsTest(unittest.TestCase):
    def test_labels_fit_beside_the_bars(self):
        with open(os.path.join(SOURCE, "bench", "chart.txt"), encoding="utf-8") as file:
            labels = re.findall(r'^(?!#)(.*): [a-z-]+ ".*" "(.*)"$', file.read(), re.MULTILINE)
        self.assertGreaterEqual(len(labels), 12)
        for label, peer in labels:
            self.assertLessEqual(len(label), 40)
            self.assertLessEqual(len(peer), 44)


class MachineTest(unittest.TestCase):
    def test_describes_this_machine_and_the_options(self):
        run = subprocess.run([sys.executable, os.path.join(SOURCE, "scripts", "bench-machine"), "/nonexistent", "--quick"],
                             capture_output=True, text=True, check=True)
        machine = json.loads(run.stdout)
        self.assertEqual(machine.keys(), MACHINE.keys())
        self.assertEqual(machine["options"], ["--quick"])
        self.assertRegex(machine["date"], r"^\d{4}-\d\d-\d\d \d\d:\d\d UTC$")
        self.assertGreaterEqual(machine["cores"], 1)
        self.assertEqual(machine["compiler"], "unknown")


if __name__ == "__main__":
    unittest.main()
