/* SPDX-License-Identifier: MIT */
/*
 * Tests copies between the devices of one pool: their content and their rate.
 *
 * DESIGN
 * Data are copied from each device to each other device, once by a worker of the source and once
 * by a worker of the destination, and compared byte by byte.  The reported rate is the slowest
 * pair's.  Peers access each other's memory; other pairs copy through the host, which is slower.
 */
#include "check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/device.h>
#include <runnel/memory.h>

#define BYTES (8u << 20)
#define TURNS 4u		/* copies to measure the rate of a pair */

struct move {
	struct rnl_job job;
	void *to;
	const void *from;
	unsigned turns;
};

static int peers_move(struct rnl_job *job)
{
	const struct move *m = rnl_container_of(job, struct move, job);
	int ret = 0;

	for (unsigned i = 0; i < m->turns && !ret; i++)
		ret = rnl_copy(m->to, m->from, BYTES);
	return ret;
}

/* Copies @turns times, by a worker of the device.  Returns ns. */
static uint64_t carry(struct rnl_pool *pool, unsigned device, void *to, const void *from,
		      unsigned turns)
{
	struct move m = { .to = to, .from = from, .turns = turns };
	const uint64_t begin = tool_now();

	tool_must(rnl_job_init(&m.job, peers_move), "a job");
	tool_must(rnl_job_set_device(&m.job, (int)device), "a job on a device");
	tool_submit(pool, &m.job);
	tool_wait(&m.job, "a copy between devices");
	return tool_now() - begin;
}

struct peers {
	struct rnl_pool *pool;
	unsigned nr, nr_pairs, nr_direct, nr_wrong;
	unsigned char *pinned, *seen;
	void *mem[RNL_DEVICES_MAX];
	int ordinals[RNL_DEVICES_MAX];
	double least;			/* GB/s of the slowest pair */
	char wrong[48];			/* the first pair with wrong bytes */
};

/* Copies between two devices by a worker of @by.  Returns true if the bytes arrive intact. */
static bool arrives(const struct peers *p, unsigned from, unsigned to, unsigned by)
{
	const unsigned seed = 16 * from + to + 256 * by;

	for (unsigned i = 0; i < BYTES; i++)
		p->pinned[i] = (unsigned char)(i * 7 + i / 4096 + seed);
	memset(p->seen, 0, BYTES);
	(void)carry(p->pool, from, p->mem[from], p->pinned, 1);
	(void)carry(p->pool, to, p->mem[to], p->seen, 1);
	(void)carry(p->pool, by, p->mem[to], p->mem[from], 1);
	(void)carry(p->pool, to, p->seen, p->mem[to], 1);
	return !memcmp(p->pinned, p->seen, BYTES);
}

static void try_pair(struct peers *p, unsigned from, unsigned to)
{
	double rate;

	p->nr_pairs++;
	p->nr_direct += tool_gpu_reaches(p->ordinals[to], p->ordinals[from]);
	if (!arrives(p, from, to, from) || !arrives(p, from, to, to)) {
		if (!p->nr_wrong++)
			snprintf(p->wrong, sizeof(p->wrong), "%d to %d", p->ordinals[from],
				 p->ordinals[to]);
		return;
	}
	rate = (double)BYTES * TURNS /
	       (double)carry(p->pool, to, p->mem[to], p->mem[from], TURNS);
	if (!p->least || rate < p->least)
		p->least = rate;
}

static void peers_tell(const struct check_machine *m, const struct peers *p, struct check *peers)
{
	check_figure(peers, "pairs", p->nr_pairs);
	check_figure(peers, "direct", m->info.cuda ? p->nr_direct : p->nr_pairs);
	check_figure(peers, "slowest_gb_per_s", p->least);
	if (p->nr_wrong) {
		check_says(peers, CHECK_NO, "%u of %u pairs of %u devices: wrong bytes arrive, "
			   "first from %s", p->nr_wrong, p->nr_pairs, p->nr, p->wrong);
		snprintf(peers->cause, sizeof(peers->cause), "the machine's peer access is broken, "
			 "for example by an IOMMU without the setup for it: see the driver's log");
		return;
	}
	if (!m->info.cuda)
		check_says(peers, CHECK_YES, "%u pairs of %u host devices: what is sent arrives, "
			   "at %.1f GB/s or more", p->nr_pairs, p->nr, p->least);
	else
		check_says(peers, CHECK_YES, "%u pairs of %u GPUs: what is sent arrives, at "
			   "%.1f GB/s or more; %u pairs are direct, %u go through the host",
			   p->nr_pairs, p->nr, p->least, p->nr_direct, p->nr_pairs - p->nr_direct);
}

/* Returns the named devices if there are several; else all GPUs, or two host devices. */
static const char *devices_of(const struct check_machine *m)
{
	if (strchr(m->device, ',') || strstr(m->device, ":all") || !strncmp(m->device, "host:", 5))
		return m->device;
	return m->info.cuda ? "cuda:all" : "host:2";
}

void check_peers(const struct check_machine *m, struct check *peers)
{
	struct peers p = { .nr = 0 };

	p.pool = tool_pool((struct rnl_pool_attr){ .device = devices_of(m) });
	p.nr = tool_nr_devices(p.pool);
	if (p.nr < 2) {
		check_says(peers, CHECK_NOT_HERE, "there is one device");
		rnl_pool_destroy(p.pool);
		return;
	}
	p.pinned = tool_pinned(p.pool, BYTES);
	p.seen = tool_pinned(p.pool, BYTES);
	for (unsigned i = 0; i < p.nr; i++) {
		struct rnl_device_info info = RNL_DEVICE_INFO_INIT;

		tool_must(rnl_device_describe(p.pool, NULL, i, &info), "a device of the pool");
		p.ordinals[i] = info.ordinal;
		tool_must(rnl_memory_get(p.pool, i, BYTES, &p.mem[i], 0), "device memory");
	}
	for (unsigned i = 0; i < p.nr; i++)
		for (unsigned j = 0; j < p.nr; j++)
			if (i != j)
				try_pair(&p, i, j);
	peers_tell(m, &p, peers);
	for (unsigned i = 0; i < p.nr; i++)
		rnl_memory_put(p.pool, p.mem[i]);
	rnl_memory_put(p.pool, p.seen);
	rnl_memory_put(p.pool, p.pinned);
	rnl_pool_destroy(p.pool);
}
