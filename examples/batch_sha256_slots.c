/* SPDX-License-Identifier: MIT */
/*
 * Parts of messages on their way to the device and back.
 *
 * DESIGN
 * Through the batcher a part is a request: its input is filled straight into the
 * batcher's pinned memory, and one launch hashes all that a batch has taken.  One by
 * one, for comparison, it is a job that has a pinned buffer and a launch to itself.
 * Both end on the same completion queue.
 */
#include "config.h"

#include "batch_sha256.h"
#include "guard.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#define MAX_BATCH 4096
#define MAX_IN_FLIGHT 8		/* batches */
#define NR_SLABS 2		/* of 16 MiB, to begin with */
#define MAX_SLABS 8

/* ---- on the workers ------------------------------------------------------ */

static int launch(const void *in, void *out, const struct rnl_span *spans, uint32_t nr)
{
	const struct sha256_args args = { in, out, spans, nr, 0 };
	const struct rnl_dim grid = { (nr + SHA256_THREADS - 1) / SHA256_THREADS, 1, 1 };
	const struct rnl_dim block = { SHA256_THREADS, 1, 1 };

	return rnl_launch(&sha256_kernel, grid, block, &args);
}

static int hash_batch(const struct rnl_batch *batch)
{
	return launch(batch->in, batch->out, batch->spans, batch->nr);
}

/* The answer's place is behind the part. */
static int hash_one(struct rnl_job *job)
{
	struct sha256_slot *slot = rnl_container_of(job, struct sha256_slot, job);
	unsigned char *host = (unsigned char *)slot->part;
	unsigned char *mem;
	void *scratch;
	int ret = rnl_scratch(slot->bytes + sizeof(struct sha256_state), &scratch);

	if (ret)
		return ret;
	mem = scratch;
	ret = rnl_copy(mem, host, slot->bytes);
	if (!ret)
		ret = launch(mem, mem + slot->bytes, NULL, 1);
	if (!ret)
		ret = rnl_copy(host + slot->bytes, mem + slot->bytes, sizeof(struct sha256_state));
	return ret;
}

/* ---- their life ---------------------------------------------------------- */

static void log_message(void *arg, enum rnl_log_level level, const char *msg)
{
	const struct sha256_options *opt = arg;

	if (opt->stats || guard_shows(level))
		fprintf(stderr, "batch_sha256: %s\n", msg);
}

static void create_batcher(struct sha256_slots *slots, const struct sha256_options *opt)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	int ret;

	attr.flags = RNL_BATCHER_VARIABLE;
	attr.fn = hash_batch;
	attr.in_bytes = sizeof(struct sha256_part) + opt->part;
	attr.out_bytes = sizeof(struct sha256_state);
	attr.max_batch = MAX_BATCH;
	attr.max_in_flight = MAX_IN_FLIGHT;
	attr.nr_slabs = NR_SLABS;
	attr.max_slabs = MAX_SLABS;
	ret = rnl_batcher_create(&slots->batcher, slots->pool, &attr);
	if (ret)
		sha256_report_die(ret, "creating the batcher");
}

void sha256_slots_open(struct sha256_slots *slots, struct sha256_options *opt)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	int ret;

	*slots = (struct sha256_slots){ 0 };
	attr.nr_workers = opt->workers;
	attr.device = opt->device;
	attr.guard = guard_wanted();
	attr.log = log_message;
	attr.log_arg = opt;
	ret = rnl_pool_create(&slots->pool, &attr);
	if (ret)
		sha256_report_die(ret, ret == -EAGAIN ?
				  "starting a thread for each worker (try --workers=1)" :
				  "creating the workers");
	ret = rnl_cq_create(&slots->cq);
	if (ret)
		sha256_report_die(ret, "creating the completion queue");
	if (!opt->one_by_one)
		create_batcher(slots, opt);
}

void sha256_slots_close(struct sha256_slots *slots)
{
	rnl_batcher_destroy(slots->batcher);
	rnl_pool_destroy(slots->pool);
	rnl_cq_destroy(slots->cq);
}

/* ---- one of them --------------------------------------------------------- */

static void must(int ret)
{
	if (ret)
		sha256_report_die(ret, "hashing");
}

void sha256_slot_init(struct sha256_slots *slots, struct sha256_slot *slot)
{
	must(slots->batcher ? rnl_request_init(&slot->request) :
			      rnl_job_init(&slot->job, hash_one));
	must(rnl_job_cq(&slot->job, slots->cq));
	slot->part = NULL;
}

/* Return: 0; -EAGAIN, only while others are under way; another error. */
static int get_request(struct sha256_slots *slots, struct sha256_slot *slot)
{
	const int ret = rnl_batcher_reserve(slots->batcher, &slot->request, slot->bytes);

	if (ret != -EAGAIN || slots->under_way)
		return ret;
	/* What was dropped takes a moment, too. */
	return rnl_batcher_reserve_wait(slots->batcher, &slot->request, slot->bytes, RNL_FOREVER);
}

static int get_buffer(struct sha256_slots *slots, struct sha256_slot *slot)
{
	void *buf;
	int ret;

	ret = rnl_pinned_get(slots->pool, slot->bytes + sizeof(struct sha256_state), &buf);
	if (ret)
		return ret == -ENOMEM && slots->under_way ? -EAGAIN : ret;
	slot->part = buf;
	return 0;
}

bool sha256_slot_get(struct sha256_slots *slots, struct sha256_slot *slot, size_t bytes)
{
	int ret;

	bytes = (bytes + SHA256_BLOCK - 1) / SHA256_BLOCK * SHA256_BLOCK;
	slot->bytes = sizeof(*slot->part) + bytes;
	ret = slots->batcher ? get_request(slots, slot) : get_buffer(slots, slot);
	if (ret == -EAGAIN)
		return false;
	must(ret);
	if (slots->batcher)
		slot->part = slot->request.in;
	return true;
}

bool sha256_slot_send(struct sha256_slots *slots, struct sha256_slot *slot)
{
	int ret;

	if (slots->batcher)
		ret = rnl_request_commit(&slot->request);
	else if (slots->under_way)
		ret = rnl_submit(slots->pool, &slot->job);
	else
		ret = rnl_submit_wait(slots->pool, &slot->job, RNL_FOREVER);
	if (ret == -EAGAIN)
		return false;
	must(ret);
	slots->under_way++;
	return true;
}

static void put(struct sha256_slots *slots, struct sha256_slot *slot)
{
	if (!slots->batcher)
		rnl_pinned_put(slots->pool, slot->part);
	slot->part = NULL;
}

void sha256_slot_drop(struct sha256_slots *slots, struct sha256_slot *slot)
{
	if (slots->batcher)
		must(rnl_request_cancel(&slot->request));
	put(slots, slot);
}

unsigned sha256_slots_reap(struct sha256_slots *slots,
			   struct sha256_slot *done[SHA256_REAP_MAX], bool wait)
{
	struct rnl_job *jobs[SHA256_REAP_MAX];
	const int nr = wait ? rnl_cq_wait(slots->cq, jobs, SHA256_REAP_MAX, RNL_FOREVER) :
			      rnl_cq_reap(slots->cq, jobs, SHA256_REAP_MAX);

	must(nr < 0 ? nr : 0);
	for (int i = 0; i < nr; i++) {
		struct sha256_slot *slot = rnl_container_of(jobs[i], struct sha256_slot, job);
		const int result = rnl_job_result(jobs[i]);

		must(result < 0 ? result : 0);
		done[i] = slot;
	}
	slots->under_way -= (unsigned)nr;
	slots->nr_parts += (unsigned)nr;
	return (unsigned)nr;
}

struct sha256_state sha256_slot_take(struct sha256_slots *slots, struct sha256_slot *slot)
{
	const unsigned char *after = slots->batcher ? slot->request.out :
					(const unsigned char *)slot->part + slot->bytes;
	struct sha256_state state;

	memcpy(&state, after, sizeof(state));
	if (slots->batcher)
		must(rnl_request_release(&slot->request));
	put(slots, slot);
	return state;
}
