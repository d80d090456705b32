/* SPDX-License-Identifier: MIT */
/*
 * Translation units that include runnel/cuda.h, and the last errors of their CUDA runtimes.
 *
 * DESIGN
 *	A unit is registered while its module is loaded.  After each job function, workers ask each
 *	copy of the runtime for its last error, through a function in the module of a unit that uses
 *	this copy.  That module may be unloaded meanwhile.  So a worker increments a sequence of its
 *	own before and after it asks.  A removal takes the function out of the table, then waits
 *	until each worker's sequence is even or has changed.
 *	A runtime may call dlopen() when a thread first asks it, and dlclose() runs a removal with
 *	the linker's lock held: the two would deadlock.  So a thread asks a runtime that is new to
 *	it outside the sequence, and holds the module by a dlopen() of its own.
 *	The units' properties are in a table of the library, which any thread reads without a lock.
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

/* Flags of a function's unit, in addition to enum rnl__cuda_unit_flags. */
enum {
	RNL__UNIT_KNOWN = 1u << 16,	/* a unit was found */
	RNL__UNIT_MODULE = 1u << 17	/* text unknown: it may be another unit of the module */
};

/* Properties of at least one registered unit; bits of rnl__units_have. */
enum {
	RNL__UNITS_ANY = 1,
	RNL__UNITS_SILENT = 2,		/* does not define RNL_NAMES_STREAM as 1 */
	RNL__UNITS_NEED_CUDA = 4,
	RNL__UNITS_RAW = 8		/* may make CUDA calls on the host device */
};
extern _Atomic uint32_t rnl__units_have;

/* relaxed: a thread that gets a function of a unit also sees that unit's bits */
#define rnl__units_have(bits) \
	(atomic_load_explicit(&rnl__units_have, memory_order_relaxed) & (bits))

/* Lets the calling thread ask.  Returns 0 or -ENOMEM.  The thread must leave before it ends. */
int rnl__units_join(void);
void rnl__units_leave(void);

/* Returns the calling thread's last CUDA error, of the first runtime that has one; clears all. */
int rnl__units_ask(void);

static inline int rnl__units_error(void)
{
	return rnl__units_have(RNL__UNITS_ANY) ? rnl__units_ask() : 0;
}

/* Returns the flags of the unit that contains a function, or 0. */
uint32_t rnl__units_find(const void *fn);

/* Returns true if functions of a unit with these flags may make CUDA calls on the host device. */
static inline bool rnl__unit_is_raw(uint32_t flags)
{
	return flags & RNL__CUDA_UNIT_NEEDS_CUDA ||
	       !(flags & (RNL__CUDA_UNIT_RUNS_WITHOUT | RNL__CUDA_UNIT_KERNELS));
}

#endif
