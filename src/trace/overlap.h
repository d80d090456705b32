/* SPDX-License-Identifier: MIT */
/*
 * What was on a device at the same time: figures of spans.  Pure functions; traces use
 * them while they run, the tool `runnel report` for a file, maps for their chunks.
 *
 * DESIGN
 *	The begins and ends of all spans, sorted by time, cut the time into pieces.  Within a piece
 *	nothing begins or ends, so a piece is added to each figure that it counts for.
 *	A worker's own spans do not overlap, because a stream does one thing after
 *	another.  Where clocks say that they do, the worker counts once.
 */
#ifndef RNL_OVERLAP_H
#define RNL_OVERLAP_H

#include <stddef.h>

#include <runnel.h>

/* Of so many workers the figures say which had jobs, and which pairs never had some at once. */
#define RNL__OVERLAP_PAIRS 64u

/* The memory that the figures of a number of spans need; to be freed.  NULL: no memory. */
struct rnl__overlap_work *rnl__overlap_work(size_t nr);

/* As rnl_overlap_find(), but writes all of @o, its size too; @work is for @nr spans or more. */
void rnl__overlap_find(const struct rnl_overlap_span *spans, size_t nr,
		       struct rnl__overlap_work *work, struct rnl_overlap *o);

#endif
