#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/modules/mod_adler.c in Apache, with threads (event) and without (prefork): answers, a full
# pool, deadlines, restarts under load, a killed child process, a failed device, both ways to end.
#
# devices: host fake
. "$(dirname "$0")/lib.sh"
needs apache2 apxs python3
libexec=$(apxs -q LIBEXECDIR)
# shellcheck disable=SC2046  # flags are words
builds mod_adler.so $(apxs -q CFLAGS) $(apxs -q EXTRA_CPPFLAGS) -I"$(apxs -q INCLUDEDIR)" \
	-I"$(apr-1-config --includedir)" -Wl,-z,nodelete "$modules/mod_adler.c"
ends 'compiles'
short "$modules/mod_adler.c"

port=$(free_port)
user=$(id -un)
[ "$user" != root ] || user=nobody
begin() {	# begin MPM POOL DEADLINE_MS: sets $server
	case $1 in
	event) limits='StartServers 1
		ThreadsPerChild 16
		MaxRequestWorkers 128
		MinSpareThreads 1' ;;
	prefork) limits='StartServers 4
		MaxRequestWorkers 8' ;;
	esac
	cat >"$dir/apache.conf" <<-END
		ServerRoot $dir
		ServerName localhost
		PidFile $dir/apache.pid
		DefaultRuntimeDir $dir
		Listen 127.0.0.1:$port
		User $user
		Group $(id -gn "$user")
		ErrorLog $dir/error.log
		LogLevel info
		LoadModule mpm_$1_module $libexec/mod_mpm_$1.so
		LoadModule authz_core_module $libexec/mod_authz_core.so
		LoadModule adler_module $dir/mod_adler.so
		ServerLimit 8
		$limits
		AdlerPool $2
		AdlerDeadline $3
		<Location /adler>
		SetHandler adler
		</Location>
	END
	: >"$dir/error.log"
	starts apache.out apache2 -f "$dir/apache.conf" -DFOREGROUND
	await 'the port' listens "$port"
}
finishes() {	# finishes SIGNAL: and nothing bad was logged
	kill -"$1" "$server"
	ended "$server"
	silent_log "$dir/error.log"
	! grep -aE ':(crit|alert|emerg)\]' "$dir/error.log" >"$dir/err" || complain 'Apache has logged:'
}
child() { pgrep -P "$server" | sort | head -n 1; }
is_gone() { ! kill -0 "$1"; }
logged() { [ "$(grep -cE "$2" "$dir/error.log")" -ge "$1" ]; }

for mpm in event prefork; do
	begin $mpm "$device 2 64" 60000
	gives post '200 11e60398' Wikipedia
	gives post '200 00620062' a
	case $(asks post '') in 500*) ;; *) complain 'a job that fails is not 500' ;; esac
	logged 1 'adler: ' || complain 'a job that fails is not logged'
	case $(asks post "$(printf '%080000d' 0)") in 413*) ;; *) complain 'a body that is too large is not 413' ;; esac
	finishes TERM
	ends "$mpm: answers are right; a job that fails is 500"
done

begin event "$device 1 1" 60000
closes_gate
crowd post 8
await 'a full pool' crowd_got 1 503
opens_gate
crowd_ends 1 503
gives post '200 11e60398' Wikipedia
finishes TERM
ends 'a full pool is 503, and jobs under way are not disturbed'

begin event "$device 1 64" 500
closes_gate
crowd post 4
await 'jobs that miss their deadline' crowd_got 3 503
opens_gate
crowd_ends 1 503
finishes TERM
ends 'a job that does not start in time is 503; one that has started ends'

for mpm in event prefork; do
	begin $mpm "$device 2 64" 60000
	loads post
	for i in $(seq 10); do
		kill -USR1 "$server"
		await 'the restart' logged "$i" 'SIGUSR1 received|Graceful restart requested'
		await 'new child processes' logged $((i + 1)) 'resuming normal operations'
		gives post '200 11e60398' Wikipedia
	done
	load_ends
	before=$(child)
	kill -9 "$before"
	await 'its end' is_gone "$before"
	gives post '200 11e60398' Wikipedia
	finishes WINCH
	ends "$mpm: ten restarts under load lose no request; a killed child process is replaced"
done

begin event "$device 2 64" 60000
closes_gate
crowd post 2
holds 2
kill -WINCH "$server"
await 'the end of the listener' eval '! listens "$port"'
opens_gate
crowd_ends 2
ended "$server"
silent_log "$dir/error.log"
ends 'a graceful stop waits for jobs'

if [ "$fake" ]; then
	begin event "$device 2 64" 60000
	before=$(child)
	case $(asks post fail) in 500*) ;; *) complain 'a job on a failed device is not 500' ;; esac
	await 'a 503' eval 'case $(asks post a) in 503*) ;; *) false ;; esac'
	await 'the end of the child process' is_gone "$before"
	await 'a right answer' eval '[ "$(asks post Wikipedia)" = "200 11e60398" ]'
	logged 1 'runnel: .*700' || complain 'the failure is not logged'
	kill -TERM "$server"
	ended "$server"
	ends 'after a failure of the device a new child process serves'
fi
done_testing
