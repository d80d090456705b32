#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Reports the lines of src/ that the tests reach, and checks that all other lines are explained.

usage: coverage.py GCOVR_JSON COVERAGE_MD [TESTS]

Prints lines and branches of each file, of the library and of the tool, then each of their lines
that no test runs, and the reason. A row of COVERAGE_MD explains some lines of one function:

    | `file.c` | `function` | lines | why |

Exits with 1 if there are more such lines than explained, if a row names a missing function, or if
the library is below 95 % of lines or 85 % of branches.

If only TESTS ran (patterns of make check's T=), it checks only the sources that no test outside
of TESTS reaches."""
import json
import os
import re
import sys
from bisect import bisect_right
from collections import defaultdict

LINES, BRANCHES = 95, 85	# per cent of the library
CHANCE = 10			# lines that some runs miss

rc = 0


def wrong(what):
    global rc
    print("coverage: " + what)
    rc = 1


class Count:
    def __init__(self):
        self.lines = self.run = self.branches = self.taken = 0

    def add(self, other):
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def row(self, name):
        print(f"{name:<28} {self.run:5} of {self.lines:5}  {percent(self.run, self.lines):5.1f} %"
              f"   {self.taken:5} of {self.branches:5}  {percent(self.taken, self.branches):5.1f} %")


def percent(part, whole):
    return 100 * part / whole if whole else 100


def explanations(path):
    """{(file, function): (lines, why)} of the rows of a Markdown file's tables."""
    rows = {}
    for line in open(path):
        row = re.match(r"\| `([\w/.]+\.[ch])` \| `(\w+)` \| (\d+) \| (.+) \|$", line.rstrip())
        if row:
            file, function, lines, why = row.groups()
            if (file, function) in rows:
                wrong(f"{path} has two rows for {function} of {file}")
            rows[file, function] = int(lines), why
    return rows


def judged(patterns):
    """Returns a function that tests whether all tests that reach a source (by name) match the
    patterns."""
    sys.path.append(os.path.join(os.path.dirname(os.path.realpath(__file__)), "..", "gate"))
    import sets     # pylint: disable=import-outside-toplevel
    ran = {t for t in sets.tests() if sets.matches(t, patterns.replace("%", "*").split())}
    by_test, known = sets.reached()
    others = set().union(*(sources for test, sources in by_test.items() if test not in ran))
    return lambda name: "src/" + name in known - others


files = {f["file"].removeprefix("src/"): f for f in json.load(open(sys.argv[1]))["files"]}
some = len(sys.argv) > 3
if some:
    is_judged = judged(sys.argv[3])
    files = {name: file for name, file in files.items() if is_judged(name)}
src = os.path.join(os.environ.get("srcdir", "."), "src")
why = explanations(sys.argv[2])
if some:
    why = {where: what for where, what in why.items() if where[0] in files}
total = {"the library": Count(), "the tool": Count()}
unreached = defaultdict(list)
functions = set()

print(f"{'':<28} {'lines':>14} {'':>7}   {'branches':>14}")
for name, file in sorted(files.items(), key=lambda f: (f[0].startswith("tool/"), f[0])):
    starts = sorted((f["lineno"], f["name"]) for f in file["functions"])
    functions.update((name, function) for _, function in starts)
    source = open(os.path.join(src, name)).readlines()
    count = Count()
    for line in file["lines"]:
        # gcovr omits a lone brace if it was not run; here it is never counted.
        if line["gcovr/noncode"] or source[line["line_number"] - 1].strip() == "}":
            continue
        count.lines += 1
        count.run += line["count"] > 0
        count.branches += len(line["branches"])
        count.taken += sum(branch["count"] > 0 for branch in line["branches"])
        if not line["count"]:
            at = bisect_right(starts, (line["line_number"], chr(0x10ffff))) - 1
            unreached[name, starts[at][1]].append(line["line_number"])
    count.row(name)
    total["the tool" if name.startswith("tool/") else "the library"].add(count)
print()
for name, count in total.items():
    count.row(name)

print("\nlines that no test runs:")
nr_explained = nr_unexplained = 0
for (file, function), lines in sorted(unreached.items()):
    explained, reason = why.get((file, function), (0, ""))
    if len(lines) > explained:
        nr_unexplained += len(lines) - explained
        print(f"coverage: {len(lines)} lines of {function} of {file} are not run, {explained} explained")
        source = open(os.path.join(src, file)).readlines()
        for line in lines:
            print(f"    {file}:{line}: {source[line - 1].strip()}")
    else:
        nr_explained += len(lines)
        print(f"{file}:{','.join(map(str, lines))}: {function}: {reason}")
for file, function in sorted(set(why) - functions):
    if file in files or not os.path.exists(os.path.join(src, file)):
        wrong(f"{sys.argv[2]} explains {function} of {file}, which is not there")
    else:
        print(f"{file}: not built here")
for file, function in sorted(set(why) & functions - set(unreached)):
    print(f"{file}: {function}: explained, and run this time")
print(f"{sum(map(len, unreached.values()))} lines, {nr_explained} of them explained")

if some:
    print(f"of {len(files)} sources, which these tests alone reach")
if nr_unexplained > CHANCE:
    wrong(f"{nr_unexplained} lines are neither run nor explained: test them, or say why in {sys.argv[2]}")
if not some:
    for name, count in total.items():
        if not count.lines:
            wrong(f"{name} was not counted: there is nothing of it in {sys.argv[1]}")
    library = total["the library"]
    if percent(library.run, library.lines) < LINES:
        wrong(f"the library is below {LINES} % of lines")
    if percent(library.taken, library.branches) < BRANCHES:
        wrong(f"the library is below {BRANCHES} % of branches")
sys.exit(rc)
