# SPDX-License-Identifier: MIT
# Sourced first by the tests of examples/modules, in place of harness.sh: builds a module with the
# library of this build, starts servers, asks them, and ends them.
. "$(dirname "$0")/../lib/harness.sh"
[ -z "${sanitizer:-}" ] || skip_all 'a server without sanitizers does not load a sanitized module'
# Names without blanks, which the servers' build systems demand; copies for servers that change their user.
ln -s "$(cd "$srcdir" && pwd)" "$dir/tree"
mkdir "$dir/lib" && cp -P librunnel.so* "$dir/lib"
if [ "${RNL_TEST_FAKE:-}" ]; then
	cp -P tests/fake_cudart/libcudart.so* "$dir/lib"
	export LD_LIBRARY_PATH="$dir/lib"
fi
PATH=$PATH:/usr/sbin top=$dir/tree
modules=$top/examples/modules here=$top/tests/modules
chmod 755 "$dir"		# some servers change their user
servers=			# the process groups of those that may still run
trap 'opens_gate; for s in $servers; do kill -9 -"$s" 2>/dev/null; done; rm -rf "$dir"' EXIT

# What a module is compiled and linked with, with adler_held.c as its kernel: a worker waits with a
# text "hold..." while the gate is closed, and "fail" makes the double's device fail.
module_cflags="-I$top/include -I$top/examples/modules -I$top -I$top/tests -Drnl_copy=adler_copy"
module_libs="-L$dir/lib -lrunnel -Wl,-rpath,$dir/lib"
export MODULE_GATE="$dir/gate"
exec 9>"$MODULE_GATE"
work="$modules/adler/adler.c $here/adler_held.c"

needs() {	# needs FILE|COMMAND...: skips the script if one is missing
	for need; do
		[ -e "$need" ] || command -v "$need" >/dev/null || skip_all "there is no $need: sh deps.sh modules"
	done
}
builds() {	# builds MODULE.so SOURCE|FLAG...: a module with its work, or the script ends
	so=$1
	shift
	# shellcheck disable=SC2086  # flags are words
	${CC:-cc} ${CFLAGS:--g -O1} -std=gnu11 -Wall -Wextra -Werror -shared -fPIC $module_cflags \
		-o "$dir/$so" "$@" $work $module_libs >"$dir/out" 2>&1 ||
		{ sed 's/^/# /' "$dir/out"; echo "not ok - $so compiles"; echo 1..1; exit 1; }
}
short() {	# short FILE: a module that people copy has less than 150 lines
	[ "$(wc -l <"$1")" -lt 150 ] || complain "$1 has 150 lines or more"
	ends "${1##*/} is short"
}
free_port() {
	python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}
asks() { python3 "$here/ask.py" one "$port" "$1" "$2"; }	# asks HOW TEXT: prints the answer of $port
gives() {	# gives HOW ANSWER TEXT: asks
	got=$(asks "$1" "$3")
	[ "$got" = "$2" ] || complain "$3: $got, not $2"
}
crowd() {	# crowd HOW NR: in the background, NR clients ask for "hold 1", ...
	askers=
	for i in $(seq "$2"); do
		python3 "$here/ask.py" one "$port" "$1" "hold$i" >"$dir/crowd$i" 2>&1 &
		askers="$askers $!"
	done
}
crowd_got() {	# crowd_got NR CODE: NR of them have an answer of that code
	[ "$(cat "$dir"/crowd* | grep -c "^$2")" -ge "$1" ]
}
crowd_ends() {	# crowd_ends NR [CODE]: NR or more have right answers; the others have that code
	# shellcheck disable=SC2086  # words
	wait $askers
	right=0
	for i in $(seq "$(echo "$askers" | wc -w)"); do
		got=$(cat "$dir/crowd$i")
		case $got in
		"200 $(checksum "hold$i")") right=$((right + 1)) ;;
		"${2:-none}"*) ;;
		*) complain "hold$i: $got" ;;
		esac
	done
	[ $right -ge "$1" ] || complain "$right right answers, not $1"
	rm "$dir"/crowd*
}
checksum() { python3 -c 'import sys, zlib; print("%08x" % zlib.adler32(sys.argv[1].encode()))' "$1"; }
loads() {	# loads HOW: in the background, clients ask all the time, and check each answer
	rm -f "$dir/enough"
	python3 "$here/ask.py" load "$port" "$1" "$dir/enough" >"$dir/load" 2>&1 &
	load=$!
}
load_ends() {	# load_ends: every answer was right, and none was 503
	touch "$dir/enough"
	wait $load || complain 'wrong answers under load'
	grep -q '^[1-9][0-9]* right 0 busy$' "$dir/load" || complain "under load: $(cat "$dir/load")"
	echo "# $(cat "$dir/load")"
}
await() {	# await WHAT COMMAND...: until the command succeeds
	what=$1 tries=0
	shift
	until "$@" >/dev/null 2>&1; do
		tries=$((tries + 1))
		[ $tries -lt $((300 * ${RNL_TEST_SCALE:-1})) ] || { complain "waits in vain for: $what"; return 1; }
		sleep 0.1
	done
}
listens() {	# listens PORT
	python3 -c 'import socket, sys; socket.create_connection(("127.0.0.1", int(sys.argv[1])))' "$1"
}
starts() {	# starts LOG COMMAND...: in the background, as process $server of a process group of its own
	log=$dir/$1
	shift
	setsid "$@" >"$log" 2>&1 </dev/null &
	server=$! servers="$servers $!"
}
ended() {	# ended PID [STATUS]: waits for its end; checks its status (0)
	await "the end of $1" not_alive "$1" || kill -9 -"$1"
	wait "$1"
	got=$?
	[ $got = "${2:-0}" ] || complain "the server ends with status $got"
}
not_alive() { case $(sed 's/.*) //' /proc/"$1"/stat 2>/dev/null) in '' | Z*) ;; *) false ;; esac; }
closes_gate() {	# from now on texts "hold..." are held
	flock -x 9
	: >"$MODULE_GATE.held"
	chmod 666 "$MODULE_GATE.held"
}
holds() {	# holds NR: waits until NR jobs are held
	await "$1 held jobs" eval "[ \"\$(wc -l <'$MODULE_GATE.held')\" -ge $1 ]"
}
opens_gate() { flock -u 9; }
silent_log() {	# silent_log FILE: the library has logged nothing
	! grep -a 'runnel: ' "$1" >"$dir/err" || complain 'the library has logged:'
}
