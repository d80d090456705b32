/* SPDX-License-Identifier: MIT */
/* Traces: refused starts, the contents, and jobs that run as before. */
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <runnel/guard.h>
#include <runnel/memory.h>
#include <runnel/trace.h>

#include "classed.h"
#include "host_kernel.h"
#include "pool.h"
#include "trace.h"

#define NR 200

/* Checks that the text begins and ends like JSON; tests/cli/trace.sh parses all of it. */
static void assert_whole(const char *text)
{
	size_t length = strlen(text);

	ck_assert_int_eq(text[0], '[');
	ck_assert_uint_gt(length, 4);
	ck_assert_str_eq(text + length - 4, "}\n]\n");
	ck_assert_int_eq(count(text, "\"ph\":\"b\""), count(text, "\"ph\":\"e\""));
}

#define TRACE_TEST(name, ...) \
	TEST(name, .setup = set_path, .teardown = remove_file, ##__VA_ARGS__)

/* Stops a trace.  Returns its text, which the caller frees. */
static char *stop_and_read(struct rnl_pool *pool)
{
	char *text;

	must(rnl_trace_stop(pool));
	text = text_of(path);
	assert_whole(text);
	return text;
}

/* Returns a number by its name, from the last event. */
static long figure(const char *text, const char *name)
{
	const char *at = strstr(text, "\"runnel_end\"");
	char quoted[64];

	snprintf(quoted, sizeof(quoted), "\"%s\":", name);
	ck_assert_ptr_nonnull(at);
	at = strstr(at, quoted);
	ck_assert_ptr_nonnull(at);
	return atol(at + strlen(quoted));
}

static void run_jobs(struct rnl_pool *pool, unsigned nr, char *memory)
{
	struct rnl_job jobs[NR];

	ck_assert_uint_le(nr, NR);
	for (unsigned i = 0; i < nr; i++)
		submit_job(pool, &jobs[i], memory && i % 2 ? fill_own_fn : noop_fn, memory);
	for (unsigned i = 0; i < nr; i++)
		(void)result_of(&jobs[i]);
}

static char *device_memory(struct rnl_pool *pool)
{
	void *memory;

	must(rnl_memory_get(pool, 0, 64 * RNL_WORKERS_MAX, &memory, 0));
	return memory;
}

TRACE_TEST(has_each_job_once, .loops = 3)
{
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	struct rnl_pool *pool = pool_of(3);
	char *memory = device_memory(pool), *text;

	attr.timing = (uint32_t)_i;
	must(rnl_trace_start(pool, path, &attr));
	run_jobs(pool, NR, memory);
	text = stop_and_read(pool);
	ck_assert_uint_eq(count(text, "\"cat\":\"job\""), NR);
	ck_assert_uint_eq(count(text, "\"name\":\"fill_own_fn\",\"cat\":\"job\""), NR / 2);
	ck_assert_uint_eq(count(text, "\"name\":\"submit\""), NR);
	ck_assert_uint_eq(count(text, "\"cat\":\"flow\",\"ph\":\"s\""), NR);
	ck_assert_uint_eq(count(text, "\"cat\":\"flow\",\"ph\":\"f\""), NR);
	ck_assert_int_eq(figure(text, "jobs"), NR);
	ck_assert_int_eq(figure(text, "dropped"), 0);
	ck_assert_int_eq(figure(text, "too_much"), 0);
	/* On the host device a job that issues nothing is never in flight. */
	ck_assert_int_eq(figure(text, "flown"), on_host() ? NR / 2 : NR);
	ck_assert_uint_eq(count(text, "\"ph\":\"b\""), (unsigned)figure(text, "flown"));
	ck_assert_uint_eq(count(text, "\"cat\":\"device\""), (unsigned)figure(text, "timed"));
	if (attr.timing != RNL_TRACE_HOST) {	/* by default, a worker's first jobs are all timed */
		ck_assert_int_eq(figure(text, "timed"), figure(text, "flown"));
		ck_assert_uint_eq(count(text, "\"cat\":\"kernel\""), NR / 2);
	}
	if (attr.timing == RNL_TRACE_HOST)
		ck_assert_int_eq(figure(text, "timed"), 0);
	ck_assert_uint_eq(figures_of(pool).untraced, 0);
	free(text);
	rnl_memory_put(pool, memory);
	rnl_pool_destroy(pool);
}

TRACE_TEST(knows_jobs_that_did_not_run)
{
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job held, cancelled, late;
	struct rnl_barrier empty;
	char *text;

	must(rnl_trace_start(pool, path, NULL));
	hold_workers(pool, &gate, &held, 1);
	job_of(&cancelled, noop_fn, NULL);
	job_of(&late, noop_fn, NULL);
	/* The timer thread, which has no track, leaves jobs after a barrier to their worker. */
	must(rnl_barrier_init(&empty, pool));
	must(rnl_job_set_after(&cancelled, &empty));
	must(rnl_job_set_after(&late, &empty));
	must(rnl_job_set_deadline(&late, 0));
	must(rnl_submit(pool, &cancelled));
	must(rnl_submit(pool, &late));
	must(rnl_job_cancel(&cancelled));
	gate_open(&gate);
	ck_assert_int_eq(result_of(&cancelled), -ECANCELED);
	ck_assert_int_eq(result_of(&late), -ETIMEDOUT);
	(void)result_of(&held);
	text = stop_and_read(pool);
	ck_assert_uint_eq(count(text, "\"result\":-125"), 1);
	ck_assert_uint_eq(count(text, "\"result\":-110"), 1);
	ck_assert_int_eq(figure(text, "jobs"), 3);
	free(text);
	rnl_pool_destroy(pool);
}

TRACE_TEST(names_the_class_of_a_job)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *gold = class_of(pool, .name = "gold");
	struct rnl_class *odd = class_of(pool, .name = "a\"b");
	struct rnl_job jobs[4], none;
	struct rnl_barrier empty;
	char *text;

	must(rnl_trace_start(pool, path, NULL));
	job_of(&jobs[1], noop_fn, NULL);
	classed_of(&jobs[0], gold, noop_fn, NULL);
	must(rnl_job_set_then(&jobs[0], &jobs[1]));
	must(rnl_submit(pool, &jobs[0]));
	submit_classed(pool, &jobs[2], odd, noop_fn, NULL);
	submit_job(pool, &none, noop_fn, NULL);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	/* One that does not run; the timer thread leaves jobs after a barrier to their worker. */
	must(rnl_barrier_init(&empty, pool));
	classed_of(&jobs[3], gold, noop_fn, NULL);
	must(rnl_job_set_after(&jobs[3], &empty));
	must(rnl_job_set_deadline(&jobs[3], 0));
	ck_assert_int_eq(submit_and_wait(pool, &jobs[3]), -ETIMEDOUT);
	rnl_class_destroy(gold);
	text = stop_and_read(pool);
	ck_assert_uint_eq(count(text, ",\"class\":\"gold\""), 3);
	ck_assert_uint_eq(count(text, ",\"class\":\"a\\\"b\""), 1);
	ck_assert_uint_eq(count(text, ",\"class\":"), 4);
	free(text);
	rnl_pool_destroy(pool);
}

static int wait_for(void *job)
{
	return rnl_job_wait(job, RNL_FOREVER);
}

TRACE_TEST(arrows_lead_to_the_waits_for_a_barrier)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier barrier;
	struct rnl_job jobs[8], after;
	struct gate gate = GATE_INIT;
	struct call wait;
	char *text;

	must(rnl_trace_start(pool, path, NULL));
	must(rnl_barrier_init(&barrier, pool));
	for (unsigned i = 0; i < COUNT(jobs); i++)
		submit_in(pool, &barrier, &jobs[i], i ? noop_fn : gated_fn, &gate);
	job_of(&after, noop_fn, NULL);
	must(rnl_job_set_after(&after, &barrier));
	must(rnl_submit(pool, &after));
	gate_await(&gate, 1);
	call_start(&wait, wait_for, &jobs[0]);
	gate_open(&gate);
	(void)call_end(&wait);
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	(void)result_of(&after);
	text = stop_and_read(pool);
	/* One arrow to each job, and one from each job to a wait or to the job after it. */
	ck_assert_uint_eq(count(text, "\"cat\":\"flow\",\"ph\":\"s\""), COUNT(jobs) + 1);
	ck_assert_uint_ge(count(text, "\"cat\":\"join\",\"ph\":\"s\""), COUNT(jobs));
	ck_assert_uint_ge(count(text, "\"cat\":\"join\",\"ph\":\"f\""), COUNT(jobs));
	free(text);
	rnl_pool_destroy(pool);
}

TRACE_TEST(sees_workers_that_come_later)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job jobs[6];
	struct gate gate = GATE_INIT;
	char *text;

	must(rnl_trace_start(pool, path, NULL));
	must(rnl_pool_resize(pool, 6));
	hold_workers(pool, &gate, jobs, 6);
	gate_open(&gate);
	for (unsigned i = 0; i < 6; i++)
		(void)result_of(&jobs[i]);
	must(rnl_pool_resize(pool, 2));
	run_jobs(pool, NR, NULL);
	text = stop_and_read(pool);
	ck_assert_uint_eq(count(text, "\"thread_sort_index\""), 12);
	ck_assert_int_eq(figure(text, "jobs"), NR + 6);
	free(text);
	rnl_pool_destroy(pool);
}

TRACE_TEST(a_job_in_flight_at_the_end_is_unfinished)
{
	struct rnl_trace_attr untimed = RNL_TRACE_ATTR_INIT;
	struct gate gate = GATE_INIT;
	struct rnl_pool *pool;
	struct rnl_job job;
	char *text;

	skip_unless_host();
	pool = pool_of(1);
	must(rnl_trace_start(pool, path, NULL));
	submit_job(pool, &job, gated_kernel_fn, &gate);
	gate_await(&gate, 1);
	text = stop_and_read(pool);
	ck_assert_int_ne(rnl_job_wait(&job, 0), 0);
	ck_assert_int_eq(figure(text, "unfinished"), 1);
	ck_assert_uint_eq(count(text, "\"unfinished\",\"cat\":\"inflight\",\"ph\":\"b\""), 1);
	free(text);
	/* A job that started before the trace is not in it. */
	untimed.timing = RNL_TRACE_HOST;	/* so that the start does not wait for the stream */
	must(rnl_trace_start(pool, path, &untimed));
	gate_open(&gate);
	(void)result_of(&job);
	text = stop_and_read(pool);
	ck_assert_int_eq(figure(text, "jobs"), 0);
	ck_assert_uint_eq(count(text, "\"ph\":\"b\""), 0);
	free(text);
	rnl_pool_destroy(pool);
}

TRACE_TEST(starts_and_stops_in_turn)
{
	struct rnl_pool *pool = pool_of(2);
	char *text;

	ck_assert_int_eq(rnl_trace_stop(pool), -EALREADY);
	for (int i = 0; i < 5; i++) {
		must(rnl_trace_start(pool, path, NULL));
		ck_assert_int_eq(rnl_trace_start(pool, "/dev/null/no", NULL), -EALREADY);
		run_jobs(pool, 20, NULL);
		must(rnl_trace_stop(pool));
		ck_assert_int_eq(rnl_trace_stop(pool), -EALREADY);
	}
	/* The end of the pool ends the trace. */
	must(rnl_trace_start(pool, path, NULL));
	run_jobs(pool, 20, NULL);
	rnl_pool_destroy(pool);
	text = text_of(path);
	assert_whole(text);
	ck_assert_int_eq(figure(text, "jobs"), 20);
	free(text);
}

TRACE_TEST(two_pools_have_two_traces)
{
	struct rnl_pool *one = pool_of(2), *two = pool_of(1);
	char other[80], *text;

	snprintf(other, sizeof(other), "%s.2", path);
	must(rnl_trace_start(one, path, NULL));
	must(rnl_trace_start(two, other, NULL));
	run_jobs(one, 30, NULL);
	run_jobs(two, 40, NULL);
	must(rnl_trace_stop(one));
	run_jobs(one, 30, NULL);
	must(rnl_trace_stop(two));
	text = text_of(path);
	ck_assert_int_eq(figure(text, "jobs"), 30);
	free(text);
	text = text_of(other);
	unlink(other);
	ck_assert_int_eq(figure(text, "jobs"), 40);
	free(text);
	rnl_pool_destroy(one);
	rnl_pool_destroy(two);
}

TRACE_TEST(refuses_wrong_attributes_and_files)
{
	static const struct rnl_trace_attr wrong[] = {
		{ .size = 4 },
		{ .size = sizeof(*wrong), .timing = 3 },
		{ .size = sizeof(*wrong), .buffer_bytes = 65535 },
		{ .size = sizeof(*wrong), .buffer_bytes = (1u << 30) + 1 },
		{ .size = sizeof(*wrong), .file_max = 65535 },
	};
	struct rnl_pool *pool = pool_of(1);
	char fifo[80];

	ck_assert_int_eq(rnl_trace_start(NULL, path, NULL), -EINVAL);
	ck_assert_int_eq(rnl_trace_start(pool, NULL, NULL), -EINVAL);
	for (unsigned i = 0; i < COUNT(wrong); i++)
		ck_assert_msg(rnl_trace_start(pool, path, &wrong[i]) == -EINVAL, "wrong[%u]", i);
	ck_assert_int_eq(rnl_trace_start(pool, "/no/such/directory/t.json", NULL), -ENOENT);
	ck_assert_int_eq(rnl_trace_start(pool, "/", NULL), -EISDIR);
	ck_assert_int_eq(rnl_trace_start(pool, "", NULL), -ENOENT);
	ck_assert_int_eq(rnl_trace_start(pool, "/dev/null", NULL), -EINVAL);
	snprintf(fifo, sizeof(fifo), "%s.fifo", path);
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	ck_assert_int_eq(rnl_trace_start(pool, fifo, NULL), -EINVAL);
	unlink(fifo);
	/* The refused starts left no trace running. */
	ck_assert_int_eq(rnl_trace_stop(pool), -EALREADY);
	rnl_pool_destroy(pool);
}

TRACE_TEST(is_none_of_a_forked_childs)
{
	struct rnl_pool *pool;
	int status;
	pid_t pid;

	skip_on_cuda("CUDA does not survive a fork");
	pool = pool_of(1);
	must(rnl_trace_start(pool, path, NULL));
	fflush(NULL);
	pid = fork();
	if (!pid)
		_exit(rnl_trace_start(pool, path, NULL) == -EOWNERDEAD &&
		      rnl_trace_stop(pool) == -EOWNERDEAD ? 0 : 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	must(rnl_trace_stop(pool));
	rnl_pool_destroy(pool);
}

TRACE_TEST(keeps_to_the_files_bound_and_counts_the_rest)
{
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	struct rnl_pool *pool = pool_of(2);
	struct stat st;
	char *text;

	attr.file_max = 65536;
	must(rnl_trace_start(pool, path, &attr));
	for (int i = 0; i < 10; i++)
		run_jobs(pool, NR, NULL);
	must(rnl_trace_stop(pool));
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_le(st.st_size, 65536);
	ck_assert_int_gt(st.st_size, 16384);
	text = text_of(path);
	assert_whole(text);
	ck_assert_int_eq(figure(text, "jobs"), 10 * NR);
	ck_assert_int_eq(figure(text, "too_much") + count(text, "\"cat\":\"job\""), 10 * NR);
	free(text);
	rnl_pool_destroy(pool);
}

/* Returns the old limit.  No assertions until that one is set again: Check writes a file, too. */
static struct rlimit limit_files(rlim_t bytes)
{
	struct rlimit before, limit;

	must(getrlimit(RLIMIT_FSIZE, &before));
	limit = before;
	limit.rlim_cur = bytes;
	setrlimit(RLIMIT_FSIZE, &limit);
	return before;
}

TRACE_TEST(a_full_disk_is_reported_at_the_end_and_the_file_opens)
{
	struct rnl_pool *pool = pool_of(2);
	int started, stopped, refused = 0;
	struct rlimit before;
	struct rnl_job job;
	char *text;

	job_of(&job, noop_fn, NULL);
	before = limit_files(20000);
	started = rnl_trace_start(pool, path, NULL);
	for (int i = 0; i < 1000; i++) {
		refused += rnl_submit(pool, &job) != 0;
		refused += rnl_job_wait(&job, RNL_FOREVER) != 0;
	}
	stopped = rnl_trace_stop(pool);
	setrlimit(RLIMIT_FSIZE, &before);
	ck_assert_int_eq(started, 0);
	ck_assert_int_eq(refused, 0);
	ck_assert_int_eq(stopped, -EFBIG);
	ck_assert_uint_eq(figures_of(pool).failed, 0);
	text = text_of(path);
	assert_whole(text);
	/* The file is not marked as complete. */
	ck_assert_uint_eq(count(text, "runnel_end"), 0);
	free(text);
	/* The next trace is complete. */
	must(rnl_trace_start(pool, path, NULL));
	run_jobs(pool, NR, NULL);
	must(rnl_trace_stop(pool));
	rnl_pool_destroy(pool);
}

static unsigned nr_signals;
static char signalled[16];		/* the name of the thread that took the last one */

static void count_signal(int number)
{
	(void)number;
	nr_signals++;
	prctl(PR_GET_NAME, signalled);
}

/* The caller writes the first events, and a signal for that write could end the process. */
TRACE_TEST(a_limit_of_the_files_size_is_reported_without_a_signal, .loops = 5)
{
	static const rlim_t limits[] = { 0, 1, 3, 4, 100 };
	const struct sigaction action = { .sa_handler = count_signal };
	struct rnl_pool *pool = pool_of(2);
	struct rlimit before;
	struct sigaction old;
	sigset_t xfsz, pending;
	int blocked, plain;

	nr_signals = 0;
	sigemptyset(&xfsz);
	sigaddset(&xfsz, SIGXFSZ);
	must(sigaction(SIGXFSZ, &action, &old));
	before = limit_files(limits[_i]);
	plain = rnl_trace_start(pool, path, NULL);
	pthread_sigmask(SIG_BLOCK, &xfsz, NULL);
	blocked = rnl_trace_start(pool, path, NULL);
	sigpending(&pending);
	setrlimit(RLIMIT_FSIZE, &before);
	ck_assert_int_eq(plain, -EFBIG);
	ck_assert_int_eq(blocked, -EFBIG);
	ck_assert_msg(nr_signals == 0, "%u signals, of thread %s", nr_signals, signalled);
	ck_assert(!sigismember(&pending, SIGXFSZ));
	/* A signal that the application has pending stays pending. */
	raise(SIGXFSZ);
	(void)limit_files(limits[_i]);
	plain = rnl_trace_start(pool, path, NULL);
	setrlimit(RLIMIT_FSIZE, &before);
	ck_assert_int_eq(plain, -EFBIG);
	pthread_sigmask(SIG_UNBLOCK, &xfsz, NULL);
	ck_assert_uint_eq(nr_signals, 1);
	sigaction(SIGXFSZ, &old, NULL);
	must(rnl_trace_start(pool, path, NULL));
	must(rnl_trace_stop(pool));
	rnl_pool_destroy(pool);
}

/* The guard reports this copy of pageable memory. */
static int copy_pageable_fn(struct rnl_job *job)
{
	static char pageable[64];

	return rnl_copy(job->user, pageable, sizeof(pageable));
}

TRACE_TEST(has_the_guards_findings_and_times_watched_jobs)
{
	struct rnl_trace_attr trace = RNL_TRACE_ATTR_INIT;
	struct rnl_pool *pool = pool_of(2, .guard = RNL_GUARD_REPORT);
	char *memory = device_memory(pool), *text;
	struct rnl_job job;

	trace.timing = RNL_TRACE_EVERY;
	must(rnl_trace_start(pool, path, &trace));
	for (int i = 0; i < 5; i++) {
		submit_job(pool, &job, copy_pageable_fn, memory);
		ck_assert_int_eq(result_of(&job), 0);
	}
	run_jobs(pool, NR, memory);
	text = stop_and_read(pool);
	ck_assert_uint_eq(count(text, "copy_pageable_fn copies pageable memory\",\"cat\":\"g"), 1);
	ck_assert_uint_eq(count(text, "\"staged\":64"), 5);
	ck_assert_int_eq(figure(text, "timed"), figure(text, "flown"));
	free(text);
	rnl_memory_put(pool, memory);
	rnl_pool_destroy(pool);
}

/* ---- a slow disk --------------------------------------------------------- */

static struct gate disk = GATE_INIT;
static _Atomic bool disk_is_slow;
static _Atomic int last_nice;		/* of the thread that last wrote */

/* Replaces the C library's pwrite(): the trace's writer waits at the gate. */
__attribute__((visibility("default")))
ssize_t pwrite(int fd, const void *buf, size_t bytes, off_t at)
{
	if (disk_is_slow)
		gate_wait(&disk);
	last_nice = getpriority(PRIO_PROCESS, 0);
	return syscall(SYS_pwrite64, fd, buf, bytes, at);
}

TRACE_TEST(jobs_run_while_a_traces_writer_waits_for_the_disk)
{
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	struct rnl_pool *pool = pool_of(2);
	char *memory = device_memory(pool), *text;

	attr.timing = RNL_TRACE_EVERY;
	must(rnl_trace_start(pool, path, &attr));
	disk_is_slow = true;
	run_jobs(pool, NR, memory);
	gate_await(&disk, 1);
	run_jobs(pool, NR, memory);
	disk_is_slow = false;
	gate_open(&disk);
	text = stop_and_read(pool);
	ck_assert_uint_eq(count(text, "\"cat\":\"job\""), 2 * NR);
	free(text);
	rnl_memory_put(pool, memory);
	rnl_pool_destroy(pool);
}

TRACE_TEST(the_end_of_a_trace_is_written_with_the_priority_of_the_thread_that_waits_for_it)
{
	struct rnl_pool *pool = pool_of(2);

	must(rnl_trace_start(pool, path, NULL));
	run_jobs(pool, NR, NULL);
	must(rnl_trace_stop(pool));
	ck_assert_int_eq(last_nice, getpriority(PRIO_PROCESS, 0));
	rnl_pool_destroy(pool);
}
