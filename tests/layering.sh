#!/bin/sh
# Who may include what, and what nobody may call or be named: src/ depends one way.
build=$PWD
cd "${srcdir:-.}/src" || exit
rc=0

# holds RULE BREAKERS: there are none.
holds() {
	[ -z "$2" ] && echo "ok - $1" && return
	echo "not ok - $1"
	echo "$2"
	rc=1
}
# includes HEADERS [FILES]: the lines of FILES that do; both are patterns.
includes() {
	ls | grep -E '\.[ch]$' | grep -E "${2:-.}" |
		xargs grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*[<\"]$1" /dev/null
}
# circles: files that call each other, directly or round about; one in a line, as tsort finds them.
circles() {
	${NM:-nm} -P -A "$build"/librunnel.a | sed 's/^.*\[\(.*\)\]: */\1 /' | awk '$3 == "U" { user[++n] = $1; used[n] = $2; next }
		{ definer[$2] = $1 }
		END { for (i = 1; i <= n; i++) if (definer[used[i]]) print user[i], definer[used[i]] }' |
		tsort 2>&1 >/dev/null
}
except() { grep -vE "^($1):"; }

holds "liburcu is the queue's; its barriers are fence.h's" \
	"$(includes 'urcu' | except 'queue\.[ch]' | grep -vE '^fence\.h:.*<urcu/arch\.h>')"
holds "CUDA is the CUDA device's" "$(includes '(cuda|cu|driver_types|runnel/cuda|nv)[a-z_]*\.h' | except 'device_cuda\.c|device_cuda_guard\.[ch]')"
holds "eventfd is the completion queue's" "$(includes 'sys/eventfd' | except 'cq\.c')"
holds 'no file calls one that calls it' "$(circles)"
holds 'devices do not call up' "$(includes '(pool|worker|barrier|job)\.h' '^(device_|host_stream\.)')"
holds 'no wfcq call sleeps in poll()' "$(grep -noE 'cds_wfcq_[a-z_]*blocking' -- *.[ch] | grep -v nonblocking)"
holds 'a file is named after its noun' "$(ls | grep -E '^(utils?|common|helpers?|misc)\.')"
holds 'the library knows nothing of the tool' "$(includes '(.*/)?tool')"
cd tool || exit
holds 'of the library, the tool has what its users have' \
	"$(includes '"' | grep -vE "\"(config|$(ls | sed -n 's/\.h$//p' | paste -sd '|'))\.h\"")"
exit $rc
