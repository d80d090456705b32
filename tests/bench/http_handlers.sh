#!/bin/sh
# SPDX-License-Identifier: MIT
# Compares examples/http_server's two handlers: async, jobs on the pool's workers, and sync, which
# waits for the stream in the event loop. wrk posts mixed bodies to /wc; the same load for both, in
# turns; medians of RUNS.
#
# usage, where runnel was built: sh tests/bench/http_handlers.sh [DEVICE [LOOPS ...]]
# DEVICE: host (the default), cuda, auto.  LOOPS: 1 2 4.
# env: HTTP_SERVER  the program (examples/http_server/http_server)
#      HTTP_OPTIONS  more options for it, such as --workers=8
#      WRK           the load generator (wrk), THREADS its threads (2)
#      CONNECTIONS   64; RUNS 3; DURATION of each, in seconds, 5
#      FILES         the bodies, each at most a megabyte (src/*/*.c)
set -eu
export LC_ALL=C
here=$(cd "$(dirname "$0")" && pwd)
server=${HTTP_SERVER:-examples/http_server/http_server} wrk=${WRK:-wrk}
threads=${THREADS:-2} connections=${CONNECTIONS:-64} runs=${RUNS:-3} duration=${DURATION:-5}
files=${FILES:-$here/../../src/*/*.c}
device=${1:-host}
[ $# -eq 0 ] || shift
[ $# -gt 0 ] || set -- 1 2 4
command -v "$wrk" >/dev/null || { echo "there is no $wrk: WRK=... names one" >&2; exit 1; }
tmp=$(mktemp -d)
pid=
trap '[ -z "$pid" ] || kill -9 "$pid" 2>/dev/null; rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM

# wc's counts as the server's answer.
for file in $files; do
	wc -lwc <"$file" | awk -v f="$file" '{
		printf "%s {\"lines\":%d,\"words\":%d,\"bytes\":%d}\n", f, $1, $2, $3 }'
done >"$tmp/list"

cpu_ticks() { sed 's/.*) //' "/proc/$pid/stat" | awk '{ print $12 + $13 }'; }
figure() { sed -n "s/^figure $1 //p" "$tmp/wrk"; }

# run HANDLER LOOPS: a line "requests/s p50_us p99_us max_us CPUs not-200" to $tmp/HANDLER.LOOPS.
run() {
	: >"$tmp/out"
	# shellcheck disable=SC2086  # options are words
	"$server" --listen=127.0.0.1:0 --device="$device" --handler="$1" --loops="$2" \
		--slots=$((connections * $2)) --max-pixels=64K ${HTTP_OPTIONS:-} >"$tmp/out" &
	pid=$!
	until url=$(sed -n 's/^listening on \([^ ]*\).*/\1/p' "$tmp/out") && [ "$url" ]; do
		kill -0 "$pid"
		sleep 0.1
	done
	load() {
		"$wrk" "-t$threads" "-c$connections" "-d$1" --timeout 30s -s "$here/../http/http_post.lua" \
			"$url/wc" -- "$tmp/list" ${2:+"$2"} >"$tmp/wrk" || { cat "$tmp/wrk"; exit 1; }
	}
	load 1s check		# are the answers right, and it is warm
	[ "$(figure wrong)$(figure errors)" = 00 ] || { echo 'wrong answers:'; cat "$tmp/wrk"; exit 1; }
	before=$(cpu_ticks)
	load "${duration}s"
	after=$(cpu_ticks)
	awk -v r="$(figure requests)" -v s="$(figure seconds)" -v p50="$(figure p50_us)" \
	    -v p99="$(figure p99_us)" -v max="$(figure max_us)" -v bad="$(figure bad_status)" \
	    -v t="$((after - before))" -v hz="$(getconf CLK_TCK)" \
	    'BEGIN { print r / s, p50, p99, max, t / hz / s, bad }' >>"$tmp/$1.$2"
	kill "$pid"
	wait "$pid" || { echo "$server ended with status $?"; exit 1; }
	pid=
}
median() { cut -d' ' -f"$2" "$1" | sort -n | sed -n "$(((runs + 1) / 2))p"; }

echo "device $device, $connections connections, $(wc -l <"$tmp/list") bodies of" \
	"$(awk -F'[:}]' '{ b += $(NF - 1) } END { printf "%.1f", b / NR / 1000 }' "$tmp/list") kB on" \
	"average, medians of $runs x $duration s; $(nproc) CPUs, wrk among them with $threads threads"
printf '%-8s %5s %11s %8s %8s %8s %6s %9s\n' handler loops requests/s p50_ms p99_ms max_ms CPUs \
	'not 200'
for loops; do
	for _ in $(seq "$runs"); do
		run async "$loops"
		run sync "$loops"
	done
	for handler in async sync; do
		f=$tmp/$handler.$loops
		printf '%-8s %5d %11.0f %8.3f %8.3f %8.3f %6.2f %9d\n' $handler "$loops" "$(median "$f" 1)" \
			"$(median "$f" 2)e-3" "$(median "$f" 3)e-3" "$(median "$f" 4)e-3" "$(median "$f" 5)" \
			"$(median "$f" 6)"
	done
done
