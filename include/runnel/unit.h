/* SPDX-License-Identifier: MIT */
/* Private, for runnel/cuda.h: the units of the process that may call the CUDA runtime. */
#ifndef RUNNEL_UNIT_H
#define RUNNEL_UNIT_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

enum rnl__cuda_unit_flags {
	RNL__CUDA_UNIT_NAMES_STREAM = 1,	/* RNL_NAMES_STREAM is 1 */
	RNL__CUDA_UNIT_NEEDS_CUDA = 2,		/* RNL_NEEDS_CUDA is 1 */
	RNL__CUDA_UNIT_RUNS_WITHOUT = 4,	/* RNL_NEEDS_CUDA is 0 */
	RNL__CUDA_UNIT_KERNELS = 8		/* the unit has an RNL_KERNEL() */
};

struct rnl__cuda_unit {
	uint32_t size;			/* sizeof(struct rnl__cuda_unit) */
	uint32_t flags;			/* enum rnl__cuda_unit_flags */
	int (*last_error)(void);	/* returns and clears the calling thread's last CUDA error */
	const void *runtime;		/* identifies a copy of the CUDA runtime */
	const char *text, *text_end;	/* address range of the unit's functions; equal: unknown */
};

/*
 * Registers a unit when its module is loaded. From then on, after each function of a job, map or
 * batcher, workers of CUDA pools ask each copy of the runtime that a registered unit uses for its
 * last error. So a failed CUDA call fails its job, whichever unit made the job or the call.
 * @unit: must not change until rnl__cuda_unit_remove().
 * Context: any thread; takes a lock.
 * Ordering: jobs that start after this call are checked.
 * Return: 0; -EINVAL unit is NULL, or has a wrong size or no last_error; -EAGAIN 1,024 units or 64
 *	copies of the runtime are registered, which is logged: errors of this unit's CUDA calls may
 *	be missed.
 * Since: 0.3
 */
RNL_API int rnl__cuda_unit_add(const struct rnl__cuda_unit *unit);

/*
 * Removes a unit when its module is unloaded. Other threads may run jobs of other modules.
 * @unit: may be NULL or not registered.
 * Context: waits until no worker is in last_error() of a registered unit, some 10 ns; takes a lock.
 * Ordering: no call of the unit's last_error() runs after this call.
 * Since: 0.3
 */
RNL_API void rnl__cuda_unit_remove(const struct rnl__cuda_unit *unit);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_UNIT_H */
