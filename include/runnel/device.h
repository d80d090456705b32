/* SPDX-License-Identifier: MIT */
/* The devices of the machine and of a pool, and what CUDA has to know before it starts. */
#ifndef RUNNEL_DEVICE_H
#define RUNNEL_DEVICE_H

#include <runnel.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * Prepares the process for many concurrent streams: sets CUDA_DEVICE_MAX_CONNECTIONS=32 if the
 * variable is unset. CUDA reads it when it creates its context, and gives each stream a hardware
 * queue of its own, up to that number; by default 8, and more workers share queues.
 * Context: call it first in main(), before the program starts threads, as it sets an environment
 *	variable, and before it uses CUDA.
 * Return: 0, also if the variable was set before; -EBUSY other threads run, and nothing was
 *	changed; -ENOTSUP the system does not say whether other threads run (/proc is not mounted,
 *	and unshare(2) is refused), which is logged; -ENOMEM.
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
	uint64_t memory_bytes;		/* memory of the device; host: physical memory, 0: unknown */
	char name[64];			/* for people: "NVIDIA H200", "host" */
	uint32_t nr_devices;		/* devices of the pool, or of the name that was given */
	uint32_t reserved;
};
#define RNL_DEVICE_INFO_INIT { sizeof(struct rnl_device_info), 0, 0, 0, 0, 0, 0, { 0 }, 0, 0 }

/*
 * Describes a device: of a pool, or of the machine.
 * @pool: NULL: no pool is needed, and `name` names the devices.
 * @name: the name of one device or several, as attr.device of a pool takes it; not used with a pool.
 * @device: its number, from 0, in the pool or among those that are named; the order is that of the
 *	attribute `device`.
 * @info: filled in; its size must be set. Fields that this library does not know become 0.
 * Context: without a pool, the first call of a process blocks while CUDA initialises.
 * Return: 0; -EINVAL the name is unknown, there is no device of that number, or info is NULL or has a
 *	wrong size; -ENODEV no such device answers, or the library was built without CUDA: it is logged as
 *	information; -ENOMEM, -EIO the device answers, but CUDA cannot describe it; -EOWNERDEAD.
 * Since: 0.1
 */
RNL_API int rnl_device_describe(struct rnl_pool *pool, const char *name, unsigned device,
				struct rnl_device_info *info);

#ifdef __cplusplus
}
#endif
#endif /* RUNNEL_DEVICE_H */
