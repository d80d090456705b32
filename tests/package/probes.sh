#!/bin/sh
# SPDX-License-Identifier: MIT
# The library has its probes, with their arguments; each fires in gdb, with the job's values; and the
# scripts of docs/probes run, where bpftrace may.
. "$(dirname "$0")/../lib/harness.sh"
grep -q '^#define HAVE_SDT' config.h || skip_all 'configure found no sys/sdt.h (sh deps.sh probes)'
[ -z "$sanitizer" ] || skip_all 'a build without a sanitizer shows what a probe costs'
probes='submit refuse start issue reach complete expire'
so=$PWD/librunnel.so.$VERSION

# ---- the notes: five arguments, each in a register or in memory; of their sizes ------------------
if command -v readelf >/dev/null; then
	readelf -nW "$so" | sed -n 's/^ *Name: //p; s/^ *Arguments: //p' | paste - - >"$dir/out"
	for probe in $probes; do
		case $probe in
		submit) rest='1@[^ ]+ 8' ;; refuse) rest='1@[^ ]+ -4' ;;
		start | reach) rest='4@[^ ]+ 4' ;; *) rest='4@[^ ]+ -4' ;;
		esac
		prints "^$probe	8@[^ ]+ 8@[^ ]*[[(][^ ]+ 4@[^ ]*[[(][^ ]+ $rest@[^ ]+\$"
		grep "^$probe	" "$dir/out" | grep -vE "^$probe	8@[^ ]+ 8@[^ ]*[[(][^ ]+ 4@[^ ]*[[(][^ ]+ $rest@[^ ]+\$" >"$dir/err" &&
			complain "$probe has other arguments"
	done
	[ "$(cut -f 1 "$dir/out" | sort -u | wc -l)" = 7 ] || complain 'there are other probes'
	ends 'each probe has a job, its function and class, a device, and one more'
else
	echo 'SKIP: no readelf (binutils)'
fi

# ---- a program in which each probe fires ---------------------------------------------------------
cat >"$dir/jobs.c" <<'C'
#include <runnel.h>
#include <runnel/class.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

static char memory[200];
static sem_t began, goes_on;
int gate_fn(struct rnl_job *job), copy_fn(struct rnl_job *job), never_fn(struct rnl_job *job);

int gate_fn(struct rnl_job *job)
{
	(void)job;
	sem_post(&began);
	sem_wait(&goes_on);
	return 7;
}

int copy_fn(struct rnl_job *job)
{
	(void)job;
	return rnl_copy(memory, memory + 100, 100);
}

int never_fn(struct rnl_job *job)
{
	(void)job;
	return 0;
}

static void no_log(void *user, int level, const char *line)
{
	(void)user;
	(void)level;
	(void)line;
}

static int once(struct rnl_pool *pool, struct rnl_class *cls)
{
	struct rnl_job gate, copy, late, none;
	int64_t now = rnl_clock();

	rnl_job_init(&gate, gate_fn);
	rnl_job_init(&copy, copy_fn);
	rnl_job_init(&late, never_fn);
	rnl_job_init(&none, NULL);
	if (rnl_job_set_class(&copy, cls) || rnl_job_set_deadline(&late, 0) || rnl_submit(pool, &gate))
		return 1;
	sem_wait(&began);
	if (rnl_submit(pool, &copy) || rnl_submit(pool, &late) || !rnl_submit(pool, &none) || !rnl_submit(pool, NULL))
		return 1;
	while (rnl_clock() <= now + 1)
		;
	sem_post(&goes_on);
	return rnl_job_wait(&gate, RNL_FOREVER) || rnl_job_wait(&copy, RNL_FOREVER) ||
	       rnl_job_wait(&late, RNL_FOREVER) || gate.result != 7 || copy.result || late.result >= 0;
}

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_class_attr class_attr = { .size = sizeof(class_attr), .name = "copies" };
	struct rnl_class *cls;
	struct rnl_pool *pool;
	int ret;

	(void)argv;
	sem_init(&began, 0, 0);
	sem_init(&goes_on, 0, 0);
	rnl_set_log(no_log, NULL);
	attr.device = "host";
	attr.nr_workers = 1;
	if (rnl_pool_create(&pool, &attr) || rnl_class_create(&cls, pool, &class_attr))
		return 1;
	do {
		ret = once(pool, cls);
		usleep(1000);	/* leaves a tracer some time */
	} while (!ret && argc > 1);
	rnl_pool_destroy(pool);
	return ret;
}
C
check 'a program is built' $CC $CPPFLAGS $CFLAGS -g -pthread -I"$srcdir/include" -o "$dir/jobs" "$dir/jobs.c" -L. -lrunnel \
	-Wl,-rpath,"$PWD" $LDFLAGS

# ---- gdb: the functions, classes and last arguments of the program's jobs -------------------------
{
	printf '%s\n' 'set pagination off' 'set breakpoint pending off' 'set debuginfod enabled off' 'break main' run 'delete 1'
	for probe in $probes; do
		case $probe in submit) last='$_probe_arg4 != 0' ;; *) last='(int)$_probe_arg4' ;; esac
		printf '%s\n' "break -probe-stap runnel:$probe" commands silent \
			"printf \"$probe %d %d %d %d \", \$_probe_arg0 != 0, \$_probe_arg2 != 0, (int)\$_probe_arg3, $last" \
			'output (void (*)())$_probe_arg1' 'printf "\n"' continue end
	done
	echo continue
} >"$dir/gdb"
if ! command -v gdb >/dev/null; then
	echo 'SKIP: no gdb (sh deps.sh probes)'
elif ! gdb -batch -nx -ex run "$dir/jobs" 2>&1 | grep -q 'exited normally'; then
	echo 'SKIP: gdb runs no program here'
else
	gdb -batch -nx -x "$dir/gdb" "$dir/jobs" 2>"$dir/err" | sed -E 's/\(void \(\*\)\(\)\) //; s/(0x[0-9a-f]+|\{[^}]*\}) //g' >"$dir/out"
	for line in 'submit 1 0 0 1 <gate_fn>' 'start 1 0 0 0 <gate_fn>' 'issue 1 0 0 7 <gate_fn>' 'complete 1 0 0 7 <gate_fn>' \
		'submit 1 1 0 1 <copy_fn>' 'start 1 1 0 0 <copy_fn>' 'issue 1 1 0 0 <copy_fn>' 'reach 1 1 0 0 <copy_fn>' \
		'complete 1 1 0 0 <copy_fn>' 'submit 1 0 0 1 <never_fn>' 'expire 1 0 0 0 <never_fn>' \
		'complete 1 0 0 -110 <never_fn>' 'refuse 1 0 0 -22 <rnl__job_no_function>'; do
		[ "$(grep -cF "$line" "$dir/out")" = 1 ] || complain "not once: $line"
	done
	prints 'exited normally'
	prints_not '^(reach.*gate_fn|start.*never_fn|issue.*never_fn)'
	ends 'each probe fires, for its jobs alone'
fi

# ---- bpftrace: each script, for a program that runs on -------------------------------------------
# traces SCRIPT TEXT...: the script prints each text, after some seconds at the latest.
traces() {
	script=$srcdir/docs/probes/$1.bt test_name="bpftrace runs $1.bt"
	shift
	for seconds in 2 5 15; do
		timeout -k 20 -s INT $seconds bpftrace -p $pid "$script" >"$dir/out" 2>"$dir/err"
		lacks=
		for text; do grep -qF -- "$text" "$dir/out" || lacks="$lacks $text"; done
		[ "$lacks" ] || break
	done
	[ -z "$lacks" ] || complain "it does not print:$lacks"
	ends "$test_name"
}
if ! command -v bpftrace >/dev/null; then
	echo 'SKIP: no bpftrace (sh deps.sh probes)'
elif ! bpftrace -e 'BEGIN { exit(); }' >/dev/null 2>&1; then
	echo 'SKIP: bpftrace may not run here'
else
	"$dir/jobs" forever &
	pid=$!
	traces queue '@wait_us[0]:' '@wait_us['
	traces slow '@function_us[gate_fn]: count' '@function_us[copy_fn]: count' '@device_us[copy_fn]: count'
	traces refused '@refused[jobs, rnl__job_no_function, 0, -22]:' '@expired[never_fn, 0, 0]:'
	traces lost_wake 'not started, with the time of the submit; now is'
	if [ -d /sys/kernel/tracing/events/sched ] || [ -d /sys/kernel/debug/tracing/events/sched ]; then
		traces off_cpu '@off_us['
	else
		echo 'SKIP: no tracefs, which off_cpu.bt needs'
	fi
	kill $pid && wait $pid 2>/dev/null
fi
done_testing
