#!/bin/sh
# SPDX-License-Identifier: MIT
# Unpacks Debian's packages of another architecture, with their dependencies, into a folder, to
# compile against and to run programs in.  It uses an apt state of its own: the system's packages do
# not change, and it needs no root.
#
# usage: cross_root.sh ARCHITECTURE FOLDER PACKAGE ...	cross_root.sh arm64 /tmp/arm64 liburcu-dev
set -eu
arch=$1 root=$2
shift 2
mkdir -p "$root/apt/state/lists/partial" "$root/apt/cache/archives/partial"
: >"$root/apt/status"
apt() {
	apt-get -q -o APT::Architecture="$arch" -o APT::Architectures="$arch" -o APT::Sandbox::User="$(id -un)" \
		-o Dir::State="$root/apt/state" -o Dir::State::status="$root/apt/status" -o Dir::Cache="$root/apt/cache" \
		-o Debug::NoLocking=1 "$@"
}
apt update
apt install -y --download-only --no-install-recommends "$@"
for deb in "$root"/apt/cache/archives/*.deb; do dpkg-deb -x "$deb" "$root"; done
rm -rf "$root/apt"
