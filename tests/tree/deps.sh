#!/bin/sh
# SPDX-License-Identifier: MIT
# deps.sh only installs what is missing; here a stub, stubs/NAME, replaces each program that it
# calls. `make deps GOAL` names the groups that the goal needs.
srcdir=$(cd "${srcdir:-.}" && pwd) || exit
. "$srcdir/tests/lib/harness.sh"
stubs=$dir/stubs

# stub NAME COMMAND: makes a program that adds its arguments to $dir/calls, and runs COMMAND.
stub() {
	printf '#!/bin/sh\necho "%s $*" >>"%s"\n%s\n' "$1" "$dir/calls" "${2:-}" >"$stubs/$1"
	chmod +x "$stubs/$1"
}
# system: empty, except for programs that every system has.
system() {
	rm -rf "$stubs"
	mkdir "$stubs"
	for it in sh cat cut env grep paste sed sort; do ln -s "$(command -v $it)" "$stubs/$it"; done
	stub id 'echo 0'
	stub dpkg-query 'exit 1'
}
deps() {	# deps STATUS ARG...
	want=$1
	shift
	rm -f "$dir/calls"
	(PATH=$stubs CC=none CXX=none FUZZ_CC=none PYTHON=none exec sh "$srcdir/deps.sh" "$@") >"$dir/out" 2>"$dir/err"
	got=$?
	[ $got = "$want" ] || complain "status of $*: $got, not $want"
}
called() {	# called REGEX: a stub was called with these arguments
	grep -qE -- "$1" "$dir/calls" 2>/dev/null || complain "no call of: $1"
}
called_not() {
	! grep -qE -- "$1" "$dir/calls" 2>/dev/null || complain "a call of: $1"
}
core='gcc libc6-dev liburcu-dev make pkg-config'

system
stub apt-get
deps 0
rows 10 '^deps: [a-z]+ \(.+\): missing: [a-z]'
called "^apt-get -q install .* $core\$"
called '^apt-get -q install .* libelf-dev libjansson-dev$'
called_not ' (check|libevent-dev|chromium)'
deps 0 core check autoconf
called "^apt-get -q install .* $core\$"
called '^apt-get -q install .* autoconf .*check .*mandoc'
called_not ' (libevent-dev|chromium)'
ends 'root has core installed, and what is named'

deps 0 --help
prints '^usage: deps\.sh '
rows 10 '^  [a-z]+ +[a-zA-Z]'
[ ! -e "$dir/calls" ] || complain 'it runs something' "$dir/calls" /dev/null
deps 2 --install
says 'deps: there is no option --install: sh deps.sh --help'
[ ! -e "$dir/calls" ] || complain 'it runs something' "$dir/calls" /dev/null
ends 'help runs nothing, and neither does an unknown option'

stub apt-get 'case $* in *wrk*|*update*) exit 100 ;; esac'
deps 0 core http
says 'deps: going on without wrk'
called '^apt-get .* libjansson-dev$'
stub apt-get 'exit 100'
deps 100 core http
called_not ' libjansson-dev'
ends 'core has to be installed, another group may miss something'

system
stub apt-get
stub id 'echo 1000'
deps 1 core tool
prints "^deps: as root: apt-get install -y --no-install-recommends $core libelf-dev libjansson-dev\$"
prints '^deps: until then there is no tool: '
says 'deps: nothing can be built before'
called_not '^apt-get .*install'
stub sudo 'exit 1'
deps 1 core
called_not '^apt-get .*install'
stub sudo '[ "$1" = -n ] || exec "$@"'
deps 0 core
called "^apt-get -q install .* $core\$"
ends 'without root the line is printed, and sudo asks for no password'

for it in make gcc; do stub $it; done
stub none
stub sudo 'exit 1'
stub pkg-config 'case $* in *libelf*|*jansson*) exit 1 ;; esac'
deps 0 core tool
prints '^deps: as root: apt-get install .* libelf-dev libjansson-dev$'
deps 0 core
prints '^deps: nothing is missing$'
stub dpkg-query 'echo "install ok installed"'
deps 0 core autoconf
prints '^deps: nothing is missing$'
called '^pkg-config --exists liburcu-cds$'
ends 'what is there is not named'

system
deps 1 core
prints "^deps: as root: install these packages, .* $core\$"
while read -r manager line; do
	system
	stub "$manager"
	deps 1 core tool
	grep -qxF "deps: as root: $line" "$dir/out" || complain "$manager: not $line"
	called_not "^$manager"
done <<'IN'
dnf dnf install gcc make pkgconf-pkg-config userspace-rcu-devel elfutils-libelf-devel jansson-devel
zypper zypper install gcc liburcu-devel make pkg-config libelf-devel libjansson-devel
pacman pacman -S gcc liburcu make pkgconf jansson libelf
apk apk add gcc make musl-dev pkgconf userspace-rcu-dev elfutils-dev jansson-dev
IN
ends 'other systems are told their names'

needs() {	# needs GOAL GROUPS: the groups that make passes to deps.sh
	MAKEFLAGS='' ${MAKE:-make} -n -C "$srcdir" deps MAKECMDGOALS="deps $1" >"$dir/out" 2>"$dir/err"
	prints "deps\\.sh'? $2\$"
}
needs all 'core tool'
needs demo 'core tool'
needs check 'core tool check probes http bench many python'
needs serve 'core tool http'
needs bench 'core tool bench'
needs fuzz 'core tool http fuzz'
ends 'a goal of make needs its own groups'
done_testing
