#!/bin/sh
# SPDX-License-Identifier: MIT
# A static function's name is in one file of src/, so a debugger, cscope and perf find one function.
. "$(dirname "$0")/../lib/harness.sh"
cd "$srcdir" || exit

# twice FOLDER...: "NAME: FILE FILE" of each static function that is defined in several files.
twice() {
	find "$@" -name '*.[ch]' -o -name '*.cu' | sort | xargs awk '
		FNR == 1 { text = "" }
		/^#/ { next }
		{ sub(/\/\*.*/, ""); gsub(/__attribute__ *\([^)]*\)+ */, "") }
		/^[A-Za-z_]/ { text = /(^|[ \t])static[ \t]/ ? " " : "" }
		text != "" {
			text = text $0 " "
			if (!match(text, /[{;=]/)) next
			end = substr(text, RSTART, 1)
			text = substr(text, 1, RSTART - 1)
			if (end == "{" && match(text, /[A-Za-z_0-9]+[ \t]*\(/)) found(substr(text, RSTART, RLENGTH))
			text = ""
		}
		function found(name) {
			sub(/[ \t]*\($/, "", name)
			if ((name, FILENAME) in seen) return
			seen[name, FILENAME]
			nr[name]++
			where[name] = where[name] " " FILENAME
		}
		END { for (name in nr) if (nr[name] > 1) print name ":" where[name] }' | sort
}

: >"$dir/none"
twice src >"$dir/twice"
same 'a static function has a name of its own' none twice

# A copy with one more definition of each form, and with text that is not a definition.
mkdir -p "$dir/src/device"
cd "$dir" || exit
cat >src/device/a.c <<'END'
static int one_line(void) { return 0; }
static struct a *two_lines(const struct a *a,
			   int b)
{
}
static inline bool in_a_header(void)
{
}
__attribute__((constructor(101))) static void at_start(void)
{
}
static bool declared(int a);
static int declared_too(int a,
			int b);
static int variable = sizeof(int);
static _Thread_local struct a *own __attribute__((tls_model("initial-exec")));
static int once(void)
{
	static int declared(void);
}
END
sed 's/once/once_too/; s/^static \(.*\)(/static __device__ \1(/' src/device/a.c >src/device/b.cu
cp src/device/a.c src/device/c.h
twice src >out
printf '%s\n' 'at_start: src/device/a.c src/device/b.cu src/device/c.h' \
	'in_a_header: src/device/a.c src/device/b.cu src/device/c.h' 'once: src/device/a.c src/device/c.h' \
	'one_line: src/device/a.c src/device/b.cu src/device/c.h' 'two_lines: src/device/a.c src/device/b.cu src/device/c.h' >want
same 'a second function of each form is reported, and nothing else' want out
done_testing
