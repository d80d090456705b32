/* SPDX-License-Identifier: MIT */
/*
 * Functions of units that include runnel/cuda.h: which pools take them, and what the host device
 * looks at after them.
 *
 * DESIGN
 *	On a CUDA device all runtimes are asked for their last errors after each function.
 *	On the host device, too, if a unit may make CUDA calls there.  Without a driver a
 *	runtime gives its error each time, whether the function has called CUDA or not.  So if
 *	the error comes twice, the function is blamed only if it is in such a unit.  With a
 *	driver, such a function may leave work on the thread's stream: the job waits for it.
 */
#ifndef RNL_UNIT_CHECK_H
#define RNL_UNIT_CHECK_H

#include "device/units.h"
#include "pool/guard.h"
#include "pool/pool.h"
#include "pool/worker.h"

/* Sets what the pool refuses. */
void rnl__unit_check_init(struct rnl_pool *pool);

bool rnl__unit_looks_fit(const struct rnl_pool *pool, rnl__function *fn);

/* Whether the pool takes a function. */
static inline bool rnl__unit_fits(const struct rnl_pool *pool, rnl__function *fn)
{
	return !(pool->refuses && rnl__units_have(pool->refuses)) || rnl__unit_looks_fit(pool, fn);
}

/* Logs why it does not.  Return: -EINVAL, or -ENODEV the function's unit needs CUDA. */
int rnl__unit_refuse(struct rnl_pool *pool, const char *call, rnl__function *fn);

/* Whether the function may be in a unit that does not say that it names the stream. */
bool rnl__unit_is_silent(rnl__function *fn);

/* As rnl__unit_check(), on the host device. */
int rnl__unit_check_host(struct rnl__worker *w, rnl__function *fn, int ret);

/* After a callback, or a hook: what went wrong in it is no job's error. */
static inline void rnl__unit_forgive(struct rnl__worker *w)
{
	/* In a job's function it would be that job's; a timer thread asks nothing. */
	if (rnl__thread.stream && !rnl__thread.job &&
	    (w->device->info.cuda || rnl__units_have(RNL__UNITS_RAW)))
		(void)rnl__units_error();
}

/* After a function that has returned @ret, in its job.  Return: @ret, or what failed. */
static inline int rnl__unit_check(struct rnl__worker *w, rnl__function *fn, int ret)
{
	if (w->device->info.cuda || !rnl__units_have(RNL__UNITS_RAW))
		return ret;
	return rnl__unit_check_host(w, fn, ret);
}

#endif
