/* SPDX-License-Identifier: MIT */
/* Calls that fail, and the objects that they leave; calls.c has the design. */
#ifndef COUNTDOWN_CALLS_H
#define COUNTDOWN_CALLS_H

#include <stdbool.h>

enum call_kind {
	CALL_MEMORY,		/* malloc() and the like */
	CALL_THREAD,		/* pthread_create() */
	CALL_DESCRIPTOR,	/* eventfd(), open(), ... */
	CALL_MAPPING,		/* mmap() */
	CALL_DISK,		/* pwrite(), ... */
	NR_CALL_KINDS,
};

extern const struct call_names {
	const char *name;
	int error;		/* errno of the failing call */
} call_names[NR_CALL_KINDS];

/* From now on, fails the @nth call of the kind, and all later ones if @all. */
void calls_fail(enum call_kind kind, long nth, bool all);
/* Ends the failures.  Returns the number of failed calls. */
long calls_stop(void);

/* The existing objects that the process may leave. */
struct living {
	long memory, mappings, descriptors;
	long threads;		/* started, but not joined or detached */
	long detached;
	unsigned streams, events, pools, graphs, greens;	/* objects of CUDA */
	unsigned long long device_bytes, pinned_bytes;
};
void living_now(struct living *living);

#endif
