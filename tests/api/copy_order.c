/* SPDX-License-Identifier: MIT */
/* Order of copies between all kinds of memory: in a job, of jobs with one key, after a barrier. */
#include <runnel/thread.h>

#include "copies.h"
#include "seed.h"

/* ---- in a job, and with a key ----------------------------------------------------- */

/* Each copy uses memory that the copy before it read or wrote. */
static const struct {
	const char *name;
	struct {
		int dst, src;
	} copies[5];
	unsigned nr;
} sequences[] = {
	{ "out, in", { { P0, D0 }, { D1, P0 } }, 2 },
	{ "out, to pinned memory", { { P0, D0 }, { Q0, P0 } }, 2 },
	{ "out, to pageable memory", { { P0, D0 }, { P1, P0 } }, 2 },
	{ "out, out to the same", { { P0, D0 }, { P0, D1 } }, 2 },
	{ "out, from pageable memory to the same", { { P0, D0 }, { P0, P1 } }, 2 },
	{ "out, from pinned memory to the same", { { P0, D0 }, { P0, Q0 } }, 2 },
	{ "in, out to where it came from, in", { { D0, P0 }, { P0, D1 }, { D1, P0 } }, 3 },
	{ "out, in, out, to pinned", { { P0, D0 }, { D1, P0 }, { P1, D1 }, { Q0, P1 } }, 4 },
	{ "out, to pageable memory, in", { { P0, D0 }, { P1, P0 }, { D1, P1 } }, 3 },
	{ "pinned to pageable memory, in", { { P0, Q0 }, { D0, P0 } }, 2 },
	{ "pageable to pageable memory, in", { { P1, P0 }, { D0, P1 } }, 2 },
	{ "pageable to pageable memory, out to the first", { { P1, P0 }, { P0, D0 } }, 2 },
	{ "in, out, in, out, in",
	  { { D0, P0 }, { P1, D0 }, { D1, P1 }, { P0, D1 }, { D0, P0 } }, 5 },
};

static unsigned sequence_of(int nr, size_t bytes, struct move *moves)
{
	for (unsigned i = 0; i < sequences[nr].nr; i++)
		moves[i] = (struct move){ .dst = sequences[nr].copies[i].dst,
					  .src = sequences[nr].copies[i].src, .width = bytes };
	return sequences[nr].nr;
}

static const size_t lengths[] = { 100, 300 * KB, 3 * MB + 5 };

/* Loop 0: of one job; 1: of a job each, with one key. */
TEST(the_copies_of_a_job_or_a_key_are_in_order, .timeout_s = 60, .loops = 2 * COUNT(sequences))
{
	struct rnl_pool *pool = pool_of(_i % 2 ? 3 : 1);
	struct move moves[5];
	struct moving m[5];

	printf("%s\n", sequences[_i / 2].name);
	for (unsigned i = 0; i < COUNT(lengths); i++) {
		const unsigned nr = sequence_of(_i / 2, lengths[i], moves);
		const unsigned each = _i % 2 ? 1 : nr;
		struct bench b;

		bench_init(&b, pool, lengths[i]);
		for (unsigned k = 0; k < nr; k += each) {
			moving_of(&m[k], &b, &moves[k], each);
			must(submit_by_key(pool, &m[k].job, i));
		}
		for (unsigned k = 0; k < nr; k += each)
			ck_assert_int_eq(result_of(&m[k].job), 0);
		bench_check(&b);
		bench_fini(&b);
	}
	rnl_pool_destroy(pool);
}

TEST(a_copy_out_is_copied_in_again_part_by_part, .timeout_s = 60)
{
	enum { PARTS = 10 };
	struct move moves[1 + PARTS] = { { P0, D0, PARTS * MB, 0, 0, 0, 0, 0 } };
	struct bench b;

	/* Each copy waits for the part of the first copy that it needs. */
	for (size_t i = 0; i < PARTS; i++)
		moves[1 + i] = (struct move){ D1, P0, MB - 7, i * MB, i * MB + 3, 0, 0, 0 };
	bench_init(&b, pool_of(1), PARTS * MB);
	run(&b, moves, COUNT(moves));
	bench_check(&b);
	bench_fini(&b);
	rnl_pool_destroy(b.pool);
}

/* Returns a copy of a random row or rectangle from one memory to another. */
static struct move any_move(uint64_t *random, size_t bytes)
{
	struct move m = { .dst = (int)draw(random, NR_MEMORIES) };
	size_t most = draw(random, 3) ? 1 + draw(random, 5000) : 1 + draw(random, (unsigned)bytes);
	size_t dst_bytes, src_bytes;

	m.src = (m.dst + 1 + (int)draw(random, NR_MEMORIES - 1)) % NR_MEMORIES;
	m.width = 1 + draw(random, (unsigned)most);
	if (draw(random, 2)) {
		m.rows = 1 + draw(random, 40);
		m.width = m.width / m.rows + 1;
		m.dst_pitch = m.width + draw(random, (unsigned)(bytes / m.rows - m.width));
		m.src_pitch = m.width + draw(random, (unsigned)(bytes / m.rows - m.width));
	}
	dst_bytes = m.rows ? m.rows * m.dst_pitch : m.width;
	src_bytes = m.rows ? m.rows * m.src_pitch : m.width;
	m.dst_at = draw(random, (unsigned)(bytes - dst_bytes + 1));
	m.src_at = draw(random, (unsigned)(bytes - src_bytes + 1));
	return m;
}

TEST(any_copies_of_a_job_are_in_order, .timeout_s = 60, .loops = 4)
{
	enum { ROUNDS = 150, MOST = 12 };
	static const struct {
		uint64_t pinned, staging;
	} maxima[] = { { 0, 0 }, { 0, 1 }, { 32 * MB, 2 * MB }, { 7 * MB, 100 * KB } };
	uint64_t random = draws_of(test_seed(), (uint64_t)_i);
	struct rnl_pool *pool = tight_pool(1, maxima[_i].pinned, maxima[_i].staging);
	struct move moves[MOST];
	struct bench b;

	bench_init(&b, pool, 3 * MB / 2);
	for (int round = 0; round < ROUNDS / test_scale(); round++) {
		unsigned nr = 1 + draw(&random, MOST);

		for (unsigned i = 0; i < nr; i++)
			moves[i] = any_move(&random, b.bytes);
		run(&b, moves, nr);
		if (draw(&random, 2))
			bench_check(&b);
	}
	bench_check(&b);
	bench_fini(&b);
	rnl_pool_destroy(pool);
}

/* ---- fills --------------------------------------------------------------------------- */

static int fill_pageable_fn(struct rnl_job *job)
{
	struct bench *b = job->user;

	return rnl_fill(b->mem[P0], 0xab, b->bytes);
}

TEST(pageable_memory_is_not_filled, .timeout_s = 60)
{
	struct rnl_pool *pool = pool_of(1);
	struct rnl_job job;
	struct bench b;
	int ret;

	bench_init(&b, pool, 1000);
	submit_job(pool, &job, fill_pageable_fn, &b);
	ret = result_of(&job);
	/* On some machines, GPUs can access pageable memory. */
	if (!ret && !on_host())
		memset(b.shadow[P0], 0xab, b.bytes);
	else
		ck_assert_int_eq(ret, -EINVAL);
	bench_check(&b);
	bench_fini(&b);
	rnl_pool_destroy(pool);
}

/* ---- after a barrier ---------------------------------------------------------------- */

/*
 * A job of a barrier copies to pageable memory. Then its worker runs another function until the
 * gate opens, so it does not complete the copy until then.
 */
struct joined {
	struct rnl_job holding, held;
	struct gate before, after;
	struct rnl_barrier barrier;
	struct moving first;
	struct bench bench;
};
/* @out goes through the worker's staging buffers; the stream itself does @unpinned. */
static const struct move out = { P0, D0, MB, 0, 0, 0, 0, 0 };
static const struct move unpinned = { P0, Q1, MB, 0, 0, 0, 0, 0 };

static void joined_init(struct joined *j, const struct move *first)
{
	struct rnl_pool *pool = pool_of(2);

	bench_init(&j->bench, pool, MB);
	j->before = j->after = (struct gate)GATE_INIT;
	must(rnl_barrier_init(&j->barrier, pool));
	job_of(&j->holding, gated_fn, &j->before);
	must(submit_by_key(pool, &j->holding, RNL_KEY_WORKER(0)));
	gate_await(&j->before, 1);
	moving_of(&j->first, &j->bench, first, 1);
	must(rnl_barrier_add(&j->barrier, &j->first.job));
	must(submit_by_key(pool, &j->first.job, RNL_KEY_WORKER(0)));
	job_of(&j->held, gated_fn, &j->after);
	must(submit_by_key(pool, &j->held, RNL_KEY_WORKER(0)));
	gate_open(&j->before);
	gate_await(&j->after, 1);
}

static void joined_fini(struct joined *j)
{
	struct rnl_pool *pool = j->bench.pool;

	must(rnl_pool_drain(pool, RNL_FOREVER));
	bench_check(&j->bench);
	bench_fini(&j->bench);
	rnl_pool_destroy(pool);
}

static int join_and_copy(void *arg)
{
	static const struct move on[] = { { Q0, P0, MB, 0, 0, 0, 0, 0 } };
	struct joined *j = arg;
	int ret = rnl_barrier_join(&j->barrier);

	if (!ret)
		ret = issue(&j->bench, on);
	if (!ret)
		ret = rnl_stream_wait(RNL_FOREVER);
	shadow(&j->bench, on);
	rnl_thread_attach(NULL);
	return ret;
}

TEST(a_stream_that_joins_finds_the_copies_to_pageable_memory, .timeout_s = 60)
{
	struct call call;
	struct joined j;

	joined_init(&j, &out);
	call_start(&call, join_and_copy, &j);
	/* If the call has to wait for the worker, it sleeps until the gate opens. */
	ck_eventually(call.returned || (call.tid && thread_state(call.tid) == 'S'));
	gate_open(&j.after);
	ck_assert_int_eq(call_end(&call), 0);
	joined_fini(&j);
}

/* Runs a job after the barrier, on the other worker, and checks the bytes. */
static void check_after(const struct move *first, const struct move *then)
{
	struct moving second;
	struct joined j;

	joined_init(&j, first);
	moving_of(&second, &j.bench, then, 1);
	must(rnl_job_set_after(&second.job, &j.barrier));
	must(submit_by_key(j.bench.pool, &second.job, RNL_KEY_WORKER(1)));
	/* The job has time to run, unless it waits for the worker. */
	(void)rnl_job_wait(&second.job, (int64_t)(100 * test_scale()) * MS);
	gate_open(&j.after);
	ck_assert_int_eq(result_of(&second.job), 0);
	joined_fini(&j);
}

TEST(a_job_after_a_barrier_finds_the_copies_to_pageable_memory, .timeout_s = 60)
{
	static const struct move in = { D1, P0, MB, 0, 0, 0, 0, 0 };
	static const struct move pinned = { Q0, P0, MB, 0, 0, 0, 0, 0 };

	check_after(&out, &in);
	check_after(&out, &pinned);
	check_after(&unpinned, &in);
	check_after(&unpinned, &pinned);
}

TEST(a_job_after_a_barrier_writes_last_to_pageable_memory, .timeout_s = 60)
{
	static const struct move over = { P0, D1, MB, 0, 0, 0, 0, 0 };

	check_after(&out, &over);
	check_after(&unpinned, &over);
}

/* Each job comes after its predecessor on the other worker, and copies the predecessor's output. */
static void check_chain(struct rnl_pool *pool, size_t bytes)
{
	enum { NR = 100 };
	struct move (*moves)[2] = calloc(NR, sizeof(*moves));
	struct rnl_barrier *barriers = calloc(NR, sizeof(*barriers));
	struct moving *jobs = calloc(NR, sizeof(*jobs));
	struct bench b;

	bench_init(&b, pool, bytes);
	for (int i = 0; i < NR; i++) {
		struct rnl_job *job = &jobs[i].job;

		moves[i][0] = (struct move){ .dst = i % 2 ? D1 : D0, .src = i % 2 ? P1 : P0,
					     .width = bytes };
		moves[i][1] = (struct move){ .dst = i % 2 ? P0 : P1, .src = i % 2 ? D1 : D0,
					     .width = bytes };
		moving_of(&jobs[i], &b, moves[i], 2);
		must(rnl_barrier_init(&barriers[i], pool));
		must(rnl_barrier_add(&barriers[i], job));
		if (i)
			must(rnl_job_set_after(job, &barriers[i - 1]));
		/* The first job takes a while, so the others are deferred. */
		jobs[i].busy = !i;
		must(submit_by_key(pool, job, RNL_KEY_WORKER(i % 2)));
	}
	for (int i = 0; i < NR; i++) {
		ck_assert_int_eq(result_of(&jobs[i].job), 0);
		must(rnl_barrier_wait(&barriers[i], RNL_FOREVER));
	}
	bench_check(&b);
	bench_fini(&b);
	free(jobs);
	free(barriers);
	free(moves);
}

TEST(a_chain_across_workers_passes_pageable_memory_on, .timeout_s = 60)
{
	static const uint64_t staging[] = { 0, 1 };

	for (unsigned i = 0; i < COUNT(staging); i++) {
		struct rnl_pool *pool = tight_pool(2, 0, staging[i]);

		for (unsigned k = 0; k < COUNT(lengths); k++)
			check_chain(pool, lengths[k]);
		rnl_pool_destroy(pool);
	}
}
