/* SPDX-License-Identifier: MIT */
/* The socket that `runnel top` reads: a pool's attribute `top`. */
#ifndef RNL_TOP_H
#define RNL_TOP_H

struct rnl_pool;

/* Called at a pool's creation.  Returns 0, or logs and returns the error for rnl_pool_create(). */
int rnl__top_start(struct rnl_pool *pool, const char *path);

/* Called at a pool's end, also for a pool without a socket. */
void rnl__top_end(struct rnl_pool *pool);

#endif
