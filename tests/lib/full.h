/* SPDX-License-Identifier: MIT */
/* A pool with a full queue. */
#ifndef FULL_H
#define FULL_H

#include <stdlib.h>

#include "pool.h"

/* A pool with one worker, held at a gate, and a full queue. */
struct full {
	struct rnl_pool *pool;
	struct gate gate;
	struct rnl_job held, *queued;
	unsigned nr;
};

static inline void full_start(struct full *f, unsigned max_queued)
{
	*f = (struct full){ .pool = pool_of(1, .max_queued = max_queued), .gate = GATE_INIT, .nr = max_queued };
	hold_workers(f->pool, &f->gate, &f->held, 1);
	f->queued = calloc(max_queued, sizeof(*f->queued));
	for (unsigned i = 0; i < max_queued; i++) {
		submit_job(f->pool, &f->queued[i], noop_fn, NULL);
	}
}

/* Opens the gate, waits for the jobs, and destroys the pool. */
static inline void full_end(struct full *f)
{
	gate_open(&f->gate);
	for (unsigned i = 0; i < f->nr; i++)
		ck_assert_int_eq(result_of(&f->queued[i]), 0);
	rnl_pool_destroy(f->pool);
	free(f->queued);
}

#endif
