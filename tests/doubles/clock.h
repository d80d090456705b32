/* SPDX-License-Identifier: MIT */
/* Host functions of the examples' kernels, for the double of the CUDA runtime; and their clock. */
#ifndef DOUBLES_CLOCK_H
#define DOUBLES_CLOCK_H

#include <runnel/kernel.h>

#include "examples/common/clock.h"
#include "fake_cudart/fake_cudart.h"

#define DOUBLE_KERNEL(name, on_host, args_type) \
	static int name##_launch(struct rnl_dim grid, struct rnl_dim block, const void *args, \
				 void *stream) \
	{ \
		return fake_launch(on_host, grid, block, args, sizeof(args_type), stream); \
	} \
	const struct rnl_kernel name = { #name, sizeof(args_type), on_host, name##_launch, NULL };

DOUBLE_KERNEL(clock_kernel, clock_on_host, struct clock_args)

#endif /* DOUBLES_CLOCK_H */
