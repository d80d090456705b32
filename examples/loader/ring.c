/* SPDX-License-Identifier: MIT */
/*
 * The readers, the batches in flight, and the jobs.
 *
 * DESIGN
 * Batch n has slot n % (ahead + 1): a pinned buffer, device memory, and three jobs.  The jobs are
 * submitted before the batch is read.  The job `read` takes a hold; the last arrival releases it,
 * usually the reader of the last record.  `copy` is the next job of the chain, on the same worker.
 * `compute` waits for the copy by a barrier, on the other worker, in batch order.
 *
 * When a copy ends, the pinned buffer goes to batch n + ahead + 1: end_copy() opens the slot to the
 * readers, and submits read and copy again.  When the computing ends, the device memory goes to
 * that batch: end_compute() submits the computing again, and releases its part of the next read's
 * hold.  So readers wait if all pinned buffers are full, copies wait if the device memory is full,
 * and the device waits if nothing is read.  Between two batches on the device, no thread except a
 * worker has to wake up.
 *
 * Readers take places with a ticket, and count a slot's missing records down: they need a lock only
 * if the slot is not open.  A read that fails makes its job fail, which cancels the copy and the
 * computing.  The main thread checks ten times a second for errors and for stalled readers.  After
 * an error or Ctrl-C the program exits immediately, because a stalled reader may never return.
 * Every pass submits the three jobs of each batch.  In a pass that only reads, the copy and the
 * computing do nothing.  In one that only computes, batches have no records, and copies do nothing.
 */
#include "config.h"

#include "common/clock.h"
#include "common/program.h"
#include "common/progress.h"
#include "loader.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <runnel/hold.h>
#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/thread.h>

#define NAP_NS 100000000
#define EXIT_INTERRUPTED 130

struct slot {
	struct rnl_job read, copy, compute;
	struct rnl_job_more in_order;	/* of `compute` */
	struct rnl_barrier copied;	/* end_copy() opens the next round during the current one */
	struct rnl_hold hold;		/* of `read` */
	atomic_uint missing;		/* arrivals: records, the hold, the device memory */
	atomic_int failed;		/* a negative errno of a read */
	_Atomic uint64_t batch;		/* the pinned buffer's batch */
	uint64_t computed;		/* the device memory's batch */
	uint8_t *pinned, *device;
	uint32_t *differences;		/* pinned */
};

struct reader {
	pthread_t thread;
	_Atomic uint64_t since, record;	/* the current read; `since` is 0 if there is none */
};

static struct {
	const struct loader *l;
	struct pass *pass;
	struct slot slots[AHEAD_MAX + 1];
	struct reader readers[READERS_MAX];
	struct rnl_order computing;
	_Atomic uint64_t next, nr_done;	/* next place, over all epochs; finished batches */
	uint32_t a, c;			/* the sum after all rounds: a * sum + c */
	pthread_cond_t opened;		/* signalled when a slot is opened */
	pthread_mutex_t lock;		/* for `opened` and `error` */
	char error[TEXT];
} ring = { .opened = PTHREAD_COND_INITIALIZER, .lock = PTHREAD_MUTEX_INITIALIZER };

static volatile sig_atomic_t interrupted;

/* ---- the order ----------------------------------------------------------- */

/* Permutes 0 to nr - 1: a Feistel network, repeated until the number is in range. */
static uint64_t shuffled(uint64_t at, uint64_t nr, uint64_t seed)
{
	unsigned bits = 1;		/* per half */

	while (nr > 1ull << 2 * bits)
		bits++;
	do {
		for (unsigned round = 0; round < 4; round++) {
			const uint64_t mask = (1ull << bits) - 1, right = at & mask;
			uint64_t mixed = (right + seed * 4 + round + 1) * 0x9e3779b97f4a7c15u;

			mixed = (mixed ^ mixed >> 29) * 0xbf58476d1ce4e5b9u >> 32;
			at = right << bits | ((at >> bits ^ mixed) & mask);
		}
	} while (at >= nr);
	return at;
}

unsigned batch_size(const struct loader *l, uint64_t batch)
{
	const uint64_t left = l->shards.nr_records - batch % l->batches_of_epoch * l->batch;

	return left < l->batch ? (unsigned)left : l->batch;
}

static uint64_t number_of(const struct loader *l, uint64_t batch, unsigned i)
{
	return shuffled(batch % l->batches_of_epoch * l->batch + i, l->shards.nr_records,
			l->seed + batch / l->batches_of_epoch);
}

static struct slot *slot_of(uint64_t batch)
{
	return &ring.slots[batch % (ring.l->ahead + 1)];
}

/* Records the first error, on which the main thread dies. */
static void complain(uint64_t record, const char *what)
{
	pthread_mutex_lock(&ring.lock);
	if (!*ring.error)
		shards_complain(&ring.l->shards, record, what, ring.error);
	pthread_mutex_unlock(&ring.lock);
}

/* ---- a batch's jobs ------------------------------------------------------ */

/* Counts an arrival.  The last one completes the job `read`. */
static void arrive(struct slot *slot)
{
	if (atomic_fetch_sub(&slot->missing, 1) == 1)
		program_must(rnl_hold_release(&slot->hold, atomic_load(&slot->failed)), "a hold");
}

static void take_pinned(struct slot *slot, uint64_t batch)
{
	const unsigned nr = ring.pass->what & READING ? batch_size(ring.l, batch) : 0;

	atomic_store(&slot->missing, nr + 2);
	pthread_mutex_lock(&ring.lock);
	atomic_store(&slot->batch, batch);
	pthread_cond_broadcast(&ring.opened);
	pthread_mutex_unlock(&ring.lock);
	program_must(rnl_job_set_key(&slot->read, RNL_KEY_WORKER(0)), "a batch's key");
	program_must(rnl_submit(ring.l->pool, &slot->read), "submitting a batch");
}

/* Submits the computing, then arrives: the next copy must not start before that submit. */
static void take_device(struct slot *slot, uint64_t batch)
{
	slot->computed = batch;
	program_must(rnl_submit(ring.l->pool, &slot->compute), "submitting a batch");
	arrive(slot);
}

static int run_read(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, read);
	const int ret = rnl_job_hold(job, &slot->hold);

	if (!ret)
		arrive(slot);
	return ret;
}

static int run_copy(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, copy);
	const uint64_t batch = atomic_load(&slot->batch);
	struct span *span = &ring.l->copies[batch];
	int ret;

	if (ring.pass->what != (READING | COMPUTING))
		return 0;
	ret = clock_write(&span->begin);
	ret = ret ? ret : rnl_copy(slot->device, slot->pinned,
				   (size_t)batch_size(ring.l, batch) * ring.l->shards.bytes);
	return ret ? ret : clock_write(&span->end);
}

static void end_copy(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, copy);
	const uint64_t next = atomic_load(&slot->batch) + ring.l->ahead + 1;

	if (!job->result && next < ring.l->nr_batches)
		take_pinned(slot, next);
}

static int run_compute(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, compute);
	struct span *span = &ring.l->computes[slot->computed];
	const struct rnl_dim grid = { batch_size(ring.l, slot->computed), 1, 1 };
	const struct rnl_dim block = { COMPUTE_THREADS, 1, 1 };
	const struct compute_args args = {
		slot->device, slot->differences, ring.l->shards.bytes, ring.l->rounds, ring.a, ring.c
	};
	int ret;

	if (!(ring.pass->what & COMPUTING))
		return 0;
	ret = clock_write(&span->begin);
	ret = ret ? ret : rnl_launch(&compute_kernel, grid, block, &args);
	return ret ? ret : clock_write(&span->end);
}

void compute_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct compute_args *a = args;

	(void)block;
	for (uint32_t i = 0; i < grid.x; i++)
		a->differences[i] = difference(a, i, sum_words(record_of(a, i)->words,
							       words_in(a->bytes), a->rounds, 0, 1));
}

static void check(const struct slot *slot)
{
	for (unsigned i = 0; i < batch_size(ring.l, slot->computed); i++)
		if (slot->differences[i])
			complain(number_of(ring.l, slot->computed, i),
				 "the record's sum does not match its words");
}

/* Records the failure of a batch's job.  For a read, the reader has recorded the error. */
static void fail(const struct slot *slot)
{
	int ret = slot->compute.result;

	ret = ret == -ECANCELED ? slot->copy.result : ret;
	ret = ret == -ECANCELED ? slot->read.result : ret;
	pthread_mutex_lock(&ring.lock);
	if (!*ring.error)
		snprintf(ring.error, sizeof(ring.error), "batch %llu: %s",
			 (unsigned long long)slot->computed + 1, rnl_strerror(ret));
	pthread_mutex_unlock(&ring.lock);
}

static void end_compute(struct rnl_job *job)
{
	struct slot *slot = rnl_container_of(job, struct slot, compute);
	const uint64_t next = slot->computed + ring.l->ahead + 1;

	if (job->result) {
		fail(slot);
		return;
	}
	if (ring.pass->what == (READING | COMPUTING))
		check(slot);
	if (atomic_fetch_add(&ring.nr_done, 1) == ring.l->nr_batches - 1)
		ring.pass->ms = (double)(program_now_ns() - ring.pass->begin) / 1e6;
	if (next < ring.l->nr_batches)
		take_device(slot, next);
}

/* ---- readers ------------------------------------------------------------- */

static void await(struct slot *slot, uint64_t batch)
{
	if (atomic_load(&slot->batch) == batch)
		return;
	pthread_mutex_lock(&ring.lock);
	while (atomic_load(&slot->batch) != batch)
		pthread_cond_wait(&ring.opened, &ring.lock);
	pthread_mutex_unlock(&ring.lock);
}

/* Reads record @i of a batch into its slot. */
static void read_one(struct reader *me, uint64_t batch, unsigned i)
{
	const uint64_t number = number_of(ring.l, batch, i), place = batch * ring.l->batch + i;
	const uint64_t begin = program_now_ns();
	struct slot *slot = slot_of(batch);
	const char *wrong;
	int ret;

	atomic_store(&me->record, number);
	atomic_store(&me->since, begin);
	ret = shards_read(&ring.l->shards, number,
			  slot->pinned + (size_t)i * ring.l->shards.bytes, &wrong);
	atomic_store(&me->since, 0);
	if (ring.l->reads)
		ring.l->reads[place] = (struct read){
			{ begin, program_now_ns() }, (unsigned)(me - ring.readers)
		};
	if (ret) {
		complain(number, wrong);
		atomic_store(&slot->failed, ret);
	}
	arrive(slot);
}

static void *be_reader(void *arg)
{
	const struct loader *l = ring.l;
	uint64_t place;

	while ((place = atomic_fetch_add(&ring.next, 1)) < l->nr_batches * l->batch) {
		const uint64_t batch = place / l->batch;

		if (place % l->batch >= batch_size(l, batch))
			continue;	/* the last batch of an epoch may be smaller */
		await(slot_of(batch), batch);
		read_one(arg, batch, (unsigned)(place % l->batch));
	}
	return NULL;
}

/* ---- a pass -------------------------------------------------------------- */

static void interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

/* Dies on an error, a stalled reader, or Ctrl-C. */
static void look(unsigned nr_readers)
{
	const struct loader *l = ring.l;
	const unsigned long long nr_done = atomic_load(&ring.nr_done), all = l->nr_batches;

	for (unsigned i = 0; i < nr_readers; i++) {
		const uint64_t since = atomic_load(&ring.readers[i].since), now = program_now_ns();
		char what[64];

		if (!since || now < since + l->stall * 1000000000ull)
			continue;
		snprintf(what, sizeof(what), "a reader has waited for %u s", l->stall);
		complain(atomic_load(&ring.readers[i].record), what);
	}
	pthread_mutex_lock(&ring.lock);
	if (*ring.error)
		program_die("%s", ring.error);
	pthread_mutex_unlock(&ring.lock);
	if (interrupted) {
		program_warn("interrupted after %llu of %llu batches of %s", nr_done, all,
			     ring.pass->name);
		_exit(EXIT_INTERRUPTED);
	}
	progress_show(nr_done * l->batch * l->shards.bytes);
}

static void prepare(const struct loader *l, struct pass *pass)
{
	ring.l = l;
	ring.pass = pass;
	progress_begin(pass->name, l->nr_batches * l->batch * l->shards.bytes, 1e6, "MB");
	ring.next = ring.nr_done = 0;
	ring.a = 1;
	ring.c = 0;
	for (uint32_t i = 0; i < l->rounds; i++) {	/* a and c of one word of weight 1 */
		ring.a *= COMPUTE_A;
		ring.c = ring.c * COMPUTE_A + COMPUTE_C;
	}
	ring.c *= words_in(l->shards.bytes) * words_in(l->shards.bytes);
	for (unsigned i = 0; i <= l->ahead; i++)
		ring.slots[i].batch = UINT64_MAX;	/* not open */
}

void ring_run(const struct loader *l, struct pass *pass)
{
	const unsigned nr_readers = pass->what & READING ? l->nr_readers : 0;

	prepare(l, pass);
	pass->begin = program_now_ns();
	for (unsigned i = 0; i < nr_readers; i++)
		program_must(-pthread_create(&ring.readers[i].thread, NULL, be_reader,
					     &ring.readers[i]), "starting a reader");
	for (unsigned i = 0; i <= l->ahead && i < l->nr_batches; i++) {
		take_pinned(&ring.slots[i], i);
		take_device(&ring.slots[i], i);
	}
	do
		look(nr_readers);
	while (rnl_pool_drain(l->pool, NAP_NS));
	look(nr_readers);
	for (unsigned i = 0; i < nr_readers; i++)
		pthread_join(ring.readers[i].thread, NULL);
}

/* ---- begin and end ------------------------------------------------------- */

#define LOWER " (try a lower --ahead or --batch)"

enum memory { PINNED, DEVICE };

static void *get(const struct loader *l, enum memory kind, size_t bytes, const char *what)
{
	char text[128];
	void *mem;

	snprintf(text, sizeof(text), "%.1f MB of %s", (double)bytes / 1e6, what);
	program_must(rnl_memory_get(l->pool, kind == PINNED ? RNL_PINNED : 0, bytes, &mem, 0),
		     text);
	return mem;
}

static void slot_begin(struct slot *slot, const struct loader *l)
{
	const size_t bytes = (size_t)l->batch * l->shards.bytes;

	slot->pinned = get(l, PINNED, bytes, "page-locked memory for each batch" LOWER);
	slot->device = get(l, DEVICE, bytes, "the device's memory for each batch" LOWER);
	slot->differences = get(l, PINNED, l->batch * sizeof(*slot->differences),
				"page-locked memory for sums" LOWER);
	program_must(rnl_barrier_init(&slot->copied, l->pool), "a barrier");
	program_must(rnl_job_init(&slot->read, run_read), "a job");
	program_must(rnl_job_init(&slot->copy, run_copy), "a job");
	program_must(rnl_job_init(&slot->compute, run_compute), "a job");
	program_must(rnl_job_set_then(&slot->read, &slot->copy), "a chain");
	program_must(rnl_barrier_add(&slot->copied, &slot->copy), "a barrier's job");
	slot->in_order = (struct rnl_job_more)RNL_JOB_MORE_INIT;
	slot->in_order.order = &ring.computing;
	program_must(rnl_job_set_more(&slot->compute, &slot->in_order), "a batch's order");
	program_must(rnl_job_set_after(&slot->compute, &slot->copied), "a job after");
	program_must(rnl_job_set_on_done(&slot->copy, end_copy), "a callback");
	program_must(rnl_job_set_on_done(&slot->compute, end_compute), "a callback");
}

void ring_begin(struct loader *l)
{
	const struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESETHAND };
	const size_t bytes = l->nr_batches * sizeof(struct span);

	l->copies = get(l, PINNED, bytes, "page-locked memory for times (try a lower --epochs)");
	l->computes = get(l, PINNED, bytes, "page-locked memory for times (try a lower --epochs)");
	l->reads = l->svg ? calloc(l->nr_batches * l->batch, sizeof(*l->reads)) : NULL;
	if (l->svg && !l->reads)
		program_die("out of memory");
	for (unsigned i = 0; i <= l->ahead; i++)
		slot_begin(&ring.slots[i], l);
	program_must(rnl_order_init(&ring.computing, l->pool, RNL_KEY_WORKER(1)), "an order");
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

void ring_end(void)
{
	rnl_order_fini(&ring.computing);
	rnl_memory_put(ring.l->pool, ring.l->copies);
	rnl_memory_put(ring.l->pool, ring.l->computes);
	free(ring.l->reads);
	for (unsigned i = 0; i <= ring.l->ahead; i++) {
		rnl_memory_put(ring.l->pool, ring.slots[i].pinned);
		rnl_memory_put(ring.l->pool, ring.slots[i].differences);
		rnl_memory_put(ring.l->pool, ring.slots[i].device);
	}
}

int64_t ring_clock_offset(void)
{
	uint64_t *device = (uint64_t *)ring.slots[0].differences;	/* 64 bytes or more */
	uint64_t before;

	program_must(rnl_thread_attach(ring.l->pool), "a stream for this thread");
	before = program_now_ns();
	program_must(clock_write(device), "the device's clock");
	program_must(rnl_stream_wait(RNL_FOREVER), "the device's clock");
	before += (program_now_ns() - before) / 2;
	rnl_thread_attach(NULL);
	return (int64_t)(*device - before);
}
