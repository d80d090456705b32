/* SPDX-License-Identifier: MIT */
/*
 * Units that include runnel/cuda.h: their facts, and the last errors of their CUDA runtimes.
 *
 * DESIGN
 *	A unit is registered while its module is loaded.  Workers ask each copy of the runtime
 *	after each function, through a function that is in the module of one of its units.  That
 *	module may be unloaded meanwhile.  So a worker asks between two steps of a sequence of its
 *	own; a removal takes the function out of the table, and waits until each worker's
 *	sequence is even, or has moved on.
 *	A runtime may call dlopen() when a thread first asks it, and dlclose() runs a removal with
 *	the linker's lock held: the two would wait for each other.  So a thread asks a runtime
 *	that is new to it outside of the sequence, and holds the module by a dlopen() of its own.
 *	Facts of units lie in a table of the library's, which any thread reads without a lock.
 *
 *			add	remove	join	leave	error	find
 *	add, remove	-	-	-	-	-	-	- no outside synchronisation needed
 *	join, leave	-	-	-	-	-	-
 *	error, find	-	-	-	-	-	-
 */
#ifndef RNL_UNITS_H
#define RNL_UNITS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <runnel/unit.h>

/* Beside enum rnl__cuda_unit_flags: what is known of a function's unit. */
enum {
	RNL__UNIT_KNOWN = 1u << 16,	/* a unit was found */
	RNL__UNIT_MODULE = 1u << 17	/* its text is not known: another unit of its module is possible */
};

/* What at least one registered unit is; bits of rnl__units_have. */
enum {
	RNL__UNITS_ANY = 1,
	RNL__UNITS_SILENT = 2,		/* does not say that it names the stream */
	RNL__UNITS_NEED_CUDA = 4,
	RNL__UNITS_RAW = 8		/* may make CUDA calls on the host device */
};
extern _Atomic uint32_t rnl__units_have;

/* relaxed: a thread that is told of a unit's function learns of the unit, too */
#define rnl__units_have(bits) \
	(atomic_load_explicit(&rnl__units_have, memory_order_relaxed) & (bits))

/* The calling thread may ask from now on; 0 or -ENOMEM.  It leaves before it ends. */
int rnl__units_join(void);
void rnl__units_leave(void);

/* Returns and clears the last CUDA error of the calling thread: the first one of a runtime's. */
int rnl__units_ask(void);

static inline int rnl__units_error(void)
{
	return rnl__units_have(RNL__UNITS_ANY) ? rnl__units_ask() : 0;
}

/* Returns the flags of the unit that a function is in, or 0. */
uint32_t rnl__units_find(const void *fn);

/* Whether the functions of a unit with these flags may make CUDA calls on the host device. */
static inline bool rnl__unit_is_raw(uint32_t flags)
{
	return flags & RNL__CUDA_UNIT_NEEDS_CUDA ||
	       !(flags & (RNL__CUDA_UNIT_RUNS_WITHOUT | RNL__CUDA_UNIT_KERNELS));
}

#endif
