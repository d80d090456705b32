/* SPDX-License-Identifier: MIT */
/* The CUDA device's memory; cuda_memory.h has the design. */
#include "config.h"

#include <errno.h>

#include "device/cuda_guard.h"
#include "device/cuda_memory.h"
#include "device/cuda_preload.h"
#include "sys/thread_state.h"

static cudaError_t make_memory(struct rnl__cuda_device *device)
{
	const struct cudaMemPoolProps props = {
		.allocType = cudaMemAllocationTypePinned,
		.location = { .type = cudaMemLocationTypeDevice, .id = device->base.info.ordinal },
	};
	uint64_t keep = UINT64_MAX;
	int no = 0;
	cudaError_t code;

	code = cudaStreamCreateWithFlags(&device->memory_stream, cudaStreamNonBlocking);
	if (code != cudaSuccess)
		return code;
	code = cudaMemPoolCreate(&device->memory, &props);
	/* By default, free memory goes back to the system at each synchronisation. */
	if (code == cudaSuccess)
		code = cudaMemPoolSetAttribute(device->memory, cudaMemPoolAttrReleaseThreshold,
					       &keep);
	/* This kind of reuse would add waits between workers' streams. */
	if (code == cudaSuccess)
		code = cudaMemPoolSetAttribute(device->memory,
					       cudaMemPoolReuseAllowInternalDependencies, &no);
	if (code == cudaSuccess)
		return code;
	if (device->memory)
		(void)cudaMemPoolDestroy(device->memory);
	(void)cudaStreamDestroy(device->memory_stream);
	device->memory = NULL;
	return code;
}

cudaError_t rnl__cuda_memory_ready(struct rnl__cuda_device *device)
{
	cudaError_t code = cudaSuccess;

	pthread_mutex_lock(&device->lock);
	if (!device->memory)
		code = make_memory(device);
	pthread_mutex_unlock(&device->lock);
	return code;
}

int rnl__cuda_memory_owner(const void *mem)
{
	struct cudaPointerAttributes attributes;
	const cudaError_t code = cudaPointerGetAttributes(&attributes, mem);

	if (code != cudaSuccess) {
		rnl__cuda_forget(code);
		return -1;
	}
	return attributes.type == cudaMemoryTypeDevice ? attributes.device : -1;
}

/* Allocates device memory, in the order of a stream. */
static cudaError_t alloc_ordered(struct rnl__cuda_device *device, size_t bytes, cudaStream_t stream,
				 void **memp)
{
	cudaError_t code = cudaMallocFromPoolAsync(memp, bytes, device->memory, stream);

	if (code != cudaErrorMemoryAllocation)
		return code;
	/* The free memory may be in pieces that are too small: return it, and try once more. */
	rnl__cuda_forget(code);
	rnl__cuda_forget(cudaMemPoolTrimTo(device->memory, 0));
	return cudaMallocFromPoolAsync(memp, bytes, device->memory, stream);
}

static cudaError_t alloc_kind(struct rnl__cuda_device *device, enum rnl__memory kind, size_t bytes,
			      void **memp)
{
	cudaError_t code;

	if (kind == RNL__PINNED)
		return cudaHostAlloc(memp, bytes, cudaHostAllocPortable | cudaHostAllocMapped);
	if (kind == RNL__PRELOAD)
		return device->registers ? rnl__cuda_preload(bytes, memp) : cudaErrorNotSupported;
	/* A capture would make the allocation part of the graph: use memory that is ready now. */
	if (kind == RNL__SCRATCH && !rnl__thread.guard)
		return alloc_ordered(device, bytes, rnl__cuda_own_stream(), memp);
	code = alloc_ordered(device, bytes, device->memory_stream, memp);
	if (code != cudaSuccess)
		return code;
	/* Wait until any stream may use the memory; this stream has only allocations. */
	code = cudaStreamSynchronize(device->memory_stream);
	if (code != cudaSuccess)
		(void)cudaFreeAsync(*memp, device->memory_stream);
	return code;
}

static bool is_host(enum rnl__memory kind)
{
	return kind == RNL__PINNED || kind == RNL__PRELOAD;
}

int rnl__cuda_memory_alloc(struct rnl__device *device, enum rnl__memory kind, size_t bytes,
			   void **memp)
{
	enum cudaStreamCaptureMode relaxed;
	cudaError_t code;
	void *mem = NULL;

	/* CUDA would first return all free memory of the pool to the system. */
	if (!is_host(kind) && bytes > device->info.memory_bytes)
		return -ENOMEM;
	code = rnl__cuda_enter(device);
	if (code != cudaSuccess)
		return rnl__cuda_failed(device, code);
	relaxed = rnl__cuda_guard_relax(cudaStreamCaptureModeRelaxed);
	code = alloc_kind((struct rnl__cuda_device *)device, kind, bytes, &mem);
	(void)rnl__cuda_guard_relax(relaxed);
	rnl__cuda_leave();
	/* -ENOTSUP makes the caller allocate the memory in the usual way. */
	if (kind == RNL__PRELOAD && code != cudaSuccess && !rnl__cuda_sticky(code)) {
		rnl__cuda_forget(code);
		return -ENOTSUP;
	}
	if (code != cudaSuccess)
		return rnl__cuda_failed(device, code);
	if (!is_host(kind))
		rnl__areas_add(device->areas, mem, bytes);
	*memp = mem;
	return 0;
}

void rnl__cuda_memory_free(struct rnl__device *base, enum rnl__memory kind, void *mem)
{
	struct rnl__cuda_device *device = (struct rnl__cuda_device *)base;
	enum cudaStreamCaptureMode before;
	cudaError_t code;
	bool entered;

	if (!is_host(kind))
		rnl__areas_drop(base->areas, mem);
	entered = rnl__cuda_try_enter(base);
	before = rnl__cuda_guard_relax(cudaStreamCaptureModeRelaxed);
	if (kind == RNL__PINNED)
		code = cudaFreeHost(mem);
	else if (kind == RNL__PRELOAD)
		code = rnl__cuda_preload_free(mem);
	else
		code = cudaFreeAsync(mem, kind == RNL__SCRATCH ? rnl__cuda_own_stream() :
								 device->memory_stream);
	(void)rnl__cuda_guard_relax(before);
	if (entered)
		rnl__cuda_leave();
	(void)rnl__cuda_result(base, code);
}

enum rnl__memory rnl__cuda_memory_kind(struct rnl__device *device, const void *mem)
{
	struct cudaPointerAttributes attributes;
	cudaError_t code = rnl__cuda_enter_from_outside(device);

	if (code == cudaSuccess) {
		code = cudaPointerGetAttributes(&attributes, mem);
		rnl__cuda_leave_to_outside(device);
	}
	if (code != cudaSuccess) {
		rnl__cuda_forget(code);
		return RNL__PINNED;	/* the call that uses the address will fail */
	}
	switch (attributes.type) {
	case cudaMemoryTypeUnregistered:
		return RNL__PAGEABLE;
	case cudaMemoryTypeDevice:
		return RNL__DEVICE;
	default:
		return RNL__PINNED;	/* managed memory, too: CUDA does not stage it */
	}
}

bool rnl__cuda_memory_owns(struct rnl__device *device, const void *mem)
{
	const bool entered = rnl__cuda_enter_from_outside(device) == cudaSuccess;
	const int owner = rnl__cuda_memory_owner(mem);

	if (entered)
		rnl__cuda_leave_to_outside(device);
	return owner == device->info.ordinal;
}

/* Gives the peers of @device, among @devices, access to its memory. */
static cudaError_t open_to_peers(struct rnl__cuda_device *device,
				 struct rnl__device *const *devices, unsigned nr)
{
	struct cudaMemAccessDesc access[RNL_DEVICES_MAX];
	size_t nr_peers = 0;
	cudaError_t code = rnl__cuda_memory_ready(device);

	for (unsigned i = 0; code == cudaSuccess && i < nr; i++) {
		const int other = devices[i]->info.ordinal;
		int peers = 0;

		if (devices[i] == &device->base)
			continue;
		code = cudaDeviceCanAccessPeer(&peers, other, device->base.info.ordinal);
		if (peers)
			access[nr_peers++] = (struct cudaMemAccessDesc){
				.location = { .type = cudaMemLocationTypeDevice, .id = other },
				.flags = cudaMemAccessFlagsProtReadWrite,
			};
	}
	if (code != cudaSuccess || !nr_peers)
		return code;
	return cudaMemPoolSetAccess(device->memory, access, nr_peers);
}

void rnl__cuda_memory_meet(struct rnl__device *const *devices, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		if (rnl__cuda_enter(devices[i]) != cudaSuccess)
			continue;
		rnl__cuda_forget(open_to_peers((struct rnl__cuda_device *)devices[i], devices, nr));
		rnl__cuda_leave();
	}
}

void rnl__cuda_memory_trim(struct rnl__device *base)
{
	struct rnl__cuda_device *device = (struct rnl__cuda_device *)base;
	bool entered;

	if (!device->memory)
		return;
	entered = rnl__cuda_try_enter(base);
	(void)rnl__cuda_result(base, cudaStreamSynchronize(device->memory_stream));
	(void)rnl__cuda_result(base, cudaMemPoolTrimTo(device->memory, 0));
	if (entered)
		rnl__cuda_leave();
}
