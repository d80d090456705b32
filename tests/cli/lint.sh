#!/bin/sh
# SPDX-License-Identifier: MIT
# runnel lint: objects that use the legacy default stream, and files that are not objects.
#
# env: TOOL  the program (./runnel)
program=${TOOL:-./runnel} CC=${CC:-cc} build=$PWD
. "$(dirname "$0")/../lib/harness.sh"
cd "$dir" || exit 1
"$program" lint "$program" 2>&1 | grep -q 'built without libelf' && skip_all 'configured without libelf'

says() { grep -qE -- "$1" err || complain "no message: $1"; }
lint() {	# lint STATUS ARG...
	want=$1
	shift
	gives "$want" lint "$@"
}
# ---- objects ----------------------------------------------------------------------
object() {	# object NAME CALL...: makes an object that imports the calls
	name=$1
	shift
	: >"$name.c"
	for call; do echo "int $call(void);" >>"$name.c"; done
	echo "int use_$name(void); int use_$name(void) { return 0" >>"$name.c"
	for call; do echo "+ $call()" >>"$name.c"; done
	echo '; }' >>"$name.c"
	$CC -fPIC -c -o "$name.o" "$name.c" || exit 1
}
plain='cudaMemcpy cudaMemcpyAsync __cudaLaunchKernel'
suffixed='cudaMemcpy_ptds cudaMemcpyAsync_ptsz __cudaLaunchKernel_ptsz'
object legacy $plain cudaMalloc
object perthread $suffixed cudaMalloc
object both cudaMemsetAsync cudaMemsetAsync_ptsz
object peer cudaMemcpyPeerAsync cudaGraphicsMapResources cudaGraphicsUnmapResources cudaMemcpyAsync_ptsz
object clean cudaMalloc cudaDeviceSynchronize elsewhere cudaMemcpyAsyncOfMine xcudaMemcpy
echo 'int main(void) { return 0; }' >main.c

lint 1 legacy.o
prints '^legacy\.o: legacy stream: cudaMemcpy$'
prints '^legacy\.o: legacy stream, where a call.s stream is 0: __cudaLaunchKernel cudaMemcpyAsync$'
prints '^1 of 1 object found'
prints 'default-stream per-thread'
prints_not cudaMalloc
silent
ends 'an object that imports plain calls is found, with the calls'

lint 0 perthread.o clean.o
prints '^perthread\.o: per-thread streams: __cudaLaunchKernel_ptsz cudaMemcpyAsync_ptsz cudaMemcpy_ptds$'
prints '^0 of 2 objects found to use the legacy stream, 1 to use per-thread'
prints_not '^clean'
prints_not 'default-stream'
silent
ends 'an object that imports per-thread calls, or none, is not found'

lint 1 both.o
prints '^both\.o: legacy stream, .*: cudaMemsetAsync$'
prints '^both\.o: per-thread streams: cudaMemsetAsync_ptsz$'
ends 'an object that imports both shows both'

lint 1 peer.o
prints '^peer\.o: .* whatever the flags: cudaGraphicsMapResources cudaGraphicsUnmapResources cudaMemcpyPeerAsync$'
prints 'pass cudaStreamPerThread'
prints_not 'default-stream per-thread'
ends 'calls without a per-thread form are named, and what to do about them'

ar rc all.a legacy.o perthread.o both.o clean.o
cp legacy.o a_member_with_a_name_of_more_than_sixteen_letters.o
ar rc long.a a_member_with_a_name_of_more_than_sixteen_letters.o perthread.o
lint 1 all.a long.a
prints '^all\.a\(legacy\.o\): legacy stream: cudaMemcpy$'
prints '^all\.a\(both\.o\): '
prints '^all\.a\(perthread\.o\): per-thread'
prints '^long\.a\(a_member_with_a_name_of_more_than_sixteen_letters\.o\): legacy'
prints '^3 of 6 objects'
silent
ends 'members of an archive are named'

# A program that links a shared runtime imports its calls.
: >runtime.c
for call in $plain $suffixed cudaMalloc; do echo "int $call(void); int $call(void) { return 0; }" >>runtime.c; done
$CC -fPIC -c -o runtime.o runtime.c && $CC -shared -o libruntime.so runtime.o &&
	$CC -shared -o liblegacy.so legacy.o -L. -lruntime &&
	$CC -o program main.c perthread.o -Wl,--no-as-needed -L. -lruntime &&
	$CC -o static main.c perthread.o runtime.o || exit 1
lint 1 liblegacy.so program
prints '^liblegacy\.so: legacy stream: cudaMemcpy$'
prints '^program: per-thread streams: __cudaLaunchKernel_ptsz'
prints '^1 of 2 objects'
strip program liblegacy.so
lint 1 liblegacy.so program
prints '^liblegacy\.so: legacy stream: cudaMemcpy$'
prints '^program: per-thread streams: __cudaLaunchKernel_ptsz'
ends 'executables and shared objects are read as well, stripped ones too'

lint 2 static legacy.o
says '^runnel lint: static: the CUDA runtime is linked in statically, .* look at the objects'
prints '^legacy\.o: legacy stream: cudaMemcpy$'
ends 'a static runtime hides its calls, and a message tells so'

lint 0 --ignore=legacy.o --ignore='lib*' legacy.o liblegacy.so
prints '^legacy\.o: legacy stream \(ignored\): cudaMemcpy$'
prints '^0 of 2 objects'
lint 1 --ignore=legacy.o all.a
prints '^1 of 4 objects'
lint 0 --ignore=all.a all.a
ends 'ignored objects are shown, and not found'

# ---- the library ----------------------------------------------------------------------
# The section that each object of the library with calls of the runtime has.
cat >note.c <<'C'
__asm__(".pushsection .note.runnel, \"a\", %note\n.long 7, 0, 1\n.asciz \"runnel\"\n.balign 4\n.popsection");
C
cat note.c legacy.c >own.c
$CC -fPIC -c -o own.o own.c && $CC -shared -o libown.so own.o -L. -lruntime && strip libown.so || exit 1
lint 1 own.o libown.so
for file in own.o libown.so; do
	prints "^$file: legacy stream: cudaMemcpy\$"
	prints "^$file: legacy stream, where a call.s stream is 0: __cudaLaunchKernel\$"
	prints "^$file: runnel.s own calls, each with a stream: cudaMemcpyAsync\$"
done
ends 'where the library is, its calls do not count as found, and other calls do'

if [ "$have_CUDA" = yes ]; then
	lint 0 "$build/librunnel.so" "$build/librunnel.a"
	silent
	prints 'librunnel\.so: runnel.s own calls, each with a stream: cudaEventRecord .*cudaStreamWaitEvent$'
	prints 'librunnel\.a\(cuda_stream\.o\): runnel.s own calls, each with a stream: '
	prints_not ': legacy stream'
	prints '^0 of [0-9]+ objects'
	echo 'int rnl_pool_create(void **pool, void *attr); int main(void) { return rnl_pool_create(0, 0) == 0; }' >main_pool.c
	$CC ${sanitizer:+-fsanitize=$sanitizer} $LDFLAGS -o server main_pool.c "$build/librunnel.a" \
		$("$PKG_CONFIG" --libs liburcu-cds) $(sed -n 's/^Libs\.private: *//p' "$build/runnel.pc") || exit 1
	strip server
	lint 0 server
	silent
	prints '^server: runnel.s own calls, each with a stream: cudaEventRecord '
	prints_not ': legacy stream'
	ends 'the library and a program with the archive are not accused'
else
	echo 'SKIP: a library without CUDA has no calls'
fi

if command -v python3 >/dev/null; then
	lint 1 --json legacy.o all.a
	python3 - <<-'PY' >>err || complain 'the JSON is not what it should be'
	import json
	j = json.load(open("out"))
	first = j["objects"][0]
	assert first["file"] == "legacy.o" and first["member"] is None and first["found"] is True
	assert first["legacy"] == ["cudaMemcpy"] and first["per_thread"] == []
	assert first["legacy_if_stream_0"] == ["__cudaLaunchKernel", "cudaMemcpyAsync"]
	assert [o["member"] for o in j["objects"][1:]] == ["legacy.o", "perthread.o", "both.o", "clean.o"]
	assert j["looked_at"] == 5 and j["found"] == 3 and j["all_read"] is True
	PY
	lint 2 --json legacy.o none.o
	python3 -c 'import json; j = json.load(open("out")); assert j["all_read"] is False and j["found"] == 1' ||
		complain 'the JSON is not what it should be'
	ends 'as JSON'
else
	echo 'SKIP: no python3 to read JSON'
fi

evil=$(printf 'esc\033[31m.o')
cp legacy.o "$evil"
ar rc evil.a "$evil"
lint 1 "$evil" evil.a
prints '^esc.x1b.31m\.o: legacy stream: cudaMemcpy$'
prints '^evil\.a\(esc.x1b.31m\.o\): legacy stream: cudaMemcpy$'
lint 2 "none$evil"
says 'noneesc.x1b.31m\.o: No such file'
ends 'no name of a file has the terminal obey'

# The time limit is enough for a hundred times slower machine, but not for quadratic time.
awk 'BEGIN { for (i = 300000; i; i--) printf ".long cuda%d_ptsz\n", i }' >many.s
if $CC -c -o many.o many.s 2>err; then
	timeout 60 "$program" lint many.o >out 2>err || complain "status $?"
	grep -o 'cuda[0-9]*_ptsz' out | LC_ALL=C sort -c || complain 'the names are not sorted'
	[ "$(grep -o 'cuda[0-9]*_ptsz' out | wc -l)" = 300000 ] || complain 'not all names are there'
	ends 'many names take no long time'
else
	echo 'SKIP: the compiler reads no assembly of that kind'
fi

# ---- unreadable files --------------------------------------------------------------
mkdir subdir
: >empty.o
echo 'no object' >text.o
mkfifo fifo.o
ar rcT thin.a legacy.o 2>/dev/null || :
lint 2 none.o subdir empty.o text.o fifo.o legacy.o
says '^runnel lint: none\.o: No such file'
says '^runnel lint: subdir: a directory'
says '^runnel lint: empty\.o: empty'
says '^runnel lint: text\.o: neither an ELF object nor an archive'
says '^runnel lint: fifo\.o: no regular file'
prints '^legacy\.o: legacy stream: cudaMemcpy$'
if [ -s thin.a ] && [ "$(head -c 7 thin.a)" = '!<thin>' ]; then
	lint 2 thin.a
	says 'a thin archive'
fi
ar rc mixed.a text.o legacy.o
lint 2 mixed.a
says '^runnel lint: mixed\.a\(text\.o\): no ELF object'
prints '^mixed\.a\(legacy\.o\): legacy'
ends 'files that are no objects have a message, and all others are looked at'

if [ "$(id -u)" = 0 ]; then
	echo 'SKIP: root may read everything'
else
	cp legacy.o secret.o && chmod 0 secret.o
	lint 2 secret.o legacy.o
	says '^runnel lint: secret\.o: Permission denied'
	prints '^legacy\.o: '
	ends 'a file without permission to read it has a message'
fi

cut_at() { head -c "$2" "$1" >cut; }
for file in legacy.o liblegacy.so program; do
	bytes=$(wc -c <$file)
	for part in 1 4 16 40 63 64 65 100 $((bytes / 4)) $((bytes / 2)) $((bytes * 3 / 4)) $((bytes - 64)) $((bytes - 1)); do
		cut_at $file $part
		lint 2 cut clean.o
		says '^runnel lint: cut: '
		prints ' of 1 object '
	done
done
bytes=$(wc -c <all.a)
for part in 9 30 67 70 100 200 $((bytes / 3)) $((bytes / 2)) $((bytes - 100)) $((bytes - 3)); do
	cut_at all.a $part
	lint 2 cut
	says '^runnel lint: cut'
done
ends 'truncated objects and archives have a message'

# With any byte of a header broken, there is an answer or a message.
for file in legacy.o program all.a; do
	at=0
	while [ $at -lt 160 ]; do
		cp $file broken
		printf '\377' | dd of=broken bs=1 seek=$at conv=notrunc 2>/dev/null
		"$program" lint broken >out 2>err
		got=$?
		[ $got -le 2 ] || complain "status of $file with byte $at broken: $got"
		[ $got != 2 ] || [ -s err ] || complain "$file with byte $at broken: there is no message"
		at=$((at + 1))
	done
	# The section headers and tables are at the end.
	at=$(($(wc -c <$file) - 1))
	while [ $at -gt 64 ]; do
		cp $file broken
		printf '\377' | dd of=broken bs=1 seek=$at conv=notrunc 2>/dev/null
		"$program" lint broken >out 2>err
		got=$?
		[ $got -le 2 ] || complain "status of $file with byte $at broken: $got"
		at=$((at - 37))
	done
done
ends 'no byte of a header makes it crash'

if $CC -flto -c -o lto.o legacy.c 2>/dev/null && $CC -flto -fno-fat-lto-objects -c -o lto.o legacy.c 2>/dev/null; then
	lint 2 lto.o
	says 'bytecode|neither an ELF object'
	ends 'bytecode, which has no symbols, has a message'
else
	echo 'SKIP: a compiler without -flto'
fi

lint 2
says 'no object to look at'
lint 2 --none legacy.o
lint 2 --ignore
lint 0 --help
prints '^Usage: runnel lint '
ends 'options that make no sense are refused'
done_testing
