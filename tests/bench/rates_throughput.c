/* SPDX-License-Identifier: MIT */
/*
 * Throughput: producers that submit all they have, workers that run it.
 *
 * DESIGN
 *	Time counts from the first producer's first submit until the last one's
 *	wait has returned or, for a peer that has no wait, until its workers have
 *	ended.  All jobs are there before, their memory touched.
 *	How often a thread slept is the system's count of voluntary context
 *	switches, of the whole process: futexes, and whatever else blocked.
 */
#include "rates_measure.h"

#include <pthread.h>
#include <sys/resource.h>

struct race {
	struct measuring *m;
	pthread_barrier_t start, end;
	uint64_t began[RATES_THREADS_MAX], ended[RATES_THREADS_MAX];
	long switches;
};

static size_t first_of(const struct measuring *m, unsigned producer)
{
	return m->nr_jobs / m->cell->config.producers * producer;
}

static size_t count_of(const struct measuring *m, unsigned producer)
{
	const bool last = producer + 1 == m->cell->config.producers;

	return (last ? m->nr_jobs : first_of(m, producer + 1)) - first_of(m, producer);
}

static char *jobs_of(const struct measuring *m, unsigned producer)
{
	return m->jobs + first_of(m, producer) * m->peer->job_bytes;
}

static long switches(void)
{
	struct rusage usage;

	bench_must(!getrusage(RUSAGE_SELF, &usage), "getrusage");
	return usage.ru_nvcsw;
}

static void run(void *arg, unsigned producer)
{
	struct race *r = arg;
	struct measuring *m = r->m;
	char *jobs = jobs_of(m, producer);
	const size_t nr = count_of(m, producer);

	warm_up(m, producer);
	pthread_barrier_wait(&r->start);
	if (!producer)
		r->switches = switches();
	r->began[producer] = bench_now();
	submit(m, producer, jobs, nr - (!producer && m->wrong == RATES_LOST));
	await(m, producer, jobs, nr);
	if (!producer && m->wrong == RATES_TWICE) {
		submit(m, producer, jobs, 1);
		await(m, producer, jobs, 1);
	}
	r->ended[producer] = bench_now();
	pthread_barrier_wait(&r->end);
	if (producer)
		return;
	if (!m->peer->wait) {
		m->peer->close(m->pool);
		m->pool = NULL;
		r->ended[producer] = bench_now();
	}
	r->switches = switches() - r->switches;
}

void throughput(struct measuring *m, double *figures)
{
	const unsigned producers = m->cell->config.producers;
	struct race r = { .m = m };
	uint64_t began = UINT64_MAX, ended = 0;

	for (unsigned i = 0; i < producers; i++)
		make_jobs(m, i, jobs_of(m, i), count_of(m, i), RATES_EMPTY);
	pthread_barrier_init(&r.start, NULL, producers);
	pthread_barrier_init(&r.end, NULL, producers);
	produce(m, run, &r);
	pthread_barrier_destroy(&r.start);
	pthread_barrier_destroy(&r.end);
	check_runs(m, m->jobs, m->nr_jobs, 1);
	for (unsigned i = 0; i < producers; i++) {
		began = r.began[i] < began ? r.began[i] : began;
		ended = r.ended[i] > ended ? r.ended[i] : ended;
	}
	figures[0] = (double)(ended - began) / (double)m->nr_jobs;
	figures[1] = (double)r.switches * 1000 / (double)m->nr_jobs;
}
