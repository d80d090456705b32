#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Checks a trace of rnl_trace_start() against the trace-event format, and for consistency.

usage: trace_format.py TRACE [NAME=VALUE]...    figures that the trace's end must have
Prints each error, and then exits with 1."""
import json
import sys
from collections import defaultdict

DEVICE = 0x40000000
CLOCK_US = 25.0    # the most that the clocks of a device and the host may differ
EPSILON = 0.0011   # times in the file have a resolution of nanoseconds

events = json.load(open(sys.argv[1]))
wrong = []


def check(ok, event, what):
    if not ok and len(wrong) < 20:
        wrong.append(f"{what}: {event}")


def number(event, name):
    value = event.get(name)
    ok = isinstance(value, (int, float)) and not isinstance(value, bool) and value >= 0
    check(ok, event, f"{name} is no number from 0 on")
    return float(value) if ok else 0.0


check(isinstance(events, list) and events, type(events), "it is no array of events")
check(events[0].get("name") == "runnel", events[0], "it does not say what it is")
check(events[-1].get("name") == "runnel_end", events[-1], "it has no end")

tracks, begun, flows, jobs, device, named = defaultdict(list), {}, defaultdict(list), {}, {}, set()
for e in events:
    check(isinstance(e.get("name"), str) and isinstance(e.get("pid"), int) and
          isinstance(e.get("tid"), int), e, "name, pid or tid is missing")
    ph = e.get("ph")
    if ph == "M":
        check(isinstance(e.get("args"), dict), e, "metadata without args")
        if e["name"] == "thread_name":
            named.add(e["tid"])
        continue
    ts = number(e, "ts")
    if ph == "X":
        dur = number(e, "dur")
        tracks[e["tid"]].append((ts, ts + dur, e))
        if e["cat"] == "job":
            check(e["args"]["id"] not in jobs, e, "a job twice")
            jobs[e["args"]["id"]] = e
        elif e["cat"] == "device":
            device[e["args"]["id"]] = e
    elif ph in "be":
        key = (e["cat"], e["id"])
        if ph == "b":
            check(key not in begun, e, "it began before")
            begun[key] = [ts, None]
        else:
            check(key in begun and begun[key][1] is None, e, "an end without a begin")
            check(begun[key][0] <= ts, e, "it ends before it begins")
            begun[key][1] = ts
    elif ph in "sf":
        flows[e["cat"], e["id"]].append((ph, ts, e))
    else:
        check(ph == "i", e, "an event of an unknown kind")

for key, (begin, end) in begun.items():
    check(end is not None, key, "a begin without an end")

# On a track, spans are nested or disjoint, and time does not run backwards, except for spans that are
# written later: a thread's submits with their jobs, and a callback after those that it has caused.
for tid, spans in tracks.items():
    check(tid in named, tid, "a track without a name")
    in_order = [(begin, e) for begin, _, e in spans if e["cat"] not in ("submit", "wait", "callback")]
    for (before, _), (begin, e) in zip(in_order, in_order[1:]):
        check(begin >= before - EPSILON, e, "time runs backwards on its track")
    spans.sort(key=lambda s: (s[0], -s[1]))
    open_ends = []
    for begin, end, e in spans:
        while open_ends and open_ends[-1] <= begin + EPSILON:
            open_ends.pop()
        check(not open_ends or end <= open_ends[-1] + EPSILON, e, "it overlaps its neighbour")
        open_ends.append(end)

# An arrow begins once and ends once, each time in a span.
starts = {tid: [s[0] for s in spans] for tid, spans in tracks.items()}


def in_span(tid, ts):
    from bisect import bisect_right
    spans = tracks.get(tid, [])
    i = bisect_right(starts.get(tid, []), ts + EPSILON)
    return any(b - EPSILON <= ts <= e + EPSILON for b, e, _ in spans[max(0, i - 50):i])


for ident, flow in flows.items():
    phases = "".join(sorted(p for p, _, _ in flow))
    check(phases == "fs", flow, "an arrow with no begin, or no end")
    check(ident[1] in jobs, flow, "an arrow of no job")
    for ph, ts, e in flow:
        check(in_span(e["tid"], ts), e, "an arrow that hangs in the air")
    order = {p: t for p, t, _ in flow}
    check(order.get("s", 0) <= order.get("f", 0) + EPSILON, flow, "an arrow backwards")

# The host's events and the device's events agree.
for ident, job in jobs.items():
    queued = job["args"].get("queued")
    if queued is not None:
        check(queued <= job["ts"] + EPSILON, job, "taken before it was submitted")
    flight = begun.get(("inflight", ident))
    if flight:
        check(abs(flight[0] - job["ts"] - job["dur"]) <= EPSILON, job,
              "in flight, but not from its function's return on")
    on_device = device.get(ident)
    if on_device:
        check(on_device["tid"] >= DEVICE, on_device, "no track of a device")
        check(flight is not None, job, "on the device, but never in flight")
        check(on_device["ts"] >= job["ts"] - CLOCK_US, on_device, "began before it was issued")
        check(flight is None or on_device["ts"] + on_device["dur"] <= flight[1] + CLOCK_US,
              on_device, "ended after it was done")

end = events[-1].get("args", {})
for name in ("jobs", "flown", "timed", "unfinished", "dropped", "too_much", "arrows_lost"):
    check(isinstance(end.get(name), int), end, f"its end does not tell {name}")
if not wrong:
    check(end["jobs"] == len(jobs) + end["too_much"], end, "jobs are missing")
    check(end["timed"] == len(device) or end["too_much"], end, "device times are missing")
for wish in sys.argv[2:]:
    name, value = wish.split("=")
    check(str(end.get(name)) == value, end, f"{name} is not {value}")
for line in wrong:
    print(line)
print(f"{len(events)} events, {len(jobs)} jobs, {len(device)} on the device, {len(flows)} arrows")
sys.exit(bool(wrong))
