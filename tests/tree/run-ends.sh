#!/bin/sh
# SPDX-License-Identifier: MIT
# When a signal ends tests/lib/run, no test and no process of a test is left.
srcdir=$(cd "${srcdir:-.}" && pwd) || exit
. "$srcdir/tests/lib/harness.sh"

cd "$dir" || exit 1
mkdir tests
cat >tests/waits.sh <<'IN'
sleep 1000 &
echo "$$ $!" >pids
wait
IN
left() {	# the live processes of the run and of the test
	for it in $pid $(cat pids 2>/dev/null); do ! kill -0 "$it" 2>/dev/null || echo "$it"; done
}
for signal in TERM HUP; do
	rm -f pids
	RESULTS= STOP_AT= sh "$srcdir/tests/lib/run" tests/waits.sh >out 2>&1 &
	pid=$!
	until [ -s pids ]; do kill -0 $pid || break; sleep 0.1; done
	kill -$signal $pid
	tries=0
	while [ "$(left)" ] && [ $tries -lt 100 ]; do tries=$((tries + 1)); sleep 0.1; done
	if [ "$(left)" ]; then
		complain "after $signal there is still: $(left)"
		# shellcheck disable=SC2046 # words
		kill -KILL $(left)
	fi
	wait $pid
	got=$?
	[ $got = 130 ] || complain "status after $signal: $got"
done
ends 'a signal ends the run and its tests'
done_testing
