/* SPDX-License-Identifier: MIT */
/* While a job is half put because its submitter is off the CPU, the worker must not spin. */
#include <pthread.h>
#include <urcu/wfcqueue.h>

#include "pool.h"
#include "sanitizers.h"

#include "job/job.h"
#include "pool/pool.h"

/* Returns the CPU time of the worker's thread. */
static double cpu_seconds(struct rnl__worker *w)
{
	struct timespec ts;
	clockid_t clock;

	must(pthread_getcpuclockid(w->thread, &clock));
	must(clock_gettime(clock, &ts));
	return (double)ts.tv_sec + (double)ts.tv_nsec * 1e-9;
}

TEST(a_worker_does_not_spin_on_a_job_that_is_half_put)
{
	struct cds_wfcq_node *node, *last;
	struct rnl__worker *w;
	struct rnl_pool *pool;
	struct rnl_job job;
	double start, cpu, took;

	if (SANITIZED)
		test_skip("a_worker_does_not_spin...: a sanitizer does not know what a put's halves order");
	pool = pool_of(1);
	w = rnl__worker_at(pool, 0);
	/* Like rnl_submit(), up to the exchange of the lane's tail. */
	job_of(&job, noop_fn, NULL);
	must(rnl__job_claim(&job));
	ck_assert_int_eq(rnl__queue_reserve(&w->queue, 1), 1);
	job.pool = pool;
	job.generation = pool->generation;
	rnl__job_note_cancels(&job, pool);
	rnl__job_set_after_round(&job, RNL__NO_ROUND);
	rnl__job_accepted(&job, RNL__JOB_QUEUED);
	node = (struct cds_wfcq_node *)&job.link;
	cds_wfcq_node_init(node);
	last = __atomic_exchange_n(&w->queue.open.tail.p, node, __ATOMIC_SEQ_CST);
	(void)rnl__park_wake(&w->park);

	cpu = cpu_seconds(w);
	start = seconds_now();
	while ((took = seconds_now() - start) < 0.5)
		usleep(10000);
	cpu = cpu_seconds(w) - cpu;
	ck_assert_msg(cpu < took / 10, "%g s of %g s on the CPU", cpu, took);

	__atomic_store_n(&last->next, node, __ATOMIC_RELEASE);
	ck_assert_int_eq(result_of(&job), 0);
	rnl_pool_destroy(pool);
}
