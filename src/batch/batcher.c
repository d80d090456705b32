/* SPDX-License-Identifier: MIT */
/* Batchers: create, destroy and statistics; batcher.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/batch.h>

#include "sys/abi.h"
#include "sys/counter.h"
#include "batch/batcher.h"
#include "batch/resident.h"
#include "sys/latch.h"
#include "sys/sizes.h"
#include "pool/classes.h"
#include "pool/pool.h"
#include "pool/unit_check.h"

#define BATCH_DEFAULT 256u
#define IN_FLIGHT_DEFAULT 4u
#define SLABS_DEFAULT 4u
#define BATCHES_EACH 4u		/* slots of a slab, in largest batches ... */
#define SLAB_DEFAULT (16u << 20) /* ... up to this many bytes */
#define TURN_MAX 32u
#define CREATE "rnl_batcher_create()"
#define STATS "rnl_batcher_read_stats()"
#define REQUEST_MAX ((size_t)RNL__SLAB_UNITS_MAX * RNL__SLAB_UNIT)

#define FLAGS \
	(RNL_BATCHER_VARIABLE | RNL_BATCHER_STATUS | RNL_BATCHER_ALWAYS_COPY | \
	 RNL_BATCHER_RESIDENT | RNL_BATCHER_SHARED)

_Static_assert(RNL__SLOTS_MAX < 1u << RNL__SLAB_SLOT_BITS, "a slab's word counts its slots");
_Static_assert(RNL__SLABS_MAX < 1u << RNL__SLAB_ROUND_BITS, "slabs' rounds differ");

/* ---- creating -------------------------------------------------------------- */

/* Returns the function of a request kernel on the pool's devices, or NULL if there is none. */
static rnl__function *kernel_fn(const struct rnl_pool *pool, const struct rnl_request_kernel *kernel)
{
	if (!rnl__pool_any_device(pool)->info.cuda)
		return (rnl__function *)kernel->host;
	return kernel->batch ? (rnl__function *)kernel->batch->cuda : NULL;
}

/* Checks what the batches run. */
static int check_functions(struct rnl_pool *pool, const struct rnl_batcher_attr *attr)
{
	const struct rnl_request_kernel *kernel = attr->kernel;
	rnl__function *fn;

	if (!attr->fn && !kernel)
		return rnl__invalid(&pool->log, CREATE ": fn is NULL, and so is kernel: set one of them");
	if (attr->flags & RNL_BATCHER_RESIDENT && !kernel)
		return rnl__invalid(&pool->log, CREATE ": flags have RNL_BATCHER_RESIDENT, and kernel is "
				    "NULL: name the kernel that is to be resident");
	fn = kernel ? kernel_fn(pool, kernel) : NULL;
	if (kernel && !fn)
		return rnl__invalid(&pool->log, CREATE ": the request kernel %s has no function for the "
				    "pool's devices: define it by RNL_REQUEST_KERNEL() with both functions",
				    kernel->name);
	/* A launch that RNL_REQUEST_KERNEL() defines names its stream. */
	if (!attr->fn && rnl__pool_any_device(pool)->info.cuda)
		return 0;
	if (attr->fn)
		fn = (rnl__function *)attr->fn;
	return rnl__unit_fits(pool, fn) ? 0 : rnl__unit_refuse(pool, CREATE, fn);
}

static int batcher_check_attr(struct rnl_pool *pool, const struct rnl_batcher_attr *attr)
{
	const struct rnl__range ranges[] = {
		{ "in_bytes", attr->in_bytes, 1, REQUEST_MAX },
		{ "out_bytes", attr->out_bytes, 0, REQUEST_MAX },
		{ "slab_bytes", attr->slab_bytes, attr->slab_bytes ? attr->in_bytes : 0,
		  REQUEST_MAX },
		{ "max_batch", attr->max_batch, 0, RNL__SLOTS_MAX },
		{ "max_in_flight", attr->max_in_flight, 0, RNL__BATCHES_MAX },
		{ "nr_slabs", attr->nr_slabs, 0, RNL__SLABS_MAX },
		{ "max_slabs", attr->max_slabs, attr->max_slabs ? attr->nr_slabs : 0,
		  RNL__SLABS_MAX },
		{ "nr_mailboxes", attr->nr_mailboxes, 0, RNL__MAILBOXES_MAX },
		{ "spin_us", attr->spin_us, 0, RNL__SPIN_US_MAX },
	};
	int ret;

	if (attr->flags & ~(uint32_t)FLAGS)
		return rnl__invalid(&pool->log, CREATE ": flags is 0x%x; 0x%x of that is not known",
				    (unsigned)attr->flags,
				    (unsigned)(attr->flags & ~(uint32_t)FLAGS));
	if (attr->spin_us && !(attr->flags & RNL_BATCHER_RESIDENT))
		return rnl__invalid(&pool->log, CREATE ": spin_us is %u, and flags lack "
				    "RNL_BATCHER_RESIDENT: workers spin only for a resident kernel's "
				    "answers", attr->spin_us);
	if (attr->nr_mailboxes && !(attr->flags & RNL_BATCHER_RESIDENT))
		return rnl__invalid(&pool->log, CREATE ": nr_mailboxes is %u, and flags lack "
				    "RNL_BATCHER_RESIDENT: only a resident kernel has mailboxes",
				    attr->nr_mailboxes);
	ret = check_functions(pool, attr);
	return ret ? ret : rnl__check_ranges(&pool->log, CREATE, ranges, sizeof(ranges) / sizeof(ranges[0]));
}

/* Replaces attributes that are 0 by their defaults. */
static void batcher_fill_in(struct rnl_batcher_attr *attr, unsigned nr_devices)
{
	if (!attr->max_batch)
		attr->max_batch = BATCH_DEFAULT;
	if (!attr->max_in_flight)
		attr->max_in_flight = (uint32_t)rnl__smaller(IN_FLIGHT_DEFAULT * nr_devices,
							     RNL__BATCHES_MAX);
	if (!attr->nr_slabs)
		attr->nr_slabs = (uint32_t)rnl__smaller(SLABS_DEFAULT * nr_devices,
							attr->max_slabs ? attr->max_slabs :
							RNL__SLABS_MAX);
	if (!attr->max_slabs)
		attr->max_slabs = (uint32_t)rnl__smaller(2 * attr->nr_slabs, RNL__SLABS_MAX);
	if (!attr->slab_bytes) {
		const uint64_t batches = (uint64_t)BATCHES_EACH * attr->max_batch;

		attr->slab_bytes = rnl__smaller(batches * attr->in_bytes, SLAB_DEFAULT);
		attr->slab_bytes = rnl__larger(attr->slab_bytes, attr->in_bytes);
	}
}

/* Returns a slab's slots: one for each request of in_bytes, more for variable, smaller requests. */
static uint32_t nr_slots_for(const struct rnl_batcher_attr *attr)
{
	uint64_t nr = attr->slab_bytes / attr->in_bytes;

	if (attr->flags & RNL_BATCHER_VARIABLE && nr < BATCHES_EACH * attr->max_batch)
		nr = BATCHES_EACH * attr->max_batch;
	return (uint32_t)rnl__smaller(nr, RNL__SLOTS_MAX);
}

/* Returns this part's share of a total. */
static unsigned share_of(const struct rnl_batcher *b, unsigned all)
{
	return all / b->nr_parts + (b->part < all % b->nr_parts);
}

/* Makes the batches run the request kernel. */
static void apply_kernel(struct rnl_batcher *b, const struct rnl_request_kernel *kernel)
{
	b->each = kernel->batch ? *kernel->batch : (struct rnl_kernel){ .name = kernel->name };
	b->each.args_bytes = sizeof(struct rnl__each_args);
	b->each.host = rnl__each_host;
	b->one = kernel->host;
	b->named = kernel_fn(b->pool, kernel);
}

static void apply(struct rnl_batcher *b, struct rnl_pool *pool, const struct rnl_batcher_attr *attr)
{
	b->pool = pool;
	b->fn = attr->fn;
	b->named = (rnl__function *)attr->fn;
	if (attr->kernel && !attr->fn)
		apply_kernel(b, attr->kernel);
	b->arg = attr->arg;
	b->class = attr->cls;
	b->class_id = attr->cls ? rnl__class_id(attr->cls) : 0;
	b->variable = attr->flags & RNL_BATCHER_VARIABLE;
	b->has_status = attr->kernel || attr->flags & RNL_BATCHER_STATUS;
	b->small_bytes = attr->flags & RNL_BATCHER_ALWAYS_COPY ? 0 : RNL__BATCH_SMALL;
	b->in_bytes = attr->in_bytes;
	b->out_bytes = attr->out_bytes;
	b->cell_unit = b->out_bytes % RNL__BATCH_ALIGNMENT ?
		       RNL__BATCH_ALIGNMENT / (uint32_t)(b->out_bytes & -b->out_bytes) : 1;
	b->nr_slots = nr_slots_for(attr);
	b->max_batch = (uint32_t)rnl__smaller(attr->max_batch, b->nr_slots);
	b->nr_units = (uint32_t)((attr->slab_bytes + RNL__SLAB_UNIT - 1) / RNL__SLAB_UNIT);
	b->slab_bytes = b->variable ? (size_t)b->nr_units * RNL__SLAB_UNIT :
				      b->nr_slots * b->in_bytes;
	b->turn = (unsigned)rnl__smaller(b->max_batch, TURN_MAX);
	b->max_slabs = share_of(b, attr->max_slabs);
	b->nr_batches = share_of(b, attr->max_in_flight);
}

/* Allocates a batch's pinned memory, or sets *@ptr to NULL if @bytes is 0. */
static int batch_get_pinned(const struct rnl_batcher *b, size_t bytes, void *ptr)
{
	void *buf = NULL;
	int ret = bytes ? rnl__pinned_get(b->pool->pinned, bytes, &buf) : 0;

	memcpy(ptr, &buf, sizeof(buf));
	return ret;
}

/* Allocates space for the largest batch. */
static int batch_make_space(const struct rnl_batcher *b, struct rnl__batch *batch)
{
	int ret;

	batch->requests = malloc(b->max_batch * sizeof(*batch->requests));
	batch->cells = malloc(b->max_batch * sizeof(*batch->cells));
	batch->slots = malloc(b->max_batch * sizeof(*batch->slots));
	if (!batch->requests || !batch->cells || !batch->slots)
		return -ENOMEM;
	ret = batch_get_pinned(b, b->small_bytes, &batch->gathered);
	if (!ret)
		ret = batch_get_pinned(b, b->out_bytes ? b->small_bytes : 0, &batch->results);
	if (!ret)
		ret = batch_get_pinned(b, b->has_status ? b->max_batch * sizeof(*batch->status) : 0,
				 &batch->status);
	return ret;
}

static void batch_free_space(const struct rnl_batcher *b, struct rnl__batch *batch)
{
	void *const pinned[] = { batch->gathered, batch->results, batch->status };

	free(batch->requests);
	free(batch->cells);
	free(batch->slots);
	for (unsigned i = 0; i < sizeof(pinned) / sizeof(pinned[0]); i++)
		if (pinned[i])
			(void)rnl__pinned_put(b->pool->pinned, pinned[i]);
}

static int make_batches(struct rnl_batcher *b)
{
	int ret;

	b->batches = calloc(b->nr_batches, sizeof(*b->batches));
	if (!b->batches)
		return -ENOMEM;
	for (unsigned i = 0; i < b->nr_batches; i++) {
		struct rnl__batch *batch = &b->batches[i];

		(void)rnl_job_init(&batch->job, rnl__batch_run);
		(void)rnl_job_set_on_done(&batch->job, rnl__batch_done);
		batch->job.flags |= RNL__JOB_INTERNAL;
		batch->home = rnl__pool_place(b->pool, &b->used, i * b->nr_parts + b->part,
					      &batch->job);
		batch->batcher = b;
		batch->index = i;
		ret = b->class ? rnl__class_keep(b->class, &batch->job) : 0;
		if (ret == -EAGAIN)
			rnl__pool_log(b->pool, RNL_LOG_ERROR, CREATE ": the class has no place for batch %u of %u: "
				      "each keeps one, so make its max_queued larger, or max_in_flight smaller",
				      i + 1, b->nr_batches);
		if (!ret)
			ret = batch_make_space(b, batch);
		if (ret)
			return ret;
	}
	/* relaxed: the caller publishes the batcher */
	atomic_store_explicit(&b->word, ((UINT64_C(1) << b->nr_batches) - 1) <<
					RNL__BATCHER_IDLE_SHIFT, memory_order_relaxed);
	return 0;
}

static int make_slabs(struct rnl_batcher *b, unsigned nr)
{
	/* The round of the first slab. */
	const uint64_t round = RNL__START(RNL__SLAB_ROUND_BITS, RNL__SLABS_MAX) / b->max_slabs *
			       b->max_slabs;
	int ret = 0;

	b->at = round;
	/* relaxed: the caller publishes the batcher */
	atomic_store_explicit(&b->open, round, memory_order_relaxed);
	for (unsigned i = 0; !ret && i < nr; i++)
		ret = rnl__slab_make(b);
	if (!ret)
		/* relaxed: the caller publishes it */
		atomic_store_explicit(&b->slabs[0].word, rnl__slab_word(RNL__SLAB_OPEN, round),
				      memory_order_relaxed);
	/* relaxed: the caller publishes it */
	atomic_store_explicit(&b->slabs[0].limit, rnl__slab_limit(round, 0), memory_order_relaxed);
	return ret;
}

static void release_part(struct rnl_batcher *b)
{
	rnl__resident_end(b);
	rnl__resident_free(b);
	rnl__slabs_free(b);
	for (unsigned i = 0; b->batches && i < b->nr_batches; i++)
		batch_free_space(b, &b->batches[i]);
	free(b->batches);
}

/* Gives the batches' slots back to their class, unless it has ended. */
static void leave_class(struct rnl_batcher *b)
{
	if (!b->class || !rnl__class_enter(b->class, b->class_id))
		return;
	for (unsigned part = 0; part < b->nr_parts; part++)
		for (unsigned i = 0; b[part].batches && i < b[part].nr_batches; i++)
			rnl__class_unkeep(b->class, &b[part].batches[i].job);
	rnl__class_leave(b->class);
}

static void batcher_release(struct rnl_batcher *b)
{
	leave_class(b);
	for (unsigned i = 0; i < b->nr_parts; i++)
		release_part(&b[i]);
	free(b);
}

static int batcher_make_parts(struct rnl_batcher *b, struct rnl_pool *pool,
			      const struct rnl__used *used, const struct rnl_batcher_attr *attr)
{
	const unsigned nr = b->nr_parts;
	int ret = 0;

	for (unsigned i = 0; !ret && i < nr; i++) {
		b[i].used = *used;
		b[i].part = i;
		b[i].nr_parts = nr;
		apply(&b[i], pool, attr);
		ret = make_batches(&b[i]);
		if (!ret)
			ret = make_slabs(&b[i], share_of(&b[i], attr->nr_slabs));
		if (!ret && attr->flags & RNL_BATCHER_RESIDENT)
			ret = rnl__resident_start(&b[i], attr);
	}
	return ret;
}

/* @attr: filled in. */
static int make_batcher(struct rnl_batcher **bp, struct rnl_pool *pool, const struct rnl__used *used,
			const struct rnl_batcher_attr *attr)
{
	/* Each part needs a batch and a slab.  With few parts, a part serves several devices. */
	const size_t nr_parts = rnl__smaller(used->nr, rnl__smaller(attr->max_in_flight,
								    attr->nr_slabs));
	struct rnl_batcher *b = aligned_alloc(RNL__CACHE_LINE, nr_parts * sizeof(*b));
	int ret;

	if (!b)
		return -ENOMEM;
	memset(b, 0, nr_parts * sizeof(*b));
	b->nr_parts = (unsigned)nr_parts;
	ret = batcher_make_parts(b, pool, used, attr);
	if (ret)
		batcher_release(b);
	else
		*bp = b;
	return ret;
}

static void log_batcher(const struct rnl_batcher *b, const struct rnl_batcher_attr *attr)
{
	rnl__pool_log(b->pool, RNL_LOG_DEBUG, CREATE ": %u parts; slabs of %u requests, %u now, at most "
		      "%u; batches of %u requests, %u at the same time; %s; the resident kernel is %s",
		      b->nr_parts, b->nr_slots, attr->nr_slabs, attr->max_slabs, b->max_batch,
		      attr->max_in_flight, b->small_bytes ? "small batches are not copied" :
		      "all batches are copied", b->resident ? "on" : "off");
}

int rnl_batcher_create(struct rnl_batcher **bp, struct rnl_pool *pool,
		       const struct rnl_batcher_attr *user_attr)
{
	struct rnl_batcher_attr attr;
	struct rnl__used used;
	int ret = rnl__pool_given(pool, CREATE);

	if (ret)
		return ret;
	if (!bp || !user_attr)
		return rnl__invalid(&pool->log, CREATE ": %s is NULL", bp ? "attr" : "batcherp");
	ret = rnl__copy_in(&attr, sizeof(attr), user_attr, RNL__FIRST_BATCHER_ATTR);
	if (ret)
		return rnl__bad_struct(&pool->log, CREATE, "the attributes", user_attr, ret);
	ret = batcher_check_attr(pool, &attr);
	if (!ret)
		ret = rnl__pool_used(pool, CREATE, attr.devices, &used);
	if (!ret)
		ret = rnl__pool_accepts(pool);
	if (!ret && attr.cls)
		ret = rnl__class_enter_given(pool, CREATE, attr.cls);
	if (ret)
		return ret;
	batcher_fill_in(&attr, used.nr);
	ret = make_batcher(bp, pool, &used, &attr);
	if (!ret)
		log_batcher(*bp, &attr);
	if (attr.cls)
		rnl__class_leave(attr.cls);
	return ret;
}

/* ---- ending ---------------------------------------------------------------- */

void rnl_batcher_destroy(struct rnl_batcher *b)
{
	if (!b || rnl__pool_check(b->pool))
		return;		/* NULL, or the parent's batcher in a child without workers */
	for (unsigned i = 0; i < b->nr_parts; i++)
		/* relaxed: a callback that runs now may see it later */
		atomic_store_explicit(&b[i].closed, true, memory_order_relaxed);
	if (rnl__pool_worker(b->pool)) {
		rnl__pool_log(b->pool, RNL_LOG_ERROR,
			      "rnl_batcher_destroy() on a worker: it is closed, not freed");
		return;
	}
	(void)rnl__latch_wait(rnl__batcher_busy(b), b->pool->spin_ns, RNL__NEVER);
	batcher_release(b);
}

/* ---- figures --------------------------------------------------------------- */

static void add_figures(struct rnl_batcher_stats *s, struct rnl_batcher *b)
{
	const uint32_t largest = rnl__figure_read(&b->figures.largest);

	s->nr_slabs += rnl__figure_read(&b->nr_slabs);
	s->largest = largest > s->largest ? largest : s->largest;
	s->requests += rnl__figure_read(&b->figures.requests);
	s->failed += rnl__figure_read(&b->figures.failed);
	s->batches += rnl__figure_read(&b->figures.batches);
	s->copies += rnl__figure_read(&b->figures.copies);
	s->late += rnl__figure_read(&b->figures.late);
	s->cancelled += rnl__figure_read(&b->figures.cancelled);
	s->refused += rnl__figure_read(&b->refused);
	if (b->resident)
		rnl__resident_add_figures(s, b->resident);
}

int rnl_batcher_read_stats(struct rnl_batcher *b, struct rnl_batcher_stats *stats)
{
	struct rnl_batcher_stats s = { .size = sizeof(s) };
	int ret = b ? rnl__pool_check(b->pool) : rnl__invalid(NULL, STATS ": batcher is NULL");

	if (ret)
		return ret;
	ret = rnl__check_out(stats, RNL__FIRST_BATCHER_STATS);
	if (ret)
		return stats ? rnl__bad_struct(&b->pool->log, STATS, "stats", stats, ret) :
			       rnl__invalid(&b->pool->log, STATS ": stats is NULL");
	for (unsigned i = 0; i < b->nr_parts; i++)
		add_figures(&s, &b[i]);
	rnl__copy_out(stats, &s, sizeof(s));
	return 0;
}
