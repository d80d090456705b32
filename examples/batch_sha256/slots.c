/* SPDX-License-Identifier: MIT */
/*
 * Sends parts of messages to the device, and collects their answers.
 *
 * DESIGN
 * With the batcher a part is a request: it is read directly into the batcher's pinned memory, and
 * one launch hashes all parts of a batch.  With --one-by-one, for comparison, each part is a job
 * with its own pinned buffer and its own launch.  Requests and jobs complete on the same completion
 * queue.
 */
#include "config.h"

#include "batch_sha256.h"
#include "common/program.h"

#include <errno.h>
#include <string.h>

#include <runnel/batch.h>
#include <runnel/kernel.h>
#include <runnel/memory.h>

#define MAX_BATCH 4096
#define MAX_IN_FLIGHT 8		/* batches */
#define NR_SLABS 2		/* of 16 MiB, at the start */
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

/* Hashes one part.  The answer is stored after the part. */
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

/* ---- start and stop -------------------------------------------------------- */

static void create_batcher(struct sha256_slots *slots, const struct sha256_options *opt)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;

	/* The kernel reads block by block: each read of pinned memory would wait for the bus. */
	attr.flags = RNL_BATCHER_VARIABLE | RNL_BATCHER_ALWAYS_COPY;
	attr.fn = hash_batch;
	attr.in_bytes = sizeof(struct sha256_part) + opt->part;
	attr.out_bytes = sizeof(struct sha256_state);
	attr.max_batch = MAX_BATCH;
	attr.max_in_flight = MAX_IN_FLIGHT;
	attr.nr_slabs = NR_SLABS;
	attr.max_slabs = MAX_SLABS;
	program_must(rnl_batcher_create(&slots->batcher, slots->pool, &attr), "creating the batcher");
}

void sha256_slots_open(struct sha256_slots *slots, const struct sha256_options *opt)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	*slots = (struct sha256_slots){ 0 };
	attr.nr_workers = opt->workers;
	attr.device = opt->device;
	attr.log_arg = opt->stats ? (void *)opt : NULL;
	slots->pool = program_pool(&attr);
	program_must(rnl_cq_create(&slots->cq), "creating the completion queue");
	if (!opt->one_by_one)
		create_batcher(slots, opt);
}

void sha256_slots_close(struct sha256_slots *slots)
{
	rnl_batcher_destroy(slots->batcher);
	rnl_pool_destroy(slots->pool);
	rnl_cq_destroy(slots->cq);
}

/* ---- one slot ------------------------------------------------------------ */

static void must(int ret)
{
	program_must(ret, "hashing");
}

void sha256_slot_init(struct sha256_slots *slots, struct sha256_slot *slot)
{
	must(rnl_job_init(&slot->job, slots->batcher ? NULL : hash_one));
	must(rnl_job_set_cq(&slot->job, slots->cq));
}

static int get_request(struct sha256_slots *slots, struct sha256_slot *slot)
{
	const int ret = rnl_batcher_reserve(slots->batcher, &slot->request, slot->bytes, 0);

	if (!ret)
		slot->part = slot->request.in;
	return ret;
}

static int get_buffer(struct sha256_slots *slots, struct sha256_slot *slot)
{
	void *buf = NULL;
	const size_t bytes = slot->bytes + sizeof(struct sha256_state);
	const int ret = rnl_memory_get(slots->pool, RNL_PINNED, bytes, &buf, 0);

	slot->part = buf;
	return ret == -ENOMEM && slots->under_way ? -EAGAIN : ret;
}

bool sha256_slot_get(struct sha256_slots *slots, struct sha256_slot *slot, size_t bytes)
{
	int ret;

	bytes = (bytes + SHA256_BLOCK - 1) / SHA256_BLOCK * SHA256_BLOCK;
	slot->bytes = sizeof(*slot->part) + bytes;
	ret = slots->batcher ? get_request(slots, slot) : get_buffer(slots, slot);
	if (ret != -EAGAIN)
		must(ret);
	return !ret;
}

void sha256_slot_send(struct sha256_slots *slots, struct sha256_slot *slot)
{
	must(slots->batcher ? rnl_request_commit(&slot->request) :
			      rnl_submit_wait(slots->pool, &slot->job, RNL_FOREVER));
	slots->under_way++;
}

unsigned sha256_slots_reap(struct sha256_slots *slots, struct sha256_slot *done[SHA256_REAP_MAX],
			   bool wait)
{
	struct rnl_job *jobs[SHA256_REAP_MAX];
	const int nr = wait ? rnl_cq_reap(slots->cq, jobs, SHA256_REAP_MAX, RNL_FOREVER) :
			      rnl_cq_reap(slots->cq, jobs, SHA256_REAP_MAX, 0);

	must(nr);
	for (int i = 0; i < nr; i++) {
		must(jobs[i]->result);
		done[i] = rnl_container_of(jobs[i], struct sha256_slot, job);
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
	else
		rnl_memory_put(slots->pool, slot->part);
	return state;
}
