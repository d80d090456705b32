#!/bin/sh
# SPDX-License-Identifier: MIT
# With apt and as root, installs the missing packages of the named groups. Without apt or root,
# prints the command to run.
#
# usage: deps.sh [GROUP | PACKAGE of Debian ...]	without any: core and tool, and it lists the groups
#        deps.sh --help
#
# Nothing works without core. If packages of another group are missing, what needs them is not
# built and not tested; configure and the tests say so.
set -u
groups='core tool check probes http bench many fuzz python modules'
about() {
	case $1 in
	core) echo 'the library, runnel, and make demo' ;;
	tool) echo 'runnel lint and runnel report' ;;
	check) echo 'make check' ;;
	probes) echo "the library's probes, for bpftrace and gdb, and their tests" ;;
	http) echo 'examples/http_server, its page and its tests; examples/pipeline' ;;
	bench) echo 'make bench, beside other pools' ;;
	many) echo 'programs over several GPUs and machines: MPI, NCCL, a balancer' ;;
	fuzz) echo 'make fuzz, with the groups http and tool' ;;
	python) echo 'the Python package, its wheel and its tests' ;;
	modules) echo 'tests of examples/modules in their servers' ;;
	*) return 1 ;;
	esac
}

compiles() { header stdio.h; }
has() { (PATH=$PATH:/usr/sbin && command -v "$1" >/dev/null); }
header() { echo "#include <$1>" | ${CC:-cc} -E - >/dev/null 2>&1; }
lib() { pkg-config --exists "$*" 2>/dev/null; }
mpi() { has mpicc && has mpirun; }
# Ubuntu has chromium only as a snap, which apt cannot install: it counts as present.
browser() { has chromium || has chromium-browser || has google-chrome || grep -qs '^ID=ubuntu' /etc/os-release; }
python() {
	python3=${PYTHON:-/usr/bin/python3}	# apt's
	has $python3 && $python3 -c 'import setuptools, cffi, numpy, pip, venv, wheel
open(__import__("sysconfig").get_paths()["include"] + "/Python.h")' 2>/dev/null
}
postgresql() { has pg_config && [ -e "$(pg_config --includedir-server)/postgres.h" ] && has "$(pg_config --bindir)/initdb"; }
checks_types() { ${PYTHON:-/usr/bin/python3} -c 'import mypy' 2>/dev/null; }
# Only NVIDIA's repository for Debian has NCCL. NCCL counts as missing only if CUDA is there and apt
# knows the package.
nccl() {
	[ -e /usr/local/cuda/include/nccl.h ] || [ -e /usr/include/nccl.h ] || [ ! -e /usr/local/cuda ] ||
		! apt-cache show libnccl-dev >/dev/null 2>&1
}

# Each line: groups | a test whether these packages are there | the packages of Debian | Fedora |
# openSUSE | Arch | Alpine.
table() {
	cat <<-'IN'
	core|compiles|gcc libc6-dev|gcc|gcc|gcc|gcc musl-dev
	core|has make|make|make|make|make|make
	core|has pkg-config|pkg-config|pkgconf-pkg-config|pkg-config|pkgconf|pkgconf
	core|lib liburcu-cds|liburcu-dev|userspace-rcu-devel|liburcu-devel|liburcu|userspace-rcu-dev
	tool http|lib jansson '>=' 2.10|libjansson-dev|jansson-devel|libjansson-devel|jansson|jansson-dev
	tool|lib libelf '>=' 0.170|libelf-dev|elfutils-libelf-devel|libelf-devel|libelf|elfutils-dev
	check|lib check '>=' 0.15|check|check-devel|check-devel|check|check-dev
	check bench|has ${CXX:-c++}|g++|gcc-c++|gcc-c++|gcc|g++
	check http|has python3|python3|python3|python3|python|python3
	check|lib libuv|libuv1-dev|libuv-devel|libuv-devel|libuv|libuv-dev
	check|has spin|spin||||
	check|has mandoc|mandoc|mandoc|mandoc|mandoc|mandoc
	check|has abidiff|abigail-tools|libabigail|||
	check|has git|git|git|git|git|git
	check|has musl-gcc|musl-tools||||
	check|has cmake|cmake|cmake|cmake|cmake|cmake
	check|has faketime|faketime|libfaketime|libfaketime|libfaketime|libfaketime
	probes|header sys/sdt.h|systemtap-sdt-dev|systemtap-sdt-devel|systemtap-sdt-devel||
	probes|has gdb|gdb|gdb|gdb|gdb|gdb
	probes|has bpftrace|bpftrace|bpftrace|bpftrace|bpftrace|bpftrace
	http|lib libevent '>=' 2.1.9|libevent-dev|libevent-devel|libevent-devel|libevent|libevent-dev
	http|lib libpng '>=' 1.6|libpng-dev|libpng-devel|libpng16-devel|libpng|libpng-dev
	http|lib zlib|zlib1g-dev|zlib-devel|zlib-devel|zlib|zlib-dev
	http|has wrk|wrk|wrk|wrk|wrk|wrk
	http|browser|chromium|chromium|chromium|chromium|chromium
	http many|has haproxy|haproxy|haproxy|haproxy|haproxy|haproxy
	bench|lib glib-2.0 '>=' 2.36|libglib2.0-dev|glib2-devel|glib2-devel|glib2|glib-dev
	bench|lib tbb '>=' 2021.1|libtbb-dev|tbb-devel|tbb-devel|onetbb|onetbb-dev
	many|mpi|openmpi-bin libopenmpi-dev|openmpi-devel|openmpi-devel|openmpi|openmpi-dev
	many|nccl|libnccl-dev||||
	python|checks_types|mypy|python3-mypy|python3-mypy|mypy|
	python|python|python3-cffi python3-dev python3-numpy python3-pip python3-setuptools python3-venv python3-wheel|python3-cffi python3-devel python3-numpy python3-pip python3-setuptools python3-wheel|python3-cffi python3-devel python3-numpy python3-pip python3-setuptools python3-wheel|python-cffi python-numpy python-pip python-setuptools python-wheel|py3-cffi py3-numpy py3-pip py3-setuptools py3-wheel python3-dev
	modules|has nginx && [ -e /usr/share/nginx/src/configure ]|nginx nginx-dev||||
	modules|has apache2 && has apxs|apache2 apache2-dev||||
	modules|has varnishd && lib varnishapi|varnish libvarnishapi-dev||||
	modules|postgresql|postgresql postgresql-server-dev-all procps||||
	modules|has redis-server && has redis-benchmark|redis-server redis-tools||||
	fuzz|has ${FUZZ_CC:-clang}|clang libclang-rt-dev|clang compiler-rt|clang|clang compiler-rt|clang compiler-rt
	IN
}

column=3 install='apt-get install -y --no-install-recommends'
if ! has apt-get; then
	install='install these packages, which are called so by Debian:'
	! has dnf || { column=4 install='dnf install'; }
	! has zypper || { column=5 install='zypper install'; }
	! has pacman || { column=6 install='pacman -S'; }
	! has apk || { column=7 install='apk add'; }
fi
# lacks GROUP: the packages of it that are missing.
lacks() {
	table | while IFS= read -r line; do
		case " ${line%%|*} " in *" $1 "*) ;; *) continue ;; esac
		there=${line#*|} there=${there%%|*}
		eval "$there" || printf '%s\n' "$line" | cut -d '|' -f $column
	done
}
once() { printf '%s\n' $* | sort -u | paste -sd ' ' -; }

case ${1:-} in
--help | -h)
	echo 'usage: deps.sh [GROUP | PACKAGE of Debian ...]'
	echo 'Installs what is missing, with apt and as root; otherwise prints the command. Without arguments: core and tool.'
	for group in $groups; do printf '  %-8s%s\n' $group "$(about $group)"; done
	exit
	;;
-*)
	echo "deps: there is no option $1: sh deps.sh --help" >&2
	exit 2
	;;
esac

[ $# != 0 ] || for group in $groups; do
	missing=$(once $(lacks "$group"))
	echo "deps: $group ($(about "$group")): ${missing:+missing: }${missing:-nothing is missing}"
done
[ $# != 0 ] || set -- core tool
core= rest= without=
for word; do
	if ! about "$word" >/dev/null; then
		dpkg-query -W -f '${Status}' "$word" 2>/dev/null | grep -q ' installed$' || rest="$rest $word"
	elif [ "$word" = core ]; then
		core=$(once $(lacks core))
	else
		missing=$(lacks "$word")
		[ -z "$missing" ] || { rest="$rest $missing" without="$without $word"; }
	fi
done
rest=$(once $rest)
[ "$core$rest" ] || { echo 'deps: nothing is missing'; exit 0; }

root=
if ! has apt-get || { [ "$(id -u)" != 0 ] && ! { has sudo && sudo -n true 2>/dev/null && root=sudo; }; }; then
	echo "deps: as root: $install" $core $rest
	for group in $without; do echo "deps: until then there is no $group: $(about "$group")"; done
	[ -z "$core" ] && exit
	echo 'deps: nothing can be built before' >&2
	exit 1
fi
echo "deps: installing" $core $rest
apt() { $root env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"; }
get() { apt install -y --no-install-recommends --no-upgrade "$@"; }
# Without package lists, or with stale ones, apt knows too little: update, and again.
fetch() { apt-get -qq -s install "$@" >/dev/null 2>&1 && get "$@" || { apt update && get "$@"; }; }
[ -z "$core" ] || fetch $core || exit
[ -z "$rest" ] || fetch $rest ||
	for p in $rest; do get "$p" || echo "deps: going on without $p" >&2; done
