#!/bin/sh
# SPDX-License-Identifier: MIT
# If configure refuses, its message is a sentence that says what to do.
. "$(dirname "$0")/../lib/harness.sh"
[ -z "$sanitizer" ] || skip_all 'a build without a sanitizer looks at it'
case $srcdir in /*) ;; *) srcdir=$PWD/$srcdir ;; esac
# Only the compiler: its other settings here may not fit another machine.
compiler=$(command -v "${CC%% *}") && unset CFLAGS CPPFLAGS LDFLAGS PKG_CONFIG || exit
mkdir "$dir/build" && cd "$dir/build" || exit
# refused NAME TEXT VARIABLE=VALUE ...: configure refuses these with TEXT
refused() {
	name=$1 text=$2
	shift 2
	! env "$@" "$srcdir/configure" -q --with-cuda=no --without-mpi >"$dir/out" 2>"$dir/err" || complain 'it configures'
	says "configure: error: $text"
	[ ! -e config.mk ] || complain 'it leaves a config.mk'
	ends "$name"
}

# All installed programs except pkg-config.
mkdir "$dir/bin" && find /usr/bin/ /bin/ -maxdepth 1 ! -type d ! -name '*pkg-config' ! -name 'pkgconf*' -exec ln -sf -t "$dir/bin" {} + || exit
refused 'without pkg-config' 'pkg-config is missing, which says where liburcu is.' PATH="$dir/bin" CC="$compiler"
says '`make deps` installs it'
ends 'it says where to get it'
refused 'with a pkg-config that is not there' 'PKG_CONFIG=/nonexistent does not run' PKG_CONFIG=/nonexistent CC="$compiler"
refused 'without liburcu' 'liburcu is required.' PKG_CONFIG_LIBDIR=/nonexistent CC="$compiler"

echo 'int main(void) { return 0; }' >"$dir/main.c"
if "$compiler" -m32 -o "$dir/main" "$dir/main.c" 2>/dev/null; then
	refused '32 bits' 'runnel needs a 64-bit system, and ' CC="$compiler -m32"
else
	echo "SKIP: $compiler has no libraries of 32 bits (sh deps.sh libc6-dev-i386 lib32gcc-12-dev)"
fi

cat >"$dir/pkg" <<'SH'
#!/bin/sh
case $* in *jansson*|*libelf*) exit 1 ;; esac
exec pkg-config "$@"
SH
chmod +x "$dir/pkg"
env PKG_CONFIG="$dir/pkg" CC="$compiler" "$srcdir/configure" --with-cuda=no --without-mpi >"$dir/out" 2>"$dir/err" || complain 'it refuses'
[ "$(tail -n 1 "$dir/out")" = '  tool        without report (jansson is missing), lint (libelf is missing): make deps all completes it' ] ||
	complain 'the last line is another one'
ends 'without the libraries of the tool it says at its end how to get them'
done_testing
