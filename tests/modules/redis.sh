#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/modules/redis: answers to many clients, a full pool, clients that go away, BGSAVE, MODULE UNLOAD
# with jobs under way, a failed device, SHUTDOWN.
#
# devices: host fake
. "$(dirname "$0")/lib.sh"
needs redis-server redis-cli redis-benchmark
short "$modules/redis/module.c"
builds adler32.so "$modules/redis/module.c"

begin() {	# begin DEVICE [MAX_QUEUED]: sets $server
	: >"$dir/redis.log"
	starts redis.out redis-server --port 0 --unixsocket "$dir/socket" --dir "$dir" --save '' \
		--logfile "$dir/redis.log" --enable-module-command yes --loadmodule "$dir/adler32.so" "$@"
	await 'the server' test -S "$dir/socket" || { cat "$dir/redis.log"; done_testing; }
}
end() {	# end COMMAND...: of redis-cli; nothing is wrong in the server's log
	redis-cli -s "$dir/socket" "$@" >"$dir/out" 2>"$dir/err"
	ended "$server"
	! grep -qE 'runnel: |BUG REPORT|crashed' "$dir/redis.log" || complain 'the log:' /dev/null "$dir/redis.log"
}
cli() { redis-cli -s "$dir/socket" "$@" >"$dir/out" 2>"$dir/err" </dev/null; }
replies() {	# replies TEXT ARG...: the reply's first line begins with the text
	text=$1
	shift
	cli "$@"
	case $(head -n 1 "$dir/out") in "$text"*) ;; *) complain "$*: not $text" ;; esac
}
asks() {	# asks NAME: a client with a text that is held while the gate is closed
	redis-cli -s "$dir/socket" runnel.adler32 "hold $1" >"$dir/$1" 2>&1 </dev/null &
	eval "pid_$1=$!"
}
held() {	# held NAME: the same, until the job is held
	closes_gate
	asks "$1"
	holds 1
}
blocked() { cli info clients && grep -q "^blocked_clients:$1.\$" "$dir/out"; }
ended_with() {	# ended_with NAME REPLY: of a held request
	eval "pid=\$pid_$1"
	await "the end of $1" not_alive "$pid" && wait "$pid"
	[ "$(cat "$dir/$1")" = "$2" ] || complain "$1: not $2" /dev/null "$dir/$1"
}
hold_x=137691712

# ---- answers ----
begin "$device"
replies 300286872 runnel.adler32 Wikipedia
replies 6422626 runnel.adler32 a
replies 'ERR the text is empty' runnel.adler32 ''
replies 'ERR wrong number of arguments' runnel.adler32
replies 'ERR not allowed in MULTI' eval "return redis.call('runnel.adler32', 'a')" 0
printf 'MULTI\nrunnel.adler32 a\nEXEC\n' | redis-cli -s "$dir/socket" >"$dir/out" 2>&1
prints 'ERR not allowed in MULTI'
ends 'answers are right'

# Texts of 1 to 600 bytes, and their checksums.
awk 'BEGIN {
	for (i = 1; i <= 2000; i++) {
		a = 1; b = 0; text = ""
		for (k = 0; k < i % 600 + 1; k++) {
			code = 97 + (i * 7 + k * k) % 26; text = text sprintf("%c", code)
			a = (a + code) % 65521; b = (b + a) % 65521
		}
		print "runnel.adler32 " text >ARGV[1]
		printf "%.0f\n", b * 65536 + a >ARGV[2]
	}
}' "$dir/commands" "$dir/want"
for i in 1 2 3 4 5 6 7 8; do
	redis-cli -s "$dir/socket" <"$dir/commands" >"$dir/have$i" 2>&1 &
	eval "client$i=$!"
done
cli bgsave
redis-benchmark -e -s "$dir/socket" -n 20000 -c 50 -P 4 -q runnel.adler32 abcdef >"$dir/out" 2>&1 ||
	complain 'redis-benchmark'
await 'BGSAVE' grep -q 'Background saving terminated with success' "$dir/redis.log"
for i in 1 2 3 4 5 6 7 8; do
	eval "wait \$client$i"
	cmp -s "$dir/want" "$dir/have$i" || complain "client $i" "$dir/want" "$dir/have$i"
done
ends 'many clients get right answers, also while a child saves'

# ---- MODULE UNLOAD, SHUTDOWN ----
for i in 1 2 3; do
	replies OK module unload runnel
	replies 'ERR unknown command' runnel.adler32 a
	replies OK module load "$dir/adler32.so" "$device"
	replies 6422626 runnel.adler32 a
done
held x
replies 'ERR Error unloading module: the module has blocked clients' module unload runnel
kill "$pid_x"
await 'the disconnect' blocked 0
replies 'ERR Error unloading module: the module has blocked clients' module unload runnel
opens_gate
await 'the unload' eval 'cli module unload runnel && grep -q OK "$dir/out"'
replies OK module load "$dir/adler32.so" "$device"
held x
opens_gate
ended_with x $hold_x
replies OK module unload runnel
replies 'ERR Error loading the extension' module load "$dir/adler32.so" none
grep -q 'runnel: rnl_pool_create(): device is "none"' "$dir/redis.log" || complain 'no message'
: >"$dir/redis.log"
replies OK module load "$dir/adler32.so" "$device"
end shutdown nosave
ends 'it is unloaded when no job is under way'

begin "$device"
held x
end shutdown nosave
opens_gate
begin "$device"
held x
kill -TERM "$server"
ended "$server"
opens_gate
ends 'SHUTDOWN and SIGTERM end the server while a job is under way'

# ---- a full pool ----
begin "$device" 2
nr=0
closes_gate
while :; do
	nr=$((nr + 1))
	asks "c$nr"
	await "client $nr" eval "blocked $nr || [ -s \"$dir/c$nr\" ]"
	[ ! -s "$dir/c$nr" ] && [ $nr -lt 300 ] || break
done
ended_with "c$nr" 'BUSY too many requests are queued'
# The last client's job is queued: when it goes away, there is a place, though all other jobs are held.
last=$((nr - 1))
eval "kill \$pid_c$last"
await 'the disconnect' blocked $((last - 1))
again() {
	asks again
	until blocked $last || [ -s "$dir/again" ]; do sleep 0.1; done
	[ ! -s "$dir/again" ]
}
await 'a place' again
opens_gate
ended_with again 348193736
ended_with c1 175899228
end shutdown nosave
ends 'a full pool refuses requests, and the cancel of a queued one makes a place'

if [ "$fake" ]; then
	begin cuda
	replies 6422626 runnel.adler32 a
	for i in 1 2 3; do
		replies 'ERR the device has failed' runnel.adler32 fail
		replies 'ERR the device has failed' runnel.adler32 a
	done
	replies 'ERR Error unloading module' module unload runnel
	replies PONG ping
	cli shutdown nosave
	ended "$server"
	grep -q 'runnel: device cuda:0 .* failed' "$dir/redis.log" || complain 'no message' /dev/null "$dir/redis.log"
	ends 'after a failure of the device, requests fail, and the server lives'
fi
done_testing
