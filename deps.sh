#!/bin/sh
# Installs what building and testing runnel needs and this system lacks: with
# apt where that is the way; elsewhere it says what to install.
#
# usage: deps.sh [PACKAGE ...]		Debian's packages that are wanted as well
set -u
missing= wanted= cluster= browser=
need() { missing="$missing $*"; }
want() { wanted="$wanted $*"; }		# for examples/http_server and pipeline, the tool, make bench, and the tests abi, api/loops, manual and model, which may be left out
many() { cluster="$cluster $*"; }	# for programs over many machines, which may be left out
look() { browser="$browser $*"; }	# for the tests of http_server's page, which may be left out
echo '#include <stdio.h>' | ${CC:-cc} -E - >/dev/null 2>&1 || need gcc libc6-dev
command -v make >/dev/null || need make
command -v pkg-config >/dev/null || need pkg-config
pkg-config --exists liburcu-cds 2>/dev/null || need liburcu-dev
pkg-config --exists 'check >= 0.15' 2>/dev/null || need check
pkg-config --exists 'libevent >= 2.1.9' 2>/dev/null || want libevent-dev
pkg-config --exists 'jansson >= 2.10' 2>/dev/null || want libjansson-dev
pkg-config --exists 'libelf >= 0.170' 2>/dev/null || want libelf-dev
pkg-config --exists 'libpng >= 1.6' 2>/dev/null || want libpng-dev
pkg-config --exists zlib 2>/dev/null || want zlib1g-dev
pkg-config --exists libuv 2>/dev/null || want libuv1-dev
pkg-config --exists 'glib-2.0 >= 2.36' 2>/dev/null || want libglib2.0-dev
pkg-config --exists 'tbb >= 2021.1' 2>/dev/null || want libtbb-dev
command -v "${CXX:-c++}" >/dev/null || want g++
command -v wrk >/dev/null || want wrk
command -v python3 >/dev/null || want python3
command -v spin >/dev/null || want spin
command -v mandoc >/dev/null || want mandoc
command -v abidiff >/dev/null || want abigail-tools
{ command -v mpicc && command -v mpirun; } >/dev/null || many openmpi-bin libopenmpi-dev
# Ubuntu has it as a snap alone.
{ command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null ||
	grep -qs '^ID=ubuntu' /etc/os-release || look chromium
PATH=$PATH:/usr/sbin command -v haproxy >/dev/null || many haproxy
# Debian has no NCCL; NVIDIA's own packages for it do.
[ ! -e /usr/local/cuda ] || [ -e /usr/local/cuda/include/nccl.h ] || [ -e /usr/include/nccl.h ] ||
	! apt-cache show libnccl-dev >/dev/null 2>&1 || many libnccl-dev
for p; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q ' installed$' || need "$p"
done
[ "$missing$wanted$cluster$browser" ] || { echo 'deps: nothing is missing'; exit 0; }

if ! command -v apt-get >/dev/null; then
	cat >&2 <<-IN
	deps: missing, by Debian's names:${missing:- nothing}; and for examples/http_server, the tool, make bench and some tests:${wanted:- nothing}; and for many machines:${cluster:- nothing}; and for the tests of a page:${browser:- nothing}
	  Fedora    dnf install gcc make pkgconf-pkg-config userspace-rcu-devel check-devel
	            libevent-devel jansson-devel libpng-devel libuv-devel wrk python3
	            glib2-devel tbb-devel gcc-c++ elfutils-libelf-devel mandoc libabigail
	            chromium haproxy
	            openmpi-devel (and its module: module load mpi)
	  openSUSE  zypper install gcc make pkg-config liburcu-devel check-devel
	            libevent-devel libjansson-devel libpng16-devel libuv-devel wrk python3
	            glib2-devel tbb-devel gcc-c++ libelf-devel mandoc openmpi-devel
	            chromium haproxy
	  Arch      pacman -S gcc make pkgconf liburcu check libevent jansson libpng libuv wrk python
	            glib2 onetbb libelf mandoc openmpi chromium haproxy
	  Alpine    apk add gcc musl-dev make pkgconf userspace-rcu-dev check-dev libevent-dev
	            jansson-dev libpng-dev libuv-dev wrk python3 glib-dev onetbb-dev g++
	            elfutils-dev mandoc openmpi-dev chromium haproxy
	IN
	[ -z "$missing" ]
	exit
fi

root=
if [ "$(id -u)" != 0 ]; then
	root=sudo
	command -v sudo >/dev/null || {
		echo "deps: run this as root: apt-get install$missing$wanted$cluster$browser" >&2
		[ -z "$missing" ]
		exit
	}
fi
echo "deps: installing$missing$wanted$cluster$browser"
apt() { $root env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"; }
get() { apt install -y --no-install-recommends --no-upgrade "$@"; }
# Without package lists, or with stale ones, apt knows too little: update, and again.
fetch() { apt-get -qq -s install "$@" >/dev/null 2>&1 && get "$@" || { apt update && get "$@"; }; }
[ -z "$missing" ] || fetch $missing || exit
[ -z "$wanted" ] || fetch $wanted || echo "deps: going on without$wanted" >&2
[ -z "$cluster" ] || fetch $cluster || echo "deps: going on without$cluster" >&2
[ -z "$browser" ] || fetch $browser || echo "deps: going on without$browser" >&2
