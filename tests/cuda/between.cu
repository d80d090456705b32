/* SPDX-License-Identifier: MIT */
/*
 * Copies between two GPUs, with and without peer access, checked by content; and a report of which
 * CUDA calls work on this machine, as lines that begin with "#".
 */
#include <errno.h>

#include "suite.h"

#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>
#include <runnel/guard.h>
#include <runnel/memory.h>

SUITE_FORKS

enum { WORDS = 4 << 20, BYTES = WORDS * 4, PITCH = 4096 };

struct side {
	struct rnl_pool *pool;
	uint32_t *mem;			/* from rnl_memory_get() */
	uint32_t *plain;		/* from cudaMalloc() */
	uint32_t *pinned;
};
static struct side sides[2];

static void side_init(int i, enum rnl_stream_kind stream, enum rnl_guard guard)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct side *s = &sides[i];

	attr.nr_workers = 2;
	attr.device = i ? "cuda:1" : "cuda:0";
	attr.stream = stream;
	attr.guard = guard;
	must(rnl_pool_create(&s->pool, &attr));
	must(rnl_memory_get(s->pool, 0, BYTES, (void **)&s->mem, 0));
	must(rnl_memory_get(s->pool, RNL_PINNED, BYTES, (void **)&s->pinned, 0));
	ck_assert_int_eq(cudaSetDevice(i), cudaSuccess);
	ck_assert_int_eq(cudaMalloc((void **)&s->plain, BYTES), cudaSuccess);
}

static void side_fini(int i)
{
	struct side *s = &sides[i];

	ck_assert_int_eq(cudaSetDevice(i), cudaSuccess);
	ck_assert_int_eq(cudaFree(s->plain), cudaSuccess);
	rnl_memory_put(s->pool, s->mem);
	rnl_memory_put(s->pool, s->pinned);
	rnl_pool_destroy(s->pool);
}

struct move {
	struct rnl_job job;
	void *dst;
	const void *src;
	bool rows;
};

static int move_fn(struct rnl_job *job)
{
	struct move *m = rnl_container_of(job, struct move, job);

	if (m->rows)
		return rnl_copy_2d(m->dst, PITCH, m->src, PITCH, PITCH / 2, BYTES / PITCH);
	return rnl_copy(m->dst, m->src, BYTES);
}

static void move(struct rnl_pool *pool, void *dst, const void *src, bool rows)
{
	struct move m = {};

	m.dst = dst;
	m.src = src;
	m.rows = rows;
	must(rnl_job_init(&m.job, move_fn));
	must(rnl_submit(pool, &m.job));
	must(rnl_job_wait(&m.job, RNL_FOREVER));
	ck_assert_msg(!m.job.result, "%s: CUDA's code is %d", rnl_strerror(m.job.result),
		      m.job.device_error);
}

/* Copies between the GPUs; bits of @how: rows, by the target's worker, plain from, plain to. */
static void from_to(const struct side *from, const struct side *to, unsigned how)
{
	const bool rows = how & 1;
	uint32_t *src = how & 4 ? from->plain : from->mem, *dst = how & 8 ? to->plain : to->mem;

	for (uint32_t i = 0; i < WORDS; i++) {
		from->pinned[i] = i * 2654435761u + how;
		to->pinned[i] = 0xeeeeeeee;
	}
	move(from->pool, src, from->pinned, false);
	move(to->pool, dst, to->pinned, false);
	move(how & 2 ? to->pool : from->pool, dst, src, rows);
	move(to->pool, to->pinned, dst, false);
	/* An assertion per word would take a second for a million words. */
	for (uint32_t i = 0; i < WORDS; i++) {
		const bool moved = !rows || i % (PITCH / 4) < PITCH / 8;

		if (to->pinned[i] != (moved ? from->pinned[i] : 0xeeeeeeee))
			ck_abort_msg("way %u, word %u is 0x%x", how, i, to->pinned[i]);
	}
}

static void all_ways(enum rnl_stream_kind stream, enum rnl_guard guard)
{
	for (int i = 0; i < 2; i++)
		side_init(i, stream, guard);
	for (unsigned how = 0; how < 16; how++) {
		from_to(&sides[0], &sides[1], how);
		from_to(&sides[1], &sides[0], how);
	}
	for (int i = 0; i < 2; i++)
		side_fini(i);
}

static bool two_gpus(void)
{
	int nr = 0;

	return cudaGetDeviceCount(&nr) == cudaSuccess && nr >= 2;
}

/* Enables peer access both ways.  Returns false if these GPUs have no peer access. */
static bool enable_peers(void)
{
	for (int i = 0; i < 2; i++) {
		int can = 0;

		if (cudaDeviceCanAccessPeer(&can, i, !i) != cudaSuccess || !can)
			return false;
		ck_assert_int_eq(cudaSetDevice(i), cudaSuccess);
		ck_assert_int_eq(cudaDeviceEnablePeerAccess(!i, 0), cudaSuccess);
	}
	return true;
}

/* ---- CUDA without runnel -------------------------------------------------------- */

static void say(const char *way, cudaError_t code)
{
	if (code == cudaSuccess)
		code = cudaStreamSynchronize(cudaStreamPerThread);
	printf("# %s: %s\n", way, cudaGetErrorName(code));
	fflush(stdout);
	(void)cudaGetLastError();
}

static void say_ways(const char *access)
{
	printf("# %s peer access, from a stream of the first GPU, memory of memory pools\n", access);
	ck_assert_int_eq(cudaSetDevice(0), cudaSuccess);
	say("cudaMemcpyAsync, to the other GPU",
	    cudaMemcpyAsync(sides[1].mem, sides[0].mem, BYTES, cudaMemcpyDefault, cudaStreamPerThread));
	say("cudaMemcpyAsync, from the other GPU",
	    cudaMemcpyAsync(sides[0].mem, sides[1].mem, BYTES, cudaMemcpyDefault, cudaStreamPerThread));
	say("cudaMemcpyPeerAsync, to the other GPU",
	    cudaMemcpyPeerAsync(sides[1].mem, 1, sides[0].mem, 0, BYTES, cudaStreamPerThread));
	say("cudaMemcpyPeerAsync, from the other GPU",
	    cudaMemcpyPeerAsync(sides[0].mem, 0, sides[1].mem, 1, BYTES, cudaStreamPerThread));
	say("cudaMemcpyAsync, host to the other GPU",
	    cudaMemcpyAsync(sides[1].mem, sides[0].pinned, BYTES, cudaMemcpyDefault,
			    cudaStreamPerThread));
	say("cudaMemcpyAsync, the other GPU to host",
	    cudaMemcpyAsync(sides[0].pinned, sides[1].mem, BYTES, cudaMemcpyDefault,
			    cudaStreamPerThread));
}

/* ---- tests --------------------------------------------------------------------------- */

TEST(without_peer_access_copies_arrive_both_ways, .timeout_s = 120, .loops = 2)
{
	if (!two_gpus())
		test_skip("there is one GPU");
	all_ways((enum rnl_stream_kind)_i, RNL_GUARD_OFF);
}

TEST(with_peer_access_copies_arrive_both_ways, .timeout_s = 120, .loops = 2)
{
	if (!two_gpus() || !enable_peers())
		test_skip("there are no two GPUs with peer access");
	all_ways((enum rnl_stream_kind)_i, RNL_GUARD_OFF);
}

TEST(under_guard_copies_arrive_both_ways, .timeout_s = 120)
{
	if (!two_gpus())
		test_skip("there is one GPU");
	all_ways(RNL_STREAM_PER_THREAD, RNL_GUARD_REPORT);
}

TEST(which_ways_cuda_has_is_said, .timeout_s = 120, .loops = 2)
{
	if (!two_gpus() || (_i && !enable_peers()))
		test_skip("there are no two GPUs, or none with peer access");
	for (int i = 0; i < 2; i++)
		side_init(i, RNL_STREAM_PER_THREAD, RNL_GUARD_OFF);
	say_ways(_i ? "with" : "without");
	for (int i = 0; i < 2; i++)
		side_fini(i);
}
