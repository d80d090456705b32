/* SPDX-License-Identifier: MIT */
/*
 * Operations that a thread notes, and issues together: so the copies of many jobs take a few calls
 * of the driver.
 *
 * DESIGN
 *	An operation is noted with its job.  Those of one job are issued in an order that means
 *	what the order means in which they were noted; those of several jobs, in any order.
 *	For that an operation has a step: copies and fills have even steps, launches odd ones.
 *	All of step 0 is issued, then all of step 1, and so on.  An operation has the step of
 *	its job's operation before it, if that is of its kind, else the next one.  Copies of one
 *	step are in no order.  So if one touches what another of its job writes, the later one
 *	goes two steps on.  A job that copies in, launches and copies out has three steps, and a
 *	hundred such jobs have three together.
 *	What is issued in another way, and what waits for the stream, stands behind
 *	rnl__gather_flush().
 *	An operation that fails when it is issued fails its own job alone.  The job's later steps
 *	are left out: its function would have returned, and a kernel might go wrong.  If that
 *	function still runs, its next call returns the error.
 *	The thread that has the stream uses this, and no other.
 */
#ifndef RNL_GATHER_H
#define RNL_GATHER_H

#include <runnel/kernel.h>

#include "device/device.h"
#include "device/notes.h"

/* An operation of @job, which may still run, has failed. */
typedef void rnl__gather_failed_fn(struct rnl_job *job, int error);

/* A copy was not issued, and will not be. */
typedef void rnl__gather_left_out_fn(const struct rnl__copy *copy);

struct rnl__gather {
	struct rnl__noted *noted;	/* NULL: nothing can be noted */
	char *args;			/* of the launches */
	uint32_t nr, args_bytes;
	uint32_t first;			/* of the job that notes */
	uint16_t step, last_step;	/* of that job's last one; of all */
	bool on;			/* the calls of the job that runs are noted */
	int error;			/* of an operation of that job which was issued already */
	_Atomic uint64_t nr_graphs;	/* figure: that were launched */
	rnl__gather_failed_fn *failed;
	rnl__gather_left_out_fn *left_out;
};

/* 0 or -ENOMEM.  The memory is touched only as far as it is used. */
int rnl__gather_init(struct rnl__gather *g, rnl__gather_failed_fn *failed,
		     rnl__gather_left_out_fn *left_out);
void rnl__gather_fini(struct rnl__gather *g);

/* From here on the calls of rnl__thread.job are noted, until rnl__gather_end(). */
void rnl__gather_begin(struct rnl__gather *g);

static inline void rnl__gather_end(struct rnl__gather *g)
{
	g->on = false;
	g->error = 0;
}

/* Issues all that is noted. */
void rnl__gather_issue(struct rnl__gather *g);

/* The same for the calling thread. */
static inline void rnl__gather_flush(void)
{
	struct rnl__gather *g = rnl__thread.stream->gather;

	if (g && g->nr)
		rnl__gather_issue(g);
}

/* The calls of the job that runs on the calling thread are not noted any more. */
static inline void rnl__gather_stop(void)
{
	struct rnl__gather *g = rnl__thread.stream->gather;

	if (!g || !g->on)
		return;
	g->on = false;
	rnl__gather_flush();
}

/*
 * Why the job that runs on the calling thread may issue no more: an operation of it, for which its
 * call has returned 0, has failed; or 0.
 */
static inline int rnl__gather_error(void)
{
	return rnl__thread.stream->gather ? rnl__thread.stream->gather->error : 0;
}

/* Whether the calls of the job that runs on the calling thread are noted. */
static inline bool rnl__gather_notes(void)
{
	return rnl__thread.stream->gather && rnl__thread.stream->gather->on;
}

/* As the device's copy, fill and launch, but noted if the job's calls are. */
int rnl__gather_copy(const struct rnl__copy *copy);
int rnl__gather_fill(void *dst, uint8_t value, size_t bytes);
int rnl__gather_launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
		       const void *args);

#endif
