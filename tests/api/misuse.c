/* SPDX-License-Identifier: MIT */
/* Misuse gets an errno, never a crash: NULL, objects never initialised, the wrong place or time. */
#include <limits.h>

#include <runnel/device.h>
#include <runnel/hold.h>
#include <runnel/memory.h>
#include <runnel/stats.h>
#include <runnel/thread.h>

#include "pool.h"
#include "sanitizers.h"

SANITIZER_OPTIONS("allocator_may_return_null=1");

/* ---- NULL and zeroed objects --------------------------------------------- */

/* api/refused has the calls that refuse NULL. */
TEST(null_is_no_object_and_no_memory)
{
	struct rnl_pool *pool = pool_of(1);

	rnl_pool_destroy(NULL);
	rnl_cq_destroy(NULL);
	ck_assert_int_eq(rnl_device_describe(NULL, "host", 0, NULL), -EINVAL);
	ck_assert_int_eq(rnl_job_set_after(NULL, NULL), -EINVAL);
	rnl_memory_put(NULL, NULL);
	rnl_memory_put(pool, NULL);
	rnl_pool_destroy(pool);
}

/* Bytes left on a stack or heap must not pass for a parent process's object or a submitted job. */
TEST(memory_that_was_never_initialised_is_refused)
{
	static const unsigned char fills[] = { 0, 0x0f, 0x55, 0x80, 0xaa };
	struct rnl_pool *pool = pool_of(1);
	struct rnl_barrier raw_barrier, barrier;
	struct rnl_job raw, job;
	struct rnl_hold hold;

	must(rnl_barrier_init(&barrier, pool));
	job_of(&job, noop_fn, NULL);
	for (size_t i = 0; i < sizeof(fills); i++) {
		memset(&raw, fills[i], sizeof(raw));
		memset(&raw_barrier, fills[i], sizeof(raw_barrier));
		memset(&hold, fills[i], sizeof(hold));
		ck_assert_int_eq(rnl_submit(pool, &raw), -EINVAL);
		ck_assert_int_eq(submit_by_key(pool, &raw, 0), -EINVAL);
		ck_assert_int_eq(rnl_job_wait(&raw, RNL_FOREVER), -EINVAL);
		ck_assert_int_eq(rnl_job_wait(&raw, 0), -EINVAL);
		ck_assert_int_eq(rnl_job_set_cq(&raw, NULL), -EINVAL);
		ck_assert_int_eq(rnl_job_set_on_done(&raw, NULL), -EINVAL);
		ck_assert_int_eq(rnl_job_set_deadline(&raw, RNL_FOREVER), -EINVAL);
		ck_assert_int_eq(rnl_job_set_flags(&raw, 0), -EINVAL);
		ck_assert_int_eq(rnl_job_set_after(&raw, &barrier), -EINVAL);
		ck_assert_int_eq(rnl_job_set_after(&raw, NULL), -EINVAL);
		ck_assert_int_eq(rnl_barrier_add(&barrier, &raw), -EINVAL);
		ck_assert_int_eq(rnl_barrier_add(&raw_barrier, &job), -EINVAL);
		ck_assert_int_eq(rnl_job_set_after(&job, &raw_barrier), -EINVAL);
		ck_assert_int_eq(rnl_barrier_wait(&raw_barrier, RNL_FOREVER), -EINVAL);
		ck_assert_int_eq(rnl_barrier_join(&raw_barrier), -EINVAL);
		ck_assert_int_eq(rnl_hold_release(&hold, 0), -EINVAL);
	}
	/* The refused calls left the job as it was. */
	ck_assert_int_eq(submit_and_wait(pool, &job), 0);
	rnl_pool_destroy(pool);
}

/* ---- jobs and barriers that do not go together --------------------------- */

TEST(a_barrier_is_of_one_pool)
{
	struct rnl_pool *pool = pool_of(1), *other = pool_of(1);
	struct rnl_barrier barrier;
	struct rnl_job job;

	must(rnl_barrier_init(&barrier, other));
	job_in(&barrier, &job, noop_fn, NULL);
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	ck_assert_int_eq(submit_by_key(pool, &job, 1), -EINVAL);
	must(rnl_barrier_wait(&barrier, 0));
	ck_assert_int_eq(submit_and_wait(other, &job), 0);

	job_of(&job, noop_fn, NULL);
	must(rnl_job_set_after(&job, &barrier));
	ck_assert_int_eq(rnl_submit(pool, &job), -EINVAL);
	ck_assert_int_eq(submit_by_key(pool, &job, 1), -EINVAL);
	ck_assert_int_eq(submit_and_wait(other, &job), 0);
	rnl_pool_destroy(other);
	rnl_pool_destroy(pool);
}

TEST(a_job_does_not_come_after_the_barrier_that_counts_it)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_barrier barrier, other;
	struct rnl_job job;

	must(rnl_barrier_init(&barrier, pool));
	must(rnl_barrier_init(&other, pool));
	job_in(&barrier, &job, noop_fn, NULL);
	ck_assert_int_eq(rnl_job_set_after(&job, &barrier), -EINVAL);
	must(rnl_job_set_after(&job, &other));
	ck_assert_int_eq(rnl_barrier_add(&other, &job), -EINVAL);
	/* The refused calls changed nothing. */
	must(rnl_submit(pool, &job));
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	ck_assert_int_eq(job.result, 0);
	rnl_pool_destroy(pool);
}

TEST(a_job_under_way_is_not_changed)
{
	struct rnl_pool *pool = pool_of(2);
	struct rnl_barrier barrier, other;
	struct gate gate = GATE_INIT;
	struct rnl_job held, queued;

	must(rnl_barrier_init(&barrier, pool));
	must(rnl_barrier_init(&other, pool));
	submit_in(pool, &barrier, &held, gated_fn, &gate);
	job_of(&queued, noop_fn, NULL);
	must(rnl_job_set_after(&queued, &barrier));
	must(rnl_submit(pool, &queued));
	gate_await(&gate, 1);

	ck_assert_int_eq(rnl_barrier_add(&other, &held), -EBUSY);
	ck_assert_int_eq(rnl_job_set_after(&held, &other), -EBUSY);
	ck_assert_int_eq(rnl_job_set_after(&held, NULL), -EBUSY);
	ck_assert_int_eq(rnl_barrier_add(&other, &queued), -EBUSY);
	ck_assert_int_eq(rnl_job_set_after(&queued, &other), -EBUSY);
	ck_assert_int_eq(rnl_job_set_after(&queued, NULL), -EBUSY);
	ck_assert_int_eq(rnl_submit(pool, &queued), -EBUSY);
	must(rnl_barrier_wait(&other, 0));
	ck_assert_int_eq(rnl_job_wait(&queued, MS), -ETIMEDOUT);

	gate_open(&gate);
	ck_assert_int_eq(result_of(&queued), 0);
	must(rnl_barrier_wait(&barrier, RNL_FOREVER));
	must(rnl_barrier_add(&other, &held));
	must(rnl_job_set_after(&queued, NULL));
	rnl_pool_destroy(pool);
}

/* ---- waits on a worker --------------------------------------------------- */

struct nosy {
	struct rnl_job job;
	struct rnl_pool *pool;		/* its own */
	struct rnl_job *running, *done;
	struct rnl_barrier *unissued, *idle;
	int line;			/* the line that failed */
};

#define OR_LINE(n, condition) \
	do { \
		if (!(condition)) { \
			(n)->line = __LINE__; \
			return -EPROTO; \
		} \
	} while (0)

static int nosy_fn(struct rnl_job *job)
{
	struct nosy *n = rnl_container_of(job, struct nosy, job);

	for (int64_t timeout = RNL_FOREVER; timeout <= MS; timeout += MS + 1) {
		OR_LINE(n, rnl_job_wait(n->running, timeout) == -EBUSY);
		OR_LINE(n, rnl_job_wait(job, timeout) == -EBUSY);
		OR_LINE(n, rnl_job_wait(n->done, timeout) == 0);
		OR_LINE(n, rnl_barrier_wait(n->unissued, timeout) == -EBUSY);
		OR_LINE(n, rnl_barrier_wait(n->idle, timeout) == 0);
		OR_LINE(n, rnl_pool_drain(n->pool, timeout) == -EBUSY);
		OR_LINE(n, rnl_stream_wait(timeout) == -EBUSY);
	}
	OR_LINE(n, rnl_barrier_join(n->unissued) == -EBUSY);
	OR_LINE(n, rnl_barrier_join(n->idle) == 0);
	OR_LINE(n, rnl_job_wait(job, 0) != 0);
	OR_LINE(n, rnl_job_wait(n->running, 0) != 0);
	OR_LINE(n, !rnl_job_wait(n->done, 0));
	OR_LINE(n, rnl_submit(n->pool, job) == -EBUSY);
	return 0;
}

static int foreign_wait_fn(struct rnl_job *job)
{
	struct nosy *n = rnl_container_of(job, struct nosy, job);

	OR_LINE(n, rnl_job_wait(n->running, MS) == -ETIMEDOUT);
	OR_LINE(n, rnl_barrier_wait(n->unissued, MS) == -ETIMEDOUT);
	OR_LINE(n, rnl_pool_drain(n->pool, MS) == -ETIMEDOUT);
	return 0;
}

TEST(a_worker_does_not_wait_for_its_own_pool)
{
	struct rnl_pool *pool = pool_of(2), *other = pool_of(1);
	struct rnl_barrier unissued, idle;
	struct gate gate = GATE_INIT;
	struct rnl_job running, done;
	struct nosy nosy = { .pool = pool, .running = &running, .done = &done,
			     .unissued = &unissued, .idle = &idle };

	must(rnl_barrier_init(&unissued, pool));
	must(rnl_barrier_init(&idle, pool));
	submit_job(pool, &done, noop_fn, NULL);
	ck_assert_int_eq(result_of(&done), 0);
	submit_in(pool, &unissued, &running, gated_fn, &gate);
	gate_await(&gate, 1);

	submit_job(pool, &nosy.job, nosy_fn, NULL);
	ck_assert_msg(!result_of(&nosy.job), "line %d", nosy.line);
	/* A worker of another pool may wait, because it holds up no worker of this one. */
	submit_job(other, &nosy.job, foreign_wait_fn, NULL);
	ck_assert_msg(!result_of(&nosy.job), "line %d", nosy.line);
	gate_open(&gate);
	rnl_pool_destroy(other);
	rnl_pool_destroy(pool);
}

/* ---- structs of another size --------------------------------------------- */

union sized {
	uint32_t size;
	struct rnl_device_info info;
	struct rnl_pool_stats stats;
	unsigned char bytes[1024];
};

static int ask(struct rnl_pool *pool, int which, union sized *out)
{
	switch (which) {
	case 0:
		return rnl_device_describe(NULL, test_device(), 0, &out->info);
	case 1:
		return rnl_device_describe(pool, NULL, 0, &out->info);
	default:
		return rnl_pool_read_stats(pool, RNL_ALL_WORKERS, &out->stats);
	}
}

TEST(structs_are_filled_in_as_far_as_both_sides_know_them)
{
	static const uint32_t known[] = { sizeof(struct rnl_device_info),
					  sizeof(struct rnl_device_info),
					  sizeof(struct rnl_pool_stats) };
	struct rnl_pool *pool = pool_of(1);
	union sized exact, other;

	for (int which = 0; which < 3; which++) {
		uint32_t size = known[which];

		memset(&exact, 0xee, sizeof(exact));
		exact.size = size;
		ck_assert_int_eq(ask(pool, which, &exact), 0);
		ck_assert_uint_eq(exact.size, size);
		ck_assert_bytes(exact.bytes + size, sizeof(exact) - size, 0xee);

		/* Fields of a newer program become 0; memory after them is not touched. */
		memset(&other, 0xee, sizeof(other));
		other.size = size + 24;
		ck_assert_int_eq(ask(pool, which, &other), 0);
		ck_assert_uint_eq(other.size, size + 24);
		ck_assert_bytes(other.bytes + size, 24, 0);
		ck_assert_bytes(other.bytes + size + 24, sizeof(other) - size - 24, 0xee);

		for (uint32_t shorter = 0; shorter < size; shorter++) {
			memset(&other, 0xee, sizeof(other));
			other.size = shorter;
			ck_assert_int_eq(ask(pool, which, &other), -EINVAL);
			ck_assert_bytes(other.bytes + 4, sizeof(other) - 4, 0xee);
		}
	}
	rnl_pool_destroy(pool);
}

TEST(a_size_that_was_never_set_is_refused)
{
	struct rnl_pool *pool = pool_of(1), *other = NULL;
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	union sized out;

	for (int which = 0; which < 3; which++) {
		memset(&out, 0xee, sizeof(out));	/* a size of 4,008,636,142 bytes */
		ck_assert_int_eq(ask(pool, which, &out), -EINVAL);
		ck_assert_bytes(out.bytes, sizeof(out), 0xee);
	}
	attr.size = UINT32_MAX;
	ck_assert_int_lt(rnl_pool_create(&other, &attr), 0);
	rnl_pool_destroy(pool);
}

/* ---- codes --------------------------------------------------------------- */

TEST(every_code_has_words_of_its_own)
{
	static const int codes[] = { 0, EINVAL, ENOMEM, EAGAIN, EBUSY, EALREADY, ESHUTDOWN,
				     ECANCELED, ETIMEDOUT, ENODEV, ENOTSUP, EIO, E2BIG, ESTALE,
				     EOWNERDEAD };
	const char *other = rnl_strerror(EPROTO);

	ck_assert_ptr_nonnull(other);
	for (unsigned i = 0; i < COUNT(codes); i++) {
		const char *text = rnl_strerror(-codes[i]);

		ck_assert_ptr_nonnull(text);
		ck_assert_uint_gt(strlen(text), 0);
		ck_assert_str_eq(text, rnl_strerror(codes[i]));
		ck_assert_str_ne(text, other);
		for (unsigned k = 0; k < i; k++)
			ck_assert_str_ne(text, rnl_strerror(codes[k]));
	}
	ck_assert_str_eq(other, strerror(EPROTO));
	ck_assert_str_eq(rnl_strerror(INT_MIN), rnl_strerror(INT_MAX));
	ck_assert_str_ne(rnl_strerror(INT_MAX), other);
	ck_assert_uint_eq(rnl_version(), RNL_VERSION_MAJOR << 16 | RNL_VERSION_MINOR << 8 |
					 RNL_VERSION_PATCH);
}
