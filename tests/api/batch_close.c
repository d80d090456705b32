/* SPDX-License-Identifier: MIT */
/* Batchers and pools that end with requests under way: committed requests complete. */
#include <runnel/batch.h>

#include "batch.h"

TEST(destroy_waits_for_what_is_committed)
{
	struct rnl_job job;
	struct gate gate = GATE_INIT;
	struct all all;

	all_begin(&all, 1, 0);
	for (unsigned i = 0; i < NR_ALL; i++)
		must(rnl_job_set_on_done(&all.requests[i].job, all_on_done));
	hold_workers(all.pool, &gate, &job, 1);
	send_all(&all);
	gate_open(&gate);
	rnl_batcher_destroy(all.batcher);
	ck_assert_uint_eq(all.nr_called, NR_ALL);
	ck_assert_uint_eq(all.nr_wrong, 0);
	ck_assert_uint_eq(figures_of(all.pool).pinned_used, 0);
	rnl_pool_destroy(all.pool);
}

TEST(destroy_does_not_wait_for_what_is_not)
{
	struct all all;

	all_begin(&all, 2, 0);
	for (unsigned i = 0; i < NR_ALL; i++)
		reserve(all.batcher, &all.requests[i], ALL_BYTES);
	must(rnl_request_commit(&all.requests[NR_ALL / 2]));
	all_end(&all);
	/* A request that was only reserved can be initialised again. */
	request_of(&all.requests[0], NULL);
}

TEST(a_drain_waits_for_what_is_committed)
{
	struct gate gate = GATE_INIT;
	struct call call;
	struct all all;

	all_begin(&all, 1, 0);
	all.kind.gate = &gate;
	all.kind.attr.max_in_flight = 1;
	rnl_batcher_destroy(all.batcher);
	all.batcher = batcher_of(all.pool, &all.kind);
	send_all(&all);
	ck_assert_int_eq(rnl_pool_drain(all.pool, MS), -ETIMEDOUT);
	call_start(&call, drain_fn, all.pool);
	ck_waits(call.tid);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	for (unsigned i = 0; i < NR_ALL; i++)
		ck_assert_int_eq(rnl_job_wait(&all.requests[i].job, 0), 0);
	receive_all(&all);
	all_end(&all);
}

TEST(a_pool_that_is_closed_finishes_what_is_committed)
{
	struct gate gate = GATE_INIT;
	struct rnl_batcher *batcher;
	struct rnl_job job;
	struct all all;

	all_begin(&all, 1, 0);
	hold_workers(all.pool, &gate, &job, 1);
	for (unsigned i = 1; i < NR_ALL; i++)
		send(all.batcher, &all.requests[i], ALL_BYTES, i);
	reserve(all.batcher, &all.requests[0], ALL_BYTES);
	must(rnl_pool_close(all.pool));
	ck_assert_int_eq(rnl_request_commit(&all.requests[0]), -ESHUTDOWN);
	must(rnl_request_release(&all.requests[0]));
	ck_assert_int_eq(rnl_batcher_reserve(all.batcher, &all.requests[0], ALL_BYTES, RNL_FOREVER),
			 -ESHUTDOWN);
	ck_assert_int_eq(rnl_batcher_create(&batcher, all.pool, &all.kind.attr), -ESHUTDOWN);
	gate_open(&gate);
	must(rnl_pool_drain(all.pool, RNL_FOREVER));
	for (unsigned i = 1; i < NR_ALL; i++)
		receive(&all.requests[i], i, ALL_BYTES);
	all_end(&all);
}

/* Destroys a batcher on a worker, and checks the results of other calls there. */
static void destroy_on_done(struct rnl_job *job)
{
	struct rnl_request *request = rnl_container_of(job, struct rnl_request, job);
	struct all *all = job->user;
	struct rnl_request another;

	rnl_batcher_destroy(all->batcher);
	all->nr_wrong += rnl_request_release(request) != 0;
	all->nr_wrong += rnl_job_init(&another.job, NULL) != 0;
	all->nr_wrong += rnl_batcher_reserve(all->batcher, &another, ALL_BYTES, RNL_FOREVER) !=
			 -ESHUTDOWN;
	all->nr_called++;
}

TEST(on_a_worker_destroy_only_closes)
{
	struct all all;

	all_begin(&all, 1, 0);
	must(rnl_job_set_on_done(&all.requests[0].job, destroy_on_done));
	reserve(all.batcher, &all.requests[1], ALL_BYTES);
	send(all.batcher, &all.requests[0], ALL_BYTES, 0);
	ck_eventually(all.nr_called == 1);
	ck_assert_uint_eq(all.nr_wrong, 0);
	ck_assert_int_eq(rnl_request_commit(&all.requests[1]), -ESHUTDOWN);
	all_end(&all);
}

static _Atomic int ret_on_worker;

static int reserve_all_fn(struct rnl_job *job)
{
	static struct rnl_request requests[NR_ALL + 1];
	struct all *all = job->user;

	for (unsigned i = 0; i <= NR_ALL; i++) {
		(void)rnl_job_init(&requests[i].job, NULL);
		ret_on_worker = rnl_batcher_reserve(all->batcher, &requests[i], ALL_BYTES,
						    RNL_FOREVER);
	}
	return 0;
}

TEST(on_a_worker_nobody_waits_for_room)
{
	struct rnl_job job;
	struct all all;

	all_begin(&all, 1, 0);
	rnl_batcher_destroy(all.batcher);
	all.kind.attr.slab_bytes = NR_ALL * ALL_BYTES;
	all.kind.attr.nr_slabs = all.kind.attr.max_slabs = 1;
	all.batcher = batcher_of(all.pool, &all.kind);
	submit_job(all.pool, &job, reserve_all_fn, &all);
	ck_assert_int_eq(result_of(&job), 0);
	ck_assert_int_eq(ret_on_worker, -EAGAIN);
	all_end(&all);
}

TEST(a_forked_child_is_told_that_they_are_the_parents)
{
	struct rnl_batcher_stats stats = RNL_BATCHER_STATS_INIT;
	struct rnl_request another;
	int status = -1;
	struct all all;
	pid_t pid;

	if (!on_host())
		test_skip("a_forked_child...: CUDA does not survive a fork");
	all_begin(&all, 1, 0);
	reserve(all.batcher, &all.requests[0], ALL_BYTES);
	send(all.batcher, &all.requests[1], ALL_BYTES, 1);
	ck_assert_int_eq(result_of(&all.requests[1].job), 0);
	request_of(&another, NULL);
	fflush(NULL);
	pid = fork();
	if (!pid) {
		if (rnl_batcher_reserve(all.batcher, &another, ALL_BYTES, 0) != -EOWNERDEAD ||
		    rnl_request_commit(&all.requests[0]) != -EOWNERDEAD ||
		    rnl_request_release(&all.requests[0]) != -EOWNERDEAD ||
		    rnl_request_release(&all.requests[1]) != -EOWNERDEAD ||
		    rnl_batcher_read_stats(all.batcher, &stats) != -EOWNERDEAD)
			_exit(1);
		rnl_batcher_destroy(all.batcher);
		_exit(0);
	}
	ck_assert_int_gt(pid, 0);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	ck_assert_int_eq(WEXITSTATUS(status), 0);
	receive(&all.requests[1], 1, ALL_BYTES);
	all_end(&all);
}
