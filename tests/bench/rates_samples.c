/* SPDX-License-Identifier: MIT */
/*
 * One producer, many samples: latencies, bursts, forks and joins.
 *
 * DESIGN
 *	Latency is that of one job at a time.  To its start: the submitter looks
 *	at the job's word until the function has written the time there, so it
 *	cannot run the job itself.  To the wait's return: it waits at once, as
 *	programs do; where a wait runs jobs, that is no hand-off.
 *	A pause before a sample lets the pool fall asleep, if it does so within
 *	a millisecond.  Bursts have one; forks and joins follow each other.
 */
#include "rates_measure.h"

#include <stdlib.h>

struct series {
	struct measuring *m;
	uint64_t *ns;			/* of each sample */
};

static uint64_t sample(const struct measuring *m)
{
	const struct timespec pause = { .tv_nsec = RATES_PAUSE_NS };
	struct rates_job *first = job_at(m, m->jobs, 0);
	uint64_t started, start;

	if (m->cell->paused)
		nanosleep(&pause, NULL);
	first->started = 0;
	start = bench_now();
	submit(m, 0, m->jobs, m->nr_jobs);
	if (m->cell->measure != RATES_HANDOFF) {
		await(m, 0, m->jobs, m->nr_jobs);
		return bench_now() - start;
	}
	/* acquire: the job is ours again, even if nobody can wait for it */
	while (!(started = __atomic_load_n(&first->started, __ATOMIC_ACQUIRE)))
		bench_relax();
	await(m, 0, m->jobs, m->nr_jobs);
	return started - start;
}

static void run(void *arg, unsigned producer)
{
	struct series *s = arg;
	struct measuring *m = s->m;
	const size_t nr = m->cell->nr, first = nr / 10 + 4;

	warm_up(m, producer);
	for (size_t i = 0; i < first; i++)
		(void)sample(m);
	for (size_t i = 0; i < nr; i++)
		s->ns[i] = sample(m);
	check_runs(m, m->jobs, m->nr_jobs, first + nr);
}

static int by_value(const void *a, const void *b)
{
	const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

static enum rates_kind kind_of(const struct rates_cell *cell)
{
	if (cell->measure == RATES_HANDOFF)
		return RATES_STAMP;
	return cell->measure == RATES_BURST ? RATES_WORK : RATES_EMPTY;
}

void samples(struct measuring *m, double *figures)
{
	const double ideal = (double)RATES_BURST_JOBS * RATES_WORK_NS / m->cell->config.workers;
	const size_t nr = m->cell->nr;
	struct series s = { .m = m, .ns = bench_alloc(nr * sizeof(*s.ns)) };
	double sum = 0;

	make_jobs(m, 0, m->jobs, m->nr_jobs, kind_of(m->cell));
	produce(m, run, &s);
	for (size_t i = 0; i < nr; i++)
		sum += (double)s.ns[i];
	qsort(s.ns, nr, sizeof(*s.ns), by_value);
	figures[0] = (double)s.ns[nr / 2];
	figures[1] = (double)s.ns[nr * 99 / 100];
	if (m->cell->measure == RATES_BURST) {
		figures[1] = figures[0] / ideal;
	} else if (m->cell->measure == RATES_FORK_JOIN) {
		figures[0] = sum / (double)nr;
		figures[1] = figures[0] / (double)m->nr_jobs;
	}
	free(s.ns);
}

uint64_t rates_calibrate(void)
{
	const uint64_t rounds = 100000;
	uint64_t best = UINT64_MAX;

	/* The fastest of many: what the others lost was somebody else's. */
	for (int i = 0; i < 50; i++) {
		uint64_t start = bench_now(), ns;

		rates_work(rounds);
		ns = bench_now() - start;
		best = ns < best ? ns : best;
	}
	return rounds * RATES_WORK_NS / best;
}
