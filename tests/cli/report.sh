#!/bin/sh
# SPDX-License-Identifier: MIT
# runnel report: a trace as text, as JSON, as a picture; and files that are not traces.
#
# env: RUNNEL     the program (./runnel)
#      OVERLAP    the program that writes the trace (examples/overlap/overlap)
OVERLAP=${OVERLAP:-examples/overlap/overlap} program=${RUNNEL:-./runnel}
. "$(dirname "$0")/../lib/harness.sh"
[ -x "$OVERLAP" ] || { echo "there is no $OVERLAP"; exit 1; }
t=$dir/t.json
# On a busy machine a worker may start too late to get one of few chunks: each try has more chunks.
for chunks in 40 400 4000; do
	if ! "$OVERLAP" --device=host --chunks=$chunks --chunk=64K --workers=3 --repeat=1 --trace="$t" >"$dir/out" 2>&1; then
		echo "not ok - there is a trace"
		cat "$dir/out"
		exit 1
	fi
	"$program" report "$t" >"$dir/out" 2>"$dir/err" || true
	! grep -q ', 3 workers,' "$dir/out" || break
done
! grep -q 'built without jansson' "$dir/err" || skip_all 'runnel was built without jansson'

reports() {	# reports STATUS ARG...
	want=$1
	shift
	gives "$want" report "$@"
}
refuses() {	# refuses TEXT ARG...: the status is 2, the message has TEXT, and nothing is printed
	text=$1
	shift
	fails 2 "$text" report "$@"
}

reports 0 "$t"
silent
prints ': overlap on host, 3 workers, [0-9]+ jobs \([0-9]+ timed on the device\), '
prints '^  busy  .* [0-9.]+ %$'
for line in 'copies in' kernels 'copies out' 'copies in and kernels at once' 'all three at once'; do
	prints "^  $line  .* %\$"
done
prints '^Jobs on the device at once$'
prints '^  One after another its jobs take .*: [0-9.]+ times as long as it was busy\.$'
prints '^  rnl-worker-2  '
ends 'tells as text what ran at the same time'

reports 0 --json "$t"
if command -v python3 >/dev/null; then
	python3 - "$dir/out" "$t" >"$dir/says" 2>&1 <<'PY' || { complain 'the JSON'; cat "$dir/says"; }
import json, sys
r = json.load(open(sys.argv[1]))
events = json.load(open(sys.argv[2]))
spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "device"]
def cover(spans):
    total, seen = 0, 0
    for begin, end in sorted(spans):
        begin = max(begin, seen)
        if end > begin:
            total, seen = total + end - begin, end
    return total * 1000
o = r["overlap"]
assert r["trace"]["whole"] is True and r["trace"]["timed"] == len(spans), r["trace"]
assert abs(o["busy_ns"] - cover(spans)) < 1000, (o["busy_ns"], cover(spans))
assert abs(o["sum_ns"] - sum(e - b for b, e in spans) * 1000) < 1000
assert sum(o["at_once_ns"]) == o["elapsed_ns"] and o["elapsed_ns"] >= o["busy_ns"]
for kind, name in (("copy in", "copies_in_ns"), ("kernel", "kernels_ns"), ("copy out", "copies_out_ns")):
    of = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == kind]
    assert of and abs(o[name] - cover(of)) < 1000, (name, o[name], cover(of))
assert len(r["workers"]) == 3 and isinstance(r["causes"], list)
PY
else
	prints '"overlap": '
fi
ends 'tells it as JSON, with the figures of the trace'

# If most jobs have no device times, each figure has two bounds, and the true value lies between
# the bounds.
if command -v python3 >/dev/null; then
	python3 - "$dir/out" "$t" "$dir/some.json" "$program" >"$dir/says" 2>&1 <<'PY' || { complain 'bounds'; cat "$dir/says"; }
import json, random, subprocess, sys
truth, events = json.load(open(sys.argv[1])), json.load(open(sys.argv[2]))
ids = [e["args"]["id"] for e in events if e.get("cat") == "device"]
untimed = set(random.Random(1).sample(ids, len(ids) * 7 // 10))
times = "device", "copy in", "kernel", "copy out"
json.dump([e for e in events if e.get("cat") not in times or e["args"]["id"] not in untimed],
          open(sys.argv[3], "w"))
r = json.loads(subprocess.check_output([sys.argv[4], "report", "--json", sys.argv[3]]))
assert r["trace"]["timed"] == len(ids) - len(untimed) and r["trace"]["on_device"] == len(ids)
def holds(least, true, most, what):
    assert least <= true <= most, (what, least, true, most)
o = r["overlap"]
holds(o["busy_ns"], truth["overlap"]["busy_ns"], o["busy_most_ns"], "busy")
assert o["busy_ns"] < truth["overlap"]["busy_ns"]
for i in range(1, 17):
    holds(*(sum(of[name][i:]) for of, name in ((o, "at_once_ns"), (truth["overlap"], "at_once_ns"),
                                               (o, "at_once_most_ns"))), "%d at once" % i)
for name in "at_once_ns", "at_once_most_ns":
    assert sum(o[name]) == o["elapsed_ns"], name
for mine, true in zip(r["workers"], truth["workers"]):
    holds(mine["busy_ns"], true["busy_ns"], mine["busy_most_ns"], mine["name"])
for gap in r["gaps"]:
    spans = [(e["ts"], e["ts"] + e["dur"]) for e in events if e.get("cat") == "device"]
    assert all(e * 1000 <= gap["begin_ns"] + 1 or b * 1000 >= gap["end_ns"] - 1 for b, e in spans), gap
PY
	reports 0 --svg="$dir/some.svg" --html="$dir/some.html" "$dir/some.json"
	sed -n 2p "$dir/out" >"$dir/second"
	grep -qE '^[0-9]+ of [0-9]+ jobs were timed on the device: ' "$dir/second" || complain 'the sampling is not said first'
	prints '^  busy  .* %  to .* %$'
	prints '^  kernels  .* %  or more$'
	prints '^  1 or more  .* %  to .* %$'
	prints '^  rnl-worker-0  .* %  to .* %$'
	grep -q '<path class="maybe"\|<rect class="maybe" .*not timed' "$dir/some.svg" || complain 'nothing is hatched'
	grep -q '<p>[0-9]* of [0-9]* jobs were timed' "$dir/some.html" || complain 'the page does not say the sampling'
	sed 's/"timing":[0-9]/"timing":2/' "$t" >"$dir/x"
	python3 -c 'import json, sys
events = json.load(open(sys.argv[1]))
json.dump([e for e in events if e.get("cat") not in ("device", "copy in", "kernel", "copy out")], open(sys.argv[1], "w"))' "$dir/x"
	reports 0 "$dir/x"
	prints '^0 of [0-9]+ jobs were timed on the device, since it was not asked for'
	prints '^  busy  +0.00 us +0.0 %  to .* %$'
	sed 's/"dropped":0/"dropped":3/' "$t" >"$dir/x"
	reports 0 "$dir/x"
	prints '^Jobs are missing: the figures are lower bounds'
	prints '^  busy  .* %  to .* 100.0 %$'
	ends 'tells bounds where jobs were not timed'
else
	echo 'SKIP: no python3 to take device times out of a trace'
fi

awk '/"name":"runnel_end"/ { for (i = 1; i <= 3; i++) for (k = 1; k <= 2; k++)
		printf "{\"name\":\"an_answer\",\"cat\":\"request\",\"ph\":\"%s\",\"id\":%d,\"pid\":1,\"tid\":7,\"ts\":%d.000},\n",
		       substr("be", k, 1), i, 10 * i + k }
	{ print }' "$t" >"$dir/x"
reports 0 "$dir/x"
prints '^Resident kernels +requests$'
prints '^  an_answer +3$'
reports 0 --json "$dir/x"
prints '"kernel": "an_answer"'
prints '"requests": 3'
ends 'counts the requests that resident kernels answered'

reports 0 --html="$dir/t.html" --svg="$dir/t.svg" "$t"
for file in t.html t.svg; do
	[ "$(wc -c <"$dir/$file")" -lt 200000 ] || complain "$file is large"
	grep -qE '(href|src)=|url\([^#]|<script|@import' "$dir/$file" && complain "$file needs something else"
	grep -q '<svg xmlns="http://www.w3.org/2000/svg"' "$dir/$file" || complain "$file has no picture"
done
if command -v python3 >/dev/null; then
	python3 -c 'import sys, xml.dom.minidom as m; m.parse(sys.argv[1])' "$dir/t.svg" 2>"$dir/err" ||
		complain 'the SVG is no XML'
fi
"$OVERLAP" --device=host --chunks=3000 --chunk=4K --workers=8 --repeat=1 --trace="$dir/many.json" >/dev/null
reports 0 --html="$dir/many.html" "$dir/many.json"
[ "$(wc -c <"$dir/many.html")" -lt 200000 ] || complain 'the page of many jobs is large'
ends 'draws a page and a picture that need nothing else'

# The page has each line of the text's tables, and looks right. A trace in which some jobs
# were not timed has the widest tables.
if command -v python3 >/dev/null; then
	reports 0 --html="$dir/t.html" "$t"
	cp "$dir/out" "$dir/t.txt"
	reports 0 --html="$dir/some.html" "$dir/some.json"
	cp "$dir/out" "$dir/some.txt"
	for page in t some; do
		python3 - "$dir/$page.txt" "$dir/$page.html" >"$dir/says" 2>&1 <<'PY' || { complain 'the page has other tables'; cat "$dir/says"; }
import html, re, sys
text, page = (open(path).read() for path in sys.argv[1:])
rows = [" ".join(html.unescape(re.sub("<[^>]*>", " ", row)).split())
        for row in re.findall("<tr>.*|<p>One after.*", page)]
tables = text.split("Likely causes")[0].split("\n\n", 1)[1]
lines = [" ".join(line.split()) for line in tables.split("\n") if line]
assert len(lines) > 10 and lines == rows, [line for line in lines + rows if (line in lines) != (line in rows)]
PY
	done
	ends 'the page has the tables of the text'
	python3 -B "$srcdir/tests/http/http_looks.py" "$dir/t.html" "$dir/some.html" >"$dir/out" 2>"$dir/err"
	case $? in
	77) echo 'SKIP: no Chromium shows the page (make deps check)' ;;
	0) ends 'the page can be read on a phone and in the dark' ;;
	*) complain 'it looks wrong'; ends 'the page can be read on a phone and in the dark' ;;
	esac
fi

"$OVERLAP" --device=host:2 --chunks=40 --chunk=64K --workers=4 --repeat=1 --trace="$dir/two.json" >/dev/null
reports 0 "$dir/two.json"
silent
# A worker that ran no job has no track: on a busy machine two of the four may be missing.
prints ' on 2 times host, [2-4] workers, '
prints '^On the devices, of '
prints '^  host:0 +[0-9]+ .* %$'
prints '^  host:1 +[0-9]+ .* %$'
prints '^  rnl-worker-[13] on host:1 '
reports 0 --json "$dir/two.json"
prints '"devices": 2'
# An old trace has no device names in its tracks, and no number of devices in its header.
sed 's/ device host:[01]"/ device"/; s/,"devices":2//' "$dir/two.json" >"$dir/x"
reports 0 "$dir/x"
prints ' on host, [2-4] workers, '
sed 's/,"devices":2/,"devices":17/' "$dir/two.json" >"$dir/x"
refuses '"devices" is 17' "$dir/x"
sed 's/ device host:1"/"/' "$dir/two.json" >"$dir/x"
reports 0 "$dir/x"
ends 'tells of each device'

# Of two classes, with 4 and 1 of 6 jobs; one job was not timed, and one was submitted before the trace.
{
	echo '[{"name":"runnel","ph":"M","pid":1,"tid":0,"args":{"format":1}}'
	echo ',{"name":"thread_sort_index","ph":"M","pid":1,"tid":7,"args":{"sort_index":1000}}'
	i=0
	for class in gold gold gold gold 'a\u001b' none; do
		i=$((i + 1))
		queued=",\"queued\":$((i * 900))" named=",\"class\":\"$class\""
		[ $i != 4 ] || queued=
		[ $i != 6 ] || named=
		echo ",{\"name\":\"f\",\"cat\":\"job\",\"ph\":\"X\",\"pid\":1,\"tid\":7,\"ts\":$((i * 1000)),\"dur\":1,\"args\":{\"id\":$i,\"result\":0$queued$named}}"
		[ $i = 3 ] || echo ",{\"name\":\"f\",\"cat\":\"device\",\"ph\":\"X\",\"pid\":1,\"tid\":1073741824,\"ts\":$((i * 1000 + 1)),\"dur\":10,\"args\":{\"id\":$i}}"
	done
	echo ']'
} >"$dir/x"
reports 0 "$dir/x"
silent
prints '^Classes +jobs +half, 99 of 100 queued +on device$'
prints '^  .no class. +1 +0\.600 ms +0\.600 ms +0\.010 ms +20\.0 %$'
prints '^  gold +4 +0\.200 ms +0\.300 ms +0\.030 ms +60\.0 %$'
prints '^  a.x1b +1 +0\.500 ms +0\.500 ms +0\.010 ms +20\.0 %$'
reports 0 --json "$dir/x"
if command -v python3 >/dev/null; then
	python3 -c 'import json, sys
c = {x.pop("class"): x for x in json.load(open(sys.argv[1]))["classes"]}
assert c["gold"] == {"jobs": 4, "queue_p50_ns": 200000, "queue_p99_ns": 300000, "timed": 3, "device_ns": 30000, "device_share": 0.6}, c
assert len(c) == 3 and c[None]["jobs"] == 1, c' "$dir/out" 2>"$dir/err" || complain 'the JSON of classes'
fi
reports 0 "$t"
prints_not '^Classes'
reports 0 --json "$t"
prints '"classes": \[\]'
ends 'tells of each class of jobs, if a job has one'

# ---- files that are not traces ------------------------------------------------------
refuses "$dir/none: No such file or directory" "$dir/none"
refuses "$dir: is a directory" "$dir"
: >"$dir/empty"
refuses "$dir/empty: is empty" "$dir/empty"
bytes=$(wc -c <"$t")
for part in 1 10 100 1000 $((bytes / 2)) $((bytes - 3)); do
	head -c "$part" "$t" >"$dir/part"
	reports 2 "$dir/part"
	grep -qF "$dir/part: ends after event" "$dir/err" || complain "$part bytes of it"
done
echo 'hello' >"$dir/x"
refuses 'is no trace: it does not begin as JSON' "$dir/x"
echo '[}' >"$dir/x"
refuses 'event 1: is no JSON' "$dir/x"
echo '[]' >"$dir/x"
refuses 'event 1: is no JSON' "$dir/x"
echo '{"traceEvents":[]}' >"$dir/x"
refuses 'is no trace that runnel wrote' "$dir/x"
echo '[{"name":"a","ph":"X","pid":1,"tid":1,"ts":1,"dur":1}]' >"$dir/x"
refuses 'is JSON, but no trace that runnel wrote' "$dir/x"
cat "$t" "$t" >"$dir/x"
refuses 'is followed by text that is not JSON' "$dir/x"
head='[{"name":"runnel","ph":"M","pid":1,"tid":0,"args":{"format":1}}'
track='{"name":"thread_sort_index","ph":"M","pid":1,"tid":7,"args":{"sort_index":1000}}'
wrongly() {	# wrongly TEXT EVENT: a trace with the event is refused with that message
	printf '%s,\n%s,\n%s\n]\n' "$head" "$track" "$2" >"$dir/x"
	refuses "$1" "$dir/x"
}
job='"name":"f","cat":"job","ph":"X","pid":1,"tid":7'
wrongly 'event 3: it is no object' '[]'
wrongly 'event 3: "ph" is missing' '{"name":"f"}'
wrongly 'event 3: "name" is no text' '{"name":7,"ph":"X"}'
wrongly 'event 3: "tid" is no whole number' '{"name":"f","ph":"X","tid":"7"}'
wrongly 'event 3: "tid" is -7, less than 0' '{"name":"f","ph":"X","tid":-7}'
wrongly 'event 3: "ts" is missing' "{$job}"
wrongly 'event 3: "ts" is no number' "{$job,\"ts\":\"1\",\"dur\":1}"
wrongly 'event 3: "dur" is negative: -1' "{$job,\"ts\":1,\"dur\":-1}"
wrongly 'event 3: "dur" is beyond all reason' "{$job,\"ts\":1,\"dur\":1e300}"
wrongly 'event 3: "args" is missing' "{$job,\"ts\":1,\"dur\":1}"
wrongly 'event 3: "id" is 0, less than 1' "{$job,\"ts\":1,\"dur\":1,\"args\":{\"id\":0}}"
wrongly "track 9, which is no worker's" '{"name":"f","cat":"job","ph":"X","pid":1,"tid":9,"ts":1,"dur":1,"args":{"id":1}}'
wrongly 'event 3: "cat" is missing' '{"name":"f","ph":"X","tid":7}'
wrongly 'event 3: "name" is missing' '{"name":"thread_name","ph":"M","tid":1,"args":{}}'
wrongly 'event 3: "sort_index" is missing' '{"name":"thread_sort_index","ph":"M","tid":1,"args":{}}'
wrongly 'event 3: "args" is no object' '{"name":"thread_name","ph":"M","tid":1,"args":[]}'
head='[{"name":"runnel","ph":"M","pid":1,"tid":0,"args":{}}'
wrongly 'event 1: "format" is missing' "{$job}"
head='[{"name":"runnel","ph":"M","pid":1,"tid":0,"args":{"format":2}}'
wrongly 'a newer runnel report reads' "{$job}"
ends 'tells mistakes in a file'

# ---- untrusted text -------------------------------------------------------------
# Each text that the report shows from a trace has control characters, and is longer than its space.
if command -v python3 >/dev/null; then
	python3 - "$dir/x" "$dir/$(printf 'name\033[31m\377')" <<'PY'
import json, shutil, sys
bad = "\x1b[31m\x07\x9b\u202e\x7f"
long = bad + "ab\u00e9\u20ac\U0001f600" * 200
e = [{"name": "runnel", "ph": "M", "pid": 1, "tid": 0, "args": {"format": 1, "device": long, "devices": 2}},
     {"name": "process_name", "ph": "M", "pid": 1, "tid": 0, "args": {"name": long}},
     {"name": "thread_name", "ph": "M", "pid": 1, "tid": 9, "args": {"name": long}}]
for w in 0, 1:
    e += [{"name": "thread_sort_index", "ph": "M", "pid": 1, "tid": 100 + w, "args": {"sort_index": 1000 + 2 * w}},
          {"name": "thread_name", "ph": "M", "pid": 1, "tid": 0x40000000 + w, "args": {"name": long + " device " + long}}]
for i in range(8):
    for n in range(40):
        t = "x" * i + long[n:]
        e += [{"name": t, "cat": "guard", "ph": "i", "s": "t", "pid": 1, "tid": 100, "ts": 1},
              {"name": t, "cat": "job", "ph": "X", "pid": 1, "tid": 100, "ts": 1 + 40 * i + n, "dur": .5, "args": {"id": 1 + 40 * i + n}},
              {"name": t, "cat": "device", "ph": "X", "pid": 1, "tid": 0x40000000, "ts": 1 + 40 * i + n, "dur": .5, "args": {"id": 1 + 40 * i + n}}]
e += [{"name": "wait", "cat": "wait", "ph": "X", "pid": 1, "tid": 9, "ts": 1, "dur": 1}]
json.dump(e, open(sys.argv[1], "w"))
shutil.copy(sys.argv[1], sys.argv[2].encode("utf-8", "surrogateescape"))
PY
	bad=$(printf 'name\033[31m\377')
	reports 0 --html="$dir/x.html" --svg="$dir/x.svg" "$dir/$bad"
	cp "$dir/out" "$dir/x.txt"
	reports 0 --json "$dir/$bad"
	cp "$dir/out" "$dir/x.json"
	reports 2 "$dir/none$bad"
	cp "$dir/err" "$dir/x.err"
	python3 - "$dir" >"$dir/says" 2>&1 <<'PY' || { complain 'text'; cat "$dir/says"; }
import json, sys, xml.dom.minidom
dir = sys.argv[1]
for name in "x.txt", "x.html", "x.svg", "x.json", "x.err":
    text = open(dir + "/" + name, "rb").read().decode()     # whole characters
    for c in text:
        assert c == "\n" or (ord(c) >= 32 and not 0x7f <= ord(c) < 0xa0 and c != "\u202e"), (name, c)
assert "\\x1b[31m\\xff: No such file" in open(dir + "/x.err").read()
assert "\\x1b[31m\\x07\\xc2\\x9b" in open(dir + "/x.txt").read()
assert json.load(open(dir + "/x.json"))["trace"]["path"].endswith("/name\x1b[31m\ufffd")
assert "\U0001f600" in open(dir + "/x.svg").read()
xml.dom.minidom.parse(dir + "/x.svg")
PY
	ends 'cuts no character, and prints none that a terminal obeys'
fi

# The trace of a killed program can be read, and the report notes that it is not complete.
python3 -c 'import sys
lines = open(sys.argv[1]).read().split(",\n")
print(",\n".join(lines[:len(lines) // 2]) + "\n]")' "$t" >"$dir/half" 2>"$dir/err" &&
	reports 0 "$dir/half" && prints 'was not ended by rnl_trace_stop'
ends 'reads the half that a killed program leaves'

refuses 'there is no trace to look at'
grep -qF "Try 'runnel report --help'" "$dir/err" || complain 'no help is named'
refuses "'b' is unexpected" a b
refuses "unrecognized option '--what'" --what "$t"
refuses "option '--json' doesn't allow an argument" --json=1 "$t"
refuses "option '--html' requires an argument" --html
refuses "'$t' is the trace: give the picture another name" --html="$t" "$t"
refuses "'$t' is the trace: give the picture another name" --svg="$dir/./${t##*/}" "$t"
refuses '--html needs the name of a file' --html= "$t"
refuses '--svg needs the name of a file' --svg= "$t"
refuses '/no/such/t.html: No such file or directory' --html=/no/such/t.html "$t"
[ ! -w /dev/full ] || refuses '/dev/full: No space left on device' --svg=/dev/full "$t"
reports 0 --help
for option in json html svg help; do prints "^ +--$option[ =]"; done
ends 'helps, and refuses mistakes in its command line'
done_testing
