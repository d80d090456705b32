/* SPDX-License-Identifier: MIT */
/*
 * OpenMP's tasks: one team of producers and workers.
 *
 * DESIGN
 *	Tasks belong to a parallel region. The first threads of the region are producers; the others
 *	go to the barrier at its end, where threads run tasks. A producer waits with taskwait, in
 *	which it also runs its own tasks. The compiler's runtime allocates each task; if very many
 *	tasks wait, it may run a task immediately in the producer.
 */
#include <omp.h>
#include <stdlib.h>

#include "peers/peer.h"

struct openmp_job {
	struct peer_job job;
} PEER_ALIGN;

struct openmp_pool {
	unsigned workers;
};

static void *openmp_open(const struct peer_setup *setup)
{
	struct openmp_pool *pool = bench_alloc(sizeof(*pool));

	pool->workers = setup->workers;
	omp_set_dynamic(0);
	return pool;
}

static void openmp_produce(void *arg, unsigned nr, peer_body *body, void *body_arg)
{
	struct openmp_pool *pool = arg;

#pragma omp parallel num_threads(nr + pool->workers)
	{
		const unsigned i = (unsigned)omp_get_thread_num();

		bench_must((unsigned)omp_get_num_threads() == nr + pool->workers, "omp parallel");
		if (i < nr)
			body(body_arg, i);
	}
}

static void openmp_submit(void *arg, unsigned producer, void *jobs, size_t nr)
{
	struct openmp_job *job = jobs;

	(void)arg;
	(void)producer;
	for (size_t i = 0; i < nr; i++) {
		struct openmp_job *one = &job[i];

#pragma omp task firstprivate(one)
		peer_run(&one->job);
	}
}

static void openmp_wait(void *arg, unsigned producer, void *jobs, size_t nr)
{
	(void)arg;
	(void)producer;
	(void)jobs;
	(void)nr;
#pragma omp taskwait
}

static void openmp_close(void *arg)
{
	free(arg);
}

const struct bench_peer peer_openmp = {
	.job_bytes = sizeof(struct openmp_job),
	.open = openmp_open,
	.produce = openmp_produce,
	.submit = openmp_submit,
	.wait = openmp_wait,
	.close = openmp_close,
};
