/* SPDX-License-Identifier: MIT */
/* The keeper of a resident kernel; resident.h has the design.  */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>

#include "batch/resident.h"
#include "pool/attach.h"
#include "pool/pool.h"
#include "sys/clock.h"
#include "sys/fence.h"
#include "sys/latch.h"
#include "sys/sizes.h"
#include "sys/thread.h"

#define HOT_NS 100000u		/* the first mailbox is polled as a whole for this long */
#define LINE_PIECES 8u		/* each mailbox begins on lines of its own */
#define LEASE_BLOCK_MIN 32u
#define IDLE_NS 200000u		/* without a request for this long, no lease follows */
#define ENDS_NS 50000u		/* the keeper ends what no thread has ended for this long */
#define NAP_NS 50000u		/* between two looks of the keeper */
#define STARTS_NS 200000u	/* a first lease usually serves sooner after its launch, ... */
#define STARTS_NAP_NS 5000u	/* ... and the keeper looks for that more often */
#define RETURNS_NS 100000000u	/* a function that takes longer is reported */
#define SLICE_NS 1000000u	/* a lease that takes longer shares the device with other processes, ... */
#define OFF_NS 100000000u	/* ... and none follows for this long */

/* Notes for the pool's health that a lease does not end.  A pool notes one at a time. */
static void note_hung(struct rnl__resident *r)
{
	struct rnl_pool *pool = r->b->pool;
	uint64_t none = 0;

	if (r->hung ||
	    /* [keeper.H2] acquire: the last note's name is gone; pairs with [keeper.H3] */
	    !atomic_compare_exchange_strong_explicit(&pool->hung_since, &none, r->running_since,
						     memory_order_acquire, memory_order_relaxed))
		return;
	r->hung = true;
	/* [keeper.H1] release: publishes the time; pairs with [stats.H5] */
	atomic_store_explicit(&pool->hung, r->name, memory_order_release);
}

static void forget_hung(struct rnl__resident *r)
{
	struct rnl_pool *pool = r->b->pool;

	if (!r->hung)
		return;
	r->hung = false;
	/* relaxed: there is nothing to read then */
	atomic_store_explicit(&pool->hung, NULL, memory_order_relaxed);
	/* [keeper.H3] release: the name is gone before another keeper notes; pairs with [keeper.H2] */
	atomic_store_explicit(&pool->hung_since, 0, memory_order_release);
}

/*
 * Counts the leases that have ended: all their blocks have left.  If that takes long, asks the driver: it
 * finds out whether the device has failed.
 */
static void count_ended(struct rnl__resident *r, uint64_t now)
{
	uint64_t ended = r->launched;

	for (unsigned i = 0; i < r->nr && !rnl__device_failed(r->device); i++) {
		const uint64_t status = rnl__mailbox_status(&r->boxes[i]);

		ended = rnl__smaller(ended, (status >> 1) - (status & 1));
	}
	if (ended < r->launched && (int64_t)(now - r->launched_at) > (int64_t)SLICE_NS && r->device->ops->idle())
		ended = r->launched;
	if (ended != r->ended) {
		r->running_since = 0;
		forget_hung(r);
	}
	r->ended = ended;
}

/* Launches the next lease.  Returns false if that failed, which is logged: then none follows for a while. */
static bool launch(struct rnl__resident *r)
{
	int ret;

	r->args.lease = r->launched + 1;
	ret = r->device->ops->launch(&r->kernel, (struct rnl_dim){ r->nr, 1, 1 }, r->block, &r->args);
	if (ret) {
		if (!rnl__device_failed(r->device) && !r->failed_to_launch)
			rnl__pool_log(r->b->pool, RNL_LOG_ERROR, "the resident kernel %s was not launched "
				      "(%s): requests go in batches, and it is tried again every %u ms",
				      r->kernel.name, strerror(-ret), OFF_NS / 1000000);
		r->failed_to_launch = true;
		r->off_until = rnl__now() + OFF_NS;
		return false;
	}
	r->failed_to_launch = false;
	r->launched++;
	r->launched_at = rnl__now();
	rnl__figure_add_any(&r->leases, 1);
	return true;
}

/* Ends or takes back the request of a mailbox, if it is time.  Returns true if it has one still. */
static bool look_at(struct rnl__resident *r, struct rnl__mailbox *m, uint64_t now)
{
	struct rnl__mail mail;
	uint64_t waits;

	if (!rnl__mailbox_look(m, &mail))
		return rnl__mailbox_has(&mail);
	waits = now - rnl__figure_read(&m->sent_at);
	if ((int64_t)waits > (int64_t)ENDS_NS && rnl__resident_try_end(r, &mail))
		return false;
	return !((int64_t)waits > (int64_t)RNL__BACK_NS && rnl__resident_try_take_back(r, &mail));
}

/* Clears the mailboxes whose tags are used up, and makes them free. */
static void clear_worn(struct rnl__resident *r)
{
	/* [resident.F4] acquire: the last user's accesses; pairs with [resident.F3] */
	const uint32_t worn = atomic_load_explicit(&r->worn, memory_order_acquire);

	for (uint32_t i = 0; worn >> i; i++) {
		if (!(worn >> i & 1) || !rnl__mailbox_clear(&r->boxes[i]))
			continue;
		/* relaxed: only the keeper clears bits */
		atomic_fetch_and_explicit(&r->worn, ~(1u << i), memory_order_relaxed);
		rnl__resident_give(r, i);
	}
}

/* A lease took too long: the process takes turns with others.  Stays off for a while. */
static void stay_away(struct rnl__resident *r, uint64_t now)
{
	r->off_until = now + OFF_NS;
	if (r->sliced)
		return;
	r->sliced = true;
	rnl__pool_log(r->b->pool, RNL_LOG_WARNING, "the resident kernel %s: a lease of %u us took more than "
		      "%u us: its function is slow, or other kernels use the device, or other processes, "
		      "which take turns unless MPS runs (see `runnel check`); it stays off for %u ms each "
		      "time (RNL_BATCHER_SHARED: it does not)", r->kernel.name,
		      RNL__LEASE_NS / 1000, SLICE_NS / 1000, OFF_NS / 1000000);
}

static bool any_served(const struct rnl__resident *r)
{
	for (unsigned i = 0; i < r->nr; i++)
		if (rnl__mailbox_served(&r->boxes[i]))
			return true;
	return false;
}

/* Reports a function that has not returned: a lease ends after RNL__LEASE_NS by itself. */
static void watch(struct rnl__resident *r, uint64_t now)
{
	if (!any_served(r))
		return;
	if (!r->running_since)
		r->running_since = now;
	if (now - r->running_since > SLICE_NS && !r->shared)
		stay_away(r, now);
	if (now - r->running_since < RETURNS_NS)
		return;
	note_hung(r);
	if (r->reported)
		return;
	r->reported = true;
	rnl__pool_log(r->b->pool, RNL_LOG_ERROR, "the resident kernel %s has not ended for %u ms, and its "
		      "leases take %u us: its function does not return, or another process has the "
		      "device", r->kernel.name, RETURNS_NS / 1000000, RNL__LEASE_NS / 1000);
}

/* Decides whether leases go on, and whether requests may be sent.  Returns true while leases run. */
static bool keep_leases(struct rnl__resident *r, uint64_t now)
{
	const bool ends = rnl__figure_read(&r->ends);
	const int64_t since = (int64_t)(now - rnl__figure_read(&r->wanted));
	bool comes = since < (int64_t)IDLE_NS && !ends &&
		     now >= r->off_until && !rnl__device_failed(r->device);

	count_ended(r, now);
	while (comes && r->launched - r->ended < 2)
		comes = launch(r);
	watch(r, now);
	if (!comes)
		/* relaxed: a hint; a request that no block reads is taken back */
		atomic_store_explicit(&r->open, false, memory_order_relaxed);
	else if (rnl__mailbox_served(&r->boxes[0]))
		/* relaxed: as above */
		atomic_store_explicit(&r->open, true, memory_order_relaxed);
	return comes || r->launched > r->ended;
}

/* Returns true if there is more to do soon. */
static bool resident_keep(struct rnl__resident *r)
{
	const uint64_t now = rnl__now();
	bool more = keep_leases(r, now);

	for (unsigned i = 0; i < r->nr; i++)
		more |= look_at(r, &r->boxes[i], now);
	clear_worn(r);
	return more;
}

/* Attaches a stream, and makes what leases need.  Returns 0 or the error. */
static int keeper_set_up(struct rnl__resident *r)
{
	const struct rnl_pool *pool = r->b->pool;
	const size_t bytes = r->nr * sizeof(*r->args.turns);
	const struct rnl__stream_wish wish = {
		.kind = RNL_STREAM_PRIVATE, .level = 0, .sms = pool->sms[r->device_index],
		.kept = r->b->class && pool->sms[r->device_index],
	};
	void *turns;
	int ret = rnl__attach_to(pool, r->device, &wish, "the stream of a resident kernel");

	if (ret)
		return ret;
	ret = rnl__device_alloc(r->device, RNL__DEVICE, bytes, &turns);
	if (ret)
		return ret;
	r->args.turns = turns;
	ret = r->device->ops->fill(turns, 0, bytes);
	return ret ? ret : r->device->ops->wait(RNL__NEVER);
}

static void keeper_tear_down(struct rnl__resident *r)
{
	forget_hung(r);
	if (r->args.turns) {
		/* The last lease may not have ended quite. */
		(void)r->device->ops->wait(RNL__NEVER);
		rnl__device_free(r->device, RNL__DEVICE, r->args.turns);
	}
	rnl__attach_end();
}

static uint64_t nap_ns(const struct rnl__resident *r)
{
	return !rnl__peek(&r->open) && rnl__now() - r->launched_at < STARTS_NS ? STARTS_NAP_NS : NAP_NS;
}

static void *keeper_main(void *arg)
{
	struct rnl__resident *r = arg;
	int ret;

	rnl__thread_name(r->b->pool->name, "keep");
	ret = keeper_set_up(r);
	/* By default a short sleep may end 50 us late. */
	prctl(PR_SET_TIMERSLACK, 1000UL, 0UL, 0UL, 0UL);
	r->start_error = ret;
	(void)rnl__latch_drop(&r->starting, 1);
	while (!ret) {
		uint32_t listened;

		if (resident_keep(r)) {
			rnl__nap(nap_ns(r));
			continue;
		}
		if (rnl__figure_read(&r->ends))
			break;
		listened = rnl__eventcount_prepare(&r->eventcount);
		if (!resident_keep(r) && !rnl__figure_read(&r->ends))
			(void)rnl__eventcount_wait(&r->eventcount, listened, RNL__NEVER);
	}
	keeper_tear_down(r);
	return NULL;
}

/* ---- making ---------------------------------------------------------------- */

/* Says why there is no resident kernel. */
static void stay_off(const struct rnl_batcher *b, const struct rnl_batcher_attr *attr, const char *why)
{
	rnl__pool_log(b->pool, RNL_LOG_WARNING, "rnl_batcher_create(): the request kernel %s cannot be "
		      "resident: %s; all requests go in batches", attr->kernel->name, why);
}

/* Returns why the kernel cannot be resident, or NULL. */
static const char *why_not(const struct rnl_batcher_attr *attr, const struct rnl__device *device)
{
	if (attr->out_bytes > RNL__MAILBOX_BYTES)
		return "out_bytes is more than 12288";
	if (!(attr->flags & RNL_BATCHER_VARIABLE) && attr->in_bytes > RNL__MAILBOX_BYTES)
		return "in_bytes is more than 12288";
	if (!device->info.cuda)
		return NULL;
	if (device->shared && !(attr->flags & RNL_BATCHER_SHARED))
		return "MPS shares the device among processes, and flags lack RNL_BATCHER_SHARED";
	if (!attr->kernel->lease)
		return "RNL_REQUEST_KERNEL() needs CUDA 12.3 or later";
	return rnl__mailbox_is_atomic() ? NULL : "the CPU has no atomic accesses of 16 bytes";
}

/* Sets up the special slab and the mailboxes in one page-locked buffer. */
static int make_boxes(struct rnl__resident *r, struct rnl_batcher *b)
{
	struct rnl__slab *slab = &b->slabs[RNL__BOX_SLAB];
	const size_t stride = b->variable ? rnl__round_up(r->max_in, RNL__SLAB_UNIT) : b->in_bytes;
	const size_t in = rnl__round_up(r->nr * stride, RNL__BATCH_ALIGNMENT);
	const size_t out = rnl__round_up(r->nr * b->out_bytes, RNL__BATCH_ALIGNMENT);
	const size_t spans = rnl__round_up(r->nr * r->nr * sizeof(struct rnl_span), RNL__BATCH_ALIGNMENT);
	const size_t words = r->nr * sizeof(struct rnl__mailbox_words);
	const size_t requests = r->nr * r->args.request_pieces * sizeof(struct rnl__mail_piece);
	const size_t answers = r->nr * r->args.answer_pieces * sizeof(struct rnl__mail_piece);
	unsigned char *mem;
	void *buf;
	int ret;

	slab->slots = aligned_alloc(RNL__CACHE_LINE, rnl__round_up(r->nr * sizeof(*slab->slots),
								   RNL__CACHE_LINE));
	if (!slab->slots)
		return -ENOMEM;
	ret = rnl__pinned_get(b->pool->pinned, in + out + spans + words + requests + answers, &buf);
	if (ret)
		return ret;
	memset(buf, 0, in + out + spans + words + requests + answers);
	slab->in = mem = buf;
	slab->out = mem += in;
	mem += out;
	slab->spans = b->variable ? (struct rnl_span *)(void *)mem : NULL;
	r->args.words = (struct rnl__mailbox_words *)(void *)(mem += spans);
	r->args.requests = (struct rnl__mail_piece *)(void *)(mem += words);
	r->args.answers = (struct rnl__mail_piece *)(void *)(mem + requests);
	for (unsigned i = 0; i < r->nr; i++) {
		struct rnl__mailbox *m = &r->boxes[i];

		slab->slots[i] = (struct rnl__slot){ .offset = (uint32_t)(i * stride) };
		m->answers.await = rnl__resident_await;
		m->resident = r;
		m->index = i;
		m->nr_request = rnl__pieces_of(r->max_in);
		m->nr_answer = rnl__pieces_of((uint32_t)b->out_bytes);
		m->request = r->args.requests + i * r->args.request_pieces;
		m->answer = r->args.answers + i * r->args.answer_pieces;
		m->words = r->args.words + i;
		rnl__mailbox_init(m);
	}
	return 0;
}

static uint32_t pieces_for(size_t bytes)
{
	return (uint32_t)rnl__round_up(rnl__pieces_of((uint32_t)bytes), LINE_PIECES);
}

/* Fills in what is constant. */
static void resident_describe(struct rnl__resident *r, struct rnl_batcher *b,
		     const struct rnl_batcher_attr *attr)
{
	const struct rnl_request_kernel *kernel = attr->kernel;
	uint32_t most;

	r->b = b;
	r->name = kernel->name;
	r->shared = attr->flags & RNL_BATCHER_SHARED;
	r->spin_ns = 1000ull * attr->spin_us;
	r->spinner.look = rnl__resident_spin;
	r->nr = attr->nr_mailboxes ? attr->nr_mailboxes : RNL__MAILBOXES_DEFAULT;
	r->max_in = (uint32_t)rnl__smaller(b->in_bytes, RNL__MAILBOX_BYTES);
	r->kernel = kernel->lease ? *kernel->lease : (struct rnl_kernel){ .name = kernel->name };
	r->kernel.args_bytes = sizeof(r->args);
	r->kernel.host = rnl__lease_host;
	r->args = (struct rnl__lease_args){
		.run = rnl__lease_host, .fn = kernel->host, .arg = attr->arg,
		.lease_ns = RNL__LEASE_NS, .hot_ns = HOT_NS, .out_bytes = (uint32_t)b->out_bytes,
		.request_pieces = pieces_for(r->max_in), .answer_pieces = pieces_for(b->out_bytes),
		.fixed_pieces = b->variable ? 0 : rnl__pieces_of(r->max_in),
	};
	most = (uint32_t)rnl__larger(r->args.request_pieces, r->args.answer_pieces);
	r->block = (struct rnl_dim){
		(uint32_t)rnl__smaller(rnl__larger(rnl__round_up(most, LEASE_BLOCK_MIN), LEASE_BLOCK_MIN),
				       RNL__LEASE_THREADS), 1, 1,
	};
	atomic_init(&r->free, (1u << r->nr) - 1);
	atomic_init(&r->starting, RNL__LATCH_ONE);
	rnl__eventcount_init(&r->eventcount);
}

int rnl__resident_start(struct rnl_batcher *b, const struct rnl_batcher_attr *attr)
{
	const unsigned device = b->used.list[b->part % b->used.nr];
	const char *why = why_not(attr, b->pool->devices.list[device]);
	struct rnl__resident *r;
	int ret;

	if (why) {
		stay_off(b, attr, why);
		return 0;
	}
	r = aligned_alloc(RNL__CACHE_LINE, sizeof(*r));
	if (!r)
		return -ENOMEM;
	memset(r, 0, sizeof(*r));
	r->device_index = device;
	r->device = b->pool->devices.list[device];
	resident_describe(r, b, attr);
	b->resident = r;
	ret = make_boxes(r, b);
	if (!ret)
		ret = rnl__pool_no_thread(b->pool, "the thread of a resident kernel",
					  rnl__thread_create(&r->thread, keeper_main, r));
	r->started = !ret;
	if (!ret)
		(void)rnl__latch_wait(&r->starting, b->pool->spin_ns, RNL__NEVER);
	return ret ? ret : r->start_error;
}

void rnl__resident_end(struct rnl_batcher *b)
{
	struct rnl__resident *r = b->resident;
	RNL__UNCANCELLED();

	if (!r || !r->started)
		return;
	/* No request is under way, so no thread asks. */
	rnl__spinner_end(b->pool, &r->spinner);
	rnl__figure_write(&r->ends, true);
	/* [resident.K3] full barrier: `ends`, then the look for a sleeper; pairs with [eventcount.L2] */
	rnl__full_barrier();
	rnl__eventcount_wake(&r->eventcount);
	(void)pthread_join(r->thread, NULL);
	r->started = false;
}

void rnl__resident_free(struct rnl_batcher *b)
{
	struct rnl__slab *slab = &b->slabs[RNL__BOX_SLAB];

	if (!b->resident)
		return;
	free(slab->slots);
	if (slab->in)
		(void)rnl__pinned_put(b->pool->pinned, slab->in);
	free(b->resident);
	b->resident = NULL;
}

void rnl__resident_add_figures(struct rnl_batcher_stats *s, struct rnl__resident *r)
{
	const uint64_t answered = rnl__figure_read(&r->answered);

	s->requests += answered;
	s->resident += answered;
	s->failed += rnl__figure_read(&r->failed);
	s->taken_back += rnl__figure_read(&r->taken_back);
	s->leases += rnl__figure_read(&r->leases);
}
