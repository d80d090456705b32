/* SPDX-License-Identifier: MIT */
/*
 * The array that overlap works on: its memory, its input, and a check of its output.
 *
 * DESIGN
 * All words differ, before and after the kernel, so the check finds misplaced words.  The check
 * computes the output in another way than the kernel: all rounds together are one multiplication
 * and one addition.
 */
#include "config.h"

#include "common/program.h"
#include "overlap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include <runnel/memory.h>

static uint32_t input(uint64_t i)
{
	return (uint32_t)i * 2654435761u;
}

/* Returns the distance from @first to the next multiple of @step. */
static uint64_t lead(uint64_t first, unsigned step)
{
	return (step - first % step) % step;
}

void overlap_words_make(uint32_t *words, uint64_t first, uint64_t nr, unsigned step)
{
	for (uint64_t i = lead(first, step); i < nr; i += step)
		words[i] = input(first + i);
}

uint64_t overlap_words_wrong(const struct overlap *o, const uint32_t *words, uint64_t first,
			     uint64_t nr, unsigned step)
{
	uint32_t a = 1, c = 0;
	uint64_t wrong = 0;

	for (uint32_t i = 0; i < o->rounds; i++) {
		a *= OVERLAP_A;
		c = c * OVERLAP_A + OVERLAP_C;
	}
	for (uint64_t i = lead(first, step); i < nr; i += step)
		wrong += words[i] != input(first + i) * a + c;
	return wrong;
}

/* ---- memory -------------------------------------------------------------- */

static void *get_array(const struct overlap *o)
{
	const uint64_t bytes = o->nr_chunks * o->chunk_bytes;
	void *array = NULL;
	int ret = 0;

	if (!o->pageable)
		ret = rnl_memory_get(o->pool, RNL_PINNED, bytes, &array, 0);
	else if (!(array = malloc(bytes)))
		ret = -ENOMEM;
	if (!ret)
		return array;
	program_die("an array of %" PRIu64 " bytes%s: %s%s", bytes,
		    o->pageable ? "" : ", page-locked", rnl_strerror(ret),
		    ret == -ENOMEM ? " (try fewer --chunks)" : "");
}

static uint32_t *get_chunk(const struct overlap *o)
{
	void *chunk = NULL;

	program_must(rnl_memory_get(o->pool, 0, o->chunk_bytes, &chunk, 0),
		     "a chunk on the device (a smaller --chunk needs less)");
	return chunk;
}

void overlap_array_get(struct overlap *o)
{
	o->out = get_array(o);
	o->beside = o->in_place ? get_array(o) : o->out;
	o->in = o->in_place ? o->out : get_array(o);
	overlap_words_make(o->in, 0, o->nr_chunks * o->chunk, 1);
	for (unsigned i = 0; i < o->workers; i++) {
		struct overlap_buffer *buffer = &o->buffers[i];

		buffer->out = get_chunk(o);
		buffer->in = o->in_place ? buffer->out : get_chunk(o);
	}
	o->beside_buffer = o->in_place ? get_chunk(o) : o->buffers[0].out;
}

void overlap_array_put(struct overlap *o)
{
	uint32_t *const arrays[] = { o->out, o->in_place ? o->beside : o->in };

	if (o->in_place)
		rnl_memory_put(o->pool, o->beside_buffer);
	for (unsigned i = 0; i < o->workers; i++) {
		rnl_memory_put(o->pool, o->buffers[i].out);
		if (!o->in_place)
			rnl_memory_put(o->pool, o->buffers[i].in);
	}
	for (int i = 0; i < 2; i++) {
		if (o->pageable)
			free(arrays[i]);
		else
			rnl_memory_put(o->pool, arrays[i]);
	}
}
