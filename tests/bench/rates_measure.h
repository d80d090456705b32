/* SPDX-License-Identifier: MIT */
/* A measurement under way, in its own process. */
#ifndef RATES_MEASURE_H
#define RATES_MEASURE_H

#include "rates.h"

struct measuring {
	const struct rates_peer *peer;
	const struct rates_cell *cell;
	enum rates_wrong wrong;
	void *pool;			/* NULL: closed already */
	char *jobs;			/* structs of the peer, which begin with a rates_job */
	size_t nr_jobs;
	char *warm;			/* others, for each producer to begin with */
};

static inline void submit(const struct measuring *m, unsigned producer, char *jobs, size_t nr)
{
	m->peer->submit(m->pool, producer, jobs, nr);
}

static inline void await(const struct measuring *m, unsigned producer, char *jobs, size_t nr)
{
	if (m->peer->wait)
		m->peer->wait(m->pool, producer, jobs, nr);
}

struct rates_job *job_at(const struct measuring *m, char *jobs, size_t i);

/* Makes the producer's jobs of zeroed memory. */
void make_jobs(const struct measuring *m, unsigned producer, char *jobs, size_t nr,
	       enum rates_kind kind);

/* Ends the process if one ran more or less often than that. */
void check_runs(const struct measuring *m, char *jobs, size_t nr, uint64_t wanted);

/* Runs the producers, each with a warm pool. */
void produce(struct measuring *m, rates_body *body, void *arg);
void warm_up(const struct measuring *m, unsigned producer);

/* Of RATES_THROUGHPUT; of all others. */
void throughput(struct measuring *m, double *figures);
void samples(struct measuring *m, double *figures);

#endif
