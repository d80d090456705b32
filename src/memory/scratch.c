/* SPDX-License-Identifier: MIT */
/* Device memory for the running job; scratch.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "memory/scratch.h"
#include "sys/array.h"
#include "sys/sizes.h"

#define ALIGNMENT 256u
#define BLOCK_UNIT (64u << 10)	/* blocks are multiples of this */

void rnl__scratch_init(struct rnl__scratch *s, struct rnl__device *device, uint64_t keep)
{
	*s = (struct rnl__scratch){ .device = device, .keep = keep };
}

static void drop_block(struct rnl__scratch *s)
{
	if (s->block)
		s->device->ops->free(s->device, RNL__SCRATCH, s->block);
	s->block = NULL;
	s->block_bytes = 0;
}

void rnl__scratch_fini(struct rnl__scratch *s)
{
	if (!s->device)
		return;
	drop_block(s);
	free(s->extra);
	*s = (struct rnl__scratch){ 0 };
}

static int get_extra(struct rnl__scratch *s, size_t bytes, void **memp)
{
	void **extra = rnl__array_extend(s->extra, s->nr_extra, &s->space_extra, sizeof(*extra));
	int ret;

	if (!extra)
		return -ENOMEM;
	s->extra = extra;
	ret = s->device->ops->alloc(s->device, RNL__SCRATCH, bytes, memp);
	if (!ret)
		s->extra[s->nr_extra++] = *memp;
	return ret;
}

int rnl__scratch_get(struct rnl__scratch *s, size_t bytes, void **memp)
{
	const size_t whole = rnl__round_up(bytes, ALIGNMENT);
	int ret;

	if (whole < bytes || s->wanted + whole < whole)
		return -ENOMEM;
	if (whole <= s->block_bytes - s->used) {
		*memp = (char *)s->block + s->used;
		s->used += whole;
		s->wanted += whole;
		return 0;
	}
	ret = get_extra(s, whole, memp);
	if (!ret)
		s->wanted += whole;
	return ret;
}

/* Enlarges the block for the next job that needs as much. */
static void grow_block(struct rnl__scratch *s, size_t bytes)
{
	const size_t whole = rnl__round_up(bytes, BLOCK_UNIT);
	void *block;

	drop_block(s);
	if (s->device->ops->alloc(s->device, RNL__SCRATCH, whole, &block)) {
		/* Jobs get extra memory instead; a block of this size is not tried again. */
		s->keep = bytes - 1;
		return;
	}
	s->block = block;
	s->block_bytes = whole;
}

void rnl__scratch_end(struct rnl__scratch *s)
{
	size_t wanted = s->wanted;

	while (s->nr_extra)
		s->device->ops->free(s->device, RNL__SCRATCH, s->extra[--s->nr_extra]);
	s->used = s->wanted = 0;
	if (wanted > s->block_bytes && wanted <= s->keep)
		grow_block(s, wanted);
}
