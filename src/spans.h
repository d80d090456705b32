/* SPDX-License-Identifier: MIT */
/* Spans of time, and how much of it several of them cover together. */
#ifndef RNL_SPANS_H
#define RNL_SPANS_H

#include <stddef.h>
#include <stdint.h>

struct rnl__span {
	int64_t begin, end;	/* ns; an empty one covers nothing */
};

/* Sorts them.  What lies in several counts once. */
uint64_t rnl__spans_cover(struct rnl__span *spans, size_t nr);

#endif
