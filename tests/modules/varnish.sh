#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/modules/varnish: answers, a full pool, deadlines, new VCLs under load, a killed child
# process, a failed device, a clean end.
#
# devices: host fake
. "$(dirname "$0")/lib.sh"
tool=/usr/share/varnish/vmodtool.py
needs varnishd varnishadm $tool python3
: >"$dir/config.h"		# which vcc_if.c includes
(cd "$dir" && python3 -B $tool "$modules/varnish/vmod_adler.vcc") >"$dir/out" 2>&1 || complain 'vmodtool fails'
# shellcheck disable=SC2046  # flags are words
builds libvmod_adler.so -Wl,-z,nodelete $(pkg-config --cflags varnishapi) -I"$dir" "$modules/varnish/vmod_adler.c" "$dir/vcc_if.c"
ends 'compiles'
short "$modules/varnish/vmod_adler.c"

port=$(free_port)
vcl() {	# vcl FILE WORKERS MAX_QUEUED START_WITHIN: a VCL that answers with the checksum of the URL's path
	cat >"$dir/$1" <<-END
		vcl 4.1;
		import adler from "$dir/libvmod_adler.so";
		backend default none;
		sub vcl_init { adler.pool("$device", $2, $3); }
		sub vcl_recv {
			set req.http.sum = adler.sum(regsub(req.url, "^/", ""), $4);
			if (req.http.sum == "") { return (synth(503)); }
			return (synth(200));
		}
		sub vcl_synth {
			synthetic(req.http.sum + {"
		"});
			return (deliver);
		}
	END
}
admin() { varnishadm -n "$dir/work" "$@" >"$dir/out" 2>"$dir/err"; }
serves() { admin status && grep -q 'running' "$dir/out" && listens "$port"; }
begin() {	# begin WORKERS MAX_QUEUED START_WITHIN: sets $server
	vcl first.vcl "$@"
	rm -rf "$dir/work"
	starts varnish.out varnishd -F -j none -n "$dir/work" -a "127.0.0.1:$port" -f "$dir/first.vcl" \
		-p thread_pools=1 -p thread_pool_min=50 -p vcl_cooldown=1
	await 'the port' serves
}
finishes() {	# and nothing bad was logged
	varnishlog -n "$dir/work" -d -g raw -i Error >"$dir/errors" 2>/dev/null
	kill -TERM "$server"
	ended "$server"
	silent_log "$dir/errors"
	silent_log "$dir/varnish.out"
	! grep -i 'panic\|died\|assert' "$dir/varnish.out" >"$dir/err" || complain 'Varnish has logged:'
}
child() { pgrep -P "$server"; }
threads() { cat /proc/"$(child)"/task/*/comm | grep -c '^rnl-worker'; }
has_another() { [ "$(child | wc -w)" = 1 ] && [ "$(child)" != "$1" ] && serves; }

begin 2 64 60s
gives get '200 11e60398' Wikipedia
gives get '200 00620062' a
case $(asks get '') in 503*) ;; *) complain 'a job that fails is not 503' ;; esac
varnishlog -n "$dir/work" -d -g raw -i Error >"$dir/out" 2>&1
prints ' adler: '
finishes
ends 'answers are right; a job that fails is 503, and logged'

begin 1 1 60s
closes_gate
crowd get 8
await 'a full pool' crowd_got 1 503
opens_gate
crowd_ends 1 503
gives get '200 11e60398' Wikipedia
finishes
ends 'a full pool is 503, and jobs under way are not disturbed'

begin 1 64 0.5s
closes_gate
crowd get 4
await 'jobs that miss their deadline' crowd_got 3 503
opens_gate
crowd_ends 1 503
finishes
ends 'a job that does not start in time is 503; one that has started ends'

# No request has used the VCL yet: threads that have served one may keep it from getting cold.
begin 2 64 60s
printf 'vcl 4.1;\nbackend default none;\n' >"$dir/other.vcl"
admin vcl.load other "$dir/other.vcl" && admin vcl.use other && admin vcl.state boot cold || complain 'a cold VCL'
await 'the end of the pool' eval 'admin vcl.list && [ "$(threads)" = 0 ]'
admin vcl.state boot warm && admin vcl.use boot || complain 'a warm VCL'
[ "$(threads)" != 0 ] || complain 'no pool'
gives get '200 11e60398' Wikipedia
finishes
ends 'the pool exists while a VCL is warm'

begin 2 64 60s
vcl next.vcl 2 64 60s
loads get
for i in $(seq 10); do
	admin vcl.load "next$i" "$dir/next.vcl" && admin vcl.use "next$i" || complain "VCL $i"
	gives get '200 11e60398' Wikipedia
	admin vcl.discard "$([ "$i" = 1 ] && echo boot || echo "next$((i - 1))")" || complain "discard $i"
done
load_ends
ends 'ten new VCLs under load lose no request'

before=$(child)
closes_gate
crowd get 2
holds 2
kill -9 "$before"
opens_gate
crowd_ends 0 gone
await 'a new child process' has_another "$before"
gives get '200 11e60398' Wikipedia
ends 'a killed child process is replaced'

if [ "$fake" ]; then
	case $(asks get fail) in 503*) ;; *) complain 'a job on a failed device is not 503' ;; esac
	case $(asks get a) in 503*) ;; *) complain 'a failed device is not 503' ;; esac
	varnishlog -n "$dir/work" -d -g raw -i Error >"$dir/out" 2>&1
	prints 'runnel: .*700'
	admin stop && admin start || complain 'it does not start again'
	await 'the port' serves
	gives get '200 11e60398' Wikipedia
	ends 'after a failure of the device a new child process serves'
fi
kill -TERM "$server"
ended "$server" 64		# since a child process was killed
silent_log "$dir/varnish.out"
ends 'TERM ends it'
done_testing
