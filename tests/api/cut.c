/* SPDX-License-Identifier: MIT */
/* Large copies of lower classes are cut: their contents, what waits for them, and what does not. */
#include <runnel/memory.h>
#include <runnel/replay.h>

#include "classed.h"
#include "copies.h"
#include "host_kernel.h"

#define LARGE (5 * MB + 321)

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
	static const size_t sizes[] = { 2 * MB, 2 * MB + 1, 4 * MB - 1, LARGE };
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

		/* Equal runs: the third may be replayed. */
		for (unsigned n = 0; n < 4; n++)
			run_classed(&b, low, flags[_i], moves, flags[_i] ? 3 : COUNT(moves));
	}
	bench_check(&b);
	bench_fini(&b);
	rnl_pool_destroy(pool);
}

TEST(rows_are_copied_in_pieces, .timeout_s = 60)
{
	static const struct move moves[] = {
		{ D0, Q0, 1000, 3, 5, 4000, 1100, 1024 }, { Q1, D0, 1000, 1, 3, 4000, 1003, 1100 },
		{ D1, Q0, 2 * MB + 5, 0, 9, 2, 2 * MB + 8, 2 * MB + 5 },
	};
	struct rnl_pool *pool = pool_of(2);
	struct bench b;

	bench_init(&b, pool, LARGE);
	run_classed(&b, class_of_priority(pool, 3), 0, moves, COUNT(moves));
	bench_check(&b);
	bench_fini(&b);
	rnl_pool_destroy(pool);
}

TEST(copies_of_many_workers_are_right, .timeout_s = 60)
{
	static const struct move moves[] = {
		{ D0, Q0, LARGE, 0, 0, 0, 0, 0 }, { Q1, D0, LARGE, 0, 0, 0, 0, 0 },
	};
	enum { WORKERS = 4, ROUNDS = 3 };
	struct rnl_pool *pool = pool_of(WORKERS);
	struct rnl_class *low[] = { class_of_priority(pool, 3), class_of_priority(pool, 1) };
	struct bench benches[WORKERS];
	struct moving jobs[WORKERS];

	for (unsigned i = 0; i < WORKERS; i++)
		bench_init(&benches[i], pool, LARGE);
	for (unsigned n = 0; n < ROUNDS; n++) {
		for (unsigned i = 0; i < WORKERS; i++) {
			moving_of(&jobs[i], &benches[i], moves, COUNT(moves));
			jobs[i].busy = i % 2;
			must(rnl_job_set_class(&jobs[i].job, low[i % 2]));
			must(rnl_submit(pool, &jobs[i].job));
		}
		for (unsigned i = 0; i < WORKERS; i++)
			ck_assert_int_eq(result_of(&jobs[i].job), 0);
		/* The stream of the last copy may end; its event stays. */
		must(rnl_pool_resize(pool, n % 2 ? WORKERS : 1));
	}
	for (unsigned i = 0; i < WORKERS; i++) {
		bench_check(&benches[i]);
		bench_fini(&benches[i]);
	}
	rnl_pool_destroy(pool);
}

/* ---- turns ------------------------------------------------------------------- */

enum way { IN, OUT };

/* A job that copies in one direction. */
struct copying {
	struct rnl_job job;
	unsigned char *host, *device;
	size_t bytes;
	enum way way;
	struct gate *kernel;		/* of a kernel before the copy; NULL: none */
	_Atomic bool returned;
};

static int copying_fn(struct rnl_job *job)
{
	struct copying *c = rnl_container_of(job, struct copying, job);
	int ret = c->kernel ? launch_store(c->kernel, NULL, 0) : 0;

	if (!ret)
		ret = c->way == IN ? rnl_copy(c->device, c->host, c->bytes) :
				     rnl_copy(c->host, c->device, c->bytes);
	c->returned = true;
	return ret;
}

static void copying_of(struct copying *c, struct rnl_pool *pool, struct rnl_class *cls, enum way way,
		       size_t bytes)
{
	void *mem;

	*c = (struct copying){ .bytes = bytes, .way = way };
	must(rnl_memory_get(pool, 0, bytes, &mem, 0));
	c->device = mem;
	must(rnl_memory_get(pool, RNL_PINNED, bytes, &mem, 0));
	c->host = mem;
	memset(c->host, 1, bytes);
	classed_of(&c->job, cls, copying_fn, NULL);
}

static void copying_fini(struct copying *c, struct rnl_pool *pool)
{
	rnl_memory_put(pool, c->device);
	rnl_memory_put(pool, c->host);
}

/* A large copy of class @low waits at a gate.  Another copy of class @cls waits for it, or does not. */
static void check_turn(struct rnl_pool *pool, struct rnl_class *low, struct rnl_class *cls, enum way way,
		       size_t bytes, bool waits)
{
	struct gate kernel = GATE_INIT;
	struct copying first, second;

	copying_of(&first, pool, low, IN, LARGE);
	copying_of(&second, pool, cls, way, bytes);
	first.kernel = &kernel;
	must(rnl_submit(pool, &first.job));
	gate_await(&kernel, 1);
	ck_eventually(first.returned);
	must(rnl_submit(pool, &second.job));
	if (waits) {
		ck_eventually(second.returned);
		ck_assert_int_eq(rnl_job_wait(&second.job, 50 * MS), -ETIMEDOUT);
	} else {
		ck_assert_int_eq(result_of(&second.job), 0);
	}
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&first.job), 0);
	ck_assert_int_eq(result_of(&second.job), 0);
	copying_fini(&first, pool);
	copying_fini(&second, pool);
}

TEST(one_large_copy_of_a_direction_is_under_way, .timeout_s = 60)
{
	struct rnl_pool *pool;
	struct rnl_class *high, *low, *lower;

	skip_unless_host();
	pool = pool_of(2, .max_in_flight = 1);
	low = class_of_priority(pool, 0);
	/* It is not lower than another class. */
	check_turn(pool, low, low, IN, LARGE, false);
	high = class_of_priority(pool, -1);
	lower = class_of_priority(pool, 3);
	check_turn(pool, low, low, IN, LARGE, true);
	check_turn(pool, low, lower, IN, LARGE, true);
	check_turn(pool, lower, low, IN, LARGE, true);
	check_turn(pool, lower, NULL, IN, LARGE, true);
	/* No others wait. */
	check_turn(pool, low, high, IN, LARGE, false);
	check_turn(pool, low, low, OUT, LARGE, false);
	check_turn(pool, low, low, IN, 2 * MB, false);
	rnl_class_destroy(high);
	check_turn(pool, low, low, IN, LARGE, false);
	rnl_pool_destroy(pool);
}

TEST(classes_for_urgent_workers_go_before_others, .timeout_s = 60)
{
	struct rnl_pool *pool;
	struct rnl_class *low, *urgent;

	skip_unless_host();
	pool = pool_of(2, .max_in_flight = 1, .nr_urgent = 1);
	low = class_of_priority(pool, -4);
	check_turn(pool, low, low, IN, LARGE, false);
	urgent = class_of(pool, .priority = 3, .flags = RNL_CLASS_URGENT);
	check_turn(pool, low, low, IN, LARGE, true);
	check_turn(pool, low, urgent, IN, LARGE, false);
	rnl_pool_destroy(pool);
}
