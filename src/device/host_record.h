/* SPDX-License-Identifier: MIT */
/* Records on the host device: the operations that a function issued under guard. */
#ifndef RNL_HOST_RECORD_H
#define RNL_HOST_RECORD_H

#include "device/host_stream.h"

/* Writes arguments of a job. */
extern const struct rnl_kernel rnl__host_args;

/* A copy of the operations; NULL: no memory, or there are none. */
struct rnl__record *rnl__host_record_create(const struct rnl__host_op *ops, size_t nr);
void rnl__host_record_drop(struct rnl__record *record);

/* Whether the operations are the same, but for the arguments of rnl_job_args(). */
bool rnl__host_record_same(const struct rnl__record *a, const struct rnl__record *b);

/* Issues them once more, with arguments from `user`: 0, -EINVAL, -ENOMEM before the first one. */
int rnl__host_record_issue(const struct rnl__record *record, const void *user,
			   int (*issue)(const struct rnl__host_op *op));

#endif
