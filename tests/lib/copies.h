/* SPDX-License-Identifier: MIT */
/*
 * Copies between all kinds of memory, made by jobs.  The CPU makes each copy immediately in
 * a shadow.  After the jobs, the memory must equal its shadow.
 */
#ifndef COPIES_H
#define COPIES_H

#include <runnel/memory.h>

#include "pool.h"

#define KB ((size_t)1 << 10)
#define MB ((size_t)1 << 20)	/* bytes of a piece of staging */

/* ---- a bench: each kind of memory, and its expected content ---------------- */

/* Two memories of each kind: D on the device, Q page-locked, P pageable at odd addresses. */
enum { D0, D1, Q0, Q1, P0, P1, NR_MEMORIES };
static const char *const names[] = { "D0", "D1", "Q0", "Q1", "P0", "P1" };

struct bench {
	struct rnl_pool *pool;
	size_t bytes;			/* of each memory */
	unsigned char *mem[NR_MEMORIES], *shadow[NR_MEMORIES];
	unsigned char *look;		/* pinned; device memory is copied here for comparison */
	unsigned char *busy;		/* on the device; keeps a stream busy */
};
#define BUSY_BYTES (4 * MB)

/* A copy of `rows` rows, or of `width` bytes if rows is 0. */
struct move {
	int dst, src;
	size_t width, dst_at, src_at, rows, dst_pitch, src_pitch;
};

/* A job that makes the copies, after work that takes a while. */
struct moving {
	struct rnl_job job;
	struct bench *bench;
	const struct move *moves;
	unsigned nr;
	bool busy;
	int ret;			/* the function's result unless a copy fails */
};

static inline int keep_busy(struct bench *b)
{
	int ret = 0;

	for (int i = 0; !ret && i < 8; i++)
		ret = rnl_fill(b->busy, (uint8_t)i, BUSY_BYTES);
	return ret;
}

static inline int issue(struct bench *b, const struct move *m)
{
	unsigned char *dst = b->mem[m->dst] + m->dst_at, *src = b->mem[m->src] + m->src_at;

	return m->rows ? rnl_copy_2d(dst, m->dst_pitch, src, m->src_pitch, m->width, m->rows) :
			 rnl_copy(dst, src, m->width);
}

static inline void shadow(struct bench *b, const struct move *m)
{
	for (size_t row = 0; row < (m->rows ? m->rows : 1); row++)
		memcpy(b->shadow[m->dst] + m->dst_at + row * m->dst_pitch,
		       b->shadow[m->src] + m->src_at + row * m->src_pitch, m->width);
}

static inline int moving_fn(struct rnl_job *job)
{
	struct moving *m = rnl_container_of(job, struct moving, job);
	int ret = m->busy ? keep_busy(m->bench) : 0;

	for (unsigned i = 0; !ret && i < m->nr; i++)
		ret = issue(m->bench, &m->moves[i]);
	return ret ? ret : m->ret;
}

static inline void moving_of(struct moving *m, struct bench *b, const struct move *moves, unsigned nr)
{
	*m = (struct moving){ .bench = b, .moves = moves, .nr = nr, .busy = true };
	job_of(&m->job, moving_fn, NULL);
	for (unsigned i = 0; i < nr; i++)
		shadow(b, &moves[i]);
}

static inline void run(struct bench *b, const struct move *moves, unsigned nr)
{
	struct moving m;

	moving_of(&m, b, moves, nr);
	ck_assert_int_eq(submit_and_wait(b->pool, &m.job), 0);
}

struct between {
	struct rnl_job job;
	void *dst;
	const void *src;
	size_t bytes;
};

static inline int between_fn(struct rnl_job *job)
{
	struct between *c = rnl_container_of(job, struct between, job);

	return rnl_copy(c->dst, c->src, c->bytes);
}

/* Makes a copy in a separate job, and waits for the job. */
static inline void copy_now(struct rnl_pool *pool, void *dst, const void *src, size_t bytes)
{
	struct between c = { .dst = dst, .src = src, .bytes = bytes };

	submit_job(pool, &c.job, between_fn, NULL);
	ck_assert_int_eq(result_of(&c.job), 0);
}

/* Fills memory so that the bytes around each place differ from those around another place. */
static inline void paint(unsigned char *mem, size_t bytes, unsigned salt)
{
	for (size_t i = 0; i < bytes; i++)
		mem[i] = (unsigned char)(((uint32_t)i * 2654435761u ^ salt * 97u << 20) >> 24);
}

static inline void check_same(const unsigned char *is, const unsigned char *should, size_t bytes,
		       const char *name)
{
	size_t i = 0;

	if (!memcmp(is, should, bytes))
		return;
	while (is[i] == should[i])
		i++;
	ck_abort_msg("%s: byte %zu of %zu is %d, not %d", name, i, bytes, is[i], should[i]);
}

static inline void bench_check_one(struct bench *b, int i)
{
	const unsigned char *mem = b->mem[i];

	if (i <= D1) {
		copy_now(b->pool, b->look, mem, b->bytes);
		mem = b->look;
	}
	check_same(mem, b->shadow[i], b->bytes, names[i]);
}

/* Checks pageable memory first, because it must be right as soon as the last job is done. */
static inline void bench_check(struct bench *b)
{
	for (int i = NR_MEMORIES - 1; i >= 0; i--)
		bench_check_one(b, i);
}

MUCH_DATA static inline void bench_init(struct bench *b, struct rnl_pool *pool, size_t bytes)
{
	void *mem;

	*b = (struct bench){ .pool = pool, .bytes = bytes };
	must(rnl_memory_get(pool, 0, BUSY_BYTES, &mem, 0));
	b->busy = mem;
	must(rnl_memory_get(pool, RNL_PINNED, bytes, &mem, 0));
	b->look = mem;
	for (int i = 0; i < NR_MEMORIES; i++) {
		b->shadow[i] = malloc(bytes);
		ck_assert_ptr_nonnull(b->shadow[i]);
		paint(b->shadow[i], bytes, (unsigned)i + 1);
		if (i <= D1)
			must(rnl_memory_get(pool, 0, bytes, &mem, 0));
		else if (i <= Q1)
			must(rnl_memory_get(pool, RNL_PINNED, bytes, &mem, 0));
		else
			mem = (char *)malloc(bytes + 1) + 1;
		b->mem[i] = mem;
		memcpy(i <= D1 ? b->look : b->mem[i], b->shadow[i], bytes);
		if (i <= D1)
			copy_now(pool, b->mem[i], b->look, bytes);
	}
}

static inline void bench_fini(struct bench *b)
{
	for (int i = 0; i < NR_MEMORIES; i++) {
		free(b->shadow[i]);
		if (i <= D1)
			rnl_memory_put(b->pool, b->mem[i]);
		else if (i <= Q1)
			rnl_memory_put(b->pool, b->mem[i]);
		else
			free(b->mem[i] - 1);
	}
	rnl_memory_put(b->pool, b->look);
	rnl_memory_put(b->pool, b->busy);
}

static inline struct rnl_pool *tight_pool(unsigned nr_workers, uint64_t pinned_max, uint64_t staging_max)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	attr.pinned_max = pinned_max;
	attr.staging_max = staging_max;
	return pool_with(&attr, nr_workers);
}

#endif /* COPIES_H */
