/* SPDX-License-Identifier: MIT */
/*
 * Small pictures: computes the edges of many pictures together, with a batcher.
 *
 * DESIGN
 * The driver's calls take longer than the edges of a small picture.  So on a GPU a worker decodes
 * the picture, and the loop copies it into the batcher's pinned memory, as a request.  A worker
 * then takes all waiting requests as one batch: one copy to the device, one kernel, one copy back.
 * A single picture does not wait for others.  The request uses the memory of the slot's job, and
 * completes on the same completion queue.
 *
 * On the host device each picture is a separate job, because a batch only saves driver calls; with
 * --class also on a GPU, because a batch could have pictures of several classes.
 *
 * The batcher's slabs have room for a picture of each of the server's slots.
 */
#include "config.h"

#include "server.h"

#include <string.h>

#include <runnel/batch.h>
#include <runnel/device.h>
#include <runnel/kernel.h>

#include "kernels.h"

#define SLABS 4
#define SPARE 4u	/* space for this multiple of the slots: a slab is reused only as a whole */

static int batch_issue(const struct rnl_batch *batch)
{
	const struct pictures_args args = {
		batch->in, batch->out, batch->spans, rnl_clock(), (uint32_t)rnl_worker().index,
		batch->nr,
	};
	const struct rnl_dim grid = { batch->nr, 1, 1 };
	const struct rnl_dim block = { SOBEL_BLOCK_X * SOBEL_BLOCK_Y, 1, 1 };

	return rnl_launch(&pictures_kernel, grid, block, &args);
}

int small_create(struct server *server)
{
	struct rnl_batcher_attr attr = RNL_BATCHER_ATTR_INIT;
	struct rnl_device_info device = RNL_DEVICE_INFO_INIT;

	if (!server->opt.max_batch || server->opt.handler != ASYNC || server->opt.nr_classes ||
	    rnl_device_describe(server->pool, NULL, 0, &device) || !device.cuda)
		return 0;
	/* Copy to the device: a kernel's thread reads nine bytes per byte that it writes. */
	attr.flags = RNL_BATCHER_VARIABLE | RNL_BATCHER_ALWAYS_COPY;
	attr.fn = batch_issue;
	attr.in_bytes = sizeof(struct small_picture);
	attr.out_bytes = sizeof(struct small_edges);
	attr.max_batch = server->opt.max_batch;
	attr.slab_bytes = (server->opt.slots * SPARE / SLABS + 1) * sizeof(struct small_picture);
	attr.nr_slabs = SLABS;
	attr.max_slabs = SLABS;
	return rnl_batcher_create(&server->batcher, server->pool, &attr);
}

size_t small_pinned_bytes(const struct options *opt)
{
	return (opt->slots * SPARE + SLABS) *
	       (sizeof(struct small_picture) + sizeof(struct small_edges));
}

bool small_takes(const struct server *server, uint32_t width, uint32_t height)
{
	return server->batcher && width * height <= SMALL_PIXELS;
}

int small_begin(struct slot *slot)
{
	const struct loop *loop = slot->endpoint->loop;
	const size_t pixels = (size_t)slot->image.width * slot->image.height;
	struct small_picture *picture;
	int ret = rnl_job_init(&slot->request.job, NULL);

	if (!ret)
		ret = rnl_job_set_cq(&slot->request.job, loop->cq);
	if (!ret)
		ret = rnl_batcher_reserve(loop->server->batcher, &slot->request,
					  offsetof(struct small_picture, pixels) + pixels, 0);
	if (ret)
		return ret;
	picture = slot->request.in;
	picture->width = slot->image.width;
	picture->height = slot->image.height;
	memcpy(picture->pixels, slot->out, pixels);
	slot->step = STEP_BATCH;
	ret = rnl_request_commit(&slot->request);
	if (ret)
		rnl_request_release(&slot->request);
	return ret;
}

/*
 * Records one span for a batch.  Called for each picture; the first call records the span, unless a
 * loop has already reaped a picture of a later batch of this worker.
 */
static void note_batch(struct loop *loop, const struct small_edges *edges)
{
	atomic_llong *noted = &loop->server->batch_noted[edges->worker];
	long long before = atomic_load(noted);

	while (before < edges->began_ns)
		if (atomic_compare_exchange_weak(noted, &before, edges->began_ns)) {
			spans_note(&loop->spans, edges->worker, SPAN_EDGES, edges->began_ns,
				   rnl_clock());
			return;
		}
}

int small_end(struct slot *slot)
{
	const struct small_edges *edges = slot->request.out;
	const int ret = slot->request.job.result;

	if (!ret) {
		memcpy(slot->in, edges->pixels, (size_t)slot->image.width * slot->image.height);
		note_batch(slot->endpoint->loop, edges);
	}
	rnl_request_release(&slot->request);
	return ret;
}
