/* SPDX-License-Identifier: MIT */
/* Refused calls on batchers return an errno and log one line; a request cannot be submitted. */
#include <runnel/batch.h>
#include <runnel/more.h>
#include <runnel/replay.h>

#include "batch.h"
#include "classed.h"

#define BYTES 64u

static struct {
	char line[300];
	unsigned nr;
} heard;

static void hear(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	snprintf(heard.line, sizeof(heard.line), "%s", msg);
	heard.nr++;
}

/* Checks that the call returns @error, and logs one line that contains @text. */
#define REFUSED(call, error, text) \
	do { \
		heard.nr = 0; \
		ck_assert_int_eq(call, error); \
		ck_assert_uint_eq(heard.nr, 1); \
		ck_assert_msg(strstr(heard.line, text), "%s", heard.line); \
	} while (0)

static struct rnl_pool *listening_pool(void)
{
	rnl_set_log(hear, NULL);
	return pool_of(1, .log = hear);
}

TEST(a_reserve_that_is_refused_says_why, .timeout_s = 60)
{
	struct rnl_pool *pool = listening_pool();
	struct kind kind = kind_of(0, BYTES, BYTES);
	struct kind sizes = kind_of(RNL_BATCHER_VARIABLE, BYTES, 0);
	struct rnl_batcher *batcher = batcher_of(pool, &kind), *other = batcher_of(pool, &sizes);
	struct rnl_request request, never = { .in = NULL };

	request_of(&request, NULL);
	REFUSED(rnl_batcher_reserve(NULL, &request, BYTES, 0), -EINVAL, "batcher is NULL");
	REFUSED(rnl_batcher_reserve(batcher, NULL, BYTES, 0), -EINVAL, "request is NULL");
	REFUSED(rnl_batcher_reserve(batcher, &never, BYTES, 0), -EINVAL,
		"was not initialised: call rnl_job_init(&request->job, NULL)");
	REFUSED(rnl_batcher_reserve(batcher, &request, 63, 0), -EINVAL,
		"bytes is 63; without RNL_BATCHER_VARIABLE it must be in_bytes, which is 64");
	REFUSED(rnl_batcher_reserve(batcher, &request, 65, RNL_FOREVER), -EINVAL,
		"bytes is 65; without RNL_BATCHER_VARIABLE it must be");
	REFUSED(rnl_batcher_reserve(other, &request, 65, 0), -EINVAL,
		"bytes is 65; it must be 1 to 64");
	REFUSED(rnl_batcher_reserve(other, &request, 0, 0), -EINVAL,
		"bytes is 0; it must be 1 to 64");
	REFUSED(rnl_batcher_reserve(batcher, &request, 0, 0), -EINVAL, "bytes is 0; without");
	reserve(batcher, &request, BYTES);
	REFUSED(rnl_batcher_reserve(batcher, &request, BYTES, 0), -EBUSY,
		"commit or release it first");
	must(rnl_request_commit(&request));
	ck_assert_int_eq(result_of(&request.job), 0);
	REFUSED(rnl_batcher_reserve(batcher, &request, BYTES, 0), -EBUSY, "release it");
	rnl_batcher_destroy(other);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

TEST(other_calls_on_requests_say_why, .timeout_s = 60)
{
	struct rnl_pool *pool = listening_pool(), *pools = pool_of(1);
	struct rnl_batcher_stats stats = { .size = 1 };
	struct kind kind = kind_of(0, BYTES, BYTES);
	struct rnl_batcher *batcher = batcher_of(pool, &kind);
	struct rnl_request request, never = { .in = NULL };
	struct rnl_barrier barrier, own;
	struct gate gate = GATE_INIT;

	kind.gate = &gate;
	request_of(&request, NULL);
	REFUSED(rnl_request_commit(&request), -EINVAL, "rnl_batcher_reserve() first");
	REFUSED(rnl_request_release(&request), -EINVAL, "rnl_batcher_reserve() first");
	REFUSED(rnl_request_commit(&never), -EINVAL, "was not initialised");
	REFUSED(rnl_request_commit(NULL), -EINVAL, "request is NULL");
	REFUSED(rnl_request_release(NULL), -EINVAL, "request is NULL");
	must(rnl_barrier_init(&barrier, pools));
	must(rnl_barrier_init(&own, pool));
	must(rnl_barrier_add(&barrier, &request.job));
	reserve(batcher, &request, BYTES);
	REFUSED(rnl_request_commit(&request), -EINVAL, "is of another pool");
	must(rnl_barrier_add(&own, &request.job));
	must(rnl_request_commit(&request));
	gate_await(&gate, 1);
	REFUSED(rnl_request_commit(&request), -EBUSY, "was committed");
	ck_assert_int_eq(rnl_request_release(&request), -EBUSY);	/* not logged: an answer */
	REFUSED(rnl_batcher_reserve(batcher, &request, BYTES, 0), -EBUSY, "is under way");
	REFUSED(rnl_submit(pool, &request.job), -EBUSY, "is not done");
	gate_open(&gate);
	ck_assert_int_eq(result_of_barrier(&own), 0);
	REFUSED(rnl_request_commit(&request), -EBUSY, "was committed");
	must(rnl_request_release(&request));
	REFUSED(rnl_request_release(&request), -EINVAL, "rnl_batcher_reserve() first");
	REFUSED(rnl_request_commit(&request), -EINVAL, "rnl_batcher_reserve() first");
	REFUSED(rnl_submit(pool, &request.job), -EINVAL, "rnl_request_commit()");
	REFUSED(rnl_batcher_read_stats(NULL, &stats), -EINVAL, "batcher is NULL");
	REFUSED(rnl_batcher_read_stats(batcher, NULL), -EINVAL, "stats is NULL");
	REFUSED(rnl_batcher_read_stats(batcher, &stats), -EINVAL, "the size of stats is 1");
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pools);
	rnl_pool_destroy(pool);
}

/* ---- requests, and calls for jobs --------------------------------------------- */

TEST(a_request_that_is_submitted_is_refused, .timeout_s = 60)
{
	struct rnl_pool *pool = listening_pool();
	struct kind kind = kind_of(0, BYTES, BYTES);
	struct rnl_batcher *batcher = batcher_of(pool, &kind);
	struct rnl_request request;
	struct rnl_barrier barrier;
	struct rnl_job job, *both[2] = { &job, &request.job };

	must(rnl_barrier_init(&barrier, pool));
	request_of(&request, NULL);
	job_of(&job, noop_fn, NULL);
	REFUSED(rnl_submit(pool, &request.job), -EINVAL, "has no function");
	reserve(batcher, &request, BYTES);
	REFUSED(rnl_submit(pool, &request.job), -EINVAL, "rnl_request_commit()");
	REFUSED(submit_by_key(pool, &request.job, 1), -EINVAL, "rnl_request_commit()");
	REFUSED(rnl_submit_wait(pool, &request.job, 0), -EINVAL, "rnl_request_commit()");
	REFUSED(submit_at(pool, &request.job, 0), -EINVAL, "rnl_request_commit()");
	REFUSED(submit_when(pool, &request.job, RNL_EMPTY), -EINVAL,
		"rnl_request_commit()");
	must(rnl_job_set_more(&request.job, NULL));
	REFUSED(rnl_barrier_notify(&barrier, &request.job), -EINVAL,
		"rnl_request_commit()");
	heard.nr = 0;
	ck_assert_int_eq(rnl_submit_many(pool, both, 2), 1);
	ck_assert_int_eq(result_of(&job), 0);
	REFUSED(rnl_job_set_then(&job, &request.job), -EINVAL, "belongs to a batcher's request");
	/* The refused calls did not change the request. */
	request_fill(&request, 1);
	must(rnl_request_commit(&request));
	receive(&request, 1, BYTES);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

TEST(a_commit_refuses_settings_of_submitted_jobs, .timeout_s = 60)
{
	struct rnl_pool *pool = listening_pool();
	struct kind kind = kind_of(0, BYTES, BYTES);
	struct rnl_batcher *batcher = batcher_of(pool, &kind);
	struct rnl_request request;
	struct rnl_class *cls = class_of(pool);
	struct rnl_job *job = &request.job, next;
	struct rnl_job_more more = RNL_JOB_MORE_INIT;
	struct rnl_barrier barrier;

	must(rnl_barrier_init(&barrier, pool));
	request_of(&request, NULL);
	job_of(&next, noop_fn, NULL);
	reserve(batcher, &request, BYTES);
	request_fill(&request, 1);
	must(rnl_job_set_after(job, &barrier));
	REFUSED(rnl_request_commit(&request), -EINVAL, "comes after a barrier");
	must(rnl_job_set_after(job, NULL));
	must(rnl_job_set_more(job, &more));
	REFUSED(rnl_request_commit(&request), -EINVAL, "has more, by rnl_job_set_more()");
	must(rnl_job_set_more(job, NULL));
	must(rnl_job_set_device(job, 0));
	REFUSED(rnl_request_commit(&request), -EINVAL, "is placed, by rnl_job_set_device()");
	must(rnl_job_set_device(job, -1));
	must(rnl_job_set_then(job, &next));
	REFUSED(rnl_request_commit(&request), -EINVAL, "by rnl_job_set_then()");
	must(rnl_job_set_then(job, NULL));
	must(rnl_job_set_deadline(job, MS));
	REFUSED(rnl_request_commit(&request), -EINVAL, "by rnl_job_set_deadline()");
	must(rnl_job_set_deadline(job, -1));
	must(rnl_job_set_flags(job, RNL_GATHER));
	REFUSED(rnl_request_commit(&request), -EINVAL, "by RNL_GATHER");
	must(rnl_job_set_flags(job, 0));
	must(rnl_job_set_flags(job, RNL_REPLAY));
	REFUSED(rnl_request_commit(&request), -EINVAL, "by RNL_REPLAY");
	must(rnl_job_set_flags(job, 0));
	must(rnl_job_set_class(job, cls));
	REFUSED(rnl_request_commit(&request), -EINVAL, "has a class, by rnl_job_set_class() (a batcher "
						       "has one, by cls of its attributes)");
	must(rnl_job_set_class(job, NULL));
	must(rnl_request_commit(&request));
	receive(&request, 1, BYTES);
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}
