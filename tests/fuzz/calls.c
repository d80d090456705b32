/* SPDX-License-Identifier: MIT */
/*
 * Sequences of public calls, on the host device and on the double of CUDA, checked by an oracle.
 *
 * DESIGN
 * Four bytes are a call: its kind, its job, and its variant. The first four bytes are for the pool.
 * The oracle (calls_oracle.c) knows the calls on each job: whether it was accepted or cancelled,
 * has a deadline, comes after a barrier or follows another job. It computes the allowed results,
 * and how often the function may have run. Workers run concurrently with the calls. So an input
 * repeats the calls, not the workers' timing: the invariants hold for any timing. At the end all
 * jobs are done, each with one notification, and the statistics agree.
 */
#include "config.h"

#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/stats.h>
#include <runnel/thread.h>
#include <runnel/trace.h>

#include "tests/fuzz/calls.h"

#define CALLS_MAX 400

struct calls_state s;

/* ---- calls that have no job ------------------------------------------------------- */

/* Resizes the pool, which waits for jobs. */
static void resize(unsigned nr)
{
	int ret;

	if (jobs_any(job_waits_for_caller))
		return;
	ret = rnl_pool_resize(s.pool, nr);
	must(ret == (nr < s.nr_devices ? -EINVAL : s.closed ? -ESHUTDOWN : 0) || is_fault(ret));
}

/* Makes this thread's stream wait for the barrier's jobs; then their copies must be done. */
static void join(int in)
{
	int ret;

	if (jobs_any(job_waits_for_caller))
		return;
	ret = rnl_thread_attach(s.pool);
	must(ret == 0 || is_fault(ret));
	if (ret)
		return;
	ret = rnl_barrier_join(barrier(in));
	if (!ret)
		ret = rnl_stream_wait(END_NS);
	must(ret == 0 || is_fault(ret));
	for (unsigned i = 0; !ret && !s.faulty && !s.lost && i < JOBS; i++)
		must(!s.works[i].owned || s.works[i].in != in || words_are_there(&s.works[i]));
	if (!s.lost)
		rnl_thread_attach(NULL);
}

static void read_figures(void)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_health health = RNL_HEALTH_INIT;
	struct rnl_unfinished unfinished[JOBS];

	must(!rnl_pool_read_stats(s.pool, RNL_ALL_WORKERS, &stats) &&
	     (s.others || stats.done <= s.nr_accepted));
	health.unfinished = unfinished;
	health.max_unfinished = JOBS;
	must(!rnl_pool_health(s.pool, &health) && health.state != RNL_HEALTH_STUCK);
	must(health.state != RNL_HEALTH_FAILED || s.lost);
	must(health.nr_unfinished <= JOBS);
	must(rnl_pool_stats_text(s.pool, "a\"b\\c\n", NULL, 0) > 0);
}

static void trace(void)
{
	static char path[32];
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;

	if (!*path)
		snprintf(path, sizeof(path), "/proc/self/fd/%d",
			 memfd_create("trace", MFD_CLOEXEC));
	attr.timing = RNL_TRACE_EVERY;
	attr.buffer_bytes = attr.file_max = 64 << 10;
	if (s.traced) {
		must(!rnl_trace_stop(s.pool));
		s.traced = false;
	} else {
		const int ret = rnl_trace_start(s.pool, path, &attr);

		must(ret == 0 || is_fault(ret));
		s.traced = !ret;
	}
}

/* Waits for a barrier, which may count a job for a moment after the job's notification. */
static void wait_for_barrier(struct rnl_barrier *in)
{
	const bool any = jobs_any(NULL);
	const int ret = rnl_barrier_wait(in, any ? 0 : END_NS);

	must(ret == 0 || (ret == -ETIMEDOUT && any));
}

/* Initializes a barrier again, which clears its error, unless jobs are in it or after it. */
static void renew(int in)
{
	for (unsigned i = 0; i < JOBS; i++)
		if (s.works[i].owned && (s.works[i].in == in || s.works[i].after == in))
			return;
	must(rnl_barrier_wait(barrier(in), END_NS) == 0);
	must((barrier(in)->result != 0) == s.notified_failed[in]);
	must(!rnl_barrier_init(barrier(in), s.pool));
	s.notified_failed[in] = s.notified_first[in] = false;
}

static void seldom(unsigned which, unsigned how)
{
	switch (which % 6) {
	case 0:
		jobs_cancel_all();
		break;
	case 1:
		if (how < 0x2000)
			pool_close();
		break;
	case 2:
		trace();
		break;
	case 3:
		renew(how % (BARRIERS - MAPS));
		break;
	default:
		read_figures();
	}
}

static void call(unsigned what, unsigned which, unsigned how)
{
	struct work *w = &s.works[which % JOBS];

	switch (what % 32) {
	case 0: case 1: case 2: case 3: case 4: case 5: case 6: case 7:
		jobs_submit(what % 32, which, how, what >> 5);
		break;
	case 8: case 9:
		jobs_submit(PLAIN, which, how, what >> 5);
		break;
	case 10:
		jobs_submit_many(which, how, 1 + (what >> 5 & 3));
		break;
	case 11:
		jobs_submit(KEYED, which, how, what >> 5);
		break;
	case 12: case 13:
		if (what >> 5 & 1)
			class_call(which, how);
		else
			jobs_cancel(w);
		break;
	case 14: case 15:
		jobs_release(w, how % 4 ? 0 : -EPROTO);
		break;
	case 16:
		jobs_look(w);
		break;
	case 17:
		jobs_reap();
		break;
	case 18:
		jobs_wait(w, how * 16);
		break;
	case 19:
		resize(1 + how % 5);
		break;
	case 20:
		wait_for_barrier(barrier(how % (BARRIERS - MAPS)));
		break;
	case 21:
		join(how % (BARRIERS - MAPS));
		break;
	case 22: case 23:
		map_start(which % MAPS, how);
		break;
	case 24:
		map_look(which % MAPS);
		break;
	case 25: case 26: case 27: case 28: case 29:
		batch_call(which, how);
		break;
	case 30:
		faults_plan(how);
		break;
	default:
		seldom(which, how);
	}
}

/* ---- an input --------------------------------------------------------------------- */

static void begin(unsigned on, unsigned attrs)
{
	static const char *const devices[] = { "host", "host:3", "cuda:0", "cuda:all" };
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	memset(&s, 0, sizeof(s));
	classes_begin();
	faults_begin(attrs & 16);
	s.nr_devices = on % 2 ? DEVICES : 1;
	attr.device = devices[on];
	attr.nr_workers = s.nr_devices + (attrs & 1);
	s.nr_class_workers = attr.nr_class_workers = attrs & 2 ? 2 * s.nr_devices : 0;
	attr.stream = attrs & 4 ? RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD;
	attr.max_queued = 8;
	attr.max_in_flight = attrs & 8 ? 2 : 0;
	attr.stuck_ms = END_NS / MS;
	must(!rnl_pool_create(&s.pool, &attr) && !rnl_cq_create(&s.cq));
	must(!rnl_memory_get(s.pool, RNL_PINNED, sizeof(s.pageable), (void **)&s.pinned, 0));
	for (int i = 0; i < BARRIERS; i++)
		must(!rnl_barrier_init(&s.barriers[i], s.pool));
	for (unsigned i = 0; i < ORDERS; i++)
		must(!rnl_order_init(&s.orders[i], s.pool, i));
}

/* Releases holds, and ends work that waits for no job, so all jobs can complete. */
static int go_on(enum ending how)
{
	for (unsigned i = 0; i < JOBS; i++) {
		jobs_release(&s.works[i], 0);
		jobs_look(&s.works[i]);
		if (how == DRAINS && s.works[i].way >= DELAYED && s.works[i].way <= AT_EMPTY)
			jobs_cancel(&s.works[i]);
	}
	jobs_reap();
	return how == STOPS ? rnl_pool_stop(s.pool, MS) : rnl_pool_drain(s.pool, MS);
}

static void check_figures(void)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

	must(!rnl_pool_read_stats(s.pool, RNL_ALL_WORKERS, &stats) && stats.accepted == stats.done);
	must(!stats.queued && !stats.in_flight && !stats.held);
	if (s.others) {
		must(stats.done >= s.nr_accepted && stats.failed >= s.nr_failed);
		return;
	}
	must(stats.done == s.nr_accepted && stats.failed == s.nr_failed);
	must(stats.timed_out == s.nr_timed_out && stats.cancelled >= s.nr_cancelled);
	must(stats.cancelled <= s.nr_cancelled + s.nr_notices_cancelled);
}

static void end(enum ending how)
{
	const int64_t until = rnl_clock() + END_NS;
	int ret;

	if (how == STOPS) {
		jobs_cancel_all();
		s.stopped = true;
	}
	if (how != DRAINS)
		pool_close();
	while ((ret = go_on(how)) || jobs_any(NULL))
		must((ret == 0 || ret == -ETIMEDOUT) && rnl_clock() < until);
	for (unsigned i = 0; i < MAPS; i++)
		map_look(i);
	must(!maps_busy());
	barriers_check();
	batch_end();
	check_figures();
	classes_end(s.nr_accepted % 2);
	for (unsigned i = 0; i < ORDERS; i++)
		rnl_order_fini(&s.orders[i]);
	rnl_memory_put(s.pool, s.pinned);
	faults_end(false);
	rnl_pool_destroy(s.pool);
	rnl_cq_destroy(s.cq);
}

/* Runs an input.  First bytes: device, pool's attributes, its end, whether the device is lost. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	unsigned on;

	if (bytes < 8)
		return 0;
	on = data[0] % (FUZZ_DOUBLE ? 4 : 2);
	if (on >= 2 && data[3] % 4 == 1 && !faults_apart()) {
		faults_run_apart(data, bytes);
		return 0;
	}
	begin(on, data[1]);
	for (size_t i = 4; i + 3 < bytes && i / 4 <= CALLS_MAX; i += 4)
		call(data[i], data[i + 1], data[i + 2] + data[i + 3] * 256u);
	end(data[2] % NR_ENDINGS);
	if (on >= 2)
		faults_end(true);
	return 0;
}
