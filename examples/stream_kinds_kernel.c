/* SPDX-License-Identifier: MIT */
/*
 * stream_kinds where there is no CUDA: its kernel's host function alone.
 *
 * DESIGN
 * stream_kinds_kernel.cu defines the same for the host device and for CUDA; a build
 * links one of the two.
 */
#include "stream_kinds.h"

#include <errno.h>

RNL_HOST_KERNEL(kinds_kernel, kinds_on_host, struct kinds_args);

const bool kinds_has_cuda = false;

int kinds_stream_open(struct kinds_streams *streams, enum kinds_stream kind, int32_t ordinal)
{
	(void)ordinal;
	streams->handles[kind] = NULL;
	return -ENOTSUP;
}

int kinds_stream_launch(const struct kinds_streams *streams, enum kinds_stream kind,
			const struct kinds_args *args)
{
	(void)streams;
	(void)kind;
	(void)args;
	return -ENOTSUP;
}

int kinds_stream_wait(const struct kinds_streams *streams, enum kinds_stream kind)
{
	(void)streams;
	(void)kind;
	return -ENOTSUP;
}

void kinds_stream_close(struct kinds_streams *streams)
{
	(void)streams;
}
