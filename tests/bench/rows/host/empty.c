/* SPDX-License-Identifier: MIT */
/*
 * Empty jobs: their cost in runnel and in other pools.
 *
 * DESIGN
 *	Submit, run, complete: the path of every job, without a device. Each measurement has its own
 *	process, because libuv's pool, OpenMP's and oneTBB's threads belong to the process.
 *	Throughput counts from the first producer's first submit until the last wait has returned
 *	or, for a peer without a wait, until its workers have ended. All jobs are made before, and
 *	their memory is touched. Sleeps are the process's voluntary context switches, by the
 *	system's count.
 *	Latency is measured with one job at a time. Until the start: the submitter polls a word
 *	until the job's function has written the time there, so the submitter cannot run the job.
 *	Until the wait's return: the submitter waits immediately, like programs do; if a wait runs
 *	jobs, there is no hand-off. In the pause before a sample, pools that sleep within a
 *	millisecond do so. Every job counts its runs, and a wrong count ends the program.
 */
#include "peers/peer.h"

#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#define WARM_UPS 4
#define WARM_UP_JOBS 256
#define PAUSE_NS 1000000
#define BURST_JOBS 64
#define FORK_JOBS 16

enum measure {
	THROUGHPUT,
	HANDOFF,		/* from the submit to the function */
	RETURN,			/* from the submit to the wait's return */
	BURST,
	FORK_JOIN
};

/* The measurement; then, set in its process, the pool and its jobs. */
struct empty {
	const struct bench_run *run;
	enum measure measure;
	unsigned workers, producers;
	size_t nr;			/* jobs, samples, bursts, rounds */
	const struct bench_pool *named;
	const struct bench_peer *peer;
	void *pool;			/* NULL: already closed */
	char *jobs;			/* structs of the peer, which begin with a peer_job */
	size_t nr_jobs;
	char *warm;			/* jobs of each producer's warm-up */
	uint64_t *ns;			/* times of the samples */
	pthread_barrier_t start, end;
	uint64_t began[BENCH_THREADS_MAX], ended[BENCH_THREADS_MAX];
	long switches;
};

uint64_t peer_work_rounds;

/* ---- producers and jobs -------------------------------------------------- */

struct producer {
	pthread_t thread;
	unsigned index;
	peer_body *body;
	void *arg;
};

static void *run_body(void *arg)
{
	struct producer *p = arg;

	p->body(p->arg, p->index);
	return NULL;
}

void peer_produce(unsigned nr, peer_body *body, void *arg)
{
	struct producer producers[BENCH_THREADS_MAX];

	for (unsigned i = 0; i < nr; i++) {
		producers[i] = (struct producer){ .index = i, .body = body, .arg = arg };
		bench_must(!pthread_create(&producers[i].thread, NULL, run_body, &producers[i]),
			   "pthread_create");
	}
	for (unsigned i = 0; i < nr; i++)
		pthread_join(producers[i].thread, NULL);
}

static void produce(struct empty *e, peer_body *body)
{
	if (e->peer->produce)
		e->peer->produce(e->pool, e->producers, body, e);
	else
		peer_produce(e->producers, body, e);
}

static void submit(const struct empty *e, unsigned producer, char *jobs, size_t nr)
{
	e->peer->submit(e->pool, producer, jobs, nr);
}

static void await(const struct empty *e, unsigned producer, char *jobs, size_t nr)
{
	if (e->peer->wait)
		e->peer->wait(e->pool, producer, jobs, nr);
}

static struct peer_job *job_at(const struct empty *e, char *jobs, size_t i)
{
	return (struct peer_job *)(void *)(jobs + i * e->peer->job_bytes);
}

/* Makes the producer's jobs in zeroed memory. */
static void make_jobs(const struct empty *e, unsigned producer, char *jobs, size_t nr,
		      enum peer_kind kind)
{
	for (size_t i = 0; i < nr; i++)
		job_at(e, jobs, i)->kind = kind;
	if (e->peer->prepare)
		e->peer->prepare(e->pool, producer, jobs, nr);
}

static void check_runs(const struct empty *e, char *jobs, size_t nr, uint64_t wanted)
{
	for (size_t i = 0; i < nr; i++) {
		const struct peer_job *job = job_at(e, jobs, i);

		if (job->runs == wanted)
			continue;
		fprintf(stderr, "bench: %s: job %zu of %zu ran %u times instead of %llu\n",
			e->named->name, i, nr, job->runs, (unsigned long long)wanted);
		_Exit(EXIT_FAILURE);
	}
}

/* Warms up: some peers start their threads at the first job. */
static void warm_up(const struct empty *e, unsigned producer)
{
	char *jobs = e->warm + producer * WARM_UP_JOBS * e->peer->job_bytes;

	if (!e->peer->wait)
		return;
	make_jobs(e, producer, jobs, WARM_UP_JOBS, PEER_EMPTY);
	for (int i = 0; i < WARM_UPS; i++) {
		submit(e, producer, jobs, WARM_UP_JOBS);
		await(e, producer, jobs, WARM_UP_JOBS);
	}
	check_runs(e, jobs, WARM_UP_JOBS, WARM_UPS);
}

/* ---- throughput: producers submit all their jobs ---------------------- */

static size_t first_of(const struct empty *e, unsigned producer)
{
	return e->nr_jobs / e->producers * producer;
}

static size_t count_of(const struct empty *e, unsigned producer)
{
	const bool last = producer + 1 == e->producers;

	return (last ? e->nr_jobs : first_of(e, producer + 1)) - first_of(e, producer);
}

static char *jobs_of(const struct empty *e, unsigned producer)
{
	return e->jobs + first_of(e, producer) * e->peer->job_bytes;
}

static long switches(void)
{
	struct rusage usage;

	bench_must(!getrusage(RUSAGE_SELF, &usage), "getrusage");
	return usage.ru_nvcsw;
}

static void race(void *arg, unsigned producer)
{
	struct empty *e = arg;
	const enum bench_wrong wrong = e->run->opt->wrong;
	char *jobs = jobs_of(e, producer);
	const size_t nr = count_of(e, producer);

	warm_up(e, producer);
	pthread_barrier_wait(&e->start);
	if (!producer)
		e->switches = switches();
	e->began[producer] = bench_now();
	submit(e, producer, jobs, nr - (!producer && wrong == BENCH_LOST));
	await(e, producer, jobs, nr);
	if (!producer && wrong == BENCH_TWICE) {
		submit(e, producer, jobs, 1);
		await(e, producer, jobs, 1);
	}
	e->ended[producer] = bench_now();
	pthread_barrier_wait(&e->end);
	if (producer)
		return;
	if (!e->peer->wait) {
		e->peer->close(e->pool);
		e->pool = NULL;
		e->ended[producer] = bench_now();
	}
	e->switches = switches() - e->switches;
}

static void throughput(struct empty *e, double *values)
{
	uint64_t began = UINT64_MAX, ended = 0;

	for (unsigned i = 0; i < e->producers; i++)
		make_jobs(e, i, jobs_of(e, i), count_of(e, i), PEER_EMPTY);
	pthread_barrier_init(&e->start, NULL, e->producers);
	pthread_barrier_init(&e->end, NULL, e->producers);
	produce(e, race);
	check_runs(e, e->jobs, e->nr_jobs, 1);
	for (unsigned i = 0; i < e->producers; i++) {
		began = e->began[i] < began ? e->began[i] : began;
		ended = e->ended[i] > ended ? e->ended[i] : ended;
	}
	values[0] = (double)(ended - began) / (double)e->nr_jobs;
	values[1] = (double)e->switches * 1000 / (double)e->nr_jobs;
}

/* ---- one producer, many samples ------------------------------------------- */

static uint64_t sample(const struct empty *e)
{
	const struct timespec pause = { .tv_nsec = PAUSE_NS };
	struct peer_job *first = job_at(e, e->jobs, 0);
	uint64_t started, start;

	if (e->run->paused || e->measure == BURST)
		nanosleep(&pause, NULL);
	first->started = 0;
	start = bench_now();
	submit(e, 0, e->jobs, e->nr_jobs);
	if (e->measure != HANDOFF) {
		await(e, 0, e->jobs, e->nr_jobs);
		return bench_now() - start;
	}
	/* acquire: this thread owns the job again, even if the peer has no wait */
	while (!(started = __atomic_load_n(&first->started, __ATOMIC_ACQUIRE)))
		bench_relax();
	await(e, 0, e->jobs, e->nr_jobs);
	return started - start;
}

static void take_samples(void *arg, unsigned producer)
{
	struct empty *e = arg;
	const size_t first = e->nr / 10 + 4;

	warm_up(e, producer);
	for (size_t i = 0; i < first; i++)
		(void)sample(e);
	for (size_t i = 0; i < e->nr; i++)
		e->ns[i] = sample(e);
	check_runs(e, e->jobs, e->nr_jobs, first + e->nr);
}

static void samples(struct empty *e, double *values)
{
	static const enum peer_kind kinds[] = { [HANDOFF] = PEER_STAMP, [BURST] = PEER_WORK,
						[FORK_JOIN] = PEER_EMPTY };
	const double ideal = (double)BURST_JOBS * PEER_WORK_NS / e->workers;
	double *us = bench_alloc(e->nr * sizeof(*us)), sum = 0;

	e->ns = bench_alloc(e->nr * sizeof(*e->ns));
	make_jobs(e, 0, e->jobs, e->nr_jobs, kinds[e->measure]);
	produce(e, take_samples);
	for (size_t i = 0; i < e->nr; i++) {
		us[i] = (double)e->ns[i] * 1e-3;
		sum += us[i];
	}
	values[0] = bench_percentile(us, e->nr, 50);
	values[1] = bench_percentile(us, e->nr, 99);
	if (e->measure == BURST) {
		values[1] = values[0] * 1000 / ideal;
	} else if (e->measure == FORK_JOIN) {
		values[0] = sum / (double)e->nr;
		values[1] = values[0] * 1000 / (double)e->nr_jobs;
	}
	free(us);
	free(e->ns);
}

/* ---- the rows ------------------------------------------------------------ */

/* Measures in a separate process. */
static void measure(void *arg, unsigned which, double *values)
{
	static const size_t joins[] = { [HANDOFF] = 1, [RETURN] = 1, [BURST] = BURST_JOBS,
					[FORK_JOIN] = FORK_JOBS };
	struct empty *e = arg;
	struct peer_setup setup;

	e->named = &bench_pools[which];
	e->peer = e->named->peer;
	e->nr_jobs = e->measure == THROUGHPUT ? e->nr : joins[e->measure];
	setup = (struct peer_setup){ e->workers, e->producers, e->nr_jobs };
	e->jobs = bench_alloc(e->nr_jobs * e->peer->job_bytes);
	e->warm = bench_alloc(e->producers * WARM_UP_JOBS * e->peer->job_bytes);
	e->pool = e->peer->open(&setup);
	if (e->measure == THROUGHPUT)
		throughput(e, values);
	else
		samples(e, values);
	if (e->pool)
		e->peer->close(e->pool);
	free(e->warm);
	free(e->jobs);
}

/* Measures a row. @goal: the goal of its first quantity; 0: the table's. */
static void run_row(struct empty *e, double goal)
{
	const struct bench_options *opt = e->run->opt;
	struct bench_way ways[BENCH_PEERS_MAX] = { { .which = 0 } };
	struct bench_line *lines[2];
	unsigned nr = 0;

	for (unsigned k = 0; k < 2; k++)
		lines[k] = bench_line(e->run, k + 2 * e->run->paused, "%s", "");
	if (goal > 0) {
		lines[0]->goal = BENCH_ABSOLUTE;
		lines[0]->goal_value = goal;
	}
	for (unsigned i = 0; bench_pools[i].name; i++) {
		const struct bench_pool *pool = &bench_pools[i];

		if (!opt->peers[i] || !pool->peer ||
		    (!pool->peer->wait && e->measure != THROUGHPUT && e->measure != HANDOFF))
			continue;
		ways[nr] = (struct bench_way){ .measure = measure, .which = i };
		for (unsigned k = 0; k < 2; k++)
			ways[nr].figures[k] = bench_figure(lines[k], pool->side, pool->label);
		nr++;
	}
	if (!nr) {
		fprintf(stderr, "bench: %s: there is nothing to measure\n", e->run->row->name);
		_exit(EXIT_FAILURE);
	}
	bench_turns(e->run, ways, nr, e);
	for (unsigned k = 0; k < 2; k++)
		bench_line_tell(e->run, lines[k]);
}

static void run_throughput(struct bench_run *run)
{
	const struct bench_config c = run->config;
	struct empty e = { .run = run, .measure = THROUGHPUT, .workers = c.workers,
			   .producers = c.producers, .nr = run->opt->jobs };
	const bool small = c.workers == 1 || c.workers == 2;

	run_row(&e, c.workers != c.producers ? 0 : small ? 50 : c.workers == 4 ? 60 : 0);
}

static void run_samples(struct bench_run *run, enum measure measured, unsigned workers, size_t nr)
{
	struct empty e = { .run = run, .measure = measured, .workers = workers, .producers = 1,
			   .nr = nr };

	snprintf(run->at, sizeof(run->at), ", %u worker%s", workers, workers > 1 ? "s" : "");
	run_row(&e, 0);
}

static void run_handoff(struct bench_run *run)
{
	const struct bench_options *opt = run->opt;

	run_samples(run, HANDOFF, opt->latency_workers,
		    run->paused ? opt->paused_samples : opt->warm_samples);
}

static void run_return(struct bench_run *run)
{
	const struct bench_options *opt = run->opt;

	run_samples(run, RETURN, opt->latency_workers,
		    run->paused ? opt->paused_samples : opt->warm_samples);
}

static void run_burst(struct bench_run *run)
{
	const uint64_t rounds = 100000;
	uint64_t best = UINT64_MAX;

	/* Takes the fastest of many: other programs slow the rest. */
	for (int i = 0; i < 50; i++) {
		uint64_t start = bench_now(), ns;

		peer_work(rounds);
		ns = bench_now() - start;
		best = ns < best ? ns : best;
	}
	peer_work_rounds = rounds * PEER_WORK_NS / best;
	run_samples(run, BURST, run->opt->workers, run->opt->bursts);
}

static void run_forkjoin(struct bench_run *run)
{
	run_samples(run, FORK_JOIN, run->opt->workers, run->opt->forks);
}

const struct bench_work bench_throughput = { .run = run_throughput };
const struct bench_work bench_handoff = { .run = run_handoff };
const struct bench_work bench_return = { .run = run_return };
const struct bench_work bench_burst = { .run = run_burst };
const struct bench_work bench_forkjoin = { .run = run_forkjoin };
