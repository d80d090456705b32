/* SPDX-License-Identifier: MIT */
/* The devices of the machine and of a pool, and the preparation of CUDA. */
#ifndef RUNNEL_DEVICE_H
#define RUNNEL_DEVICE_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Prepares the process for many concurrent streams: sets CUDA_DEVICE_MAX_CONNECTIONS=32 if the
 * variable is unset. CUDA reads the variable when it creates its context, and gives each stream a
 * hardware queue of its own, up to that number. The default is 8; more workers share queues.
 * Sets nothing while MPS's control daemon listens (in CUDA_MPS_PIPE_DIRECTORY, or /tmp/nvidia-mps):
 * all clients of MPS share its queues, so with 32 for each process there could be fewer processes.
 * Context: call it first in main(): before the program starts threads, because it sets an
 *	environment variable, and before the program uses CUDA.
 * Return: 0, also if the variable was set before, or under MPS, which is logged as information;
 *	-EBUSY other threads run, and nothing was changed; -ENOTSUP the system does not show whether
 *	other threads run (/proc is not mounted, and unshare(2) is refused), which is logged; -ENOMEM.
 * Since: 0.1
 */
RNL_API int rnl_setup(void);

struct rnl_device_info {
	uint32_t size;			/* sizeof(struct rnl_device_info) */
	uint32_t cuda;			/* 1: a GPU; 0: the host device */
	int32_t ordinal;		/* CUDA's device number; host: 0 */
	uint32_t nr_multiprocessors;	/* host: CPUs that are online */
	uint32_t nr_copy_engines;	/* host: 0 */
	uint32_t stream_writes;		/* 1: a stream can write a word of memory */
	uint64_t memory_bytes;		/* device memory; host: physical memory; 0: unknown */
	char name[64];			/* for people: "NVIDIA H200", "host" */
	uint32_t nr_devices;		/* devices of the pool, or that `name` names */
	uint32_t sm_group;		/* a pool's kept_sms is a multiple of this number, less than
					 * nr_multiprocessors; 0: the device cannot keep any */
};
#define RNL_DEVICE_INFO_INIT { sizeof(struct rnl_device_info), 0, 0, 0, 0, 0, 0, { 0 }, 0, 0 }

/*
 * Describes a device of a pool or of the machine.
 * @pool: NULL selects a device of the machine, by `name`.
 * @name: one device or several, like attr.device of a pool; not used with a pool.
 * @device: a number, from 0, in the pool or in `name`, in the order of the attribute `device`.
 * @info: filled in; its size must be set. Fields that this library does not know become 0.
 * Context: without a pool, the first call of a process blocks while CUDA initialises.
 * Return: 0; -EINVAL the name is unknown, no device has that number, or info is NULL or has a wrong
 *	size; -ENODEV no such device answers, or the library was built without CUDA, which is logged
 *	as information; -ENOMEM, -EIO the device answers, but CUDA cannot describe it; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_device_describe(struct rnl_pool *pool, const char *name, unsigned device,
				struct rnl_device_info *info);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_DEVICE_H */
