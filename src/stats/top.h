/* SPDX-License-Identifier: MIT */
/* The socket that `runnel top` reads: the attribute top of a pool. */
#ifndef RNL_TOP_H
#define RNL_TOP_H

struct rnl_pool;

/* For a pool that is created.  Returns 0, or the error of rnl_pool_create(), which is logged. */
int rnl__top_start(struct rnl_pool *pool, const char *path);

/* For a pool that is freed, also one without a socket. */
void rnl__top_end(struct rnl_pool *pool);

#endif
