#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/modules/postgresql: answers to many clients, cancelled and terminated queries, reloads, the
# end of the background worker, a failed device, both ways to end.
#
# devices: host fake
. "$(dirname "$0")/lib.sh"
needs pg_config psql pgrep
bin=$(pg_config --bindir)
needs "$bin/initdb" "$bin/pgbench" "$(pg_config --includedir-server)/postgres.h"
export PGOPTIONS='-c statement_timeout=120s'	# no test hangs
as=				# a server of root is refused
[ "$(id -u)" != 0 ] || as='setpriv --reuid=postgres --regid=postgres --init-groups'
short "$modules/postgresql/function.c"
short "$modules/postgresql/worker.c"
builds adler32.so -isystem "$(pg_config --includedir-server)" -Wno-unused-parameter \
	-Wno-sign-compare "$modules/postgresql/function.c" "$modules/postgresql/worker.c"

mkdir "$dir/data" && chmod 700 "$dir/data"
[ -z "$as" ] || chown postgres "$dir/data"
# shellcheck disable=SC2086  # $as: words
$as "$bin/initdb" -D "$dir/data" -U postgres -A trust -E UTF8 --locale=C.UTF-8 --no-sync >"$dir/out" 2>&1 ||
	skip_all "initdb: $(tail -n 1 "$dir/out")"

# shellcheck disable=SC2086
begin() {	# begin OPTION...: sets $server
	starts pg.log $as "$bin/postgres" -D "$dir/data" -k "$dir/data" -c listen_addresses= -c fsync=off \
		-c "dynamic_library_path=$dir" -c max_connections=150 -c max_worker_processes=20 "$@"
	await 'the server' sql 'SELECT 1' || { cat "$dir/pg.log"; done_testing; }
}
end() {	# end SIGNAL
	kill "-$1" "$server"
	ended "$server"
	! grep -qE 'runnel: |PANIC|was terminated|TRAP' "$dir/pg.log" || complain 'log:' /dev/null "$dir/pg.log"
}
sql() {	# sql TEXT: its rows to $dir/out
	psql -X -h "$dir/data" -U postgres -d postgres -Atq -c "$1" >"$dir/out" 2>"$dir/err" </dev/null
}
answers() {	# answers LINE TEXT
	sql "$2" || complain "status $?: $2"
	[ "$(cat "$dir/out")" = "$1" ] || complain "$2: not $1"
}
fails_with() {	# fails_with MESSAGE TEXT
	! sql "$2" || complain "no error: $2"
	says "ERROR:  $1"
}
asks() {	# asks NAME TEXT: its rows to $dir/NAME
	psql -X -h "$dir/data" -U postgres -d postgres -Atq -c "/* $1 */ $2" >"$dir/$1" 2>&1 </dev/null
}
held() {	# held NAME: a query whose job is held while the gate is closed
	closes_gate
	asks "$1" "SELECT adler32('hold $1')" &
	eval "pid_$1=$!"
	holds 1
}
one_of() { sql "SELECT $2 FROM pg_stat_activity WHERE query LIKE '/* $1 */%'"; }	# one_of NAME EXPRESSION
waits() { one_of "$1" wait_event && grep -qx Extension "$dir/out"; }
right="SELECT adler32('Wikipedia')"
ended_with() {	# ended_with NAME MESSAGE: of a held query
	eval "pid=\$pid_$1"
	await "the end of $1" not_alive "$pid" && wait "$pid"
	grep -qF "$2" "$dir/$1" || complain "$1 has no message: $2" /dev/null "$dir/$1"
}
refuses_clients() { ! sql 'SELECT 1' && grep -q 'shutting down' "$dir/err"; }
worker() { pgrep -P "$server" -f 'postgres: runnel'; }

# ---- a server without the library ----
begin
create="FUNCTION adler32(text) RETURNS bigint AS 'adler32', 'runnel_adler32'
	LANGUAGE C STRICT IMMUTABLE PARALLEL SAFE"
sql "CREATE $create" || complain 'CREATE FUNCTION'
fails_with 'the library of adler32() is not in shared_preload_libraries' "$right"
end INT
ends 'the function refuses to work without its background worker'

# ---- answers ----
preload=shared_preload_libraries=adler32
begin -c "$preload" -c "runnel.device=$device"
sql 'CREATE FUNCTION sums(text) RETURNS bigint LANGUAGE SQL IMMUTABLE PARALLEL SAFE AS $$
	SELECT (length(b) + sum(get_byte(b, i)::bigint * (length(b) - i))) % 65521 * 65536 +
		(1 + sum(get_byte(b, i))) % 65521
	FROM (SELECT convert_to($1, '"'UTF8'"') AS b) x, generate_series(0, length(b) - 1) AS i GROUP BY b $$;
	CREATE TABLE texts AS SELECT i, left(repeat(md5(i::text), 10), i % 300 + 1) || '"'ö'"' AS t
	FROM generate_series(1, 2000) AS i' || complain 'tables'
answers 300286872 "$right"
answers '2000|t' 'SELECT count(*), bool_and(adler32(t) = sums(t)) FROM texts'
answers t "SELECT adler32(t) = sums(t) FROM repeat('x', 65536) AS t"
answers '' 'SELECT adler32(NULL)'
fails_with 'adler32(): ' "SELECT adler32('')"
fails_with 'adler32() takes at most 65536 bytes' "SELECT adler32(repeat('x', 65537))"
parallel='SET parallel_setup_cost = 0; SET parallel_tuple_cost = 0; SET min_parallel_table_scan_size = 0;'
sql "$parallel EXPLAIN SELECT bool_and(adler32(t) = sums(t)) FROM texts"
prints 'Workers Planned'
answers t "$parallel SELECT bool_and(adler32(t) = sums(t)) FROM texts"
ends 'answers are right, in parallel workers, too'

echo '\set i random(1, 2000)
SELECT 1 / (adler32(t) = sums(t))::int FROM texts WHERE i = :i;' >"$dir/one.sql"
bench() {	# bench CLIENTS TRANSACTIONS: each answer is checked
	"$bin/pgbench" -h "$dir/data" -U postgres -n -c "$1" -j 2 -t "$2" -f "$dir/one.sql" postgres \
		>"$dir/bench" 2>&1 </dev/null && grep -q "processed: $(($1 * $2))/" "$dir/bench"
}
bench 100 20 || complain 'pgbench' /dev/null "$dir/bench"
bench 20 100 &
load=$!
for i in 1 2 3 4 5; do
	sql "CREATE OR REPLACE $create" || complain 'CREATE OR REPLACE'
	sql 'SELECT pg_reload_conf()' || complain 'reload'
done
wait $load || complain 'pgbench while the function is replaced' /dev/null "$dir/bench"
sql 'DROP FUNCTION adler32(text)' || complain 'DROP FUNCTION'
sql "CREATE $create" || complain 'CREATE FUNCTION'
answers 300286872 "$right"
ends 'many clients get right answers, also while the function is replaced'

# ---- queries that end early ----
held cancelled
one_of cancelled 'pg_cancel_backend(pid)'
ended_with cancelled 'ERROR:  canceling statement due to user request'
# Its job is still under way: the next request must not get its slot.
asks next "$right" &
next=$!
await 'the next request' eval '[ -s "$dir/next" ] || waits next'
opens_gate
wait $next
[ "$(cat "$dir/next")" = 300286872 ] || complain 'the next request' /dev/null "$dir/next"
held terminated
one_of terminated 'pg_terminate_backend(pid)'
ended_with terminated 'FATAL:  terminating connection due to administrator command'
opens_gate
held killed
kill "$pid_killed"
one_of killed 'pg_cancel_backend(pid)'
opens_gate
# More than there are slots. While all abandoned ones wait for the worker, requests are refused.
{
	echo 'SET statement_timeout = 1;'
	yes 'SELECT count(adler32(t)) FROM texts;' | head -n 300
} >"$dir/timeouts.sql"
psql -X -h "$dir/data" -U postgres -d postgres -Atq -f "$dir/timeouts.sql" >"$dir/out" 2>"$dir/err"
[ "$(grep -cE 'ERROR:  .* (statement timeout|is busy)$' "$dir/err")" = 300 ] || complain 'no timeout'
await 'a free slot' sql "$right"
bench 100 20 || complain 'pgbench' /dev/null "$dir/bench"
answers 300286872 "$right"
ends 'a query ends at once when it is cancelled or times out, or its backend is terminated'

# ---- the end of the background worker ----
held restarted
old=$(worker)
kill "$old"
ended_with restarted 'ERROR:  adler32(): '
opens_gate
answers 300286872 "$right"
[ "$(worker)" != "$old" ] || complain 'the background worker is the same'
held smart
kill -TERM "$server"
await 'the smart shutdown' refuses_clients
opens_gate
ended_with smart 357237743
ended "$server"
begin -c "$preload" -c "runnel.device=$device"
answers 300286872 "$right"
held fast
end INT
ended_with fast 'FATAL:  terminating connection'
opens_gate
ends 'the background worker is restarted, and ends with the server: smart, or fast with a job under way'

if [ "$fake" ]; then
	begin -c "$preload" -c runnel.device=cuda
	for i in 1 2 3; do
		fails_with "adler32(): the device reported an error" "SELECT adler32('fail')"
		answers 300286872 "$right"
	done
	bench 20 10 || complain 'pgbench' /dev/null "$dir/bench"
	kill -TERM "$server"
	ended "$server"
	ends 'a failed device costs its requests, and the next process of the background worker answers'
fi

# A crash: the postmaster ends all backends, clears the shared memory, and starts the worker again.
begin -c "$preload" -c "runnel.device=$device"
held crashed
kill -KILL "$(worker)"
ended_with crashed 'WARNING:  terminating connection because of crash of another server process'
opens_gate
await 'the restart' sql "$right"
answers 300286872 "$right"
kill -INT "$server"
ended "$server"
ends 'requests are answered again after a crash'

begin -c "$preload" -c runnel.device=none
fails_with 'adler32(): ' "$right"
kill -INT "$server"
ended "$server"
grep -q '^runnel: error: .*device is "none"' "$dir/pg.log" || complain 'no message' /dev/null "$dir/pg.log"
ends 'without its device, a request fails, and the log has the reason'
done_testing
