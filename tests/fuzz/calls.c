/* SPDX-License-Identifier: MIT */
/*
 * Sequences of public calls, on the host device and on the double of CUDA, beside an oracle.
 *
 * DESIGN
 * Two bytes are a call: what, and of which job.  The oracle knows of each job what it was told:
 * whether it was accepted, cancelled, has a deadline, comes after a barrier.  From that follows
 * which results it may have, and how often its function may have run.  Workers run beside the
 * calls, so an input repeats the calls, not what the workers do meanwhile: an invariant holds
 * whatever they do.  At the end all jobs are done, each told once, and the figures say the same.
 */
#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <runnel.h>

#include "tests/fuzz/fuzz.h"

#define JOBS 24
#define KEYS 3
#define BARRIERS 2
#define CALLS_MAX 400
#define WORDS 64
#define END_NS 20000000000	/* nothing takes this long */
#define DEADLINE_NS 1000000

enum act { ACT_NOTHING, ACT_FAIL, ACT_COPY, ACT_HOLD, NR_ACTS };

struct work {
	struct rnl_job job;
	bool owned;			/* accepted, and not known to be done */
	bool by_queue, after, late, cancelled, keyed, released;
	enum act act;
	unsigned key;
	uint64_t number;		/* of the accepted submit */
	uint32_t in[WORDS], out[WORDS];
	struct rnl_hold hold;
	_Atomic bool held;
	_Atomic unsigned nr_run;
};

static struct pool_state {
	struct rnl_pool *pool;
	struct rnl_cq *cq;
	struct rnl_barrier barriers[BARRIERS];
	struct work works[JOBS];
	_Atomic uint64_t last[KEYS];	/* number of the job of the key that ran last */
	uint64_t nr_accepted;
	bool closed, traced;
} s;

/* ---- the jobs' function ---------------------------------------------------------- */

static int copy_there_and_back(struct work *w)
{
	void *mem;
	int ret = rnl_scratch(sizeof(w->in), &mem);

	if (!ret)
		ret = rnl_copy(mem, w->in, sizeof(w->in));
	return ret ? ret : rnl_copy(w->out, mem, sizeof(w->out));
}

static int act(struct rnl_job *job)
{
	struct work *w = rnl_container_of(job, struct work, job);

	must(atomic_fetch_add(&w->nr_run, 1) == 0);
	/* After a barrier a job takes its place among those of its key when the barrier lets it. */
	if (w->keyed && !w->after)
		must(atomic_exchange(&s.last[w->key], w->number) < w->number);
	if (w->act == ACT_COPY)
		return copy_there_and_back(w);
	if (w->act == ACT_HOLD) {
		must(!rnl_job_hold(job, &w->hold));
		atomic_store(&w->held, true);
	}
	return w->act == ACT_FAIL ? -ENXIO : 0;
}

/* ---- what a job came to ---------------------------------------------------------- */

static void check_end(struct work *w)
{
	const int result = rnl_job_result(&w->job);
	const unsigned nr_run = atomic_load(&w->nr_run);

	must(w->owned && rnl_job_test(&w->job) == 1);
	w->owned = false;
	if (result == -ECANCELED)
		must(!nr_run && (w->cancelled || w->after));
	else if (result == -ETIMEDOUT)
		must(w->late && (!nr_run || w->act == ACT_HOLD));
	else
		must(nr_run == 1 && result == (w->act == ACT_FAIL ? -ENXIO : 0));
	if (!result && w->act == ACT_COPY)
		must(!memcmp(w->in, w->out, sizeof(w->in)));
	if (!result && w->act == ACT_HOLD)
		must(w->released);
	must(rnl_job_cancel(&w->job) == -EALREADY);
}

static void reap(void)
{
	struct rnl_job *jobs[8];
	int nr;

	do {
		nr = rnl_cq_reap(s.cq, jobs, 8);
		must(nr >= 0);
		for (int i = 0; i < nr; i++) {
			struct work *w = rnl_container_of(jobs[i], struct work, job);

			must(w->by_queue);
			check_end(w);
		}
	} while (nr == 8);
}

static void look(struct work *w)
{
	int done;

	if (!w->owned || w->by_queue)
		return;		/* a job of a queue is the caller's when it is reaped */
	done = rnl_job_test(&w->job);
	must(done == 0 || done == 1);
	if (done)
		check_end(w);
}

static bool any_owned(bool held)
{
	for (unsigned i = 0; i < JOBS; i++)
		if (s.works[i].owned && (!held || s.works[i].act == ACT_HOLD))
			return true;
	return false;
}

/* ---- calls ------------------------------------------------------------------------ */

static void prepare(struct work *w, unsigned how)
{
	const unsigned barrier = how >> 4 & 1;

	*w = (struct work){ .act = how % NR_ACTS, .key = how % KEYS };
	for (unsigned i = 0; i < WORDS; i++)
		w->in[i] = how * 2654435761u + i;
	must(!rnl_job_init(&w->job, act));
	w->by_queue = how >> 2 & 1;
	if (w->by_queue)
		must(!rnl_job_cq(&w->job, s.cq));
	if (how >> 3 & 1)
		must(!rnl_barrier_add(&s.barriers[barrier], &w->job));
	w->after = how >> 5 & 1;
	if (w->after)
		must(!rnl_job_after(&w->job, &s.barriers[!barrier]));
	w->late = how >> 6 & 1;
	if (w->late)
		must(!rnl_job_deadline(&w->job, DEADLINE_NS));
	if (how >> 7 & 1)
		must(!rnl_job_gather(&w->job, 1));
}

static void submit(struct work *w, unsigned how, bool keyed)
{
	int ret;

	if (w->owned)
		return;
	prepare(w, how);
	w->keyed = keyed;
	w->number = s.nr_accepted + 1;
	ret = keyed ? rnl_submit_keyed(s.pool, &w->job, w->key) : rnl_submit(s.pool, &w->job);
	must(s.closed ? ret == -ESHUTDOWN : ret == 0 || ret == -EAGAIN);
	must(ret != -EAGAIN || any_owned(false));
	if (ret) {
		must(!atomic_load(&w->nr_run));
		return;
	}
	s.nr_accepted++;
	w->owned = true;
}

static void cancel(struct work *w)
{
	int ret;

	if (!w->owned)
		return;
	ret = rnl_job_cancel(&w->job);
	must(ret == 0 || ret == -EBUSY || ret == -EALREADY);
	if (!ret) {
		must(!atomic_load(&w->nr_run));
		w->cancelled = true;
	}
	if (w->cancelled)
		must(ret == 0 || ret == -EALREADY || ret == -EBUSY);
}

static void cancel_all(void)
{
	for (unsigned i = 0; i < JOBS; i++)
		s.works[i].cancelled |= s.works[i].owned;
	must(rnl_pool_cancel(s.pool) >= 0);
}

static void release(struct work *w)
{
	int ret;

	if (!atomic_load(&w->held))
		return;
	ret = rnl_hold_release(&w->hold, 0);
	if (!ret)
		must(!w->released);
	else
		must((ret == -EALREADY || ret == -ESTALE) && (w->released || w->late));
	w->released |= !ret;
}

/* It waits for jobs, and so must not wait for a hold that this thread has to release. */
static void resize(unsigned nr)
{
	int ret;

	if (any_owned(true))
		return;
	ret = rnl_pool_resize(s.pool, nr);
	must(ret == (s.closed ? -ESHUTDOWN : 0));
}

static void read_figures(void)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_health health = RNL_HEALTH_INIT;
	struct rnl_held held[JOBS];

	must(!rnl_pool_read_stats(s.pool, &stats) && stats.done <= s.nr_accepted);
	must(!rnl_pool_health(s.pool, &health) && health.state < RNL_HEALTH_STUCK);
	must(rnl_pool_held(s.pool, held, JOBS) <= JOBS);
	must(rnl_pool_stats_text(s.pool, "a\"b\\c\n", NULL, 0) > 0);
}

static void trace(void)
{
	static char path[32];
	struct rnl_trace_attr attr = RNL_TRACE_ATTR_INIT;
	struct rnl_overlap overlap = RNL_OVERLAP_INIT;

	if (!*path)
		snprintf(path, sizeof(path), "/proc/self/fd/%d", memfd_create("trace", MFD_CLOEXEC));
	attr.timing = RNL_TRACE_EVERY;
	attr.buffer_bytes = attr.file_max = 64 << 10;
	if (s.traced)
		must(!rnl_trace_overlap(s.pool, &overlap) && !rnl_trace_stop(s.pool));
	else
		must(!rnl_trace_start(s.pool, path, &attr));
	s.traced = !s.traced;
}

static void call(unsigned what, unsigned how)
{
	struct work *w = &s.works[how % JOBS];

	switch (what % 16) {
	case 0: case 1: case 2: case 3:
		submit(w, how ^ what >> 4, false);
		break;
	case 4: case 5: case 6:
		submit(w, how ^ what >> 4, true);
		break;
	case 7:
		cancel(w);
		break;
	case 8:
		release(w);
		break;
	case 9:
		look(w);
		break;
	case 10:
		reap();
		break;
	case 11:
		resize(1 + how % 4);
		break;
	case 12:
		must(!rnl_barrier_wait(&s.barriers[how % BARRIERS], 0) || any_owned(false));
		break;
	case 13:
		read_figures();
		break;
	case 14:
		if (how >= 0xf0)
			cancel_all();
		else if (how >= 0xe0)
			s.closed |= !rnl_pool_close(s.pool);
		else if (how >= 0xc0)
			trace();
		break;
	default:
		if (w->owned && !w->by_queue && rnl_job_wait(&w->job, how * 1000) == 0)
			check_end(w);
	}
}

/* ---- an input --------------------------------------------------------------------- */

static void begin(const char *device)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	memset(&s, 0, sizeof(s));
	attr.device = device;
	attr.nr_workers = 2;
	attr.max_queued = 8;
	must(!rnl_pool_create(&s.pool, &attr) && !rnl_cq_create(&s.cq));
	for (unsigned i = 0; i < BARRIERS; i++)
		must(!rnl_barrier_init(&s.barriers[i], s.pool));
}

static void end(void)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	const int64_t until = rnl_clock() + END_NS;
	int ret;

	do {
		for (unsigned i = 0; i < JOBS; i++)
			release(&s.works[i]);
		ret = rnl_pool_drain(s.pool, 1000000);
		must(ret == 0 || (ret == -ETIMEDOUT && rnl_clock() < until));
	} while (ret);
	reap();
	for (unsigned i = 0; i < JOBS; i++)
		look(&s.works[i]);
	must(!any_owned(false));
	for (unsigned i = 0; i < BARRIERS; i++)
		must(!rnl_barrier_wait(&s.barriers[i], 0));
	must(!rnl_pool_read_stats(s.pool, &stats));
	must(stats.accepted == s.nr_accepted && stats.done == s.nr_accepted);
	must(!stats.queued && !stats.in_flight && !stats.held);
	rnl_pool_destroy(s.pool);
	rnl_cq_destroy(s.cq);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	if (bytes < 3)
		return 0;
	begin(FUZZ_DOUBLE && *data % 2 ? "cuda" : "host");
	for (size_t i = 1; i + 1 < bytes && i / 2 < CALLS_MAX; i += 2)
		call(data[i], data[i + 1]);
	end();
	return 0;
}
