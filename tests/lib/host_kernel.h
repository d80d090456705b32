/* SPDX-License-Identifier: MIT */
/* Kernels that are host functions. They run on the double of the CUDA runtime, too. */
#ifndef HOST_KERNEL_H
#define HOST_KERNEL_H

#include <runnel/kernel.h>

#include "gate.h"
#include "skip.h"

#ifndef __CUDACC__
#include "fake_cudart/fake_cudart.h"

#pragma weak fake_launch

/* Like the library's macro, but local to the file; the double can run the kernel, too. */
#undef RNL_HOST_KERNEL
#define RNL_HOST_KERNEL(kernel_name, host_fn, args_type) \
	static int kernel_name##__fake(struct rnl_dim grid, struct rnl_dim block, \
				       const void *args, void *stream) \
	{ \
		enum { NOT_SUPPORTED = 801 };	/* cudaError_t */ \
		return !fake_launch ? NOT_SUPPORTED : \
		       fake_launch(host_fn, grid, block, args, sizeof(args_type), stream); \
	} \
	static int kernel_name##__fake_function(void **functionp) \
	{ \
		static const struct fake_kernel kernel = { \
			FAKE_KERNEL_MAGIC, host_fn, sizeof(args_type) \
		}; \
		enum { NOT_SUPPORTED = 801 };	/* cudaError_t */ \
		*functionp = (void *)(uintptr_t)&kernel; \
		return fake_launch ? 0 : NOT_SUPPORTED; \
	} \
	static const struct rnl_kernel kernel_name = { \
		#kernel_name, sizeof(args_type), host_fn, kernel_name##__fake, \
		kernel_name##__fake_function \
	}
#endif

struct gated_store {
	struct gate *gate;	/* NULL: no gate */
	int *word;		/* NULL: no store */
	int value;
};

/* Waits at the gate on the device, then stores. */
static void gated_store_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct gated_store *a = args;

	(void)grid;
	(void)block;
	if (a->gate)
		gate_wait(a->gate);
	if (a->word)
		*a->word = a->value;
}
RNL_HOST_KERNEL(gated_store, gated_store_host, struct gated_store);

/* Launches the kernel on the calling thread's stream. */
static inline int launch_store(struct gate *gate, int *word, int value)
{
	const struct gated_store args = { gate, word, value };
	const struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&gated_store, one, one, &args);
}

/* Keeps the calling thread's stream busy until the gate opens.  False on a GPU: it has no gates. */
static inline bool hold_stream(struct gate *gate)
{
	if (!on_host() && !test_fake())
		return false;
	ck_assert_int_eq(launch_store(gate, NULL, 0), 0);
	return true;
}

/* Job function whose kernel waits at the gate `user`. */
static inline int gated_kernel_fn(struct rnl_job *job)
{
	return launch_store(job->user, NULL, 0);
}

#endif /* HOST_KERNEL_H */
