#!/bin/sh
# SPDX-License-Identifier: MIT
# runnel top: its output for programs that run, have ended, or do not use runnel.
#
# env: RUNNEL  the program (./runnel)
#      GWC the observed program (examples/gwc/gwc)
program=${RUNNEL:-./runnel} GWC=${GWC:-examples/gwc/gwc}
. "$(dirname "$0")/../lib/harness.sh"
top=$dir/top

# begin: starts $pid, a program that has a socket for top, and waits for a pipe
begin() {
	rm -f "$dir/fifo"
	mkfifo "$dir/fifo"
	RUNNEL_TOP=$top "$GWC" --device=host "$srcdir/README.md" "$dir/fifo" >"$dir/counts" 2>"$dir/gwc.err" &
	pid=$!
	exec 9>"$dir/fifo"	# succeeds when gwc opens it
}
begin
# On a busy machine a worker may be stuck, or a program may not answer in time.
for _ in $(seq 100); do
	"$program" top --once "$top" 2>/dev/null | grep -qE '^rnl-worker: ok, [0-9]+ workers, 0 jobs' && break
	sleep 0.1
done
gives 0 top --once "$top"
silent
prints '^rnl-worker: ok, [0-9]+ workers, [0-9]+ jobs not done, [0-9.]+ of [0-9.]+ MB pinned in use$'
prints '^in the queue +([0-9.]+ (us|ms|s)|-) +'
prints '^0 +host:0( +[0-9]+){6}$'
prints '^timer +0 '
prints '^all +[0-9]+ '
gives 0 top --json "$top"
if command -v python3 >/dev/null; then
	python3 -c 'import json, sys
d = json.load(open(sys.argv[1]))
assert d["pool"] == "rnl-worker" and d["health"] == "ok" and d["workers"]
for name in "in_queue", "in_function", "on_device":
    t = d[name]
    half, most = t["half_at_most_s"], t["99_of_100_at_most_s"]
    assert (half is None) == (not t["jobs"]) and (half is None or 0 < half <= most), d
assert d["all"]["done"] == sum(w["done"] for w in d["workers"]), d' "$dir/out" 2>"$dir/err" || complain 'the JSON'
fi
ends 'shows what was done so far, as text and as JSON'

"$program" top "$top" >"$dir/out" 2>"$dir/err" 9>&- &
watching=$!
i=0
while [ "$(grep -c '^worker .* done/s ' "$dir/out")" -lt 2 ] && [ $i -lt 300 ]; do sleep 0.1; i=$((i + 1)); done
rows 0 '[0-9]e[0-9]'
exec 9>&-
wait $pid || complain 'the program fails'
wait $watching
[ $? = 1 ] || complain 'status of top'
silent
prints '^all +[0-9]+ +0 +'
prints '^The program has ended\.$'
[ "$(grep -c '^worker .* done/s ' "$dir/out")" -ge 2 ] || complain 'it looked once'
[ ! -e "$top" ] || complain 'the socket is left'
grep -q ' total$' "$dir/counts" || complain 'the program did not count'
ends 'looks again and again, until the program ends'

begin
gives 0 top --once "$top"
RUNNEL_TOP=$top "$GWC" --device=host "$srcdir/README.md" >"$dir/out" 2>"$dir/err" || complain 'the second fails'
grep -qF "top is \"$top\": " "$dir/err" || complain 'no message that the socket is in use'
kill -9 $pid
wait $pid 2>/dev/null
exec 9>&-
[ -S "$top" ] || complain 'no socket is left of a program that was killed'
fails 2 "$top: nothing listens there" top --once "$top"
fails 2 "$top: nothing listens there" top "$top"
begin
gives 0 top --once "$top"
exec 9>&-
wait $pid || complain 'the third fails'
ends 'a killed program leaves a socket, which the next one takes'

# ---- other sockets and files ----------------------------------------------------
fails 2 'nothing listens there' top "$dir/none"
: >"$dir/file"
fails 2 "$dir/file: is no socket" top --once "$dir/file"
fails 2 "$dir: is no socket" top "$dir"
fails 2 'is too long for a socket' top "/tmp/$(printf '%0120d' 0)"
if command -v python3 >/dev/null; then
	stranger() {	# stranger TEXT [MORE]: makes a socket that sends TEXT to each client, or MORE to later ones
		rm -f "$dir/listens"
		python3 -c 'import socket, sys, os
s = socket.socket(socket.AF_UNIX)
if os.path.exists(sys.argv[1]): os.unlink(sys.argv[1])
s.bind(sys.argv[1]); s.listen(8)
print("listens", flush=True)
while True:
    c = s.accept()[0]
    c.sendall(sys.argv[2].encode("utf-8", "surrogateescape").decode("unicode_escape").encode("latin-1"))
    c.close()
    del sys.argv[2:-1]' "$dir/other" "$@" >"$dir/listens" 2>/dev/null &
		strange=$!
		until grep -qs listens "$dir/listens" || ! kill -0 $strange; do sleep 0.1; done
	}
	whole='rnl_workers{pool="a\x1b[31m\\"b"} 2\n# EOF\n'
	stranger "$whole"
	gives 0 top --once "$dir/other"
	silent
	prints '^a.x1b.31m"b: ok, 2 workers'
	kill $strange
	stranger 'rnl_workers{pool="a",other="b"} 1
rnl_queue_wait_seconds_bucket{pool="a",le="2e-06"} 98
rnl_queue_wait_seconds_bucket{pool="a",le="0.004"} 99
rnl_queue_wait_seconds_bucket{pool="a",le="+Inf"} 100
rnl_queue_wait_seconds_count{pool="a"} 100
rnl_host_seconds_bucket{pool="a",le="5e-05"} 60
rnl_host_seconds_bucket{pool="a",le="0.1"} 98
rnl_host_seconds_bucket{pool="a",le="+Inf"} 100
rnl_host_seconds_count{pool="a"} 100
rnl_device_seconds_bucket{pool="a",le="3"} 7
rnl_device_seconds_count{pool="a"} 7
# EOF
'
	gives 0 top --once "$dir/other"
	silent
	prints '^in the queue +2 us +4 ms *$'
	prints '^in the function +50 us +longer *$'
	rows 1 ' 3 s +3 s *$'
	kill $strange
	# A text has the buckets with counts: here, the later one has two more.
	# On a busy machine the first answer may come too late: then there is no difference to show.
	for _ in $(seq 10); do
		stranger 'rnl_queue_wait_seconds_bucket{pool="a",le="0.000010240"} 100
rnl_queue_wait_seconds_bucket{pool="a",le="+Inf"} 100
rnl_queue_wait_seconds_count{pool="a"} 100
# EOF
' 'rnl_queue_wait_seconds_bucket{pool="a",le="0.000005120"} 50
rnl_queue_wait_seconds_bucket{pool="a",le="0.000010240"} 150
rnl_queue_wait_seconds_bucket{pool="a",le="0.000043008"} 250
rnl_queue_wait_seconds_bucket{pool="a",le="+Inf"} 250
rnl_queue_wait_seconds_count{pool="a"} 250
# EOF
'
		"$program" top "$dir/other" >"$dir/out" 2>"$dir/err" &
		watching=$!
		until grep -q '^in the queue' "$dir/out" || ! kill -0 $watching; do sleep 0.1; done
		kill $watching $strange
		! grep -qE '^in the queue +43 us +43 us *$' "$dir/out" || break
	done
	prints '^in the queue +43 us +43 us *$'
	stranger 'rnl_class_jobs_run_total{pool="a",class="pool",index="0"} 5
rnl_class_jobs_run_total{pool="a",class="gold",index="1"} 30
rnl_class_jobs_run_total{pool="a",class="gold",index="32"} 7
rnl_class_jobs_refused_total{pool="a",class="gold",index="1"} 2
rnl_class_jobs_expired_total{pool="a",class="gold",index="1"} 3
rnl_class_jobs_late_total{pool="a",class="gold",index="1"} 4
rnl_class_jobs_queued{pool="a",class="gold",index="1"} 11
rnl_class_jobs_started{pool="a",class="gold",index="1"} 12
rnl_class_jobs_started{pool="a",class="none",index="33"} 12
rnl_class_device_seconds_total{pool="a",class="pool",index="0"} 0.5
rnl_class_device_seconds_total{pool="a",class="gold",index="1"} 1.5
rnl_class_queue_wait_seconds_bucket{pool="a",class="gold",index="1",le="2e-06"} 5
rnl_class_queue_wait_seconds_bucket{pool="a",class="gold",index="1",le="0.004"} 10
rnl_class_queue_wait_seconds_count{pool="a",class="gold",index="1"} 10
# EOF
'
	gives 0 top --once "$dir/other"
	silent
	prints '^.no class. +25\.0 % +5$'
	prints '^gold +75\.0 % +30 +2 +3 +4 +11 +12 +2 us +4 ms *$'
	prints '^gold +0\.0 % +7 +0 '
	prints_not none
	gives 0 top --json "$dir/other"
	python3 -c 'import json, sys
c = json.load(open(sys.argv[1]))["classes"]
assert [x["class"] for x in c] == [None, "gold", "gold"] and c[1]["device_share"] == 0.75, c
assert c[1]["late"] == 4 and c[1]["in_queue"] == {"jobs": 10, "half_at_most_s": 2e-06, "99_of_100_at_most_s": 0.004}, c
assert c[0] == {"class": None, "device_s": 0.5, "device_share": 0.25, "run": 5}, c' "$dir/out" 2>"$dir/err" || complain 'the JSON of classes'
	kill $strange
	for text in "$(printf '%0200d{a="b"} 1' 0)" 'a{pool_of_a_longer_name="b"} 1\n# EOF\n' '' 'hello' 'rnl_workers{pool="a"} 2\n' 'rnl_workers{pool="a"} 2\n# EO' '# EOF\n' \
		'rnl_workers{pool="a" 2\n# EOF\n' 'rnl_workers{pool="a"} x\n# EOF\n' \
		'rnl_workers{pool="a"} -2\n# EOF\n' 'rnl_workers{pool="a"} nan\n# EOF\n' 'HTTP/1.1 400 Bad Request\r\n\r\n'; do
		stranger "$text"
		fails 2 "$dir/other: " top --once "$dir/other"
		kill $strange
	done
fi
fails 2 'there is no socket to look at' top
fails 2 'one socket at a time' top a b
ends 'tells what is no socket of a pool'
done_testing
