#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Ports a program of runnel 0.1 or 0.2 to 0.3: port.py FILE...

Changes the files (C, C++, CUDA) in place: functions that have another name, calls that have other
arguments, and the headers that are included for each. It prints a line for each call that has to be
ported by hand: CHANGELOG says how. A call inside of a macro's definition, or of a macro, is ported as
any other; what it means there is for the reader of the diff.
"""
import re
import sys

RENAMED = {
    **{f"rnl_job_{name}": f"rnl_job_set_{name}"
       for name in ("after", "then", "on_done", "cq", "deadline", "device", "key")},
    "rnl_batcher_reserve_wait": "rnl_batcher_reserve",
    "rnl_cq_wait": "rnl_cq_reap",
    "rnl_pinned_put": "rnl_memory_put",
    "rnl_device_free": "rnl_memory_put",
    "rnl_request_cancel": "rnl_request_release",
    "rnl_small_barrier_init": "rnl_barrier_init",
    "rnl_small_barrier": "rnl_barrier",
    "RNL_LOW_WATER": "RNL_SPACE",
}
# In each, {0}, {1}, ... are the old call's arguments, and {&0} the object that a pointer points to.
CALLS = {
    "rnl_small": "{0}",
    "rnl_batcher_reserve": "rnl_batcher_reserve({0}, {1}, {2}, 0)",
    "rnl_pinned_get": "rnl_memory_get({0}, RNL_PINNED, {1}, {2}, 0)",
    "rnl_pinned_get_wait": "rnl_memory_get({0}, RNL_PINNED, {1}, {2}, {3})",
    "rnl_device_alloc": "rnl_memory_get({0}, (int)({1}), {2}, {3}, 0)",
    "rnl_device_describe": "rnl_device_describe(NULL, {0}, 0, {1})",
    "rnl_pool_device": "rnl_device_describe({0}, NULL, {1}, {2})",
    "rnl_request_init": "rnl_job_init(&{&0}.job, NULL)",
    "rnl_thread_detach": "rnl_thread_attach(NULL)",
    "rnl_job_result": "{&0}.result",
    "rnl_cq_reap": "rnl_cq_reap({0}, {1}, {2}, 0)",
    "rnl_pool_read_stats": "rnl_pool_read_stats({0}, RNL_ALL_WORKERS, {1})",
    "rnl_worker_read_stats": "rnl_pool_read_stats({0}, (int)({1}), {2})",
    "rnl_submit_keyed": "(rnl_job_set_key({1}, {2}), rnl_submit({0}, {1}))",
    "rnl_submit_keyed_wait": "(rnl_job_set_key({1}, {2}), rnl_submit_wait({0}, {1}, {3}))",
    "rnl_job_gather": "rnl_job_set_flags({0}, {1} ? RNL_GATHER : 0)",
    "rnl_job_replay": "rnl_job_set_flags({0}, {1})",
    "rnl_job_test": "(rnl_job_wait({0}, 0) == 0)",
    "rnl_job_device_error": "{&0}.device_error",
    "rnl_barrier_result": "{&0}.result",
    "rnl_worker_index": "rnl_worker().index",
    "rnl_worker_device": "rnl_worker().device",
    "rnl_worker_data": "rnl_worker().data",
}
SIMPLER = (
    (r"[ \t]*\brnl_set_log\(rnl_log_stderr, (?:NULL|nullptr)\);[^\n]*\n", ""),
    (r"\brnl_log_stderr\b", "NULL"), (r"\(int\)\((\d+)\)", r"\1"),
    (r"(?<![\w)\]>])\(((?:[\w.]|->|\[\w+\])+)\)->", r"\1->"),
    (r"\b(?:1|true) \? (RNL_\w+) : 0", r"\1"), (r"\b(?:0|false) \? RNL_\w+ : 0", "0"),
    (r"!\((rnl_job_wait\([^()]*\)) == 0\)", r"\1"), (r"\(&(\w+)\)->", r"\1."),
    (r"\bRNL_REPLAY_CALLS\b", "RNL_REPLAY"), (r"\bRNL_REPLAY_OFF\b", "0"),
    (r"\bguard_(functions|legacy|private|waits|allocations|pageable|unclear|twice|postponed|beyond|"
     r"strays)\b", r"guard.\1"),
)
BY_HAND = {
    "rnl_submit_at", "rnl_submit_keyed_at", "rnl_submit_ordered", "rnl_submit_ordered_wait",
    "rnl_job_urgent", "rnl_submit_when", "rnl_pool_nr_devices", "rnl_pool_held", "rnl_top_start", "rnl_top_stop",
    "rnl_trace_overlap", "rnl_overlap_find", "RNL_HIGH_WATER", "high_water", "low_water",
}
HEADERS = {
    "batch": r"rnl_(batch|request|span)\w*",
    "device": r"rnl_(setup|device_describe|device_info)",
    "guard": r"RNL_GUARD_\w+",
    "hold": r"rnl_(job_)?hold(_release)?",
    "kernel": r"rnl_(dim|kernel|launch)|RNL_HOST_KERNEL",
    "map": r"rnl_(map|chunk)\w*",
    "memory": r"rnl_(memory_\w+|scratch)",
    "more": r"rnl_(job_more|job_set_more|order\w*|after)|RNL_(SPACE|EMPTY)",
    "replay": r"RNL_(GATHER|REPLAY\w*)|rnl_job_args",
    "stats": r"rnl_(pool_read_stats|pool_stats\w*|pool_health|health\w*|latency|unfinished)",
    "thread": r"rnl_(thread_\w+|stream_wait)",
    "trace": r"rnl_trace_\w+",
}
TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|' + r"'(?:\\.|[^'\\\n])*'", re.S)


def arguments(text, at):
    """The arguments of the call whose ( is at `at`, and where its ) ends; None: it has no end."""
    depth, begin, found, i = 0, at + 1, [], at
    while i < len(text):
        token = TOKEN.match(text, i)
        if token:
            i = token.end()
            continue
        c = text[i]
        depth += (c in "([{") - (c in ")]}")
        if depth == 0 or depth == 1 and c == ",":
            found.append(text[begin:i].strip())
            begin = i + 1
        if depth == 0:
            return (found if found != [""] else []), i + 1
        i += 1
    return None


def ported(text, says):
    """The text with its calls ported; says(offset, name) is called for what it cannot."""
    out, i = [], 0
    for match in re.finditer(TOKEN.pattern + r"|\b(?:rnl|RNL)_\w+|\b(?:high|low)_water\b", text, re.S):
        name = match.group()
        if match.start() < i:
            continue
        out.append(text[i:match.start()])
        i = match.end()
        call = arguments(text, i) if name in CALLS and text[i:i + 1] == "(" else None
        # A function of the same name that has its new arguments already.
        holes = {int(n) for n in re.findall(r"\{&?(\d)\}", CALLS.get(name, ""))}
        if call and len(call[0]) == len(holes):
            given, i = call
            given = [ported(arg, says) for arg in given]
            out.append(re.sub(r"\{(&?)(\d)\}", lambda hole: (
                given[int(hole[2])] if not hole[1] else
                re.sub(r"^&", "", given[int(hole[2])]) if given[int(hole[2])].startswith("&") else
                f"({given[int(hole[2])]})->").replace("->.", "->"), CALLS[name]).replace("->.", "->"))
        else:
            if name in BY_HAND:
                says(match.start(), name)
            out.append(RENAMED.get(name, name))
    return "".join(out) + text[i:]


def include(text):
    """The text with the headers that its names need, after <runnel.h>, or else before the first one."""
    code = TOKEN.sub(" ", text)
    has = set(re.findall(r"#\s*include\s*[<\"]runnel/(\w+)\.h[>\"]", text))
    need = sorted(name for name, what in HEADERS.items()
                  if name not in has and re.search(rf"\b(?:{what})\b", code))
    lines = "".join(f"#include <runnel/{name}.h>\n" for name in need)
    if re.search(r"^#include <runnel\.h>\n", text, re.M):
        return re.sub(r"^#include <runnel\.h>\n", lambda m: m[0] + lines, text, count=1, flags=re.M)
    return re.sub(r"^#include ", lambda m: lines + m[0], text, count=1, flags=re.M)


def main():
    if len(sys.argv) < 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    for path in sys.argv[1:]:
        with open(path, encoding="utf-8") as file:
            old = file.read()
        text = ported(old, lambda at, name: print(
            f"{path}:{old.count(chr(10), 0, at) + 1}: {name}: by hand, see CHANGELOG"))
        for pattern, by in SIMPLER:
            text = re.sub(pattern, by, text)
        text = include(text)
        if text != old:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)


if __name__ == "__main__":
    main()
