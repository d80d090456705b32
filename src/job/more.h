/* SPDX-License-Identifier: MIT */
/* Rarely used settings of a job, struct rnl_job_more, as a submit reads them. */
#ifndef RNL_MORE_H
#define RNL_MORE_H

#include <runnel.h>

/* Returns the flags that a job gets from its `more`. */
unsigned rnl__more_flags(const struct rnl_job *job);

/* Checks `more`, regardless of the job's other settings.  Returns 0 or logs -EINVAL. */
int rnl__more_check(struct rnl_pool *pool, const struct rnl_job *job);

/*
 * Gives a claimed job that has `more` its trace id: its own, or that of the job whose function or
 * callback this thread is in.
 */
void rnl__more_set_id(const struct rnl_job *job);

/* Gives a later job of a chain that has `more` the trace id of a job before it, if that has `more`. */
void rnl__more_follow(const struct rnl_job *job, const struct rnl_job *before);

#endif
