/* SPDX-License-Identifier: MIT */
#ifndef RNL_KEEP_H
#define RNL_KEEP_H

#include <runnel.h>

/* Starts the keeper's thread: 0, or the error of pthread_create(). */
int rnl__keep_start(struct rnl_pool *pool);

/* Ends it; there may be none. */
void rnl__keep_end(struct rnl_pool *pool);

#endif
