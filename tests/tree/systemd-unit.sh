#!/bin/sh
# SPDX-License-Identifier: MIT
# systemd understands the units of examples/http_server, the program understands the service's
# options, and the service has few rights.
command -v systemd-analyze >/dev/null || { echo 'SKIP: there is no systemd-analyze'; exit 77; }
[ "$have_HTTP" = yes ] || { echo 'SKIP: examples/http_server is not built'; exit 77; }
units=$srcdir/examples/http_server
exposure=37	# what systemd 252 makes of the service, in tenths; an open one has 96
dir=$(mktemp -d "${TMPDIR:-/tmp}/unit.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
server=$dir/http_server	# the build's directory may have blanks
ln -s "$PWD/examples/http_server/http_server" "$server"
rc=0
complain() { echo "$*"; rc=1; }
cp "$units/http_server.socket" "$dir"
sed "s,^ExecStart=[^ ]*,ExecStart=$server," "$units/http_server.service" >"$dir/http_server.service"
for unit in service socket; do
	said=$(systemd-analyze verify --man=no "$dir/http_server.$unit" 2>&1) || complain "$unit: $said"
	# systemd does not report ignored settings as errors.
	case $said in *http_server*) complain "$unit: $said" ;; esac
done
command=$(sed -n "s,^ExecStart=[^ ]*,$server,p" "$dir/http_server.service")
$command --help >/dev/null || complain "not for this program: $command"
address=$(sed -n 's/^ListenStream=//p' "$dir/http_server.socket")
case $command in *--listen="$address"*) ;; *) complain "the socket's address is $address" ;; esac
for line in NoNewPrivileges=yes PrivateTmp=yes ProtectSystem=strict CapabilityBoundingSet= \
	'MemoryMax=[0-9]*G'; do
	grep -qx "$line" "$dir/http_server.service" || complain "the service lacks $line"
done
# Older versions cannot check a file.
if systemd-analyze --help | grep -q -e --threshold; then
	said=$(systemd-analyze security --no-pager --offline=true --threshold=$exposure \
		"$dir/http_server.service" 2>&1) || complain "the service may do too much: $said"
fi
exit $rc
