/* SPDX-License-Identifier: MIT */
/* Copies from and to pageable memory: the bytes are correct, and the function does not wait. */
#include <runnel/memory.h>
#include <runnel/stats.h>

#include "copies.h"
#include "host_kernel.h"

/* ---- contents --------------------------------------------------------------- */

static const uint64_t staging_maxima[] = { 0, 1, 300 * KB, MB, 3 * MB };	/* 0: the default */

TEST(pageable_memory_goes_to_the_device_and_comes_back, .timeout_s = 60,
     .loops = COUNT(staging_maxima))
{
	struct rnl_pool *pool = tight_pool(1, 0, staging_maxima[_i]);
	static const size_t sizes[] = {
		1, 2, 63, 257, 4095, 65536, 256 * KB - 1, 256 * KB, MB - 1, MB, MB + 1,
		2 * MB - 1, 2 * MB, 2 * MB + 1, 5 * MB + 12345, 10 * MB,
	};

	for (unsigned i = 0; i < COUNT(sizes); i++) {
		const size_t n = sizes[i];
		const struct move there_and_back[] = {
			{ D0, P0, n, 3, 2, 0, 0, 0 }, { P1, D0, n, 5, 3, 0, 0, 0 },
		};
		struct bench b;

		/* The bytes around the copied ones must not change. */
		bench_init(&b, pool, n + 7);
		run(&b, there_and_back, 2);
		bench_check(&b);
		bench_fini(&b);
	}
	ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
	rnl_pool_destroy(pool);
}

static unsigned char static_in[2 * MB + 11], static_out[2 * MB + 11];

static int stack_fn(struct rnl_job *job)
{
	unsigned char in[10001];
	unsigned char *device = job->user;
	int ret;

	paint(in, sizeof(in), 77);
	ret = rnl_copy(device, static_in, sizeof(static_in));
	if (!ret)
		ret = rnl_copy(device + 5, in, sizeof(in));
	return ret ? ret : rnl_copy(static_out, device, sizeof(static_out));
}

TEST(static_memory_and_the_stack_are_pageable, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;
	void *device;

	must(rnl_memory_get(pool, 0, sizeof(static_in), &device, 0));
	paint(static_in, sizeof(static_in), 1);
	submit_job(pool, &job, stack_fn, device);
	ck_assert_int_eq(result_of(&job), 0);
	paint(static_in + 5, 10001, 77);
	check_same(static_out, static_in, sizeof(static_in), "what was static");
	rnl_memory_put(pool, device);
	rnl_pool_destroy(pool);
}

/* ---- calls that do not wait -------------------------------------------------- */

struct reusing {
	struct rnl_job job;
	struct gate *kernel;	/* gate of a kernel; NULL: none */
	unsigned char *device;
	_Atomic pid_t tid;
	_Atomic bool returned;
	size_t each;
	unsigned nr;
};

/* Copies one buffer many times, and overwrites it after each call. */
static int reusing_fn(struct rnl_job *job)
{
	struct reusing *r = rnl_container_of(job, struct reusing, job);
	unsigned char *source = malloc(r->each);
	int ret = r->kernel ? launch_store(r->kernel, NULL, 0) : 0;

	r->tid = own_tid();
	for (unsigned i = 0; !ret && i < r->nr; i++) {
		paint(source, r->each, i);
		ret = rnl_copy(r->device + i * r->each, source, r->each);
	}
	memset(source, 0xee, r->each);
	free(source);
	r->returned = true;
	return ret;
}

/* @held: the function must return although a kernel blocks all copies. */
static void check_reuse(struct rnl_pool *pool, size_t each, unsigned nr, bool held)
{
	struct gate kernel = GATE_INIT;
	const bool gates = on_host() || test_fake();
	struct reusing r = { .kernel = gates ? &kernel : NULL, .each = each, .nr = nr };
	unsigned char *should = malloc(nr * each), *is = malloc(nr * each);
	void *mem;

	must(rnl_memory_get(pool, 0, nr * each, &mem, 0));
	r.device = mem;
	submit_job(pool, &r.job, reusing_fn, NULL);
	if (gates) {
		gate_await(&kernel, 1);
		ck_eventually(r.returned || (!held && r.tid && thread_state(r.tid) == 'S'));
		ck_assert_int_ne(rnl_job_wait(&r.job, 0), 0);
		gate_open(&kernel);
	}
	ck_assert_int_eq(result_of(&r.job), 0);
	for (unsigned i = 0; i < nr; i++)
		paint(should + i * each, each, i);
	copy_now(pool, is, mem, nr * each);
	check_same(is, should, nr * each, "what was written over");
	rnl_memory_put(pool, mem);
	free(should);
	free(is);
}

/* Loop 1: the pool has no page-locked memory. */
TEST(a_pageable_source_may_be_written_over_at_once, .timeout_s = 60, .loops = 2)
{
	struct rnl_pool *pool = tight_pool(1, _i ? 1 : 0, 0);

	check_reuse(pool, 1, 10, !_i);
	check_reuse(pool, 4096, 50, !_i);
	check_reuse(pool, 3 * MB + 1, 3, !_i);
	rnl_pool_destroy(pool);
}

TEST(many_small_copies_are_no_reason_to_wait, .timeout_s = 60)
{
	struct rnl_pool *pool;

	skip_unless_host();
	pool = pool_of(1);
	check_reuse(pool, 16, 600, true);	/* 10 KB of staging_max, 32 MB */
	rnl_pool_destroy(pool);
}

struct held {
	struct rnl_job job;
	struct moving moving;
	struct gate *kernel;
	_Atomic pid_t tid;
	_Atomic bool returned;
};

static int held_fn(struct rnl_job *job)
{
	struct held *h = rnl_container_of(job, struct held, job);
	int ret = launch_store(h->kernel, NULL, 0);

	h->tid = own_tid();
	ret = ret ? ret : moving_fn(&h->moving.job);
	h->returned = true;
	return ret;
}

static void held_of(struct held *h, struct gate *kernel, struct bench *b, const struct move *moves,
		    unsigned nr)
{
	*h = (struct held){ .kernel = kernel };
	moving_of(&h->moving, b, moves, nr);
	job_of(&h->job, held_fn, NULL);
}

TEST(a_copy_on_a_held_stream_returns_at_once_and_is_done_later, .timeout_s = 60)
{
	static const struct move moves[] = {
		{ D0, P0, 4 * MB, 0, 0, 0, 0, 0 }, { P1, D0, 4 * MB, 0, 0, 0, 0, 0 },
	};
	struct gate kernel = GATE_INIT;
	struct rnl_job idle;
	struct bench b;
	struct held h;

	skip_unless_done_on_return();
	bench_init(&b, pool_of(1), 4 * MB);
	/* Bytes of completed jobs do not count, even if they are more than staging_max. */
	for (int i = 0; i < 20; i++)
		run(&b, moves, 2);
	paint(b.mem[P0], b.bytes, 99);
	paint(b.shadow[P0], b.bytes, 99);
	held_of(&h, &kernel, &b, moves, 2);
	must(rnl_submit(b.pool, &h.job));
	ck_eventually(h.returned);
	/*
	 * The worker goes on with other jobs. On a device with streams, the next job completes
	 * after this one.
	 */
	submit_job(b.pool, &idle, noop_fn, NULL);
	if (on_host())
		ck_assert_int_eq(result_of(&idle), 0);
	ck_assert_int_eq(rnl_job_wait(&h.job, 20 * MS), -ETIMEDOUT);
	ck_assert_int_ne(memcmp(b.mem[P1], b.shadow[P1], b.bytes), 0);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&h.job), 0);
	ck_assert_int_eq(result_of(&idle), 0);
	bench_check(&b);
	bench_fini(&b);
	rnl_pool_destroy(b.pool);
}

TEST(a_job_waits_when_staging_max_is_under_way, .timeout_s = 60)
{
	static const struct move moves[] = { { D0, P0, 8 * MB, 0, 0, 0, 0, 0 } };
	struct gate kernel = GATE_INIT;
	struct bench b;
	struct held h;
	uint64_t used;

	skip_unless_host();
	bench_init(&b, tight_pool(1, 0, 3 * MB), 8 * MB);
	used = figures_of(b.pool).pinned_used;
	held_of(&h, &kernel, &b, moves, 1);
	must(rnl_submit(b.pool, &h.job));
	ck_waits(h.tid);
	ck_eventually(figures_of(b.pool).pinned_used == used + 3 * MB);
	ck_waits(h.tid);
	ck_assert(!h.returned);
	gate_open(&kernel);
	ck_assert_int_eq(result_of(&h.job), 0);
	ck_assert_uint_eq(figures_of(b.pool).pinned_used, used);
	bench_check(&b);
	bench_fini(&b);
	rnl_pool_destroy(b.pool);
}

/* ---- completion ---------------------------------------------------------------- */

enum how { WAIT, BARRIER, QUEUE, CALLBACK, NR_HOW };

struct coming {
	struct rnl_job job;
	unsigned char *device;		/* device memory, filled with `value` */
	unsigned char *to;
	size_t bytes;
	unsigned char value;
	_Atomic bool notified, right;
};

static int coming_fn(struct rnl_job *job)
{
	struct coming *c = rnl_container_of(job, struct coming, job);
	int ret = rnl_fill(c->device, c->value, c->bytes);

	return ret ? ret : rnl_copy(c->to, c->device, c->bytes);
}

static void look(struct coming *c)
{
	c->right = c->to[0] == c->value && !memcmp(c->to, c->to + 1, c->bytes - 1);
}

static void look_on_done(struct rnl_job *job)
{
	struct coming *c = rnl_container_of(job, struct coming, job);

	look(c);
	c->notified = true;
}

TEST(copied_bytes_are_there_when_the_job_is_done, .timeout_s = 60)
{
	enum { ROUNDS = 60, BYTES = 400000 };
	struct rnl_pool *pool = pool_of(2);
	struct coming c;
	struct rnl_barrier barrier;
	struct rnl_job *reaped;
	struct rnl_cq *cq;
	void *device;

	must(rnl_cq_create(&cq));
	must(rnl_memory_get(pool, 0, BYTES, &device, 0));
	for (int i = 0; i < ROUNDS * NR_HOW; i++) {
		enum how how = (enum how)(i % NR_HOW);

		c = (struct coming){ .device = device, .to = malloc(BYTES),
				     .bytes = i % 3 ? BYTES : 100, .value = (unsigned char)i };
		job_of(&c.job, coming_fn, NULL);
		must(rnl_barrier_init(&barrier, pool));
		if (how == BARRIER)
			must(rnl_barrier_add(&barrier, &c.job));
		if (how == QUEUE)
			must(rnl_job_set_cq(&c.job, cq));
		if (how == CALLBACK)
			must(rnl_job_set_on_done(&c.job, look_on_done));
		must(rnl_submit(pool, &c.job));
		if (how == WAIT)
			ck_assert_int_eq(result_of(&c.job), 0);
		else if (how == BARRIER)
			must(rnl_barrier_wait(&barrier, RNL_FOREVER));
		else if (how == QUEUE)
			ck_assert_int_eq(rnl_cq_reap(cq, &reaped, 1, RNL_FOREVER), 1);
		else
			ck_eventually(c.notified);
		if (how != CALLBACK)
			look(&c);
		ck_assert_msg(c.right, "way %d: it was not there", how);
		free(c.to);
	}
	rnl_cq_destroy(cq);
	rnl_memory_put(pool, device);
	rnl_pool_destroy(pool);
}

TEST(a_job_that_fails_after_its_copies_gives_its_buffers_back, .timeout_s = 60)
{
	static const struct move moves[] = {
		{ D0, P0, 3 * MB, 0, 0, 0, 0, 0 }, { P1, D1, 3 * MB, 0, 0, 0, 0, 0 },
	};
	struct moving m;
	struct bench b;
	uint64_t used;

	bench_init(&b, pool_of(1), 3 * MB);
	used = figures_of(b.pool).pinned_used;
	for (int i = 0; i < 30; i++) {
		moving_of(&m, &b, moves, 2);
		m.ret = -EPROTO;
		ck_assert_int_eq(submit_and_wait(b.pool, &m.job), -EPROTO);
		ck_assert_uint_eq(figures_of(b.pool).pinned_used, used);
	}
	bench_check(&b);
	bench_fini(&b);
	rnl_pool_destroy(b.pool);
}

/* ---- figures -------------------------------------------------------------------- */

TEST(staged_bytes_are_the_pageable_ones, .timeout_s = 60)
{
	static const struct move moves[] = {
		/* Not counted: no side is pageable, or no side is on the device. */
		{ D0, Q0, 2 * MB, 0, 0, 0, 0, 0 }, { D1, D0, 2 * MB, 0, 0, 0, 0, 0 },
		{ Q1, D1, 2 * MB, 0, 0, 0, 0, 0 }, { P0, Q0, 1000, 0, 0, 0, 0, 0 },
		{ Q1, P0, 1000, 0, 0, 0, 0, 0 }, { P1, P0, 1000, 0, 0, 0, 0, 0 },
		{ D1, Q1, 100, 0, 0, 9, 200, 300 },
		/* Counted: in total 2 MB + 1 + 1234567 + 33 * 1001 + 7 * 3. */
		{ D0, P0, 2 * MB + 1, 3, 4, 0, 0, 0 }, { P1, D1, 1234567, 5, 6, 0, 0, 0 },
		{ D1, P0, 1001, 7, 8, 33, 1001, 2000 }, { P1, D0, 3, 9, 10, 7, 100, 3 },
	};
	const uint64_t staged = 2 * MB + 1 + 1234567 + 33 * 1001 + 7 * 3;
	enum { WORKERS = 3, ROUNDS = 5 };
	struct rnl_pool *pool = pool_of(WORKERS);
	uint64_t sum = 0;
	struct bench b;

	bench_init(&b, pool, 3 * MB);
	ck_assert_uint_eq(figures_of(pool).staged_bytes, 0);
	for (int i = 0; i < ROUNDS; i++)
		run(&b, moves, COUNT(moves));
	ck_assert_uint_eq(figures_of(pool).staged_bytes, ROUNDS * staged);
	for (unsigned i = 0; i < WORKERS; i++) {
		struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;

		must(rnl_pool_read_stats(pool, i, &stats));
		ck_assert_uint_eq(stats.pinned_used + stats.pinned_locked + stats.device_calls, 0);
		sum += stats.staged_bytes;
	}
	ck_assert_uint_eq(sum, ROUNDS * staged);
	bench_check(&b);
	bench_fini(&b);
	ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
	rnl_pool_destroy(pool);
}

TEST(memory_of_another_pool_is_what_it_is, .timeout_s = 60)
{
	static const struct move moves[] = {
		{ D0, Q0, 2 * MB, 0, 0, 0, 0, 0 }, { Q1, D0, 2 * MB, 0, 0, 0, 0, 0 },
		{ D1, P0, 2 * MB, 0, 0, 0, 0, 0 }, { P1, D1, 2 * MB, 0, 0, 0, 0, 0 },
	};
	struct rnl_pool *pool = pool_of(1), *other = pool_of(1);
	struct bench b;

	bench_init(&b, other, 2 * MB);
	b.pool = pool;
	run(&b, moves, COUNT(moves));
	/* Memory that another pool page-locked is not staged in this pool. */
	ck_assert_uint_eq(figures_of(pool).staged_bytes, 4 * MB);
	ck_assert_uint_eq(figures_of(other).staged_bytes, 0);
	bench_check(&b);
	b.pool = other;
	bench_fini(&b);
	rnl_pool_destroy(pool);
	rnl_pool_destroy(other);
}

/* ---- little page-locked memory ------------------------------------------------------ */

TEST(little_page_locked_memory_does, .timeout_s = 60)
{
	static const uint64_t maxima[] = { 1, 4096, 100000, MB, 2 * MB + 8192 };
	struct rnl_pool *others = pool_of(1);

	for (unsigned i = 0; i < COUNT(maxima); i++) {
		struct rnl_pool *pool = tight_pool(1, maxima[i], 0);
		static const struct move moves[] = {
			{ D0, P0, 5 * MB + 3, 0, 0, 0, 0, 0 },
			{ P1, D0, 5 * MB + 3, 0, 0, 0, 0, 0 },
			{ D1, P1, 50, 0, 0, 0, 0, 0 }, { P0, D1, 50, 60, 0, 0, 0, 0 },
		};
		struct bench b;

		bench_init(&b, others, 5 * MB + 3);
		b.pool = pool;
		for (int k = 0; k < 3; k++)
			run(&b, moves, COUNT(moves));
		bench_check(&b);
		ck_assert_uint_le(figures_of(pool).pinned_locked, maxima[i]);
		/* A CPU copied all bytes, in the library or in the driver. */
		ck_assert_uint_eq(figures_of(pool).staged_bytes, 3 * 2 * (5 * MB + 3 + 50));
		ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
		b.pool = others;
		bench_fini(&b);
		rnl_pool_destroy(pool);
	}
	rnl_pool_destroy(others);
}

TEST(the_caller_may_have_all_of_it, .timeout_s = 60)
{
	enum { MOST = 4096 };
	static const struct move moves[] = {
		{ D0, P0, 2 * MB, 0, 0, 0, 0, 0 }, { P1, D0, 2 * MB, 0, 0, 0, 0, 0 },
		{ P0, D1, 50, 60, 0, 0, 0, 0 },
	};
	struct rnl_pool *pool = tight_pool(2, 16 * MB, 0);
	void **bufs = calloc(MOST, sizeof(*bufs));
	unsigned nr = 0;
	struct bench b;
	uint64_t used;

	bench_init(&b, pool, 2 * MB);
	for (size_t bytes = MB; bytes >= 256; bytes /= 2) {
		while (nr < MOST && !rnl_memory_get(pool, RNL_PINNED, bytes, &bufs[nr], 0)) {
			memset(bufs[nr], 0x5a, bytes);
			nr++;
		}
	}
	used = figures_of(pool).pinned_used;
	run(&b, moves, COUNT(moves));
	/* One buffer is put back, then another one. */
	for (int i = 0; i < 2; i++) {
		rnl_memory_put(pool, bufs[--nr]);
		run(&b, moves, COUNT(moves));
	}
	bench_check(&b);
	while (nr) {
		nr--;
		ck_assert_bytes(bufs[nr], 256, 0x5a);
		rnl_memory_put(pool, bufs[nr]);
	}
	run(&b, moves, COUNT(moves));
	bench_check(&b);
	ck_assert_uint_gt(used, figures_of(pool).pinned_used);
	bench_fini(&b);
	ck_assert_uint_eq(figures_of(pool).pinned_used, 0);
	rnl_pool_destroy(pool);
	free(bufs);
}
