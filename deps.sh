#!/bin/sh
# Installs what building and testing runnel needs and this system lacks: with
# apt where that is the way; elsewhere it says what to install.
#
# usage: deps.sh [PACKAGE ...]		Debian's packages that are wanted as well
set -u
missing=
need() { missing="$missing $*"; }
echo '#include <stdio.h>' | ${CC:-cc} -E - >/dev/null 2>&1 || need gcc libc6-dev
command -v make >/dev/null || need make
command -v pkg-config >/dev/null || need pkg-config
pkg-config --exists liburcu-cds 2>/dev/null || need liburcu-dev
pkg-config --exists 'check >= 0.15' 2>/dev/null || need check
for p; do
	dpkg-query -W -f '${Status}' "$p" 2>/dev/null | grep -q ' installed$' || need "$p"
done
[ "$missing" ] || { echo 'deps: nothing is missing'; exit 0; }

if ! command -v apt-get >/dev/null; then
	cat >&2 <<-IN
	deps: missing, by Debian's names:$missing
	  Fedora    dnf install gcc make pkgconf-pkg-config userspace-rcu-devel check-devel
	  openSUSE  zypper install gcc make pkg-config liburcu-devel check-devel
	  Arch      pacman -S gcc make pkgconf liburcu check
	  Alpine    apk add gcc musl-dev make pkgconf userspace-rcu-dev check-dev
	IN
	exit 1
fi

root=
if [ "$(id -u)" != 0 ]; then
	root=sudo
	command -v sudo >/dev/null || {
		echo "deps: run this as root: apt-get install$missing" >&2
		exit 1
	}
fi
echo "deps: installing$missing"
apt() { $root env DEBIAN_FRONTEND=noninteractive apt-get -q "$@"; }
get() { apt install -y --no-install-recommends --no-upgrade $missing; }
# Without package lists, or with stale ones, apt knows too little: update, and again.
apt-get -qq -s install $missing >/dev/null 2>&1 && get || { apt update && get; }
