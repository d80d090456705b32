#!/bin/sh
# SPDX-License-Identifier: MIT
# The rooms of src/ only use the rooms that they may: tests/tree/rooms.tab has the arrows, and the
# rules are below. Each rule, and each arrow that is not in the table, is tested: a violation is
# planted in a copy of src/, and the rule must name its file.
. "$(dirname "$0")/../lib/harness.sh"
srcdir=$(cd "$srcdir" && pwd) archive=$PWD/librunnel.a copy=$dir/src
src=$srcdir/src table=$srcdir/tests/tree/rooms.tab
[ -e "$archive" ] || { echo "there is no $archive"; exit 1; }
cp -r "$src" "$copy"

# ---- queries of $src, $archive and $table ------------------------------
rooms() { sed -n 's/^\([a-z]*\):.*/\1/p' "$table"; }
# "FROM TO" of each arrow in the table.
allowed() { awk -F '[: \t]+' '/^[a-z]+:/ { for (i = 2; i <= NF; i++) if ($i) print $1, $i }' "$table"; }
# includes REGEX: "FILE:LINE:text" of each include of such a header.
includes() {
	(cd "$src" && find ./*/ -name '*.[ch]' -o -name '*.cu' | sed 's,^\./,,' | sort |
		xargs grep -nE "^[[:space:]]*#[[:space:]]*include[[:space:]]*$1" /dev/null)
}
# "FROM TO FILE:LINE" of each include of another room's header, in quotes or in brackets.
included() {
	includes '[<"][a-z_]+/' | sed -E 's,^([a-z]+)(/[^:]*:[0-9]+):.*([<"])(([a-z_]+)/[^>"]*).*,\1 \5 \1\2 \3 \4,' |
		while read -r from to where quote header; do
			[ "$from" = "$to" ] || { [ "$quote" = '<' ] && [ ! -e "$src/$header" ]; } || echo "$from $to $where"
		done
}
# "FROM TO" of the archive's members: FROM calls a function of TO.
calls() {
	${NM:-nm} -P -A "$archive" | sed 's/^.*\[\(.*\)\.o\]: */\1 /' | awk '$3 == "U" { user[++n] = $1; used[n] = $2; next }
		{ definer[$2] = $1 }
		END { for (i = 1; i <= n; i++) if (definer[used[i]]) print user[i], definer[used[i]] }' | sort -u
}
# "FROM TO FILE calls FILE": the rooms of both files, if they differ.
called() {
	{ (cd "$src" && ls */*.c | sed 's,\(.*\)/\(.*\)\.c,\1 \2,'); calls | sed 's/^/call /'; } | awk '
		$1 != "call" { if ($1 != "tool") room[$2] = $1; next }
		room[$2] != room[$3] { print room[$2], room[$3], room[$2] "/" $2, "calls", room[$3] "/" $3 }'
}
library() { grep -v '^tool/'; }
except() { grep -vE "^($1):"; }

# ---- the rules: each prints its violations -----------------------------------------
not_allowed() { allowed | awk 'NR == FNR { may[$1, $2] = 1; next } !(($1, $2) in may)' - "$1"; }
included_room() { included >"$dir/arrows"; not_allowed "$dir/arrows"; }
# A header may include other headers, so calls may also go to rooms that several arrows lead to.
called_room() {
	called >"$dir/arrows"
	allowed | awk 'NR == FNR { may[$1, $2] = 1; room[$1]; room[$2]; next }
		FNR == 1 { for (via in room) for (from in room) for (to in room)
			if (((from, via) in may) && ((via, to) in may)) may[from, to] = 1 }
		!(($1, $2) in may)' - "$dir/arrows"
}
unused_row() { { included; called; } | awk 'NR == FNR { used[$1, $2] = 1; next } !(($1, $2) in used)' - "$dir/allowed"; }
upward_row() {
	rooms | awk 'NR == FNR { floor[$1] = NR; next } !($2 in floor) || floor[$2] < floor[$1]' - "$dir/allowed"
}
room_without_row() { (cd "$src" && ls -d */ | tr -d / && rooms) | sort | uniq -u; }
bare_include() {	# an include in the library is "room/file.h", or in brackets and not in src/
	includes '"' | library | grep -vE '"([a-z]+/[a-z_]+\.h|config\.h)"'
	includes '<[a-z]+/' | library | while IFS='<>' read -r where header _; do [ ! -e "$src/$header" ] || echo "$where<$header>"; done
}
tool_include() { includes '"' | grep '^tool/' | grep -vE "\"([a-z]+/[a-z_]+|config|$(cd "$src/tool" && ls | sed -n 's/\.h$//p' | paste -sd '|'))\.h\""; }
urcu() { includes '.*urcu' | except 'pool/lane\.h' | grep -vE '^sys/fence\.h:.*<urcu/arch\.h>'; }
cuda() {
	includes '[<"](cuda|cu|driver_types|runnel/cuda|nv)[a-z_0-9/]*\.(h|hpp)' | library |
		except 'device/cuda[a-z_]*\.[ch]|watch/nvtx\.[ch]'
	includes '<nv[a-z0-9]*/' | library | except 'watch/nvtx\.[ch]'
}
# Code that is common to all backends includes no backend; other rooms use the table of operations.
backend() {
	includes '"device/(backends|cuda|host)[a-z_]*\.h"' |
		except 'device/(backends|cuda[a-z_]*|devices|host[a-z_]*|no_cuda)\.[ch]|pool/unit_check\.c'
}
eventfd() { includes '.*sys/eventfd' | except 'job/cq\.c'; }
sleeping_call() { (cd "$src" && grep -noE 'cds_wfcq_[a-z_]*blocking' -- */*.[ch]) | grep -v nonblocking; }
name_twice() { (cd "$src" && ls */*.[ch]) | library | awk -F / '{ f = $2; if (f in room) print $0, "and", room[f] "/" f; room[f] = $1 }'; }
bag() { (cd "$src" && ls */*) | grep -E '/(utils?|common|helpers?|misc)\.'; }
circle() { calls | tsort 2>&1 >/dev/null; }	# one name per line, in tsort's order

# ---- the rules hold, and report violations -------------------------------------------------------
# holds NAME RULE [FILE TEXT] ...: the rule holds in the tree; in a copy with TEXT in FILE it names
# FILE.
holds() {
	test_name=$1 rule=$2
	shift 2
	$rule >"$dir/out"
	[ ! -s "$dir/out" ] || complain 'this breaks the rule:'
	while [ $# != 0 ]; do
		printf '%s\n' "$2" >"$copy/$1.planted"
		[ ! -e "$copy/$1" ] || cat "$copy/$1" >>"$copy/$1.planted"
		mv "$copy/$1.planted" "$copy/$1"
		(src=$copy && $rule) >"$dir/out"
		grep -qF "$1" "$dir/out" || complain "the rule does not name $1 with: $2"
		if [ -e "$src/$1" ]; then cp "$src/$1" "$copy/$1"; else rm "$copy/$1"; fi
		shift 2
	done
	ends "$test_name"
}
allowed >"$dir/allowed"
: >"$dir/err"

holds 'each arrow between rooms is in the table' included_room
for from in $(rooms); do
	for to in $(cd "$src" && ls -d */ | tr -d /); do
		grep -qx "$from $to" "$dir/allowed" || [ "$from" = "$to" ] || {
			echo "$from $to" >>"$dir/forbidden"
			echo "#include \"$to/planted.h\"" >"$copy/$from/planted_$to.c"
			touch "$copy/$to/planted.h" && echo " #  include <$to/planted.h>" >"$copy/$from/planted_in_brackets_$to.h"
		}
	done
done
(src=$copy && included_room | sort) >"$dir/out"
while read -r from to; do
	grep -q "$from/planted_$to\.c" "$dir/out" && grep -q "$from/planted_in_brackets_$to\.h" "$dir/out" ||
		complain "an include of $to in $from is not reported"
done <"$dir/forbidden"
[ "$(wc -l <"$dir/out")" = $(($(wc -l <"$dir/forbidden") * 2)) ] || complain 'more is reported than was planted'
rm -f "$copy"/*/planted*
ends "an include for each of $(wc -l <"$dir/forbidden") arrows that are not in the table is reported"

holds 'each call from room to room is in the table' called_room
echo 'void rnl__planted(void); void rnl__call(void); void rnl__call(void) { rnl__planted(); }' >"$dir/host.c"
echo 'void rnl__call(void); void rnl__planted(void); void rnl__planted(void) { rnl__call(); }' >"$dir/pool.c"
(cd "$dir" && ${CC:-cc} -c host.c pool.c && ar rcs planted.a host.o pool.o) || complain 'the planted archive is not built'
archive=$dir/planted.a called_room >"$dir/out"
prints '^device pool device/host calls pool/pool$'
ends 'a call up from a device is reported'
holds 'no file calls one that calls it' circle
archive=$dir/planted.a circle >"$dir/out"
prints 'host'
prints 'pool'
ends 'two files that call each other are reported'

holds 'each arrow in the table is used' unused_row
holds 'an arrow in the table goes down' upward_row
for row in 'device sys' 'sys tool' 'batch map' 'sys device' 'pool attic'; do
	{ grep -vx "$row" "$dir/allowed"; echo "$row"; } >"$dir/planted"
	(mv "$dir/planted" "$dir/allowed" && { unused_row; upward_row; }) >"$dir/out"
	case $row in 'device sys') prints_not "^$row" ;; *) prints "^$row" ;; esac
	allowed >"$dir/allowed"
done
ends 'a row that is not used, or goes up, is reported'
holds 'each room has a row' room_without_row
mkdir "$copy/attic" && (src=$copy && room_without_row) >"$dir/out"
rmdir "$copy/attic"
prints '^attic$'
ends 'a room without a row is reported'

holds 'includes are written "room/file.h"' bare_include \
	pool/planted.c '#include "queue.h"' pool/park.c '#include "../job/job.h"' worker/planted.h '#include <pool/queue.h>'
holds "the tool's includes are public headers, its own, and \"room/file.h\"" tool_include \
	tool/planted.c '#include "trace.h"' tool/tool.h '#include "../pool/pool.h"'
holds "liburcu is the lane's; its barriers are fence.h's" urcu \
	worker/planted.c '#include <urcu/wfcqueue.h>' sys/fence.h '#include <urcu/uatomic.h>' job/cq.c '# include "urcu.h"'
holds "CUDA is the CUDA device's, NVTX is nvtx.c's" cuda pool/planted.c '#include <cuda_runtime_api.h>' \
	device/host.c '#include <cuda.h>' job/cq.c '#include <runnel/cuda.h>' device/cuda.c '#include <nvtx3/nvToolsExt.h>'
holds "a backend is known to itself and to the registry" backend device/device.h '#include "device/backends.h"' \
	device/gather.c '#include "device/host_stream.h"' pool/stream.c '#include "device/cuda_driver.h"'
holds "eventfd is the completion queue's" eventfd pool/park.c '#include <sys/eventfd.h>' job/cq.h '#include <sys/eventfd.h>'
holds 'no wfcq call sleeps in poll()' sleeping_call pool/queue.c 'cds_wfcq_dequeue_blocking(head, tail);'
holds 'file names are unique over the rooms' name_twice worker/queue.c '' sys/job.h ''
holds 'a file is named after its noun' bag pool/utils.c '' sys/common.h '' tool/misc.c ''
done_testing
