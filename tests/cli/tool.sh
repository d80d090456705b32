#!/bin/sh
# SPDX-License-Identifier: MIT
# The tool, runnel: its commands, their options and exit statuses, the manual, the completion.
#
# env: TOOL  the program (./runnel; with the double of the CUDA runtime: tests/doubles/tool)
#      RNL_TEST_DEVICE  the device that it uses (host)
#
# devices: host fake cuda
program=${TOOL:-$([ "${RNL_TEST_FAKE:-}" ] && echo tests/doubles/tool || echo ./runnel)}
. "$(dirname "$0")/../lib/harness.sh"
unset CUDA_DEVICE_MAX_CONNECTIONS CUDA_LAUNCH_BLOCKING RUNNEL_GUARD CUDA_MPS_ACTIVE_THREAD_PERCENTAGE
export CUDA_MPS_PIPE_DIRECTORY="$dir/mps"	# no daemon listens there
if [ "$device" != host ] && ! "$program" bench --device="$device" --run-ms=1 --workers=1 >"$dir/out" 2>"$dir/err" &&
	grep -qE 'no GPU answers|without kernels for CUDA' "$dir/err"; then
	[ -z "$fake" ] || { cat "$dir/err"; exit 1; }	# the double is always available
	echo "SKIP: runnel has no device $device here"
	exit 77
fi
# Hides GPUs, which take long to start: the following tests are for the host device.
[ "$device" != host ] || export CUDA_VISIBLE_DEVICES=''
python=$(command -v python3) || echo 'SKIP: no python3: JSON and the interrupt are not tested'

refuses_command() {	# refuses_command TEXT COMMAND ARG...: its message also names --help
	fails 2 "$@"
	shift
	says "Try 'runnel $1 --help' for more information."
}
is_json() {	# is_json EXPRESSION: the output is JSON, and EXPRESSION is true of it (d)
	[ -z "$python" ] ||
		"$python" -c 'import json, sys; d = json.load(open(sys.argv[1])); assert eval(sys.argv[2]), d' "$dir/out" "$1"
}
json() { is_json "$1" 2>>"$dir/err" || complain "the output is not JSON, or this is false: $1"; }
answered() { echo "[c['answer'] for c in d['checks'] if c['name'] == '$2'] == ['$1']"; }	# answered ANSWER CHECK
answers() {	# answers ANSWER CHECK...: in JSON
	answer=$1
	shift
	for name; do json "$(answered "$answer" "$name")"; done
}
checks() {	# checks ARGUMENT...: runs check with JSON output; $got is its exit status
	for _ in 1 2 3 4 5; do	# on a busy machine the double's kernels may not overlap: try again
		"$program" check --device="$device" "$@" --json >"$dir/out" 2>"$dir/err"
		got=$?
		[ "$fake" ] && ! is_json "$(answered yes connections)" 2>/dev/null || break
	done
}

# ---- the commands ------------------------------------------------------------
gives 0 info
silent info
prints '^runnel +[0-9]+\.[0-9]+\.[0-9]+, with'
prints '^queues +8; 32 in a program that calls rnl_setup\(\)'
prints '^host +the host device'
[ "$device" = host ] || prints '^cuda:0 +'
gives 0 info --json
json "d['devices'][-1]['device'] == 'host' and d['queues'] == {'now': 8, 'setting': None}"
if [ "$device" != host ]; then
	json "d['devices'][0]['device'] == 'cuda:0' and d['devices'][0]['works']['memory_pools'] and d['cuda']['driver']"
	[ -z "$fake" ] || json "d['devices'][0]['sm_group'] == 8 and d['devices'][0]['kept_sms_max'] == 16"
	CUDA_DEVICE_MAX_CONNECTIONS=1 gives 0 info
	if [ "$fake" ]; then
		prints '^  multiprocessors are kept in groups of 8, at most 16$'
		prints '^  yes  multiprocessors kept for a class$'
	fi
	prints '^queues +1, as CUDA_DEVICE_MAX_CONNECTIONS=1 says$'
	prints '^  no   a hardware queue for each of 8 workers: workers share queues'
fi
if [ "$fake" ]; then
	FAKE_CUDART="nogreen${FAKE_CUDART:+,$FAKE_CUDART}" gives 0 info
	prints '^  no   multiprocessors kept for a class: a kernel that should go first waits'
fi
ends 'info tells of devices'

(ulimit -S -l 64 && "$program" info && "$program" info --json >"$dir/json") >"$dir/out" 2>"$dir/err" || complain 'limits'
prints '^memlock       64 KiB, which CUDA.s page-locked memory may exceed$'
mv "$dir/json" "$dir/out"
json "d['limits']['memlock_bytes'] == 65536"
# A user namespace in which other files say what the control groups of the process are.
mkdir "$dir/group"
echo '0::/' >"$dir/cgroup"
echo "30 23 0:26 / $dir/group rw - cgroup2 cgroup2 rw" >"$dir/mountinfo"
echo '50000 100000' >"$dir/group/cpu.max"
in_group() {
	dir=$dir unshare -Urm sh -c 'mount --bind "$dir/cgroup" /proc/$$/cgroup &&
		mount --bind "$dir/mountinfo" /proc/$$/mountinfo && exec "$@"' - "$@" >"$dir/out" 2>"$dir/err"
}
if in_group true; then
	in_group "$program" info || complain 'in a control group'
	prints '^quota         the time of 1 CPU, by control groups$'
	in_group "$program" info --json || complain 'in a control group'
	json "d['limits']['quota_cpus'] == 1 and d['cpus']['usable'] >= 1"
else
	echo 'SKIP: no user namespaces: the quota of a control group is not tested'
fi
gives 0 info --json
json "'quota_cpus' in d['limits']"
if [ "$python" ]; then
	"$python" - "$program" "$dir/mps" >"$dir/out" 2>"$dir/err" <<-'IN' || complain 'while a daemon listens'
	import json, os, socket, subprocess, sys
	os.mkdir(sys.argv[2])
	daemon = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
	daemon.bind(sys.argv[2] + "/control")
	daemon.listen()
	os.environ.update(CUDA_MPS_PIPE_DIRECTORY=sys.argv[2], CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="25")
	info = [sys.argv[1], "info"]
	print(subprocess.run(info, check=True, capture_output=True, text=True).stdout)
	limits = json.loads(subprocess.check_output(info + ["--json"]))["limits"]
	assert limits["mps_directory"] == sys.argv[2] and limits["mps_active_thread_percentage"] == "25", limits
	IN
	prints "^queues +8; rnl_setup\(\) does not change this, because MPS listens in $dir/mps$"
fi
if [ "$fake" ]; then
	fake_before=${FAKE_CUDART:-}
	gives 0 info
	prints '^  MPS:  no; processes take turns$'
	prints '^  mode: default: any number of processes$'
	prints_not '^  MIG: '
	export FAKE_CUDART="mps,mig,mode=3${FAKE_CUDART:+,$FAKE_CUDART}"
	gives 0 info
	prints '^  MIG:  this is a slice of a GPU$'
	prints '^  MPS:  yes; processes run at the same time$'
	prints "^  mode: exclusive_process: one process, or MPS's server and its clients; others get an error$"
	CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25 gives 0 info
	prints '^  MPS:  yes, with CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=25$'
	gives 0 info --json
	json "[d['devices'][0][name] for name in ('mps', 'mig', 'compute_mode')] == [True, True, 'exclusive_process']"
	checks
	json "[d[name] for name in ('mps', 'mig', 'compute_mode')] == [True, True, 'exclusive_process'] and d['limits']"
	"$program" check >"$dir/out" 2>"$dir/err"
	prints '^MIG:      this is a slice of a GPU$'
	prints '^MPS:      yes; '
	prints '^mode:     exclusive_process: '
	export FAKE_CUDART="fail=cudaDeviceGetAttribute:1:1${fake_before:+,$fake_before}"
	gives 0 info
	prints '^  mode: unknown: CUDA does not say$'
	gives 0 info --json
	json "d['devices'][0]['compute_mode'] is None"
	export FAKE_CUDART="slice=2000${fake_before:+,$fake_before}"
	gives 1 check --json
	answers no turns
	json "[c['figures']['gaps'] >= 3 and 'under MPS' in c['cause'] for c in d['checks'] if c['name'] == 'turns'] == [True]"
	export FAKE_CUDART="mps,$FAKE_CUDART"
	gives 1 check
	prints '^no +turns '
	prints 'likely cause: another process, which is not a client of MPS, or a display, uses the GPU'
	export FAKE_CUDART="$fake_before"
fi
ends 'info and check tell how GPUs are shared, and what limits the process'

# With the double, CPUs copy and compute, so the answers copies-both and priorities depend on the
# machine. If its CPUs have other work, copies-in and copies-out do, too.
all="streams kernels pinned"
[ "$device" = host ] || all="$all turns"
busy=$(awk -v cpus="$(nproc)" '$1 > cpus / 4 { print "yes" }' /proc/loadavg)
[ "$fake" ] && [ "$busy" ] || all="$all copies-in copies-out"
[ "$device" = host ] || all="$all connections"
[ "$device" = host ] || [ "$fake" ] || all="$all copies-both"
[ "$fake" ] || all="$all priorities"
if [ "$fake" ]; then
	checks
	[ $got != 0 ] || json "d['answer'] == 'yes'"
	[ $got != 1 ] || json "d['answer'] == 'no'"
	[ $got != 2 ] || json "d['answer'] == 'unknown'"
	[ $got -lt 3 ] || complain "status of check: $got"
else
	gives 0 check --device="$device"
	prints '^workers: +8$'
	silent check
	for name in $all; do prints "^yes +$name "; done
	gives 0 check --device="$device" --json
	json "d['answer'] == 'yes' and len(d['checks']) == 10"
fi
answers yes $all
if [ "$device" = host ]; then
	prints '"copies are CPUs'\'' work on the host device; this process may use [1-9][0-9]*"'
	json "[c['name'] for c in d['checks'] if not c['answer']] == ['connections', 'copies-both', 'turns']"
	gives 0 check --device=host --workers=2 --json
	json "d['workers'] == 2"
	gives 0 check --device=host --workers=62 --json
	json "d['workers'] == 62"
	gives 0 check --device=host:3
	prints '^yes +peers '
	prints '6 pairs of 3 host devices: what is sent arrives, at [0-9.]+ GB/s or more$'
	gives 0 bench --device=host:2 --workers=4 --run-ms=20 --json
	json "d['devices'] == 2 and [j['workers'] for j in d['j']] == [2, 4]"
	# Long enough for jobs that are submitted again while others run.
	gives 0 bench --device=host:2 --workers=2 --run-ms=100
	prints '^devices +2$'
fi
ends 'check answers yes on a good machine'

if [ "$fake" ]; then
	fake_before=${FAKE_CUDART:-}
	export FAKE_CUDART="devices=3${FAKE_CUDART:+,$FAKE_CUDART}"
	gives 0 info
	prints '^cuda:2 +'
	prints '^  reaches the memory of cuda:0, cuda:1$'
	gives 0 info --json
	json "[d['reaches'] for d in d['devices'][:3]] == [[1, 2], [0, 2], [0, 1]]"
	"$program" check --device=cuda:2,0 >"$dir/out" 2>"$dir/err"
	prints '^device: +cuda:2, '
	prints '2 pairs of 2 GPUs: what is sent arrives, at .*; 2 pairs are direct, 0 go through the host$'
	export FAKE_CUDART="strangers,$FAKE_CUDART"
	gives 0 info
	prints "^  reaches no other GPU's memory"
	"$program" check --device=cuda >"$dir/out" 2>"$dir/err"
	prints '6 pairs of 3 GPUs: what is sent arrives, at .*; 0 pairs are direct, 6 go through the host$'
	export FAKE_CUDART="$fake_before"
	ends 'several devices: which reach which, and what is sent arrives'
fi

if [ "$device" != host ]; then
	# The double does not read the variable, so its number of queues is set, too.
	export CUDA_DEVICE_MAX_CONNECTIONS=1
	fake_before=${FAKE_CUDART:-}
	[ -z "$fake" ] || export FAKE_CUDART="queues=1${FAKE_CUDART:+,$FAKE_CUDART}"
	gives 1 check --device="$device"
	prints '^no +connections '
	prints 'likely cause: connections: CUDA_DEVICE_MAX_CONNECTIONS is 1, so 8 workers share 1 hardware queue: unset it'
	gives 1 check --device="$device" --json
	json "d['answer'] == 'no'"
	answers no connections
	# A GPU may overlap some work nevertheless.
	[ -z "$fake" ] || answers no kernels connections copies-in copies-out
	json "all('CUDA_DEVICE_MAX_CONNECTIONS is 1' in c['cause'] for c in d['checks'] if c['answer'] == 'no')"
	answers yes streams pinned
	ends 'check says no if workers share a hardware queue, and names the cause'
	unset CUDA_DEVICE_MAX_CONNECTIONS
	[ -z "$fake" ] || export FAKE_CUDART="$fake_before"
fi
if [ "$fake" ]; then
	FAKE_CUDART=fail=cudaHostAlloc:1:2 gives 2 check --device=cuda
	says 'runnel check: '
	says 'out of memory'
	FAKE_CUDART=fail=cudaLaunchKernel:3:719:sticky gives 2 check --device=cuda
	says 'runnel check: '
	FAKE_CUDART=fail=cudaLaunchKernel:30:719:sticky gives 2 bench --device=cuda --run-ms=5
	says 'runnel bench: '
	ends 'a failing device gives exit status 2'
fi

if [ "$fake" ]; then
	plan=${FAKE_CUDART:-}
	without() {	# without WHY FAILURE: no GPU is available, for that reason
		export FAKE_CUDART="$2${plan:+,$plan}"
		gives 0 info
		prints "^no GPU +$1"
		export CUDA_VISIBLE_DEVICES=7
	}
	without 'the driver shows no GPU$' fail=cudaGetDeviceCount:1:100
	without 'the driver shows no GPU \(CUDA_VISIBLE_DEVICES is set\)$' fail=cudaGetDeviceCount:1:100
	unset CUDA_VISIBLE_DEVICES
	without 'the NVIDIA driver is for CUDA [0-9.]+, and this was built with [0-9.]+$' fail=cudaGetDeviceCount:1:35
	without 'there is no NVIDIA driver$' fail=cudaDriverGetVersion:1:999,fail=cudaGetDeviceCount:1:35
	without 'CUDA does not start: error 3$' fail=cudaRuntimeGetVersion:1:3,fail=cudaGetDeviceCount:1:3
	unset CUDA_VISIBLE_DEVICES
	export FAKE_CUDART="fail=cudaGetDeviceProperties:1:2${plan:+,$plan}"
	gives 2 info
	says 'device cuda:0: out of memory'
	fails 2 "device 'cuda': out of memory" check --device=cuda
	export FAKE_CUDART="fail=cudaGetDeviceProperties:2:46${plan:+,$plan}"
	gives 2 info
	says 'device cuda:0 does not answer: CUDA error 46'
	[ -z "$plan" ] && unset FAKE_CUDART || export FAKE_CUDART="$plan"
	ends 'says why there is no GPU, or why one does not answer'
fi
if [ -z "$fake" ] && [ "$device" = host ]; then
	gives 0 check --workers=2
	prints '^No GPU answers here: .*\.  The host device is checked\.$'
	prints '^device: +host; this process may use [1-9][0-9]* CPUs$'
	gives 0 info --json
	json "d['cuda']['no_gpu'] and len(d['devices']) == 1"
	fails 2 "no GPU answers as 'cuda' (" check --device=cuda
	says 'use --device=host'
	ends 'without a GPU, check and info say so and use the host device'
fi

gives 0 bench --device="$device" --run-ms=2 --workers=3
silent bench
prints '^empty jobs, +3 workers +[1-9][0-9]* per second +[0-9]+ to [0-9]+$'
prints '^submit to wait, empty job +[0-9.]+ us +[0-9.]+ to [0-9.]+; p99 [0-9.]+$'
for n in '1 worker ' '2 workers' '3 workers'; do prints "^J, +$n +[1-9][0-9]* per second +[0-9]+ to [0-9]+$"; done
gives 0 bench --device="$device" --run-ms=2 --workers=4 --json
json "[l['workers'] for l in d['j']] == [1, 2, 4] and all(l['per_second'] > 0 for l in d['j'])"
json "all(l['per_second_low'] <= l['per_second'] <= l['per_second_high'] for l in d['j'])"
json "d['kernel']['p50_low_us'] <= d['kernel']['p50_us'] <= d['kernel']['p50_high_us']"
json "d['empty_jobs_per_second'] > 0 and 0 < d['kernel']['p50_us'] <= d['kernel']['p99_us']"
if has_terminal; then
	on_terminal "'$program' bench --device=$device --run-ms=2 --workers=2"
	prints '[1-9][0-9]* of 25, +[0-9]+ %, [0-9]+ s left'
	prints '^.*J, +2 workers +[1-9]'
fi
ends 'bench measures'

for guard in 1 2; do
	RUNNEL_GUARD=$guard gives 0 bench --device="$device" --run-ms=2 --workers=2
	silent bench
	export RUNNEL_GUARD=$guard
	checks --workers=3
	unset RUNNEL_GUARD
	[ "$fake" ] || json "d['answer'] == 'yes'"
	answers yes $all
	silent check
done
RUNNEL_GUARD=yes fails 2 "RUNNEL_GUARD is 'yes': set it to 1" check --device="$device"
RUNNEL_GUARD=yes fails 2 "RUNNEL_GUARD is 'yes': set it to 1" bench --device="$device"
ends 'a guard that the environment sets finds nothing in the commands'

fails 2 "no GPU answers as 'cuda:999'" check --device=cuda:999
fails 2 "no GPU answers as 'cuda:999'" bench --device=cuda:999
ends 'a GPU that is not there gives exit status 2'

# ---- mistakes: the same on all devices -----------------------------------------
if [ "$device" = host ]; then
	for bad in '' 0 1 63 -2 2x ' 2' 99999999999999999999; do
		refuses_command "'$bad' is not good for --workers: give a number from 2 to 62" check --workers="$bad"
	done
	refuses_command "'63' is not good for --workers: give a number from 1 to 62" bench --workers=63
	refuses_command "'0' is not good for --run-ms: give a number from 1 to 10000" bench --run-ms=0
	refuses_command "'gpu' is not good for --device: give auto, cuda, cuda:N, cuda:N,N,..., cuda:all, host or host:N" check --device=gpu
	refuses_command "'gpu' is not good for --device: give auto, cuda, cuda:N, cuda:N,N,..., cuda:all, host or host:N" bench --device=gpu
	for command in bench check info; do
		refuses_command "runnel $command: 'file' is unexpected: give only options" $command file
	done
	for command in bench check info lint report top; do
		refuses_command "runnel $command: unrecognized option '--what'" $command --what
		refuses_command "runnel $command: option '--help' doesn't allow an argument" $command --help=1
	done
	refuses_command "runnel bench: option '--workers' requires an argument" bench --workers
	refuses_command 'runnel lint: ' lint
	refuses_command 'runnel report: ' report
	fails 2 "runnel: 'frobnicate' is no command" frobnicate
	says "Try 'runnel --help' for more information."
	fails 2 'runnel: there is no command'
	fails 2 "runnel: '--what' is no command" --what
	ends 'refuses mistakes, and names them'

	for args in --help --version info 'info --json' 'check --device=host --workers=2' \
		'check --device=host --workers=2 --json' 'bench --device=host --run-ms=1 --workers=1' 'bench --help'; do
		if [ -w /dev/full ]; then
			"$program" $args >/dev/full 2>"$dir/err"
			[ $? = 2 ] || complain "status of $args when the disk is full"
			says 'standard output: No space left on device'
		fi
		"$program" $args >&- 2>"$dir/err"
		[ $? = 2 ] || complain "status of $args when standard output is closed"
	done
	ends 'an output that cannot be written gives exit status 2'

	if [ "$python" ]; then
		"$python" - "$program" 2>"$dir/err" <<-'IN' || complain 'interrupted'
		import signal, subprocess, sys
		p = subprocess.Popen([sys.argv[1], "bench", "--device=host", "--run-ms=10000"],
		                     stdout=subprocess.PIPE, text=True)
		assert p.stdout.readline().startswith("device:")
		p.send_signal(signal.SIGINT)
		assert p.wait(10) == -signal.SIGINT, p.returncode
		IN
		ends 'an interrupt ends it at once'
	fi
fi

# ---- help, manual, completion ------------------------------------------------
[ "$device" = host ] || { done_testing; }
man=$srcdir/docs/man/runnel.1
sed 's/\\-/-/g; s/Fl Fl /--/g' "$man" >"$dir/man"
commands=$("$program" --help | sed -n 's/^  \([a-z]*\)  .*/\1/p')
[ "$(echo $commands)" = 'bench check info lint report top' ] || complain "commands: $commands"
gives 0 --help
prints '^Usage: runnel COMMAND '
gives 0 --version
[ -z "${VERSION:-}" ] || prints "^runnel $VERSION$"
for command in $commands; do
	gives 0 "$command" --help
	silent "$command --help"
	prints "^Usage: runnel $command "
	prints '^ +--help +print this and exit'
	prints_not '^(device|workers|runs):|^yes '	# does not run the command after the help
	grep -q "^.Cm $command\$" "$dir/man" || complain "the manual's synopsis has no $command"
	grep -q "^.It Cm $command\$" "$dir/man" || complain "the manual does not explain $command"
	for option in $(sed -n 's/^ *\(--[a-z-]*\).*/\1/p' "$dir/out"); do
		grep -q -- "$option" "$dir/man" || complain "the manual does not have $command $option"
	done
done
ends 'each command helps, and the manual has its options'

if command -v bash >/dev/null; then
	completes() {	# completes LINE WORD...: completes to exactly these words
		PATH="$dir/bin:$PATH" bash -c '. "$1"
			COMP_LINE=$2 COMP_POINT=${#2}
			read -ra COMP_WORDS <<<"${2//=/ = }"
			[[ $2 != *" " ]] || COMP_WORDS+=("")
			COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
			_runnel
			printf "%s\n" "${COMPREPLY[@]}"' - "$srcdir/src/tool/completion.bash" "$1" >"$dir/out" 2>"$dir/err"
		line=$1
		shift
		[ "$(sort "$dir/out" | xargs)" = "$*" ] || complain "completion of: $line"
		silent "completion of $line"
	}
	mkdir "$dir/bin" && ln -s "$program" "$dir/bin/runnel"
	(cd "$dir" && : >trace.json && : >trace.txt)
	completes 'runnel ' --help --version bench check info lint report top
	completes 'runnel ch' check
	completes 'runnel check --' --device= --help --json --workers=
	completes 'runnel bench --r' --run-ms=
	completes 'runnel check --device=' auto cuda host
	completes 'runnel check --workers=4 --device=h' host
	completes "runnel report $dir/tra" "$dir/trace.json" "$dir/trace.txt"
	completes "runnel lint x $dir/trace.j" "$dir/trace.json"
	completes 'runnel frobnicate --'
	completes 'runnel check x'
	ends 'bash completes commands, options, values and files'
else
	echo 'SKIP: no bash to complete in'
fi
done_testing
