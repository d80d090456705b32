/* SPDX-License-Identifier: MIT */
/*
 * A batch on its worker, from its taking to the ends of its requests; batcher.h has the design.
 *
 *	rnl__batch_run()		the job's function
 *	  take_requests()		takes committed requests: rnl__batch_take()
 *	  issue_batch()			copies in, the user's function, copies out;
 *					for a small batch the function only
 *	rnl__batch_done()		the job's callback, after its mark is reached
 *	  complete_all()		results, completion queues, barriers
 *	  rnl__schedule_ended()		takes again, or becomes idle
 */
#include "config.h"

#include <errno.h>
#include <string.h>

#include <runnel/batch.h>
#include <runnel/memory.h>

#include "job/barrier.h"
#include "batch/batcher.h"
#include "batch/resident.h"
#include "pool/guard.h"
#include "pool/pool.h"
#include "pool/unit_check.h"
#include "worker/complete.h"
#include "worker/idle.h"
#include "sys/sizes.h"
#include "sys/thread_state.h"
#include "sys/tsan.h"

#define AHEAD 6u		/* requests to prefetch ahead */

/* Returns the bytes of the results. */
static size_t out_bytes_of(const struct rnl__batch *batch)
{
	return batch->nr * batch->batcher->out_bytes;
}

static size_t status_bytes_of(const struct rnl__batch *batch)
{
	return batch->status ? batch->nr * sizeof(*batch->status) : 0;
}

/* ---- taking ---------------------------------------------------------------- */

/* Called by the taker: gives the batch its part of the slab's spans. */
static void place_spans(struct rnl__batch *batch)
{
	struct rnl__slab *slab = batch->slab;

	if (!batch->nr)
		return;
	batch->spans = slab->spans;
	if (!slab->spans)
		return;
	if (slab == &batch->batcher->slabs[RNL__BOX_SLAB]) {
		/* Each mailbox is in one batch at most, so the first one's spans are free. */
		batch->spans += batch->slots[0] * batch->batcher->resident->nr;
		return;
	}
	batch->spans += slab->spans_used;
	slab->spans_used += batch->nr;
}

/* Takes the requests committed so far.  Returns true if there may be more. */
static bool look_and_take(struct rnl__batch *batch)
{
	struct rnl_batcher *b = batch->batcher;

	rnl__schedule_begin(b);
	/* relaxed: a starving producer sets it before it asks, see [batch.A3] */
	if (atomic_load_explicit(&b->starved, memory_order_relaxed)) {
		/* relaxed: a producer that starves now finds the new slab, or asks again */
		atomic_store_explicit(&b->starved, false, memory_order_relaxed);
		(void)rnl__slab_make(b);
	}
	return rnl__batch_take(batch);
}

static void take_requests(struct rnl__batch *batch)
{
	struct rnl_batcher *b = batch->batcher;
	bool more;

	batch->slab = NULL;
	batch->nr = 0;
	more = look_and_take(batch);
	/* A commit that asked meanwhile needs no other batch if this batch takes its request. */
	if (!more && batch->nr < b->max_batch && rnl__schedule_asked(b))
		more = look_and_take(batch);
	rnl__cells_pick(batch);
	place_spans(batch);
	rnl__schedule_taken(b, more);
}

/* ---- on the device --------------------------------------------------------- */

static int batch_issue_copy(void *dst, const void *src, size_t bytes)
{
	/* The host side is page-locked.  Large copies get their own mark, see run.h. */
	rnl__thread.worker->moved += bytes;
	return rnl__thread.stream->device->ops->copy(&(struct rnl__copy){
		.dst = dst, .src = src, .width = bytes, .rows = 1,
	});
}

static const struct rnl__slot *batch_slot_of(const struct rnl__batch *batch, uint32_t i)
{
	return &batch->slab->slots[batch->slots[i]];
}

/* Returns a request's offset in its slab. */
static size_t offset_of(const struct rnl__batch *batch, uint32_t i)
{
	return batch->spans ? batch_slot_of(batch, i)->offset :
			      batch->slots[i] * batch->batcher->in_bytes;
}

/* Returns the distance to the next request. */
static size_t batch_stride_of(const struct rnl__batch *batch, uint32_t i)
{
	return batch->spans ? rnl__round_up(batch_slot_of(batch, i)->bytes, RNL__SLAB_UNIT) :
			      batch->batcher->in_bytes;
}

/* Fills in the spans: each input's place, for kernels.  Returns the bytes of all inputs. */
static size_t lay_out(struct rnl__batch *batch)
{
	size_t bytes = 0;

	if (!batch->spans)
		return batch->nr * batch->batcher->in_bytes;
	for (uint32_t i = 0; i < batch->nr; i++) {
		batch->spans[i] =
			(struct rnl_span){ (uint32_t)bytes, batch_slot_of(batch, i)->bytes };
		bytes += batch_stride_of(batch, i);
	}
	return bytes;
}

static unsigned char *input_of(const struct rnl__batch *batch, uint32_t i)
{
	return batch->slab->in + offset_of(batch, i);
}

/* Returns the bytes of a run of neighbours in the slab.  @next: the first request after the run. */
static size_t bytes_of_neighbours(const struct rnl__batch *batch, uint32_t i, uint32_t *next)
{
	const size_t first = offset_of(batch, i);
	size_t bytes = batch_stride_of(batch, i);

	for (i++; i < batch->nr && offset_of(batch, i) == first + bytes; i++)
		bytes += batch_stride_of(batch, i);
	*next = i;
	return bytes;
}

/* Copies the inputs; each run of neighbours is one copy. */
static int batch_copy_in(struct rnl__batch *batch, unsigned char *to)
{
	uint64_t copies = 0;
	int ret = 0;

	for (uint32_t i = 0, next; !ret && i < batch->nr; i = next) {
		const size_t bytes = bytes_of_neighbours(batch, i, &next);

		ret = batch_issue_copy(to, input_of(batch, i), bytes);
		to += bytes;
		copies++;
	}
	rnl__figure_add_any(&batch->batcher->figures.copies, copies);
	return ret;
}

static int batch_call_fn(rnl__function *fn, const void *view)
{
	int ret = ((int (*)(const struct rnl_batch *))fn)(view);

	return ret > 0 ? -EINVAL : ret;
}

static int batch_call_function(struct rnl__batch *batch, const struct rnl_batch *view)
{
	const struct rnl_batcher *b = batch->batcher;
	const struct rnl__each_call each = { b, view };
	const struct rnl__guard_call call = {
		b->named, b->fn ? batch_call_fn : rnl__each_call,
		b->fn ? (const void *)view : &each,
	};

	return rnl__unit_check(rnl__thread.worker, call.fn,
			       rnl__guard_call(rnl__thread.worker, &call));
}

static unsigned char *output_of(const struct rnl__batch *batch, uint32_t i)
{
	return rnl__cell_at(batch->batcher, batch->cells[i]);
}

/* Returns the first result after @i whose cell does not follow the previous result's cell. */
static uint32_t batch_end_of_run(const struct rnl__batch *batch, uint32_t i)
{
	for (i++; i < batch->nr && batch->cells[i] == batch->cells[i - 1] + 1; i++)
		;
	return i;
}

/* Copies the results, with one copy for each run of neighbours, and the status of all. */
static int batch_copy_out(const struct rnl__batch *batch, const struct rnl_batch *view)
{
	const size_t each = batch->batcher->out_bytes;
	const unsigned char *from = view->out;
	int ret = 0;

	for (uint32_t i = 0, next; from && !ret && i < batch->nr; i = next) {
		next = batch_end_of_run(batch, i);
		ret = batch_issue_copy(output_of(batch, i), from + i * each, (next - i) * each);
	}
	if (!ret && view->status)
		ret = batch_issue_copy(batch->status, view->status, status_bytes_of(batch));
	return ret;
}

static int issue_with_copies(struct rnl__batch *batch, struct rnl_batch *view)
{
	const size_t spans_at = rnl__round_up(view->in_bytes, RNL__BATCH_ALIGNMENT);
	const size_t spans_bytes = batch->spans ? batch->nr * sizeof(*batch->spans) : 0;
	const size_t out_at = spans_at + rnl__round_up(spans_bytes, RNL__BATCH_ALIGNMENT);
	const size_t status_at = out_at + rnl__round_up(out_bytes_of(batch), RNL__BATCH_ALIGNMENT);
	unsigned char *mem;
	void *scratch;
	int ret = rnl_scratch(status_at + status_bytes_of(batch), &scratch);

	if (ret)
		return ret;
	mem = scratch;
	view->in = mem;
	if (batch->spans)
		view->spans = (const struct rnl_span *)(void *)(mem + spans_at);
	if (out_bytes_of(batch))
		view->out = mem + out_at;
	if (batch->status)
		view->status = (int32_t *)(void *)(mem + status_at);
	ret = batch_copy_in(batch, mem);
	if (!ret && batch->spans)
		ret = batch_issue_copy(mem + spans_at, batch->spans, spans_bytes);
	if (!ret && view->status)
		ret = rnl__thread.stream->device->ops->fill(view->status, 0,
							     status_bytes_of(batch));
	if (!ret)
		ret = batch_call_function(batch, view);
	return ret ? ret : batch_copy_out(batch, view);
}

/* Copies the requests to dense memory on the CPU. */
static const void *gather(const struct rnl__batch *batch)
{
	unsigned char *to = batch->gathered;

	for (uint32_t i = 0, next; i < batch->nr; i = next) {
		const size_t bytes = bytes_of_neighbours(batch, i, &next);

		memcpy(to, input_of(batch, i), bytes);
		to += bytes;
	}
	return batch->gathered;
}

/* Returns the requests in pinned memory, dense and aligned as the function is promised. */
static const void *pinned_input(const struct rnl__batch *batch)
{
	const void *first = input_of(batch, 0);
	uint32_t next;

	(void)bytes_of_neighbours(batch, 0, &next);
	if (next < batch->nr || (uintptr_t)first % RNL__BATCH_ALIGNMENT)
		return gather(batch);
	return first;
}

/* Returns pinned memory for the results, dense and aligned as the function is promised. */
static void *pinned_output(struct rnl__batch *batch)
{
	unsigned char *first = output_of(batch, 0);

	batch->scatters = batch_end_of_run(batch, 0) < batch->nr ||
			  (uintptr_t)first % RNL__BATCH_ALIGNMENT;
	return batch->scatters ? batch->results : first;
}

/* Copies the results to their cells on the CPU. */
static void batch_scatter(const struct rnl__batch *batch)
{
	const size_t each = batch->batcher->out_bytes;

	for (uint32_t i = 0, next; i < batch->nr; i = next) {
		next = batch_end_of_run(batch, i);
		memcpy(output_of(batch, i), batch->results + i * each, (next - i) * each);
	}
}

static int issue_in_place(struct rnl__batch *batch, struct rnl_batch *view)
{
	view->in = pinned_input(batch);
	view->spans = batch->spans;
	view->out = out_bytes_of(batch) ? pinned_output(batch) : NULL;
	view->status = batch->status;
	if (view->status)
		memset(view->status, 0, status_bytes_of(batch));
	return batch_call_function(batch, view);
}

static int issue_batch(struct rnl__batch *batch)
{
	const struct rnl_batcher *b = batch->batcher;
	struct rnl_batch view = { .arg = b->arg, .nr = batch->nr, .in_bytes = lay_out(batch) };

	return view.in_bytes <= b->small_bytes && out_bytes_of(batch) <= b->small_bytes ?
	       issue_in_place(batch, &view) : issue_with_copies(batch, &view);
}

int rnl__batch_run(struct rnl_job *job)
{
	struct rnl__batch *batch = rnl_container_of(job, struct rnl__batch, job);

	/* Another worker may have used the batch's buffers last. */
	rnl__tsan_acquire(batch);
	batch->ran = true;
	batch->scatters = false;
	take_requests(batch);
	return batch->nr ? issue_batch(batch) : 0;
}

/* ---- the ends of requests -------------------------------------------------- */

static void batch_fetch(const struct rnl__batch *batch, uint32_t i)
{
	const char *request = (const char *)batch->requests[i];

	for (size_t at = 0; at < sizeof(struct rnl_request); at += RNL__CACHE_LINE)
		__builtin_prefetch(request + at, 1);
}

static void count_batch(struct rnl__batch *batch, uint32_t nr_failed)
{
	struct rnl__batch_figures *f = &batch->batcher->figures;
	uint32_t largest = rnl__figure_read(&f->largest);

	rnl__figure_add_any(&f->batches, 1);
	rnl__figure_add_any(&f->requests, batch->nr);
	if (nr_failed)
		rnl__figure_add_any(&f->failed, nr_failed);
	while (batch->nr > largest &&
	       /* relaxed: a figure orders nothing */
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

/*
 * Counts the batch and releases its slots first: a thread that sees a request done finds the
 * request counted and its slot free.
 */
static void complete_all(struct rnl__batch *batch, int error)
{
	struct rnl_batcher *b = batch->batcher;
	const int32_t *status = error ? NULL : batch->status;

	if (!batch->nr)
		return;
	if (batch->scatters && !error)
		batch_scatter(batch);
	rnl__tsan_release(batch);
	count_batch(batch, nr_failed(batch, status, error));
	rnl__slab_release(b, batch->slab, batch->nr);
	for (uint32_t i = 0; i < AHEAD && i < batch->nr; i++)
		batch_fetch(batch, i);
	for (uint32_t i = 0; i < batch->nr; i++) {
		struct rnl_request *request = batch->requests[i];

		if (i + AHEAD < batch->nr)
			batch_fetch(batch, i + AHEAD);
		request->in = NULL;
		request->out = !error && b->out_bytes ? output_of(batch, i) : NULL;
		request->cell = batch->cells[i];
		request->job.device_error = error ? batch->job.device_error : 0;
		rnl__complete_request(rnl__thread.worker, &request->job,
				      error ? error : status ? status[i] : 0);
	}
	rnl__owed_tell(rnl__thread.worker);
}

/* The device has failed: takes all requests, and completes them with the error. */
static void batch_fail_all(struct rnl__batch *batch, int error)
{
	bool more;

	do {
		batch->slab = NULL;
		batch->nr = 0;
		rnl__schedule_begin(batch->batcher);
		more = rnl__batch_take(batch);
		rnl__cells_pick(batch);
		complete_all(batch, error);
	} while (more);
	rnl__schedule_taken(batch->batcher, false);
}

void rnl__batch_done(struct rnl_job *job)
{
	struct rnl__batch *batch = rnl_container_of(job, struct rnl__batch, job);
	const int error = job->result < 0 ? job->result : 0;
	struct rnl__resident *r = batch->batcher->resident;

	/* Set before these end: a request that is committed then may take a mailbox. */
	if (r && r->spin_ns && rnl__idle_soon(rnl__thread.worker))
		rnl__spinner_set(&r->spinner, true);
	if (batch->ran)
		complete_all(batch, error);
	else
		batch_fail_all(batch, error);
	if (r)
		rnl__resident_look(r);
	if (rnl__pool_failed(batch->batcher->pool))
		rnl__pool_wake_batches(batch->batcher->pool);
	batch->ran = false;
	rnl__schedule_ended(batch);
}
