/* SPDX-License-Identifier: MIT */
/*
 * allocator where there is no CUDA: only rnl_scratch() and malloc() are compared.
 *
 * DESIGN
 * allocator_cuda.cu defines the same for CUDA; a build links one of the two.
 */
#include "allocator.h"

#include <errno.h>

int allocator_init_malloc(struct rnl_job *job)
{
	(void)job;
	return -ENOTSUP;
}

int allocator_init_async(struct rnl_job *job)
{
	(void)job;
	return -ENOTSUP;
}

int allocator_keep_async(int ordinal)
{
	(void)ordinal;
	return -ENOTSUP;
}
