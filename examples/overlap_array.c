/* SPDX-License-Identifier: MIT */
/*
 * The array that overlap works on: its memory, its input, and whether its output
 * is right.
 *
 * DESIGN
 * Words differ from each other before and after the kernel, so that one which is
 * not where it belongs is seen.  The output is computed in another way than by
 * the kernel: all rounds together are one multiplication and one addition.
 */
#include "overlap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

static uint32_t input(uint64_t i)
{
	return (uint32_t)i * 2654435761u;
}

/* From there to the first multiple of @step. */
static uint64_t lead(uint64_t first, unsigned step)
{
	return (step - first % step) % step;
}

void overlap_words_make(uint32_t *words, uint64_t first, uint64_t nr, unsigned step)
{
	for (uint64_t i = lead(first, step); i < nr; i += step)
		words[i] = input(first + i);
}

uint64_t overlap_words_wrong(const struct overlap_work *work, const uint32_t *words,
			     uint64_t first, uint64_t nr, unsigned step)
{
	uint32_t a = 1, c = 0, wrong = 0;

	for (uint32_t i = 0; i < work->rounds; i++) {
		a *= OVERLAP_A;
		c = c * OVERLAP_A + OVERLAP_C;
	}
	for (uint64_t i = lead(first, step); i < nr; i += step)
		wrong += words[i] != input(first + i) * a + c;
	return wrong;
}

void overlap_array_begin(const struct overlap_work *work)
{
	/* In place or not: it is not the output. */
	overlap_words_make(work->out, 0, work->nr_chunks * work->chunk, 1);
}

uint64_t overlap_array_wrong(const struct overlap_work *work)
{
	uint64_t wrong = 0;

	for (uint64_t i = 0; i < work->nr_chunks; i++)
		wrong += overlap_words_wrong(work, work->out + i * work->chunk, i * work->chunk,
					     work->chunk, 1);
	return wrong;
}

/* ---- memory -------------------------------------------------------------- */

static void *get_array(const struct overlap_options *opt, struct rnl_pool *pool)
{
	const uint64_t bytes = opt->nr_chunks * opt->chunk_bytes;
	void *array = NULL;
	int ret = 0;

	if (!opt->pageable)
		ret = rnl_pinned_get(pool, bytes, &array);
	else if (!(array = malloc(bytes)))
		ret = -ENOMEM;
	if (!ret)
		return array;
	fprintf(stderr, "overlap: an array of %" PRIu64 " bytes%s: %s%s\n", bytes,
		opt->pageable ? "" : ", page-locked", rnl_strerror(ret),
		ret == -ENOMEM ? " (try fewer --chunks)" : "");
	exit(EXIT_FAILURE);
}

static uint32_t *get_chunk(const struct overlap_options *opt, struct rnl_pool *pool)
{
	void *chunk = NULL;
	const int ret = rnl_device_alloc(pool, opt->chunk_bytes, &chunk);

	if (!ret)
		return chunk;
	fprintf(stderr, "overlap: a chunk of %zu bytes on the device: %s%s\n", opt->chunk_bytes,
		rnl_strerror(ret), ret == -ENOMEM ? " (try a smaller --chunk)" : "");
	exit(EXIT_FAILURE);
}

void overlap_array_get(struct overlap_work *work, const struct overlap_options *opt,
		       struct rnl_pool *pool)
{
	*work = (struct overlap_work){
		.pool = pool,
		.ordinal = opt->info.ordinal,
		.nr_threads = opt->workers,
		.nr_chunks = opt->nr_chunks,
		.chunk = opt->chunk_bytes / sizeof(uint32_t),
		.rounds = opt->rounds ? opt->rounds : 1,
		.halo = opt->halo,
		.callbacks = opt->callbacks,
		.callback_step = opt->callback_step,
	};
	work->out = get_array(opt, pool);
	work->beside = opt->in_place ? get_array(opt, pool) : work->out;
	work->in = opt->in_place ? work->out : get_array(opt, pool);
	overlap_words_make(work->in, 0, work->nr_chunks * work->chunk, 1);
	for (unsigned i = 0; i < work->nr_threads; i++) {
		struct overlap_buffer *buffer = &work->buffers[i];

		buffer->out = get_chunk(opt, pool);
		buffer->in = opt->in_place ? buffer->out : get_chunk(opt, pool);
	}
	work->beside_buffer = opt->in_place ? get_chunk(opt, pool) : work->buffers[0].out;
}

void overlap_array_put(struct overlap_work *work, const struct overlap_options *opt)
{
	uint32_t *const other = opt->in_place ? work->beside : work->in;

	if (opt->in_place)
		rnl_device_free(work->pool, work->beside_buffer);
	for (unsigned i = 0; i < work->nr_threads; i++) {
		rnl_device_free(work->pool, work->buffers[i].out);
		if (!opt->in_place)
			rnl_device_free(work->pool, work->buffers[i].in);
	}
	if (opt->pageable) {
		free(work->out);
		free(other);
	} else {
		rnl_pinned_put(work->pool, work->out);
		rnl_pinned_put(work->pool, other);
	}
}
