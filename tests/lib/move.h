/* SPDX-License-Identifier: MIT */
/* A job that copies some bytes, in one row or in many. */
#ifndef MOVE_H
#define MOVE_H

#include "pool.h"

struct move {
	struct rnl_job job;
	void *dst;
	const void *src;
	size_t bytes;
	size_t pitch;		/* distance of rows of pitch / 2 bytes each; 0: one row */
};

static inline int move_fn(struct rnl_job *job)
{
	struct move *m = rnl_container_of(job, struct move, job);

	if (m->pitch)
		return rnl_copy_2d(m->dst, m->pitch, m->src, m->pitch, m->pitch / 2,
				   m->bytes / m->pitch);
	return rnl_copy(m->dst, m->src, m->bytes);
}

#endif /* MOVE_H */
