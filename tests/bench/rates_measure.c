/* SPDX-License-Identifier: MIT */
/*
 * A measurement from its beginning to its end: jobs, pool, producers, and the
 * check that each job ran exactly as often as it was submitted.
 */
#include "rates_measure.h"

#include <pthread.h>
#include <stdlib.h>

#define WARM_UPS 4
#define WARM_UP_JOBS 256

struct producer {
	pthread_t thread;
	unsigned index;
	rates_body *body;
	void *arg;
};

static void *run_body(void *arg)
{
	struct producer *p = arg;

	p->body(p->arg, p->index);
	return NULL;
}

void rates_produce(unsigned nr, rates_body *body, void *arg)
{
	struct producer producers[RATES_THREADS_MAX];

	for (unsigned i = 0; i < nr; i++) {
		producers[i] = (struct producer){ .index = i, .body = body, .arg = arg };
		bench_must(!pthread_create(&producers[i].thread, NULL, run_body, &producers[i]),
			   "pthread_create");
	}
	for (unsigned i = 0; i < nr; i++)
		pthread_join(producers[i].thread, NULL);
}

void produce(struct measuring *m, rates_body *body, void *arg)
{
	const unsigned nr = m->cell->config.producers;

	if (m->peer->produce)
		m->peer->produce(m->pool, nr, body, arg);
	else
		rates_produce(nr, body, arg);
}

struct rates_job *job_at(const struct measuring *m, char *jobs, size_t i)
{
	return (struct rates_job *)(void *)(jobs + i * m->peer->job_bytes);
}

void make_jobs(const struct measuring *m, unsigned producer, char *jobs, size_t nr,
	       enum rates_kind kind)
{
	for (size_t i = 0; i < nr; i++)
		job_at(m, jobs, i)->kind = kind;
	if (m->peer->prepare)
		m->peer->prepare(m->pool, producer, jobs, nr);
}

void check_runs(const struct measuring *m, char *jobs, size_t nr, uint64_t wanted)
{
	for (size_t i = 0; i < nr; i++) {
		const struct rates_job *job = job_at(m, jobs, i);

		if (job->runs == wanted)
			continue;
		fprintf(stderr, "rates: %s: job %zu of %zu ran %u times instead of %llu\n",
			m->peer->name, i, nr, job->runs, (unsigned long long)wanted);
		_Exit(EXIT_FAILURE);
	}
}

/* Some peers start their threads when there is something to do. */
void warm_up(const struct measuring *m, unsigned producer)
{
	char *jobs = m->warm + producer * WARM_UP_JOBS * m->peer->job_bytes;

	if (!m->peer->wait)
		return;
	make_jobs(m, producer, jobs, WARM_UP_JOBS, RATES_EMPTY);
	for (int i = 0; i < WARM_UPS; i++) {
		submit(m, producer, jobs, WARM_UP_JOBS);
		await(m, producer, jobs, WARM_UP_JOBS);
	}
	check_runs(m, jobs, WARM_UP_JOBS, WARM_UPS);
}

static size_t jobs_of(const struct rates_cell *cell)
{
	switch (cell->measure) {
	case RATES_THROUGHPUT:
		return cell->nr;
	case RATES_BURST:
		return RATES_BURST_JOBS;
	case RATES_FORK_JOIN:
		return RATES_FORK_JOBS;
	default:
		return 1;
	}
}

void rates_measure(const struct rates_peer *peer, const struct rates_cell *cell,
		   enum rates_wrong wrong, double *figures)
{
	struct measuring m = {
		.peer = peer, .cell = cell, .wrong = wrong, .nr_jobs = jobs_of(cell)
	};
	struct rates_setup setup = { cell->config.workers, cell->config.producers, m.nr_jobs };

	for (int i = 0; i < RATES_FIGURES; i++)
		figures[i] = RATES_NONE;
	if (!peer->wait && cell->measure != RATES_THROUGHPUT && cell->measure != RATES_HANDOFF)
		return;
	m.jobs = bench_alloc(m.nr_jobs * peer->job_bytes);
	m.warm = bench_alloc(cell->config.producers * WARM_UP_JOBS * peer->job_bytes);
	m.pool = peer->open(&setup);
	if (cell->measure == RATES_THROUGHPUT)
		throughput(&m, figures);
	else
		samples(&m, figures);
	if (m.pool)
		peer->close(m.pool);
	free(m.warm);
	free(m.jobs);
}
