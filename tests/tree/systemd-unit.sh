#!/bin/sh
# The unit of examples/http_server is one that systemd understands, for a program that
# understands its options.
command -v systemd-analyze >/dev/null || { echo 'SKIP: there is no systemd-analyze'; exit 77; }
[ "$have_HTTP" = yes ] || { echo 'SKIP: examples/http_server is not built'; exit 77; }
server=$PWD/examples/http_server/http_server
unit=$srcdir/examples/http_server/http_server.service
dir=$(mktemp -d "${TMPDIR:-/tmp}/unit.XXXXXX") || exit 1
trap 'rm -rf "$dir"' EXIT
rc=0
sed "s,^ExecStart=[^ ]*,ExecStart=$server," "$unit" >"$dir/http_server.service"
said=$(systemd-analyze verify --man=no "$dir/http_server.service" 2>&1) || rc=1
# What it ignores is no error to it.
if [ $rc != 0 ] || echo "$said" | grep -q http_server; then
	echo "$said"
	rc=1
fi
command=$(sed -n "s,^ExecStart=[^ ]*,$server,p" "$unit")
$command --help >/dev/null || { echo "not for this program: $command"; rc=1; }
exit $rc
