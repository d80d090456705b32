#!/bin/sh
# SPDX-License-Identifier: MIT
# README.md and docs/tutorial.md: each program there compiles as it is, without a warning, runs, and
# prints the right output; the C++ program by both compilers, the Python program with the package.
. "$(dirname "$0")/../lib/harness.sh"
sanitize=${sanitizer:+-fsanitize=$sanitizer}
# A block's first line is a comment with the name of its file.
awk -v dir="$dir" '/^```(c|cpp|python)$/ { begins = 1; next } /^```$/ { file = ""; next }
	begins { file = $2; sub(/:$/, "", file); file = file ~ /^[a-z_]+\.[a-z]+$/ ? dir "/" file : ""; begins = 0 }
	file { print > file }' "$srcdir/README.md" "$srcdir/docs/tutorial.md"
compiles() {	# compiles COMPILER FLAG ... FILE LIBRARY ...: to $dir/app
	rm -f "$dir/app"
	"$@" -Wall -Wextra -Werror $sanitize -I"$srcdir/include" -I"$dir" -pthread -L. -lrunnel \
		-Wl,-rpath,"$PWD" -o "$dir/app" >"$dir/out" 2>"$dir/err" || complain "$* does not compile"
}
prints_all() {	# prints_all LINE ...: prints exactly these lines
	timeout 60 "$dir/app" >"$dir/out" 2>"$dir/err" || complain "status $?"
	printf '%s\n' "$@" >"$dir/want"
	cmp -s "$dir/want" "$dir/out" || complain 'it prints something else:' "$dir/want" "$dir/out"
}
# shellcheck disable=SC2086  # words
c() { compiles $CC -std=gnu11 $CFLAGS "$dir/$1.c"; }

# ---- programs that end ------------------------------------------------
c first && prints_all '0 1 4 9 16 25 36 49'
ends 'a first job'
c diamond && prints_all 61
ends 'jobs that come after others'
c graph
timeout 60 "$dir/app" >"$dir/out" 2>"$dir/err" || complain "status $?"
awk '{ at[$1] = NR } END { exit !(NR == 8 && at["a"] < at["c"] && at["a"] < at["d"] && at["b"] < at["d"]) }' "$dir/out" ||
	complain 'the order is wrong'
rows 4 '^[a-d]: success$'
ends 'any graph'
timeout 60 "$dir/app" b >"$dir/out" 2>"$dir/err" || complain "status $?"
prints_not '^d$'
rows 2 '^[ac]: success$'
prints '^b: the device reported an error$'
prints '^d: cancelled'
ends 'a graph in which a node fails'
c delayed && prints_all 'tick 1' 'tick 2' 'tick 3' 'tick 4' 'tick 5'
ends 'a job at a time'
c tenants
# Exact shares are in tests/unit/class.c.  On a busy machine others go on until this one prints, and a
# job that waits for a CPU is charged to its class: then it is run again.
shares_are_right() {
	timeout 60 "$dir/app" >"$dir/out" 2>"$dir/err" || complain "status $?"
	awk '$1 == "gold" { gold = $2 } $1 == "free" { free = $2 } $1 == "mail" { mail = $2 }
		END { exit !(gold >= 295 && free >= 60 && mail >= 1 && mail < gold) }' "$dir/out"
}
for _ in 1 2 3 4 5; do
	shares_are_right && right=yes && break
	right=
done
[ "$right" ] || complain 'the shares are wrong:' "$dir/out"
ends 'three tenants'
c held
# A busy machine may not start the job in time.
for _ in 1 2 3 4 5; do
	timeout 60 "$dir/app" >"$dir/out" 2>"$dir/err"
	status=$?
	[ "$(cat "$dir/err")" = 'app: not started in time' ] || break
done
[ $status = 0 ] || complain "status $status"
prints '^before: done 0$'
prints '^after: success$'
prints '^forgotten: timed out; late: no longer valid$'
ends 'a job that waits for the world'
for cxx in $(cxx_compilers); do
	compiles $cxx -std=c++17 "$dir/lambdas.cpp" &&
		prints_all '2 words' '1 words' 'error: no words' '3 words'
	ends "C++17, by $cxx"
	compiles $cxx -std=c++20 "$dir/awaits.cpp" && prints_all 42
	ends "C++20, by $cxx"
done

# ---- servers ---------------------------------------------------------------------
serves() {	# serves NAME [ends]: 200 clients, 20 at a time: some leave, the others get right answers
	: >"$dir/out"	# it has the port of the server before
	timeout 120 "$dir/app" 0 >"$dir/out" 2>"$dir/err" &
	server=$!
	for _ in $(seq 300); do
		grep -q '^port ' "$dir/out" && break
		sleep 0.1
	done
	timeout 100 python3 -B - "$(sed -n 's/^port //p' "$dir/out")" >"$dir/answers" 2>&1 <<-'END' || { complain 'wrong answers'; cat "$dir/answers"; }
		import concurrent.futures, socket, struct, sys
		def ask(nr):
		    with socket.create_connection(("127.0.0.1", int(sys.argv[1])), timeout=60) as s:
		        line = b" word" * nr
		        s.sendall(line[:7])	# a line may arrive in pieces
		        s.sendall(line[7:] + b"\n")
		        if nr % 10 == 0:	# disconnects by a reset
		            s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
		            return
		        answer = b""
		        while part := s.recv(100):
		            answer += part
		        assert answer == b"%d\n" % nr, (nr, answer)
		with concurrent.futures.ThreadPoolExecutor(20) as clients:
		    list(clients.map(ask, range(2, 202)))
	END
	kill $server
	wait $server 2>/dev/null
	[ $? = 0 ] || [ "${2:-}" != ends ] || complain 'SIGTERM does not end the server'
	ends "$1"
}
c epoll && serves 'a server on epoll' ends
# shellcheck disable=SC2086  # words
compiles $CC -std=gnu11 $CFLAGS -include "$srcdir/tests/package/tutorial/full.h" "$dir/epoll.c" &&
	serves 'a server on epoll, of a pool that is full' ends
if $PKG_CONFIG --exists libuv; then
	# shellcheck disable=SC2046,SC2086  # words
	compiles $CC -std=gnu11 $CFLAGS "$dir/uv.c" $($PKG_CONFIG --cflags --libs libuv) && serves 'the same on libuv'
else
	echo 'SKIP: no libuv'
fi
if [ "${have_PYTHON:-no}" = yes ] && [ -z "$sanitizer" ]; then
	# It is built already if tests of Python run, too.
	$MAKE -s python/_runnel.abi3.so >"$dir/err" 2>&1 || complain "$(cat "$dir/err")"
	cat >"$dir/app" <<-END
		#!/bin/sh
		PYTHONPATH="$srcdir/python:$PWD/python" exec $PYTHON -B "$dir/server.py" "\$@"
	END
	chmod +x "$dir/app"
	serves 'a server in Python, on asyncio'
else
	echo 'SKIP: a sanitizer, or no Python with cffi, numpy and Python.h'
fi
done_testing
