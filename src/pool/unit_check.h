/* SPDX-License-Identifier: MIT */
/*
 * Functions of units that include runnel/cuda.h: which pools accept them, and what the host device
 * checks after they ran.
 *
 * DESIGN
 *	On a CUDA device, all CUDA runtimes are asked for their last error after each function.
 *	The host device does the same if a unit may make CUDA calls there.  Without a driver, a
 *	runtime returns the same error each time, even if the function did not call CUDA.  So an
 *	error that comes twice fails the job only if the function's unit may make CUDA calls.  With
 *	a driver, such a function may leave work on the thread's stream; the job waits for it.
 */
#ifndef RNL_UNIT_CHECK_H
#define RNL_UNIT_CHECK_H

#include "device/units.h"
#include "pool/guard.h"
#include "pool/pool.h"
#include "pool/worker.h"

/* Sets which functions the pool refuses. */
void rnl__unit_check_init(struct rnl_pool *pool);

bool rnl__unit_looks_fit(const struct rnl_pool *pool, rnl__function *fn);

/* Returns true if the pool accepts a function. */
static inline bool rnl__unit_fits(const struct rnl_pool *pool, rnl__function *fn)
{
	return !(pool->refuses && rnl__units_have(pool->refuses)) || rnl__unit_looks_fit(pool, fn);
}

/* Logs why the pool refuses a function.  Returns -EINVAL, or -ENODEV if its unit needs CUDA. */
int rnl__unit_refuse(struct rnl_pool *pool, const char *call, rnl__function *fn);

/* Returns true if the function may be in a unit that does not say that it names the stream. */
bool rnl__unit_is_silent(rnl__function *fn);

/*
 * Logs that a CUDA call in a job's function failed.
 * @fn: NULL: a function of a map or a batcher.  @code: rnl__units_error() after the function.
 */
void rnl__unit_tell_failed(struct rnl__worker *w, rnl__function *fn, int code);

/* rnl__unit_check() on the host device. */
int rnl__unit_check_host(struct rnl__worker *w, rnl__function *fn, int ret);

/* Clears CUDA's errors after a callback or a hook: they belong to no job. */
static inline void rnl__unit_forgive(struct rnl__worker *w)
{
	/* In a job's function, the error is the job's.  The timer thread makes no query. */
	if (rnl__thread.stream && !rnl__thread.job &&
	    (w->device->info.cuda || rnl__units_have(RNL__UNITS_RAW)))
		(void)rnl__units_error();
}

/* Checks after a job's function, which returned @ret.  Returns @ret, or the error found. */
static inline int rnl__unit_check(struct rnl__worker *w, rnl__function *fn, int ret)
{
	if (w->device->info.cuda || !rnl__units_have(RNL__UNITS_RAW))
		return ret;
	return rnl__unit_check_host(w, fn, ret);
}

#endif
