/* SPDX-License-Identifier: MIT */
/* What few jobs have, as a submit takes it: struct rnl_job_more. */
#ifndef RNL_MORE_H
#define RNL_MORE_H

#include <runnel.h>

/* The flags that `more` gives a submit of its job. */
unsigned rnl__more_flags(const struct rnl_job *job);

/* Whether `more` can be what it is, whatever else the job has: 0; -EINVAL, which is logged. */
int rnl__more_check(struct rnl_pool *pool, const struct rnl_job *job);

#endif
