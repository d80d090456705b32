/* SPDX-License-Identifier: MIT */
/*
 * A million completions through a queue with a polled descriptor, while reader and workers are
 * delayed at the worst places. Each job is returned once, and no wake is lost.
 *
 * DESIGN
 *	A submitter has few jobs in flight for a while, then many, so the queue is often empty, and
 *	often not. A wake is lost if all jobs have been pushed, some are not reaped, and the
 *	descriptor does not become readable, because no thread will write to it any more. Now and
 *	then the reader drains the pools before it polls, to test this case.
 *
 * env: RNL_TEST_SEED repeats the draws.
 */
#undef _FORTIFY_SOURCE		/* else read() and ppoll() are inline; dawdle.h defines them */
#define _GNU_SOURCE		/* ppoll */
#include <sys/epoll.h>

#include "cq.h"
#include "dawdle.h"

#define NR_ITEMS 512		/* limit of jobs in flight */
#define NR_POOLS 2
#define NR_FEEDERS 2

/* ---- jobs, and the threads that submit ------------------------------------ */

struct item {
	struct rnl_job job;
	unsigned runs, reaps;	/* plain: the queue orders accesses */
	unsigned feeder;
};

/* A submitter's number of jobs in flight: few for a while, so the queue is often empty. */
struct pace {
	uint64_t random, left, until; /* jobs to submit; `left` at the next draw */
	unsigned depth;
};

struct load;

/* A reader, and the threads that submit. */
struct way {
	const char *name;
	unsigned nr, max, nr_feeders;	/* jobs; jobs that a reap asks for; 0: the reader submits */
	void (*serve)(struct load *load);
	bool edges;
};

/* Submits the jobs that the reader gives back. */
struct feeder {
	pthread_t thread;
	struct load *load;
	struct pace pace;
	struct rnl_job *ring[NR_ITEMS];
	_Atomic unsigned put, taken;
};

struct load {
	const struct way *way;
	double until;		/* no submits after it: on a busy machine each wake is slow */
	struct rnl_cq *cq;
	int fd, epoll;
	struct rnl_pool *pools[NR_POOLS];
	uint64_t random, reaped;
	_Atomic uint64_t nr, submitted;
	unsigned nr_reaps, nr_empty;
	struct pace pace;	/* the reader's, if it submits */
	unsigned nr_idle;
	struct rnl_job *idle[NR_ITEMS];
	struct feeder feeders[NR_FEEDERS];
	struct item items[NR_ITEMS];
};

static int run(struct rnl_job *job)
{
	rnl_container_of(job, struct item, job)->runs++;
	nr_events++;
	return 0;
}

static int patience_ms(void)
{
	return (int)(PATIENCE_S * 1e3);
}

/* When the time is over, leaves one job to submit, which wakes the reader if it waits. */
static void end_in_time(struct load *load, struct pace *p)
{
	if (p->left > 1 && seconds_now() > load->until) {
		load->nr -= p->left - 1;
		p->left = 1;
	}
}

/* Returns how many of @nr jobs to submit now. */
static unsigned batch_of(struct load *load, struct pace *p, unsigned nr, unsigned nr_idle)
{
	static const unsigned depths[] = { 1, 4, 16, 64, NR_ITEMS };
	unsigned under_way = nr - nr_idle, batch;

	end_in_time(load, p);
	if (p->left <= p->until) {
		unsigned depth = depths[draw(&p->random, COUNT(depths))];
		unsigned length = depth * 16 < 512 ? 512 : depth * 16;

		p->depth = depth < nr ? depth : nr;
		p->until = p->left > length ? p->left - length : 0;
	}
	if (under_way > p->depth / 2)
		return 0;
	batch = p->depth - under_way;
	if (batch > p->left)
		batch = (unsigned)p->left;
	p->left -= batch;
	return batch;
}

/* Aborts instead of asserting: each check of libcheck writes to a file. */
static void submit_many(struct load *load, struct pace *pace, struct rnl_job **jobs, unsigned nr)
{
	int ret;

	load->submitted += nr;
	ret = rnl_submit_many(load->pools[draw(&pace->random, NR_POOLS)], jobs, nr);
	if (ret != (int)nr)
		ck_abort_msg("of %u jobs, %d were accepted", nr, ret);
}

static void *feed(void *arg)
{
	struct feeder *f = arg;
	struct rnl_job *jobs[NR_ITEMS];

	while (f->pace.left) {
		unsigned nr = batch_of(f->load, &f->pace, NR_ITEMS / NR_FEEDERS, f->put - f->taken);

		for (unsigned i = 0; i < nr; i++)
			jobs[i] = f->ring[(f->taken + i) % NR_ITEMS];
		f->taken += nr;
		if (nr)
			submit_many(f->load, &f->pace, jobs, nr);
		else
			sched_yield();
	}
	return NULL;
}

static void give_back(struct load *load, struct item *item)
{
	struct feeder *f = &load->feeders[item->feeder];

	if (!load->way->nr_feeders) {
		load->idle[load->nr_idle++] = &item->job;
		return;
	}
	f->ring[f->put % NR_ITEMS] = &item->job;
	f->put++;
}

static void submit_again(struct load *load)
{
	unsigned nr = batch_of(load, &load->pace, NR_ITEMS, load->nr_idle);

	load->nr_idle -= nr;
	if (nr)
		submit_many(load, &load->pace, load->idle + load->nr_idle, nr);
}

/* ---- the reader ----------------------------------------------------------- */

/* Handles the jobs of a reap.  Returns true if the reap found the queue empty. */
static bool got(struct load *load, struct rnl_job **jobs, int nr)
{
	if (nr < 0 || nr > (int)load->way->max)
		ck_abort_msg("a reap of %u returned %d", load->way->max, nr);
	load->nr_reaps++;
	load->nr_empty += !nr;
	load->reaped += (unsigned)nr;
	for (int i = 0; i < nr; i++) {
		struct item *item = rnl_container_of(jobs[i], struct item, job);

		if (item->runs != ++item->reaps || rnl_job_wait(jobs[i], 0))
			ck_abort_msg("a job came %u times and ran %u times", item->reaps,
				     item->runs);
		give_back(load, item);
	}
	if (!load->way->nr_feeders)
		submit_again(load);
	return nr < (int)load->way->max;
}

static bool reap(struct load *load)
{
	struct rnl_job *jobs[NR_ITEMS];

	return got(load, jobs, rnl_cq_reap(load->cq, jobs, load->way->max, 0));
}

static bool all_finished(struct load *load, int64_t timeout_ns)
{
	for (int i = 0; i < NR_POOLS; i++) {
		if (rnl_pool_drain(load->pools[i], timeout_ns))
			return false;
	}
	return true;
}

/* Returns true if the descriptor became readable, by poll() or by epoll. */
static bool poll_for(struct load *load, int ms)
{
	struct pollfd look = { .fd = load->fd, .events = POLLIN };
	struct epoll_event event;

	return (load->way->edges ? epoll_wait(load->epoll, &event, 1, ms) : poll(&look, 1, ms)) == 1;
}

/* Jobs are in flight, and the queue is armed or was not seen empty, so it must become readable. */
static void await_readable(struct load *load)
{
	/* After the drain all jobs are in the queue, so the next poll must find them. */
	if (!load->way->nr_feeders && !draw(&load->random, 64) && !all_finished(load, RNL_FOREVER))
		ck_abort_msg("a drain failed");
	for (int tries = 0; !poll_for(load, patience_ms()); tries++) {
		bool finished = load->submitted > load->reaped && all_finished(load, 0);

		/* No thread pushes any more, so the descriptor must be readable by now. */
		if ((finished && !poll_for(load, patience_ms())) || tries == 20)
			ck_abort_msg("%s: a wake-up was lost: %s with %llu jobs under way, all "
				     "%llu reaped before; %u writes, %u reads", load->way->name,
				     finished ? "idle" : "workers are busy",
				     (unsigned long long)(load->submitted - load->reaped),
				     (unsigned long long)load->reaped, nr_writes, nr_reads);
		if (finished)
			return;
	}
}

static void serve_by_poll(struct load *load)
{
	while (load->reaped < load->nr) {
		await_readable(load);
		while (!reap(load) && load->way->edges)
			;
	}
}

static void serve_by_wait(struct load *load)
{
	const int64_t timeouts[] = { 0, 20000, patience_ms() * MS, patience_ms() * MS };
	struct rnl_job *jobs[NR_ITEMS];

	while (load->reaped < load->nr) {
		int64_t timeout = timeouts[draw(&load->random, COUNT(timeouts))];
		double since = seconds_now();
		int ret = rnl_cq_reap(load->cq, jobs, load->way->max, timeout);

		/* A wait checks again at its timeout, and returns jobs even without a wake. */
		if (timeout > MS && seconds_now() - since >= patience_ms() * 1e-3 &&
		    all_finished(load, 0))
			ck_abort_msg("%s: a wake-up was lost: a wait returned %d at its end",
				     load->way->name, ret);
		(void)got(load, jobs, ret);
	}
}

static struct load *load_of(const struct way *way)
{
	struct load *load = calloc(1, sizeof(*load));
	/* On a GPU each job goes through a stream. */
	const unsigned nr = rounds_of(way->nr) / (on_host() ? 1 : 20);

	ck_assert_ptr_nonnull(load);
	seed = test_seed();
	load->way = way;
	load->random = draws_of(seed, 0);
	load->nr = nr;
	load->until = seconds_now() + stress_seconds(10);
	load->pace.random = draws_of(seed, 1);
	load->pace.left = load->pace.until = nr;
	load->cq = cq_of();
	load->fd = rnl_cq_fd(load->cq);
	watched = load->fd;
	for (int i = 0; i < NR_POOLS; i++)
		load->pools[i] = pool_of(1);
	for (unsigned i = 0; i < NR_ITEMS; i++) {
		cq_job(&load->items[i].job, run, NULL, load->cq);
		load->items[i].feeder = i % NR_FEEDERS;
		give_back(load, &load->items[i]);
	}
	if (!way->nr_feeders)
		submit_again(load);
	for (unsigned i = 0; i < way->nr_feeders; i++) {
		struct feeder *f = &load->feeders[i];

		f->load = load;
		f->pace.random = draws_of(seed, 2 + i);
		f->pace.left = f->pace.until = nr / way->nr_feeders + (i < nr % way->nr_feeders);
		must(pthread_create(&f->thread, NULL, feed, f));
	}
	return load;
}

/* The last reap found the queue empty, so the next job writes, on however busy a machine. */
static void check_next_job_writes(struct load *load)
{
	const unsigned before = nr_writes;
	struct rnl_job *jobs[1], job;

	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_cq(&job, load->cq));
	must(rnl_submit(load->pools[0], &job));
	must(rnl_pool_drain(load->pools[0], RNL_FOREVER));
	/* A late write of an earlier job may count, too. */
	ck_assert_uint_gt(nr_writes, before);
	ck_assert_int_eq(rnl_cq_reap(load->cq, jobs, 1, RNL_FOREVER), 1);
}

static void end(struct load *load)
{
	struct rnl_job *jobs[1];

	for (unsigned i = 0; i < load->way->nr_feeders; i++)
		must(pthread_join(load->feeders[i].thread, NULL));
	ck_assert_uint_eq(load->reaped, load->nr);
	ck_assert_uint_eq(load->submitted, load->nr);
	ck_assert_int_eq(rnl_cq_reap(load->cq, jobs, 1, 0), 0);
	printf("%s: %llu jobs: %u reaps, %u of them empty; %u writes, %u reads, %u polls\n",
	       load->way->name, (unsigned long long)load->nr, load->nr_reaps, load->nr_empty, nr_writes, nr_reads,
	       nr_polls);
	ck_assert_uint_gt(nr_reads, 0);
	check_next_job_writes(load);
	for (unsigned i = 0; i < NR_POOLS; i++)
		rnl_pool_destroy(load->pools[i]);
	rnl_cq_destroy(load->cq);
	free(load);
}

static const struct way ways[] = {
	{ "a poll, and a reap of one", 1000000, 1, 0, serve_by_poll, false },
	{ "a poll, and a reap of three", 1500000, 3, 0, serve_by_poll, false },
	{ "a poll, and a reap of many", 2000000, 64, 0, serve_by_poll, false },
	{ "a poll, while others submit", 1000000, 64, NR_FEEDERS, serve_by_poll, false },
	{ "a poll of three, while others submit", 500000, 3, NR_FEEDERS, serve_by_poll, false },
	{ "edges", 1500000, 64, 0, serve_by_poll, true },
	{ "edges, and a reap of three", 500000, 3, 0, serve_by_poll, true },
	{ "edges, while others submit", 500000, 3, NR_FEEDERS, serve_by_poll, true },
	{ "a wait", 1000000, 64, 0, serve_by_wait, false },
	{ "a wait, while others submit", 500000, 3, NR_FEEDERS, serve_by_wait, false },
};

TEST(no_wake_up_is_lost, .timeout_s = 60, .loops = COUNT(ways))
{
	struct epoll_event event = { .events = EPOLLIN | EPOLLET };
	struct load *load = load_of(&ways[_i]);

	nr_reads = nr_writes = 0;
	if (load->way->edges) {
		load->epoll = epoll_create1(EPOLL_CLOEXEC);
		must(epoll_ctl(load->epoll, EPOLL_CTL_ADD, load->fd, &event));
	}
	load->way->serve(load);
	/* Each reap that saw the queue empty read one write. */
	if (load->way->serve == serve_by_poll && !load->way->edges)
		ck_assert_uint_le(load->nr_empty, nr_writes);
	if (load->way->edges)
		close(load->epoll);
	end(load);
}

TEST(a_queue_outlives_the_last_write_to_it, .timeout_s = 60)
{
	unsigned nr = rounds_of(20000);
	struct rnl_pool *pool = pool_of(2);
	struct item item = { .runs = 0 };
	struct rnl_job *jobs[1];

	seed = test_seed();
	for (unsigned i = 0; i < nr; i++) {
		struct rnl_cq *cq = cq_of();

		watched = rnl_cq_fd(cq);
		cq_job(&item.job, run, NULL, cq);
		must(rnl_submit(pool, &item.job));
		while (rnl_cq_reap(cq, jobs, 1, 0) < 1)
			sched_yield();
		rnl_cq_destroy(cq);
		watched = -1;
		nr_destroyed++;
	}
	ck_assert_uint_eq(item.runs, nr);
	rnl_pool_destroy(pool);
}
