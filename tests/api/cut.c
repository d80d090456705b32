/* SPDX-License-Identifier: MIT */
/* Large copies of lower classes are made in pieces, and waited for: their contents, and who waits. */
#include <runnel/memory.h>
#include <runnel/replay.h>

#include "classed.h"
#include "copies.h"
#include "host_kernel.h"

#define PIECE (8 * MB)
#define LARGE (PIECE + MB + 321)

static struct rnl_class *class_of_priority(struct rnl_pool *pool, int priority)
{
	return class_of(pool, .priority = priority);
}

/* ---- contents --------------------------------------------------------------- */

static const uint32_t flags[] = { 0, RNL_GATHER, RNL_REPLAY, RNL_REPLAY_CAPTURE };

static void run_classed(struct bench *b, struct rnl_class *cls, uint32_t flag, const struct move *moves,
			unsigned nr)
{
	struct moving m;

	moving_of(&m, b, moves, nr);
	m.busy = false;
	must(rnl_job_set_class(&m.job, cls));
	must(rnl_job_set_flags(&m.job, flag));
	ck_assert_int_eq(submit_and_wait(b->pool, &m.job), 0);
}

TEST(what_is_copied_in_pieces_is_the_same, .timeout_s = 60, .loops = COUNT(flags))
{
	static const size_t sizes[] = { PIECE, PIECE + 1, LARGE };
	struct rnl_pool *pool = pool_of(2);
	struct rnl_class *low = class_of_priority(pool, 3);
	struct bench b;

	bench_init(&b, pool, LARGE + 100);
	/* A replayed job always has the same work. */
	for (unsigned i = flags[_i] >= RNL_REPLAY ? COUNT(sizes) - 1 : 0; i < COUNT(sizes); i++) {
		const struct move moves[] = {
			{ D0, Q0, sizes[i], 3, 5, 0, 0, 0 }, { D1, D0, sizes[i], 7, 3, 0, 0, 0 },
			{ Q1, D1, sizes[i], 1, 7, 0, 0, 0 }, { D0, P0, sizes[i], 2, 9, 0, 0, 0 },
			{ P1, D0, sizes[i], 0, 2, 0, 0, 0 },
		};

		/* Of equal runs the third may be replayed. */
		for (unsigned n = 0; n < (flags[_i] ? 4 : 1); n++)
			run_classed(&b, low, flags[_i], moves, flags[_i] ? 3 : COUNT(moves));
	}
	bench_check(&b);
	bench_fini(&b);
	rnl_pool_destroy(pool);
}

TEST(rows_are_copied_in_pieces, .timeout_s = 60)
{
	static const struct move moves[] = {
		{ D0, Q0, 1000, 3, 5, 9000, 1100, 1024 }, { Q1, D0, 1000, 1, 3, 9000, 1003, 1100 },
		{ D1, Q0, 3 * MB + 5, 0, 9, 3, 3 * MB + 8, 3 * MB + 5 },
	};
	struct rnl_pool *pool = pool_of(2);
	struct bench b;

	bench_init(&b, pool, 10 * MB);
	run_classed(&b, class_of_priority(pool, 3), 0, moves, COUNT(moves));
	bench_check(&b);
	bench_fini(&b);
	rnl_pool_destroy(pool);
}

/* ---- who waits ---------------------------------------------------------------- */

/* A job that copies a large or a small area to the device, and perhaps to another place of the host. */
struct copying {
	struct rnl_job job;
	unsigned char *host, *device, *back;	/* back: NULL: it does not */
	size_t bytes;
	struct gate *kernel;		/* of a kernel before the copy; NULL: none */
	_Atomic pid_t tid;
	_Atomic bool returned;
	bool right;			/* when rnl_copy() returned */
};

static int copying_fn(struct rnl_job *job)
{
	struct copying *c = rnl_container_of(job, struct copying, job);
	int ret = c->kernel ? launch_store(c->kernel, NULL, 0) : 0;

	c->tid = own_tid();
	if (!ret)
		ret = rnl_copy(c->device, c->host, c->bytes);
	if (!ret && c->back)
		ret = rnl_copy(c->back, c->device, c->bytes);
	c->right = !ret && c->back && !memcmp(c->back, c->host, c->bytes);
	c->returned = true;
	return ret;
}

static unsigned char *memory_of(struct rnl_pool *pool, uint32_t device, size_t bytes)
{
	void *mem;

	must(rnl_memory_get(pool, device, bytes, &mem, 0));
	return mem;
}

static void copying_of(struct copying *c, struct rnl_pool *pool, struct rnl_class *cls, size_t bytes)
{
	*c = (struct copying){ .bytes = bytes };
	c->device = memory_of(pool, 0, bytes);
	c->host = memory_of(pool, RNL_PINNED, bytes);
	paint(c->host, bytes, 3);
	classed_of(&c->job, cls, copying_fn, NULL);
}

static void copying_fini(struct copying *c, struct rnl_pool *pool)
{
	rnl_memory_put(pool, c->device);
	rnl_memory_put(pool, c->host);
	if (c->back)
		rnl_memory_put(pool, c->back);
}

TEST(copies_of_many_workers_are_right_when_they_return, .timeout_s = 60)
{
	enum { WORKERS = 4, ROUNDS = 4 };
	struct rnl_pool *pool = pool_of(WORKERS);
	struct rnl_class *low[] = { class_of_priority(pool, 3), class_of_priority(pool, 1) };
	struct copying jobs[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++) {
		copying_of(&jobs[i], pool, low[i % 2], LARGE);
		jobs[i].back = memory_of(pool, RNL_PINNED, LARGE);
	}
	for (unsigned n = 0; n < ROUNDS; n++) {
		for (unsigned i = 0; i < WORKERS; i++) {
			paint(jobs[i].host, LARGE, n * WORKERS + i);
			must(rnl_submit(pool, &jobs[i].job));
		}
		for (unsigned i = 0; i < WORKERS; i++) {
			ck_assert_int_eq(result_of(&jobs[i].job), 0);
			ck_assert(jobs[i].right);
		}
		must(rnl_pool_resize(pool, n % 2 ? WORKERS : 1));
	}
	for (unsigned i = 0; i < WORKERS; i++)
		copying_fini(&jobs[i], pool);
	rnl_pool_destroy(pool);
}

/* Checks whether a copy after a kernel that waits at a gate makes its caller wait. */
static void check_wait(struct rnl_pool *pool, struct rnl_class *cls, size_t bytes, bool waits)
{
	struct gate kernel = GATE_INIT;
	struct copying c;

	copying_of(&c, pool, cls, bytes);
	c.kernel = &kernel;
	must(rnl_submit(pool, &c.job));
	gate_await(&kernel, 1);
	if (waits)
		ck_waits(c.tid);
	else
		ck_eventually(c.returned);
	ck_assert(c.returned == !waits);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&c.job), 0);
	copying_fini(&c, pool);
}

TEST(large_copies_of_lower_classes_are_waited_for, .timeout_s = 60)
{
	struct rnl_pool *pool;
	struct rnl_class *high, *low;

	skip_unless_host();
	pool = pool_of(1);
	check_wait(pool, NULL, LARGE, false);
	low = class_of_priority(pool, 0);
	check_wait(pool, NULL, LARGE, false);
	check_wait(pool, low, LARGE, false);
	high = class_of_priority(pool, -1);
	check_wait(pool, low, LARGE, true);
	check_wait(pool, NULL, LARGE, true);
	check_wait(pool, low, PIECE, false);
	check_wait(pool, high, LARGE, false);
	check_wait(pool, class_of_priority(pool, 3), LARGE, true);
	rnl_class_destroy(high);
	check_wait(pool, low, LARGE, false);
	rnl_pool_destroy(pool);
}

TEST(classes_with_workers_of_their_own_go_before_others, .timeout_s = 60)
{
	struct rnl_pool *pool;
	struct rnl_class *low, *urgent;

	skip_unless_host();
	pool = pool_of(2, .nr_class_workers = 1);
	low = class_of_priority(pool, -4);
	check_wait(pool, low, LARGE, false);
	urgent = class_of(pool, .priority = 3, .nr_workers = 1);
	check_wait(pool, low, LARGE, true);
	check_wait(pool, urgent, LARGE, false);
	rnl_pool_destroy(pool);
}

TEST(a_copy_whose_stream_is_busy_has_no_turn, .timeout_s = 60)
{
	struct gate kernel = GATE_INIT;
	struct rnl_pool *pool;
	struct rnl_class *low;
	struct copying first, second;

	skip_unless_host();
	pool = pool_of(2);
	low = class_of_priority(pool, 3);
	copying_of(&first, pool, low, LARGE);
	copying_of(&second, pool, low, LARGE);
	first.kernel = &kernel;
	must(rnl_submit(pool, &first.job));
	gate_await(&kernel, 1);
	ck_waits(first.tid);
	must(rnl_submit(pool, &second.job));
	ck_assert_int_eq(result_of(&second.job), 0);
	ck_assert(!first.returned);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&first.job), 0);
	copying_fini(&first, pool);
	copying_fini(&second, pool);
	rnl_pool_destroy(pool);
}
