/* SPDX-License-Identifier: MIT */
/* Calls that fail, and what they leave; calls.c has the design. */
#ifndef COUNTDOWN_CALLS_H
#define COUNTDOWN_CALLS_H

#include <stdbool.h>

enum call_kind {
	CALL_MEMORY,		/* malloc() and its like */
	CALL_THREAD,		/* pthread_create() */
	CALL_DESCRIPTOR,	/* eventfd(), open(), ... */
	CALL_MAPPING,		/* mmap() */
	CALL_DISK,		/* pwrite(), ... */
	NR_CALL_KINDS,
};

extern const struct call_names {
	const char *name;
	int error;		/* of the call that fails */
} call_names[NR_CALL_KINDS];

/* The @nth call of the kind fails from here on, and, if @all, those after it. */
void calls_fail(enum call_kind kind, long nth, bool all);
/* No call does any more.  How many have failed. */
long calls_stop(void);

/* What there is now of what the process may leave behind. */
struct living {
	long memory, mappings, descriptors;
	long threads;		/* started, and nobody has joined or detached them */
	long detached;
	unsigned streams, events, pools, graphs;	/* CUDA's */
	unsigned long long device_bytes, pinned_bytes;
};
void living_now(struct living *living);

#endif
