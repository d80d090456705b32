#!/bin/sh
# SPDX-License-Identifier: MIT
# runnel report names a cause only if the trace shows its sign. Each trace written here shows the
# sign of one cause, and the report must name only this cause.
#
# env: RUNNEL     the program (./runnel)
program=${RUNNEL:-./runnel}
. "$(dirname "$0")/../lib/harness.sh"
command -v python3 >/dev/null || skip_all 'there is no python3'
"$program" report /dev/null 2>&1 | grep -q 'built without jansson' && skip_all 'runnel was built without jansson'
python3 -B - "$program" "$dir/t" <<'PY'
import json
import subprocess
import sys

RUNNEL, PATH = sys.argv[1:]
DEVICE = 0x40000000
nr = 0
rc = 0


class Trace:
    """Events of a trace, times in milliseconds."""

    def __init__(self, workers, **header):
        self.id = 0
        self.events = []
        self.add("runnel", "M", 0, args={"format": 1, "device": "a GPU", "cuda": 1, **header})
        self.add("process_name", "M", 0, args={"name": "a<b>&\"c\"\t"})
        for i in range(workers):
            self.add("thread_name", "M", 100 + i, args={"name": f"w-{i}"})
            self.add("thread_sort_index", "M", 100 + i, args={"sort_index": 1000 + 2 * i})
            self.add("thread_name", "M", DEVICE + i, args={"name": f"w-{i} device"})

    def add(self, name, ph, tid, **more):
        self.events.append({"name": name, "ph": ph, "pid": 1, "tid": tid, **more})

    def span(self, name, cat, tid, begin, end, **args):
        self.add(name, "X", tid, cat=cat, ts=begin * 1e3, dur=(end - begin) * 1e3, args=args)

    def job(self, worker, begin, end, name="f", on=None, timed=True, **args):
        """A job: its function from begin to end, its device work in on, (begin, end)."""
        self.id += 1
        self.span(name, "job", 100 + worker, begin, end, id=self.id, **args)
        if on:
            for ph, ts in ("b", end), ("e", max(end, on[1])):
                self.add("in flight", ph, 100 + worker, cat="inflight", id=self.id, ts=ts * 1e3)
        if on and timed:
            self.span(name, "device", DEVICE + worker, *on, id=self.id)
        return self

    def guard(self, text):
        self.add(text, "i", 100, cat="guard", s="t", ts=1)
        return self

    def causes(self, end):
        if end is not None:
            self.add("runnel_end", "M", 0, args=end)
        with open(PATH, "w") as file:
            json.dump(self.events, file)
        ran = subprocess.run([RUNNEL, "report", "--json", PATH], capture_output=True, text=True)
        if ran.returncode or ran.stderr:
            return [f"status {ran.returncode}: {ran.stderr}"]
        return json.loads(ran.stdout)["causes"]


def check(name, trace, *want, end=None):
    """Each text of @want is in one cause, and there is no other cause."""
    global nr, rc
    nr += 1
    causes = trace.causes({} if end is None else end or None)
    ok = len(causes) == len(want) and all(any(w in c for c in causes) for w in want)
    print(("ok" if ok else "not ok"), nr, "-", name)
    if not ok:
        print("# wanted", want, "\n# got", causes)
        rc = 1


def page(name, *want):
    """The page of the trace looked at last has each text of @want."""
    global nr, rc
    nr += 1
    ran = subprocess.run([RUNNEL, "report", "--html=" + PATH + ".html", PATH], capture_output=True, text=True)
    with open(PATH + ".html") as file:
        text = file.read()
    ok = not ran.returncode and not ran.stderr and all(w in text for w in want)
    print(("ok" if ok else "not ok"), nr, "-", name)
    if not ok:
        print("# wanted", want, "\n# got", ran.stderr, text)
        rc = 1


def busy(workers=2, jobs=20, timed=True, **header):
    """Nothing is wrong: the workers' jobs overlap, without a gap."""
    t = Trace(workers, **header)
    for i in range(jobs):
        for w in range(workers):
            t.job(w, i, i + 0.01, on=(i + 0.02, i + 1.02), timed=timed or not i)
    return t


check("a trace without a sign has no cause", busy())
check("a trace that was not ended", busy(), "was not ended by rnl_trace_stop()", end=False)
check("records that were dropped", busy(), "7 records were dropped because a buffer was full, and 0 jobs",
      end={"dropped": 7})
check("jobs that the file had no space for", busy(), "0 records were dropped because a buffer was full, and 3 jobs",
      end={"too_much": 3})
check("few jobs that are timed", busy(timed=False))
check("each finding of the guard is named once", busy().guard("f waits").guard("f waits").guard("g allocates"),
      "the guard found that f waits", "the guard found that g allocates")
check("workers that share hardware queues", busy(3, connections=2), "3 workers share 2 hardware queues")
check("as many queues as workers", busy(3, connections=3))
check("pageable memory", busy().job(0, 20, 20.01, on=(20.02, 21.02), staged=1500000)
      .job(1, 20, 20.01, on=(20.02, 21.02), staged=1500000), "2 jobs copied 3.0 MB from or to pageable memory")

waits = Trace(2)
for i in range(20):
    for w in range(2):
        waits.job(w, i, i + 1, name="waits", on=(i + 0.01, i + 0.99))
check("functions that wait for the device", waits, "40 functions, such as waits, returned only when the device was done")

loads = Trace(2)
for w in range(2):
    loads.job(w, 0, 6, name="kernel", on=(6, 7))
for i in range(7, 27):
    for w in range(2):
        loads.job(w, i, i + 0.01, name="kernel", on=(i + 0.02, i + 1.02))
check("a kernel that is loaded", loads, "the first call of kernel took 6.00 ms, others 0.010 ms")

starved = busy(2, 40)
starved.add("thread_name", "M", 102, args={"name": "w-2"})
starved.add("thread_sort_index", "M", 102, args={"sort_index": 1004})
starved.add("thread_name", "M", DEVICE + 2, args={"name": "w-2 device"})
starved.job(2, 3, 3.01, on=(3.1, 4))
check("a worker that starves", starved, "w-2 starved: it ran 1 of 81 jobs, which 3 workers share")
check("a worker that has one job, a long one", starved.job(2, 4.1, 30, on=(30.1, 40)))


def gap(**between):
    """The device has nothing from 20 ms to 30 ms."""
    t = busy()
    if between:
        t.job(0, on=(30.02, 31.02), **between)
    for w in range(2):
        t.job(w, 30, 30.01, on=(30.02, 31.02))
    return t


check("a gap with no job", gap(), "no job was there: the threads that submit did something else")
check("a gap in which a function runs", gap(begin=21, end=30, name="slow"), "the function slow ran then, for 9.000 ms")
check("a gap in which jobs are queued", gap(begin=29.9, end=30, queued=21e3), "1 jobs were queued, and no worker took one")
queued = gap(begin=21, end=30, name="slow")
queued.job(1, 30, 30.01, on=(30.02, 31.02), queued=22e3)
check("a gap in which a function runs and jobs are queued", queued, "had not issued anything; jobs were queued behind it")

turns = Trace(2)
for i in range(20):
    turns.job(i % 2, i, i + 0.01, on=(i + 0.02, i + 1.02))
check("workers that take turns", turns, "no two workers ever had jobs on the device at once: does something use the legacy")
turns.guard("f uses the legacy default stream")
check("workers that take turns, and why", turns, "f uses the legacy", "at once: see above")

apart = Trace(3)
for i in range(20):
    apart.job(0, i, i + 0.01, on=(i + 0.02, i + 1.02))
    apart.job(1 + i % 2, i, i + 0.01, on=(i + 0.02, i + 1.02))
check("two workers that never meet", apart, "1 of 3 pairs of workers never had jobs on the device at once, such as w-1 and w-2")

newer = busy()
newer.span("f", "a newer library's", 100, 1, 2, id=1)
newer.add("f", "i", 100, cat="a newer library's", s="t", ts=1)
check("events of a newer library are passed over", newer)

threads = busy()
for i in range(70):
    threads.span("submit", "submit", 1000 + i, 1, 1.001)
check("more threads than are shown", threads)

named = busy()
for i in range(300):
    for w in range(2):
        named.job(w, 20 + i, 21 + i, name=f"f{i}", on=(20.01 + i, 20.99 + i))
check("functions beyond the last name share that name", named,
      "600 functions, such as others, returned only when the device was done")

findings = busy()
for i in range(40):
    findings.guard(f"f{i} waits")
check("the first causes are named if there are too many", findings,
      *(f"the guard found that f{i} waits" for i in range(32)))
findings.job(0, 20, 20.01, on=(20.02, 21.02), staged=1).job(1, 20, 20.01, on=(20.02, 21.02))
check("causes beyond the last are left out", findings, *(f"the guard found that f{i} waits" for i in range(32)))

long = Trace(2)
for w in range(2):
    long.job(w, 0, 1, on=(1, 15000))
check("a long trace", long)
page("its page has seconds, and any program's name", "15.00 s", "<title>a&lt;b>&amp;&quot;c&quot;\\x09: timeline")

check("a function's name may look like markup", busy().guard("f<b> waits"), "the guard found that f<b> waits")
page("its page lists the causes", "<li>the guard found that f&lt;b> waits")
sys.exit(rc)
PY
