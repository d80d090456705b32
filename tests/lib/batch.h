/* SPDX-License-Identifier: MIT */
/*
 * Requests whose output is known: a model on the CPU computes it.
 *
 * DESIGN
 *	The output of a request is its input, cut off, or followed by FILLER.  With
 *	RNL_BATCHER_STATUS the input's first four bytes are also the request's result.  Copies and
 *	fills do this, so it works on every device.  Requests of different sizes need a kernel,
 *	which is a host function.
 */
#ifndef BATCH_H
#define BATCH_H

#include <runnel/batch.h>
#include <runnel/kernel.h>

#include "answer.h"
#include "host_kernel.h"
#include "pool.h"

#define OUT_MAX 8192

/* The function of a batcher, and its parameters.  Each batcher has its own. */
struct kind {
	struct rnl_batcher_attr attr;
	struct gate *gate;		/* the function waits at this gate; NULL: no gate */
	_Atomic int error;		/* the function's return value */
	_Atomic unsigned nr_calls;
	_Atomic uint32_t largest;
};

static inline size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ---- the functions --------------------------------------------------------- */

struct unpack_args {
	struct rnl_batch batch;
	size_t out_bytes;
};

/* The kernel for requests of any size. */
static void unpack_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct unpack_args *a = args;

	(void)grid;
	(void)block;
	for (uint32_t i = 0; i < a->batch.nr; i++) {
		const struct rnl_span span = a->batch.spans[i];
		const char *in = (const char *)a->batch.in + span.offset;

		if (a->batch.status)
			memcpy(&a->batch.status[i], in, sizeof(int32_t));
		if (!a->out_bytes)
			continue;
		memset((char *)a->batch.out + i * a->out_bytes, FILLER, a->out_bytes);
		memcpy((char *)a->batch.out + i * a->out_bytes, in,
		       least(span.bytes, a->out_bytes));
	}
}
RNL_HOST_KERNEL(unpack, unpack_host, struct unpack_args);

static inline int launch_unpack(const struct rnl_batch *batch, size_t out_bytes)
{
	const struct unpack_args args = { *batch, out_bytes };
	const struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&unpack, one, one, &args);
}

static inline int copy_all(const struct rnl_batch *batch, const struct rnl_batcher_attr *attr)
{
	const size_t in = attr->in_bytes, out = attr->out_bytes;
	int ret = 0;

	if (batch->status)
		ret = rnl_copy_2d(batch->status, sizeof(int32_t), batch->in, in, sizeof(int32_t),
				  batch->nr);
	if (ret || !out)
		return ret;
	ret = rnl_fill(batch->out, FILLER, batch->nr * out);
	return ret ? ret : rnl_copy_2d(batch->out, out, batch->in, in, least(in, out), batch->nr);
}

static inline int kind_fn(const struct rnl_batch *batch)
{
	struct kind *kind = batch->arg;
	const struct rnl_batcher_attr *attr = &kind->attr;
	uint32_t largest = kind->largest;

	kind->nr_calls++;
	while (batch->nr > largest &&
	       !atomic_compare_exchange_weak(&kind->largest, &largest, batch->nr))
		;
	if (kind->gate)
		gate_wait(kind->gate);
	if (kind->error)
		return kind->error;
	if (!batch->nr || !batch->in || !batch->in_bytes || !batch->out != !attr->out_bytes ||
	    !batch->spans != !(attr->flags & RNL_BATCHER_VARIABLE) ||
	    !batch->status != !(attr->flags & RNL_BATCHER_STATUS) ||
	    (uintptr_t)batch->in % 256 || (uintptr_t)batch->out % 256)
		return -EPROTO;
	return batch->spans ? launch_unpack(batch, attr->out_bytes) : copy_all(batch, attr);
}

/* ---- creation -------------------------------------------------------------- */

static inline struct kind kind_of(uint32_t flags, size_t in_bytes, size_t out_bytes)
{
	struct kind kind = { .attr = RNL_BATCHER_ATTR_INIT };

	kind.attr.flags = flags;
	kind.attr.in_bytes = in_bytes;
	kind.attr.out_bytes = out_bytes;
	return kind;
}

static inline struct rnl_batcher *batcher_of(struct rnl_pool *pool, struct kind *kind)
{
	struct rnl_batcher *batcher = NULL;

	kind->attr.fn = kind_fn;
	kind->attr.arg = kind;
	must(rnl_batcher_create(&batcher, pool, &kind->attr));
	ck_assert_ptr_nonnull(batcher);
	return batcher;
}

static inline struct rnl_batcher_stats counts_of(struct rnl_batcher *batcher)
{
	struct rnl_batcher_stats stats = RNL_BATCHER_STATS_INIT;

	must(rnl_batcher_read_stats(batcher, &stats));
	return stats;
}

static inline void request_of(struct rnl_request *request, void *user)
{
	*request = (struct rnl_request){ .out = NULL };
	must(rnl_job_init(&request->job, NULL));
	request->job.user = user;
}

/* A byte of request number @seed.  Different seeds give different bytes. */
static inline unsigned char byte_of(uint64_t seed, size_t i)
{
	return (unsigned char)((seed * 8191 + i + 1) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

static inline void request_fill(struct rnl_request *request, uint64_t seed)
{
	unsigned char *in = request->in;

	for (size_t i = 0; i < request->in_bytes; i++)
		in[i] = byte_of(seed, i);
}

/* Returns the index of the first wrong byte of the output; -1: all are right. */
static inline long wrong_byte(const struct rnl_request *request, uint64_t seed, size_t out_bytes)
{
	const unsigned char *out = request->out;

	for (size_t i = 0; i < out_bytes; i++) {
		if (out[i] != (i < request->in_bytes ? byte_of(seed, i) : FILLER))
			return (long)i;
	}
	return -1;
}

static inline void reserve(struct rnl_batcher *batcher, struct rnl_request *request, size_t bytes)
{
	must(rnl_batcher_reserve(batcher, request, bytes, 0));
	ck_assert_ptr_nonnull(request->in);
	ck_assert_uint_eq(request->in_bytes, bytes);
}

/* Commits a request; it may not be done on return. */
static inline void send(struct rnl_batcher *batcher, struct rnl_request *request, size_t bytes,
			uint64_t seed)
{
	reserve(batcher, request, bytes);
	request_fill(request, seed);
	must(rnl_request_commit(request));
}

/* Waits for a request and checks its output. */
static inline void receive(struct rnl_request *request, uint64_t seed, size_t out_bytes)
{
	ck_assert_int_eq(result_of(&request->job), 0);
	ck_assert_int_eq(!request->out, !out_bytes);
	ck_assert_int_eq(wrong_byte(request, seed, out_bytes), -1);
	must(rnl_request_release(request));
}

/* ---- a pool, a batcher, some requests --------------------------------------- */

#define NR_ALL 50
#define ALL_BYTES 64

struct all {
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;
	struct kind kind;
	struct rnl_request requests[NR_ALL];
	_Atomic unsigned nr_called, nr_wrong;	/* callbacks, and errors found in them */
};

static inline void all_begin(struct all *all, unsigned nr_workers, uint32_t flags)
{
	all->pool = pool_of(nr_workers);
	all->nr_called = all->nr_wrong = 0;
	all->kind = kind_of(flags, ALL_BYTES, ALL_BYTES);
	all->batcher = batcher_of(all->pool, &all->kind);
	for (unsigned i = 0; i < NR_ALL; i++)
		request_of(&all->requests[i], all);
}

static inline void all_end(struct all *all)
{
	rnl_batcher_destroy(all->batcher);
	rnl_pool_destroy(all->pool);
}

static inline void send_all(struct all *all)
{
	for (unsigned i = 0; i < NR_ALL; i++)
		send(all->batcher, &all->requests[i], ALL_BYTES, i);
}

static inline void receive_all(struct all *all)
{
	for (unsigned i = 0; i < NR_ALL; i++)
		receive(&all->requests[i], i, ALL_BYTES);
}

/* The callback of all requests. */
static inline void all_on_done(struct rnl_job *job)
{
	struct rnl_request *request = rnl_container_of(job, struct rnl_request, job);
	struct all *all = job->user;

	all->nr_wrong += rnl_worker().index < 0;
	all->nr_wrong += job->result != 0;
	all->nr_wrong += wrong_byte(request, (uint64_t)(request - all->requests), ALL_BYTES) >= 0;
	all->nr_wrong += rnl_request_release(request) != 0;
	all->nr_called++;
}

/* For tests with requests of different sizes, which need the kernel. */
#define skip_unless_kernels() \
	do { \
		if (!on_host() && !test_fake()) \
			test_skip("%.*s: its kernel is a host function", \
				  (int)strlen(__func__) - 3, __func__); \
	} while (0)

#endif /* BATCH_H */
