/* SPDX-License-Identifier: MIT */
/* A round: a pool, its makers, its meddlers, and the checks at its end. */
#define _GNU_SOURCE	/* sched_setaffinity() */
#include "asks.h"
#include "life.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <runnel/guard.h>
#include <runnel/memory.h>
#include <runnel/stats.h>

#define LOST_S 2		/* the watchdog's 100 ms, plus time for a busy machine */

uint64_t now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

void nap_us(unsigned us)
{
	const struct timespec ts = { .tv_sec = us / 1000000, .tv_nsec = us % 1000000 * 1000l };

	nanosleep(&ts, NULL);
}

void dawdle(uint64_t *random)
{
	const unsigned drawn = draw(random, 128);

	if (drawn < 4)
		sched_yield();
	else if (drawn == 4)
		nap_us(draw(random, 1000));
}

/* ---- return values of calls ----------------------------------------------------- */

static bool may_say(const struct round *r, int ret, unsigned may)
{
	switch (ret) {
	case -EAGAIN:
		return may & MAY_AGAIN;
	case -ETIMEDOUT:
		return may & MAY_TIME_OUT;
	case -ESHUTDOWN:
		return may & MAY_SHUT && r->shut;
	case -ENOMEM:
		return may & MAY_LACK || memory_lacks();
	case -EBUSY:
		return may & MAY_BUSY;
	case -EIO:
		return r->failing;
	default:
		return false;
	}
}

int said(struct round *r, int ret, unsigned may, const char *call)
{
	if (ret < 0 && !may_say(r, ret, may))
		tally_wrong(UNDOCUMENTED, "%s returned %d (%s)", call, ret, rnl_strerror(ret));
	return ret;
}

bool may_end_so(const struct round *r, int result)
{
	if (memory_lacks() && result == -ENOMEM)
		return true;
	if (r->faults == SOME_CALLS && (result == -ENOMEM || result == -EINVAL))
		return true;
	return r->failing && result == -EIO;
}

/* ---- the pool ------------------------------------------------------------------- */

static int on_start(void *arg, unsigned worker, void **datap)
{
	struct round *r = arg;

	*datap = r;
	worker_comes(r, worker);
	r->nr_hooked++;
	return 0;
}

static void on_stop(void *arg, unsigned worker, void *data)
{
	struct round *r = arg;

	if (data != r)
		tally_wrong(UNDOCUMENTED, "on_stop was given another's data");
	worker_goes(r, worker);
	r->nr_hooked--;
}

static int create_pool(struct round *r)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	uint64_t *random = &r->random;

	places_draw(r);
	attr.device = r->device;
	/* At least one for each device. */
	attr.nr_workers = r->nr_devices + draw(random, 9 - r->nr_devices);
	attr.stream = draw(random, 2) ? RNL_STREAM_PRIVATE : RNL_STREAM_PER_THREAD;
	attr.max_queued = 8u << draw(random, 8);
	attr.max_in_flight = 1 + draw(random, draw(random, 2) ? 64 : 4);
	attr.in_flight_ns = draw(random, 2) ? UINT64_MAX : draw(random, 2000000);
	attr.spin_us = draw(random, 2) ? -1 : 0;
	attr.watchdog_ms = draw(random, 2) ? 0 : 10 + draw(random, 100);
	if (draw(random, 3))
		attr.nr_class_workers = r->nr_devices + draw(random, OWN_MAX - r->nr_devices + 1);
	r->nr_class_workers = attr.nr_class_workers;
	attr.stuck_ms = draw(random, 2) ? 0 : 1 + draw(random, 20);
	attr.time_every = 1u << draw(random, 7);
	attr.pinned_max = draw(random, 3) ? 0 : UINT64_C(4) << 20;
	attr.pinned_preload = draw(random, 3) ? 0 : 1 + draw(random, 1 << 20);
	attr.staging_max = draw(random, 3) ? 0 : 1 + draw(random, 1 << 18);
	attr.scratch_keep = draw(random, 3) ? 0 : 1 + draw(random, 1 << 18);
	attr.guard = r->guarded ? RNL_GUARD_REPORT : RNL_GUARD_OFF;
	attr.on_start = on_start;
	attr.on_stop = on_stop;
	attr.hook_arg = r;
	return rnl_pool_create(&r->pool, &attr);
}

/* ---- its memory ------------------------------------------------------------------ */

struct kept {
	struct kept *next;
	max_align_t memory[];
};

void *must_alloc(size_t bytes)
{
	void *mem = calloc(1, bytes);

	if (!mem)
		abort();
	return mem;
}

void *memory_get(struct round *r, unsigned where, size_t bytes)
{
	void *mem = NULL;

	(void)said(r, rnl_memory_get(r->pool, where, bytes, &mem, 0), MAY_LACK, "rnl_memory_get");
	return mem;
}

void *buffer_get(struct round *r, size_t bytes, bool *pinned)
{
	void *buf = *pinned ? memory_get(r, RNL_PINNED, bytes) : NULL;

	*pinned = buf;
	return buf ? buf : must_alloc(bytes);
}

void buffer_put(struct round *r, void *buf, bool pinned)
{
	if (pinned)
		rnl_memory_put(r->pool, buf);
	else
		free(buf);
}

void *round_alloc(struct round *r, size_t bytes)
{
	struct kept *kept = must_alloc(sizeof(*kept) + bytes);

	kept->next = r->kept;
	r->kept = kept;
	return kept->memory;
}

struct rnl_cq *cq_make(struct round *r)
{
	struct rnl_cq *cq = NULL;
	int ret;

	do
		ret = said(r, rnl_cq_create(&cq), 0, "rnl_cq_create");
	while (ret && memory_lacks());
	if (ret)
		give_up(r, "there is no completion queue");
	return cq;
}

void barrier_make(struct round *r, struct rnl_barrier *barrier)
{
	int ret = rnl_barrier_init(barrier, r->pool);

	if (ret)
		tally_wrong(UNDOCUMENTED, "a barrier could not be made: %d", ret);
}

static void free_all(struct round *r)
{
	for (struct kept *kept = r->kept, *next; kept; kept = next) {
		next = kept->next;
		free(kept);
	}
	free(r);
}

/* ---- the course of a round ------------------------------------------------------------------ */

/* A maker is in one of `one_in` rounds; jobs are in each, because their reaper serves all. */
static const struct {
	const char *name;
	void (*begin)(struct round *r);
	unsigned one_in;
} makers[] = {
	{ "jobs", jobs_begin, 1 },
	{ "chains", chains_begin, 2 },
	{ "passing", passing_begin, 4 },
	{ "turns", turns_begin, 2 },
	{ "late", late_begin, 4 },
	{ "due", due_begin, 2 },
	{ "batch", batch_begin, 2 },
	{ "map", map_begin, 2 },
	{ "memory", memory_begin, 2 },
	{ "holds", holds_begin, 2 },
	{ "links", links_begin, 2 },
	{ "fans", fans_begin, 2 },
	{ "crowds", crowds_begin, 2 },
	{ "echoes", echoes_begin, 2 },
	{ "mail", mail_begin, 2 },
};

const char *maker_name(unsigned i)
{
	return i < COUNT(makers) ? makers[i].name : NULL;
}

/* Returns true if --makers includes the maker. */
static bool is_wanted(const char *name)
{
	const size_t len = strlen(name);

	for (const char *at = options.makers; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, name, len) && (!at[len] || at[len] == ','))
			return true;
	}
	return !options.makers;
}

static void begin(struct round *r)
{
	classes_begin(r);
	for (unsigned i = 0; i < COUNT(makers); i++) {
		/* Draws for unwanted makers, too: --makers does not change the other draws. */
		const bool drawn = !draw(&r->random, makers[i].one_in);

		if (!i || (drawn && is_wanted(makers[i].name)))
			makers[i].begin(r);
	}
	meddle_begin(r);
	if (r->faults != NO_FAULTS)
		seat_take(r, "faults", MEDDLES, faults_meddle, NULL);
}

static void close_pool(struct round *r)
{
	r->shut = true;
	r->closed = !said(r, rnl_pool_close(r->pool), 0, "rnl_pool_close");
}

static void go_on(struct round *r)
{
	unsigned left_ms = 10 + draw(&r->random, draw(&r->random, 4) ? 80 : 400);

	left_ms *= options.scale > 4 ? 4 : 1;
	/* More seeds find more errors than longer rounds. */
	if (sim_begin)
		left_ms = left_ms % 16 + 4;
	for (; left_ms && !r->failing; left_ms--)
		nap_us(1000);
	if (draw(&r->random, 4))
		return;
	close_pool(r);
	tally_add(NR_CLOSES, 1);
	nap_us(draw(&r->random, 3000));
}

/* Checks that calls after the failure return -EIO.  Not a submit: the pool may be closed. */
static void check_lost(struct round *r)
{
	const uint64_t until = now_ns() + (uint64_t)long_ns();
	int ret;

	do {
		void *mem = NULL;

		ret = rnl_memory_get(r->pool, draw(&r->random, r->nr_devices), 64, &mem, 0);
		if (!ret)
			rnl_memory_put(r->pool, mem);
	} while (ret != -EIO && now_ns() < until);
	if (ret != -EIO)
		tally_wrong(TOO_LATE, "the device is lost, and calls return %d", ret);
	tally_add(NR_DEVICES_LOST, 1);
}

static void drain(struct round *r)
{
	const uint64_t since = now_ns();
	uint64_t slowest = tally->slowest_end_ns, took;

	if (said(r, rnl_pool_drain(r->pool, long_ns()), 0, "rnl_pool_drain"))
		give_up(r, "the pool did not drain");
	if (now_ns() - since >= (uint64_t)long_ns())
		tally_wrong(TOO_LATE, "a drain was not woken");
	took = r->failing ? now_ns() - r->failed_at_ns : 0;
	if (took > (uint64_t)(LOST_S * 1e9 * options.scale))
		tally_wrong(TOO_LATE, "the jobs of a lost device ended after %.0f ms",
			    (double)took * 1e-6);
	if (took > slowest)
		tally->slowest_end_ns = took;
}

/* Checks that the statistics agree; all jobs are done. */
static void check_figures(struct round *r)
{
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	const uint64_t accepted = r->accepted, ended = r->ended;

	(void)said(r, rnl_pool_read_stats(r->pool, RNL_ALL_WORKERS, &stats), 0, "rnl_pool_read_stats");
	if (accepted != ended)
		tally_wrong(COUNTS, "%llu jobs were accepted, %llu ended",
			    (unsigned long long)accepted, (unsigned long long)ended);
	if (stats.done != stats.accepted || stats.queued || stats.in_flight ||
	    stats.accepted < accepted || (!r->others && stats.accepted != accepted))
		tally_wrong(COUNTS, "%llu accepted, %llu done, %llu queued, %llu in flight; ours "
			    "are %llu", (unsigned long long)stats.accepted,
			    (unsigned long long)stats.done, (unsigned long long)stats.queued,
			    (unsigned long long)stats.in_flight, (unsigned long long)accepted);
	if (!r->others && (stats.failed != r->failed || stats.cancelled != r->cancelled ||
			   stats.timed_out != r->timed_out))
		tally_wrong(COUNTS, "%llu failed, %llu cancelled, %llu timed out; ours are %llu, "
			    "%llu, %llu", (unsigned long long)stats.failed,
			    (unsigned long long)stats.cancelled,
			    (unsigned long long)stats.timed_out, (unsigned long long)r->failed,
			    (unsigned long long)r->cancelled, (unsigned long long)r->timed_out);
	/* The library's internal jobs do not gather. */
	if (stats.gathered > r->gathered)
		tally_wrong(COUNTS, "%llu jobs were gathered, and %llu ran that gather",
			    (unsigned long long)stats.gathered, (unsigned long long)r->gathered);
	tally_add(NR_IN_GROUPS, stats.gathered);
	tally_add(NR_REPLAYED, stats.replayed);
	if (stats.pinned_used)
		tally_wrong(LEAKED, "%llu bytes of pinned buffers",
			    (unsigned long long)stats.pinned_used);
}

static void finish(struct round *r)
{
	struct rnl_job *job;

	r->stop = true;
	while (r->nr_stopped < seats_nr(r, MAKES))
		nap_us(100);
	if (!r->leaves) {
		drain(r);
		jobs_check_drained(r);
		lives_check_drained(r);
		/* A close cancels the notices that still wait. */
		close_pool(r);
	}
	halts_end();
	seats_join(r, MAKES);
	batch_end(r);
	mail_end(r);
	r->over = true;
	seats_join(r, MEDDLES);
	if (r->failing)
		check_lost(r);
	if (!r->leaves) {
		(void)said(r, rnl_pool_drain(r->pool, long_ns()), 0, "rnl_pool_drain");
		lives_await(r);
		check_figures(r);
		classes_check_drained(r);
	}
	r->shut = true;
	tally_add(NR_LEAVES, r->leaves);
	classes_end(r);
	rnl_pool_destroy(r->pool);
	r->reaped = true;
	seats_join(r, REAPS);
	jobs_end(r);
	lives_end(r);
	holds_end(r);
	crowds_end(r);
	if (r->nr_hooked)
		tally_wrong(LEAKED, "on_stop was not called for %d workers", r->nr_hooked);
	if (rnl_cq_reap(r->cq, &job, 1, 0))
		tally_wrong(CQ_WRONG, "it has a job when all are reaped");
	rnl_cq_destroy(r->cq);
}

/* Sets the CPUs of this thread, and of all threads that it starts. */
static void use_cpus(struct round *r)
{
	static cpu_set_t all;
	const unsigned drawn = draw(&r->random, 1000);
	cpu_set_t one;
	int nth, cpu = 0;

	if (!CPU_COUNT(&all) && sched_getaffinity(0, sizeof(all), &all))
		return;
	nth = (int)drawn % CPU_COUNT(&all);
	for (; nth || !CPU_ISSET(cpu, &all); cpu++)
		nth -= CPU_ISSET(cpu, &all);
	CPU_ZERO(&one);
	CPU_SET(cpu, &one);
	r->one_cpu = !draw(&r->random, 4);
	(void)sched_setaffinity(0, sizeof(all), r->one_cpu ? &one : &all);
}

static enum faults draw_faults(struct round *r)
{
	const unsigned drawn = draw(&r->random, 10);

	if (options.fake && sim_begin)
		return sim_fault("lost") && (drawn % 2 || !sim_fault("calls")) ? THE_DEVICE :
		       sim_fault("calls") ? SOME_CALLS : NO_FAULTS;
	if (!options.fake || drawn >= 5)
		return NO_FAULTS;
	return drawn ? SOME_CALLS : THE_DEVICE;
}

bool round_run(uint64_t number)
{
	struct round *r = must_alloc(sizeof(*r));
	bool lost;

	tally->round = r->number = number;
	r->random = draws_of(options.seed, number);
	r->faults = draw_faults(r);
	r->guarded = !draw(&r->random, 8);
	r->leaves = !draw(&r->random, 4);
	r->calm = !draw(&r->random, 3);
	r->all_gather = draw(&r->random, 2);
	pthread_mutex_init(&r->workers.lock, NULL);
	use_cpus(r);
	watch(r, 6 * long_ns());
	faults_begin(r);
	r->cq = cq_make(r);
	if (!said(r, create_pool(r), MAY_LACK, "rnl_pool_create")) {
		if ((int)nr_devices_of(r->pool) != (int)r->nr_devices)
			tally_wrong(UNDOCUMENTED, "a pool over \"%s\" has %d devices", r->device,
				    (int)nr_devices_of(r->pool));
		begin(r);
		/*
		 * A signal makes a waiter check again, which would hide a lost wake. So only half
		 * of the rounds have halts.
		 */
		if (draw(&r->random, 2) && !sim_begin)
			halts_begin(r);
		go_on(r);
		finish(r);
	} else {
		rnl_cq_destroy(r->cq);
	}
	faults_end(r);
	if (!r->failing)
		leaks_check(r);
	watch(NULL, 0);
	tally_add(NR_ROUNDS, 1);
	tally_add(NR_GATHERED, r->gathered);
	tally_add(NR_GUARDED, r->guarded);
	tally_add(NR_ONE_CPU, r->one_cpu);
	tally_add(NR_SEVERAL, r->nr_devices > 1);
	lost = r->failing;
	free_all(r);
	return !lost;
}
