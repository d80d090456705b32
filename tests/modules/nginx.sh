#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/modules/nginx: answers, a full pool, clients that go away, reloads under load, a killed
# worker process, a failed device, both ways to end.
#
# devices: host fake
. "$(dirname "$0")/lib.sh"
needs nginx /usr/share/nginx/src/configure python3
[ "$(id -u)" = 0 ] && user='user root;' || user=

cp -r /usr/share/nginx/src "$dir/src"
(cd "$dir/src" && ADLER_DEVICE=$here/adler_held.c CC=${CC:-cc} ./configure --with-compat \
	--add-dynamic-module="$modules/nginx" \
	--with-cc-opt="$module_cflags -DPATIENCE_MS=3000" --with-ld-opt="$module_libs" &&
	make -f objs/Makefile modules) >"$dir/out" 2>&1 || complain 'it does not compile'
[ -e "$dir/src/objs/ngx_http_adler_module.so" ] || { ends 'compiles'; done_testing; }
ends 'compiles'
if [ "${NVCC:-}" ]; then
	check 'the kernel of all modules compiles' "$NVCC" -c --default-stream per-thread -I"$top/include" \
		-o "$dir/device.o" "$modules/adler/device.cu"
fi
: >"$dir/out"
short "$modules/nginx/module.c"
short "$modules/nginx/requests.c"

port=$(free_port)
# configure WORKERS MAX_QUEUED: of the pool of one worker process
configure() {
	cat >"$dir/nginx.conf" <<-END
		$user
		daemon off;
		pid $dir/nginx.pid;
		error_log $dir/error.log info;
		load_module $dir/src/objs/ngx_http_adler_module.so;
		env FAKE_CUDART;
		env MODULE_GATE;
		events { worker_connections 256; }
		http {
			access_log off;
			client_body_temp_path $dir/body;
			proxy_temp_path $dir/proxy;
			fastcgi_temp_path $dir/fastcgi;
			uwsgi_temp_path $dir/uwsgi;
			scgi_temp_path $dir/scgi;
			client_body_buffer_size 16k;
			adler_pool $device $1 $2;
			server {
				listen 127.0.0.1:$port;
				location = /adler { adler; }
				location = /status { stub_status; }
			}
		}
	END
}
begin() {	# begin WORKERS MAX_QUEUED: sets $server
	configure "$@"
	: >"$dir/error.log"
	starts nginx.out nginx -c "$dir/nginx.conf" -p "$dir"
	await 'the port' listens "$port"
}
quits() {	# quits [SIGNAL]: and nothing bad was logged
	kill -"${1:-QUIT}" "$server" 2>/dev/null
	ended "$server"
	silent_log "$dir/error.log"
	! grep -aE '\[(alert|emerg|crit)\]' "$dir/error.log" >"$dir/err" || complain 'nginx has logged:'
}
worker() { pgrep -P "$server"; }
has_another() {	# has_another PID: one worker process serves, another one
	[ "$(worker | wc -w)" = 1 ] && [ "$(worker)" != "$1" ]
}
under_way() { asks get status | grep -q "Writing: $(($1 + 1)) "; }	# this request is one, too
logged() {	# logged NR REGEX
	[ "$(grep -caE "$2" "$dir/error.log")" -ge "$1" ]
}

begin 2 64
gives post '200 11e60398' Wikipedia
gives post '200 00620062' a
case $(asks post '') in 500*) ;; *) complain 'a job that fails is not 500' ;; esac
logged 1 'adler: ' || complain 'a job that fails is not logged'
got=$(asks post "$(printf '%0100000d' 0)")
case $got in 413*) ;; *) complain "a body that is too large is not 413: $got" ;; esac
quits
ends 'answers are right; a job that fails is 500'

begin 1 1
closes_gate
crowd post 8
await 'a full pool' crowd_got 1 503
opens_gate
crowd_ends 1 503
gives post '200 11e60398' Wikipedia
quits
ends 'a full pool is 503, and jobs under way are not disturbed'

begin 1 64
closes_gate
crowd post 4
await 'jobs that do not start in time' crowd_got 3 503
opens_gate
crowd_ends 1 503
quits
ends 'a job that does not start in time is 503; one that has started ends'

begin 1 8
before=$(worker)
closes_gate
crowd post 4
await '4 requests under way' under_way 4
kill $askers
wait $askers 2>/dev/null
await 'the end of the connections' logged 4 'prematurely closed'
opens_gate
gives post '200 11e60398' Wikipedia
[ "$(wc -l <"$MODULE_GATE.held")" = 1 ] || complain 'queued jobs of clients that went away have run'
[ "$(worker)" = "$before" ] || complain 'the worker process has ended'
quits
ends 'jobs of clients that go away are cancelled; the memory of a request stays'

begin 2 64
loads post
for _ in $(seq 10); do
	before=$(worker)
	kill -HUP "$server"
	await 'a new worker process' has_another "$before"
done
load_ends
ends 'ten reloads under load lose no request'

before=$(worker)
kill -9 "$before"
await 'a new worker process' has_another "$before"
gives post '200 11e60398' Wikipedia
silent_log "$dir/error.log"
ends 'a killed worker process is replaced'

if [ "$fake" ]; then
	before=$(worker)
	case $(asks post fail) in 500*) ;; *) complain 'a job on a failed device is not 500' ;; esac
	case $(asks post a) in 503*) ;; *) complain 'a failed device is not 503' ;; esac
	await 'a new worker process' has_another "$before"
	gives post '200 11e60398' Wikipedia
	logged 1 'runnel: .*700' || complain 'the failure is not logged'
	ends 'after a failure of the device a new worker process serves'
fi
: >"$dir/error.log"
closes_gate
crowd post 2
holds 2
kill -TERM "$server"
ended "$server"
opens_gate
crowd_ends 0 gone
begin 2 64
closes_gate
crowd post 2
holds 2
kill -QUIT "$server"
await 'the end of the listener' eval '! listens "$port"'
opens_gate
crowd_ends 2
quits WINCH
ends 'QUIT waits for jobs, TERM does not'
done_testing
