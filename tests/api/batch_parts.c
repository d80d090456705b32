/* SPDX-License-Identifier: MIT */
/* A batcher over several devices: if one device's part has no space, a request goes to another. */
#include <stdlib.h>

#include <runnel/batch.h>

#include "batch.h"
#include "places.h"

#define BYTES 64u
#define SLOTS 4u		/* in the only slab of each part */

static struct rnl_batcher *batcher_of_parts(struct rnl_pool *pool, struct kind *kind)
{
	*kind = kind_of(0, BYTES, BYTES);
	kind->attr.slab_bytes = SLOTS * BYTES;
	kind->attr.nr_slabs = kind->attr.max_slabs = 2;
	return batcher_of(pool, kind);
}

/* Returns true if both are in one slab: slots of different slabs are far apart. */
static bool same_slab(const struct rnl_request *a, const struct rnl_request *b)
{
	const ptrdiff_t apart = (const char *)a->in - (const char *)b->in;

	return labs((long)apart) < (long)(SLOTS * BYTES);
}

/* A full part does not hide the space in the other part, with a wait or without. */
TEST(space_in_any_part_is_found, .timeout_s = 120)
{
	struct rnl_pool *pool = pool_over_of(2, 1);
	struct rnl_request all[2 * SLOTS], more;
	struct rnl_batcher *batcher;
	struct kind kind;

	skip_if_alone(pool);
	batcher = batcher_of_parts(pool, &kind);
	for (unsigned i = 0; i < 2 * SLOTS; i++) {
		request_of(&all[i], NULL);
		reserve(batcher, &all[i], BYTES);
	}
	request_of(&more, NULL);
	ck_assert_int_eq(rnl_batcher_reserve(batcher, &more, BYTES, 0), -EAGAIN);
	ck_assert_uint_eq(counts_of(batcher).refused, 1);
	/* Each round frees and refills one slab, while the thread's own part changes. */
	for (unsigned round = 0; round < 8; round++) {
		unsigned nr = 0;

		for (unsigned i = 1; i < 2 * SLOTS; i++)
			if (same_slab(&all[i], &all[0])) {
				must(rnl_request_release(&all[i]));
				nr++;
			}
		must(rnl_request_release(&all[0]));
		ck_assert_uint_eq(nr + 1, SLOTS);
		for (unsigned i = 0; i < 2 * SLOTS; i++)
			if (!all[i].in)
				must(rnl_batcher_reserve(batcher, &all[i], BYTES, patience_ns()));
	}
	for (unsigned i = 0; i < 2 * SLOTS; i++)
		must(rnl_request_release(&all[i]));
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

static int held_fn(struct rnl_job *job)
{
	gate_wait(job->user);
	return 0;
}

/* Both devices are busy: the second request goes to the device where the first does not wait. */
TEST(requests_that_would_wait_go_to_different_devices, .loops = 2, .timeout_s = 120)
{
	struct rnl_pool *pool = pool_over_of(2, 1);
	struct gate gates[2] = { GATE_INIT, GATE_INIT };
	struct kind kind = kind_of(0, BYTES, BYTES);
	struct rnl_request requests[2];
	struct rnl_batcher *batcher;
	struct rnl_job holds[2];
	int64_t end;

	skip_if_alone(pool);
	batcher = batcher_of(pool, &kind);
	for (unsigned i = 0; i < 2; i++) {
		job_of(&holds[i], held_fn, &gates[i]);
		must(rnl_job_set_device(&holds[i], (int)i));
		must(rnl_submit(pool, &holds[i]));
		gate_await(&gates[i], 1);
	}
	for (unsigned i = 0; i < 2; i++) {
		request_of(&requests[i], NULL);
		reserve(batcher, &requests[i], BYTES);
		request_fill(&requests[i], i);
		must(rnl_request_commit(&requests[i]));
	}
	gate_open(&gates[_i]);
	end = rnl_clock() + patience_ns();
	while (!counts_of(batcher).requests && rnl_clock() < end)
		sched_yield();
	ck_assert_uint_eq(counts_of(batcher).requests, 1);
	gate_open(&gates[!_i]);
	for (unsigned i = 0; i < 2; i++) {
		ck_assert_int_eq(result_of(&requests[i].job), 0);
		ck_assert_int_eq(wrong_byte(&requests[i], i, BYTES), -1);
		must(rnl_request_release(&requests[i]));
		ck_assert_int_eq(result_of(&holds[i]), 0);
	}
	rnl_batcher_destroy(batcher);
	rnl_pool_destroy(pool);
}

/* ---- destroy ---------------------------------------------------------------- */

#define CHAIN 4096u

static struct {
	struct rnl_batcher *batcher;
	struct rnl_request requests[CHAIN];
	_Atomic unsigned committed, done;
} chain;

/* Sends the next request from the callback of the one before, until one is refused. */
static void send_next(struct rnl_job *job)
{
	const unsigned next = job ? (unsigned)(uintptr_t)job->user + 1 : 0;
	struct rnl_request *r = &chain.requests[next];

	chain.done += job != NULL;
	if (next == CHAIN || rnl_batcher_reserve(chain.batcher, r, BYTES, 0))
		return;
	request_fill(r, next);
	if (rnl_request_commit(r))
		must(rnl_request_release(r));
	else
		chain.committed++;
}

TEST(a_destroy_waits_for_what_callbacks_send_to_any_part, .loops = 20, .timeout_s = 120)
{
	struct rnl_pool *pool = pool_over_of(2, 2);
	struct kind kind = kind_of(0, BYTES, BYTES);

	skip_if_alone(pool);
	kind.attr.max_batch = 1;
	kind.attr.slab_bytes = CHAIN * BYTES;
	chain.batcher = batcher_of(pool, &kind);
	for (unsigned i = 0; i < CHAIN; i++) {
		request_of(&chain.requests[i], (void *)(uintptr_t)i);
		must(rnl_job_set_on_done(&chain.requests[i].job, send_next));
	}
	send_next(NULL);
	while (chain.done < 5u * (unsigned)_i)
		sched_yield();
	rnl_batcher_destroy(chain.batcher);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	ck_assert_uint_eq(chain.done, chain.committed);
	rnl_pool_destroy(pool);
}
