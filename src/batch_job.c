/* SPDX-License-Identifier: MIT */
/* A batch on its worker, from its taking to the ends of its requests; batcher.h has the design. */
#include "config.h"

#include <errno.h>

#include "barrier.h"
#include "batcher.h"
#include "cq.h"
#include "guard.h"
#include "pool.h"
#include "run.h"
#include "self.h"

#define ALIGNMENT 256u		/* of each part of a batch's device memory */
#define STATUS_ALIGNMENT 16u
#define NR_CHAINS 8u		/* completion queues that a batch serves at a time */
#define AHEAD 6u		/* requests that are fetched before they are needed */

static size_t round_up(size_t bytes, size_t unit)
{
	return (bytes + unit - 1) / unit * unit;
}

/* The bytes of its results, and where its status lies behind them. */
static size_t out_bytes_of(const struct rnl__batch *batch)
{
	return batch->nr * batch->batcher->out_bytes;
}

static size_t status_at(const struct rnl__batch *batch)
{
	return round_up(out_bytes_of(batch), STATUS_ALIGNMENT);
}

/* All that comes back. */
static size_t back_bytes_of(const struct rnl__batch *batch)
{
	return batch->batcher->has_status ? status_at(batch) + batch->nr * sizeof(int32_t) :
					    out_bytes_of(batch);
}

/* ---- taking ---------------------------------------------------------------- */

/* The taker: gives the batch its part of the slab's output memory. */
static void place(struct rnl__batch *batch)
{
	struct rnl__slab *slab = batch->slab;

	if (!batch->nr)
		return;
	batch->out = slab->out + slab->out_used;
	slab->out_used += round_up(back_bytes_of(batch), RNL__CACHE_LINE);
	batch->spans = slab->spans ? slab->spans + slab->spans_used : NULL;
	slab->spans_used += batch->nr;
}

/* What was asked for up to now; true if there may be more. */
static bool heed_and_take(struct rnl__batch *batch)
{
	struct rnl_batcher *b = batch->batcher;

	rnl__batch_heed(b);
	/* relaxed: who starves has said so before it asked, see [batch.A3] */
	if (atomic_load_explicit(&b->starved, memory_order_relaxed)) {
		/* relaxed: who starves beside it finds the slab that is made, or asks again */
		atomic_store_explicit(&b->starved, false, memory_order_relaxed);
		(void)rnl__slab_make(b);
	}
	return rnl__batch_take(batch);
}

static void take(struct rnl__batch *batch)
{
	struct rnl_batcher *b = batch->batcher;
	bool more;

	batch->slab = NULL;
	batch->nr = 0;
	more = heed_and_take(batch);
	/* Who asked beside it may have been taken already: that is no reason for another batch. */
	if (!more && batch->nr < b->max_batch && rnl__batch_asked(b))
		more = heed_and_take(batch);
	place(batch);
	rnl__batch_took(b, more);
}

/* ---- on the device --------------------------------------------------------- */

static int copy(const struct rnl__batch *batch, void *dst, const void *src, size_t bytes)
{
	/* Page-locked on its host side.  Much of it is marked for itself, see run.h. */
	rnl__self.worker->moved += bytes;
	return batch->batcher->pool->device->ops->copy(&(struct rnl__copy){
		.dst = dst, .src = src, .width = bytes, .rows = 1,
	});
}

static const struct rnl__slot *slot_of(const struct rnl__batch *batch, uint32_t i)
{
	return &batch->slab->slots[batch->slots[i]];
}

/* Where a request lies in its slab, and how far it is from there to its neighbour. */
static size_t offset_of(const struct rnl__batch *batch, uint32_t i)
{
	return batch->spans ? slot_of(batch, i)->offset :
			      batch->slots[i] * batch->batcher->in_bytes;
}

static size_t stride_of(const struct rnl__batch *batch, uint32_t i)
{
	return batch->spans ? round_up(slot_of(batch, i)->bytes, RNL__SLAB_UNIT) :
			      batch->batcher->in_bytes;
}

/* Bytes of all inputs; and tells kernels where each one will be. */
static size_t lay_out(struct rnl__batch *batch)
{
	size_t bytes = 0;

	if (!batch->spans)
		return batch->nr * batch->batcher->in_bytes;
	for (uint32_t i = 0; i < batch->nr; i++) {
		batch->spans[i] = (struct rnl_span){ (uint32_t)bytes, slot_of(batch, i)->bytes };
		bytes += stride_of(batch, i);
	}
	return bytes;
}

/* Neighbours at once. */
static int copy_in(struct rnl__batch *batch, unsigned char *to)
{
	uint64_t copies = 0;
	int ret = 0;

	for (uint32_t i = 0, next; !ret && i < batch->nr; i = next) {
		size_t bytes = stride_of(batch, i);

		for (next = i + 1; next < batch->nr &&
				   batch->slots[next] == batch->slots[next - 1] + 1; next++)
			bytes += stride_of(batch, next);
		ret = copy(batch, to, batch->slab->in + offset_of(batch, i), bytes);
		to += bytes;
		copies++;
	}
	/* relaxed: a figure */
	atomic_fetch_add_explicit(&batch->batcher->figures.copies, copies, memory_order_relaxed);
	return ret;
}

/* What guard calls. */
struct handed {
	const struct rnl_batcher *batcher;
	const struct rnl_batch *is;
};

static int call_fn(void *arg)
{
	const struct handed *handed = arg;
	int ret = handed->batcher->fn(handed->is);

	return ret > 0 ? -EINVAL : ret;
}

static int call(struct rnl__batch *batch, const struct rnl_batch *is)
{
	const struct rnl_pool *pool = batch->batcher->pool;
	struct handed handed = { batch->batcher, is };
	const struct rnl__guard_call guarded = {
		(rnl__function *)batch->batcher->fn, call_fn, &handed,
		pool->device->info.cuda ? batch->job.check : NULL,
	};

	return pool->guard ? rnl__guard_call(rnl__self.worker, &guarded) : call_fn(&handed);
}

/* Each 0, and so is the gap before them, which comes back, too; @out: on the device. */
static int clear_status(const struct rnl__batch *batch, unsigned char *out)
{
	const size_t from = out_bytes_of(batch) / STATUS_ALIGNMENT * STATUS_ALIGNMENT;

	return batch->batcher->pool->device->ops->fill(out + from, 0, back_bytes_of(batch) - from);
}

static int issue(struct rnl__batch *batch)
{
	const struct rnl_batcher *b = batch->batcher;
	const size_t in_bytes = lay_out(batch), back_bytes = back_bytes_of(batch);
	const size_t spans_at = round_up(in_bytes, ALIGNMENT);
	const size_t spans_bytes = batch->spans ? batch->nr * sizeof(*batch->spans) : 0;
	const size_t out_at = spans_at + round_up(spans_bytes, ALIGNMENT);
	struct rnl_batch is = { .arg = b->arg, .nr = batch->nr, .in_bytes = in_bytes };
	unsigned char *mem;
	void *scratch;
	int ret = rnl_scratch(out_at + back_bytes, &scratch);

	if (ret)
		return ret;
	mem = scratch;
	is.in = mem;
	if (batch->spans)
		is.spans = (const struct rnl_span *)(void *)(mem + spans_at);
	if (b->out_bytes)
		is.out = mem + out_at;
	if (b->has_status)
		is.status = (int32_t *)(void *)(mem + out_at + status_at(batch));
	ret = copy_in(batch, mem);
	if (!ret && batch->spans)
		ret = copy(batch, mem + spans_at, batch->spans, spans_bytes);
	if (!ret && is.status)
		ret = clear_status(batch, mem + out_at);
	if (!ret)
		ret = call(batch, &is);
	if (!ret && back_bytes)
		ret = copy(batch, batch->out, mem + out_at, back_bytes);
	return ret;
}

int rnl__batch_turn(struct rnl_job *job)
{
	struct rnl__batch *batch = rnl_container_of(job, struct rnl__batch, job);

	batch->ran = true;
	take(batch);
	return batch->nr ? issue(batch) : 0;
}

/* ---- the ends of requests -------------------------------------------------- */

/* Requests that go to one completion queue, from the first that is done to the last. */
struct chain {
	struct rnl_cq *cq;
	struct rnl_job *oldest, *newest;
};

static void flush(struct chain *chain)
{
	if (chain->cq)
		rnl__cq_push_chain(chain->cq, chain->oldest, chain->newest);
	chain->cq = NULL;
}

static void flush_all(struct chain chains[NR_CHAINS])
{
	for (unsigned i = 0; i < NR_CHAINS; i++)
		flush(&chains[i]);
}

/* The one of a queue, or one that is free then. */
static struct chain *chain_of(struct chain chains[NR_CHAINS], struct rnl_cq *cq)
{
	struct chain *spare = NULL;

	for (unsigned i = 0; i < NR_CHAINS; i++) {
		if (chains[i].cq == cq)
			return &chains[i];
		if (!spare && !chains[i].cq)
			spare = &chains[i];
	}
	if (!spare)
		flush(spare = &chains[(uintptr_t)cq / RNL__CACHE_LINE % NR_CHAINS]);
	return spare;
}

static void finish_in_chain(struct chain chains[NR_CHAINS], struct rnl_job *job, int result)
{
	struct chain *chain = chain_of(chains, job->cq);

	rnl__job_finish(job, result);
	if (chain->cq)
		job->link = chain->newest;
	else
		*chain = (struct chain){ .cq = job->cq, .oldest = job };
	chain->newest = job;
}

static void finish(struct chain chains[NR_CHAINS], struct rnl_job *job, int result)
{
	/* What a barrier counts is on its queue before the barrier says so. */
	if (job->cq && !job->barrier) {
		finish_in_chain(chains, job, result);
		return;
	}
	/* Whoever is called does not hold up others. */
	if (job->on_done)
		flush_all(chains);
	rnl__run_finish(rnl__self.worker, job, result);
}

static void fetch(const struct rnl__batch *batch, uint32_t i)
{
	const char *request = (const char *)slot_of(batch, i)->request;

	for (size_t at = 0; at < sizeof(struct rnl_request); at += RNL__CACHE_LINE)
		__builtin_prefetch(request + at, 1);
}

static void count(struct rnl__batch *batch, uint32_t nr_failed)
{
	struct rnl__batch_figures *f = &batch->batcher->figures;
	/* relaxed: figures, all of them */
	uint32_t largest = atomic_load_explicit(&f->largest, memory_order_relaxed);

	/* relaxed: as said */
	atomic_fetch_add_explicit(&f->batches, 1, memory_order_relaxed);
	/* relaxed: as said */
	atomic_fetch_add_explicit(&f->requests, batch->nr, memory_order_relaxed);
	if (nr_failed)
		/* relaxed: as said */
		atomic_fetch_add_explicit(&f->failed, nr_failed, memory_order_relaxed);
	while (batch->nr > largest &&
	       /* relaxed: as said */
	       !atomic_compare_exchange_weak_explicit(&f->largest, &largest, batch->nr,
						      memory_order_relaxed, memory_order_relaxed))
		;
}

static uint32_t nr_failed(const struct rnl__batch *batch, const int32_t *status, int error)
{
	uint32_t nr = 0;

	if (error)
		return batch->nr;
	for (uint32_t i = 0; status && i < batch->nr; i++)
		nr += status[i] < 0;
	return nr;
}

/* Counted first: who sees a request done sees it counted.  The last one may have the slab go on. */
static void finish_all(struct rnl__batch *batch, int error)
{
	const struct rnl_batcher *b = batch->batcher;
	const int32_t *status = NULL;
	struct chain chains[NR_CHAINS] = { { 0 } };

	if (!batch->nr)
		return;
	if (b->has_status && !error)
		status = (const int32_t *)(const void *)(batch->out + status_at(batch));
	count(batch, nr_failed(batch, status, error));
	for (uint32_t i = 0; i < AHEAD && i < batch->nr; i++)
		fetch(batch, i);
	for (uint32_t i = 0; i < batch->nr; i++) {
		struct rnl_request *request = slot_of(batch, i)->request;

		if (i + AHEAD < batch->nr)
			fetch(batch, i + AHEAD);
		request->out = !error && b->out_bytes ? batch->out + i * b->out_bytes : NULL;
		request->job.device_error = error ? batch->job.device_error : 0;
		finish(chains, &request->job, error ? error : status ? status[i] : 0);
	}
	flush_all(chains);
	rnl__run_tell_barrier(rnl__self.worker);
}

/* The device has failed: nothing of it runs any more, so all that is there is taken, and told. */
static void fail_all(struct rnl__batch *batch, int error)
{
	bool more;

	do {
		batch->slab = NULL;
		batch->nr = 0;
		rnl__batch_heed(batch->batcher);
		more = rnl__batch_take(batch);
		finish_all(batch, error);
	} while (more);
	rnl__batch_took(batch->batcher, false);
}

/* There will be no room any more. */
static void tell_failed(struct rnl_pool *pool)
{
	/* [batch.B4] full barrier: failed before we look who waits; pairs with [bell.L2] */
	rnl__full_barrier();
	rnl__bell_ring(&pool->room_batch);
}

void rnl__batch_turned(struct rnl_job *job)
{
	struct rnl__batch *batch = rnl_container_of(job, struct rnl__batch, job);
	const int error = job->result < 0 ? job->result : 0;

	if (batch->ran)
		finish_all(batch, error);
	else
		fail_all(batch, error);
	if (rnl__device_failed(batch->batcher->pool->device))
		tell_failed(batch->batcher->pool);
	batch->ran = false;
	rnl__batch_ended(batch);
}
