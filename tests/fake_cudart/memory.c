/* SPDX-License-Identifier: MIT */
/* Memory's type and owner by address; and page-locked memory, which is plain memory in a table. */
#include <stdlib.h>

#include "internal.h"

#define ALIGNMENT 512u

/* ---- owners ---------------------------------------------------------------- */

static enum cudaMemoryType type_at(const void *address)
{
	const struct fake_thing *thing = fake__find(address);

	return !thing ? cudaMemoryTypeUnregistered :
	       thing->kind == FAKE_DEVICE ? cudaMemoryTypeDevice :
	       thing->kind == FAKE_PINNED || thing->kind == FAKE_REGISTERED ?
	       cudaMemoryTypeHost : cudaMemoryTypeUnregistered;
}

cudaError_t fake__memory_of(struct fake_area area, enum cudaMemoryType *type)
{
	const struct fake_thing *thing = fake__find(area.begin);

	*type = type_at(area.begin);
	if (!area.begin || area.begin + area.bytes < area.begin)
		return cudaErrorInvalidValue;
	if (*type != cudaMemoryTypeUnregistered) {
		if ((uintptr_t)area.begin + area.bytes <= thing->begin + thing->bytes)
			return cudaSuccess;
		fake__misuse("%zu bytes at %p reach over the end of what was allocated",
			     area.bytes, (const void *)area.begin);
		return cudaErrorInvalidValue;
	}
	if (!fake__is_device(area.begin))
		return cudaSuccess;
	fake__misuse("device memory at %p is nobody's, or nobody's any more",
		     (const void *)area.begin);
	return cudaErrorInvalidValue;
}

static cudaError_t attributes_of(struct cudaPointerAttributes *attributes, const void *address)
{
	enum cudaMemoryType type;

	if (!attributes)
		return cudaErrorInvalidValue;
	/* A query for a freed address is not a misuse. */
	type = type_at(address);
	*attributes = (struct cudaPointerAttributes){
		.type = type,
		.device = type == cudaMemoryTypeUnregistered ? cudaInvalidDeviceId :
			  type == cudaMemoryTypeDevice ? fake__owner(address) : 0,
		.devicePointer = type == cudaMemoryTypeUnregistered ? NULL : (void *)address,
		.hostPointer = type == cudaMemoryTypeDevice ? NULL : (void *)address,
	};
	return cudaSuccess;
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *attributes, const void *address)
{
	CALL(cudaPointerGetAttributes);
	SAID(attributes_of(attributes, address));
}

/* ---- page-locked ------------------------------------------------------------ */

static uint64_t locked(void)
{
	return fake__bytes(FAKE_PINNED) + fake__bytes(FAKE_REGISTERED);
}

static bool may_lock(size_t bytes)
{
	return bytes <= fake__settings.pinned_bytes &&
	       locked() <= fake__settings.pinned_bytes - bytes;
}

static cudaError_t host_alloc(void **memp, size_t bytes, unsigned flags)
{
	const unsigned known = cudaHostAllocPortable | cudaHostAllocMapped |
			       cudaHostAllocWriteCombined;
	cudaError_t code;
	void *mem;

	if (!memp || flags & ~known)
		return cudaErrorInvalidValue;
	code = fake__capture_unsafe();
	if (code != cudaSuccess)
		return code;
	*memp = NULL;
	if (!bytes)
		return cudaSuccess;
	if (!may_lock(bytes))
		return cudaErrorMemoryAllocation;
	mem = aligned_alloc(ALIGNMENT, (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
	if (!mem || fake__enter(mem, bytes, FAKE_PINNED, mem)) {
		free(mem);
		return cudaErrorMemoryAllocation;
	}
	*memp = mem;
	return cudaSuccess;
}

cudaError_t cudaHostAlloc(void **memp, size_t bytes, unsigned flags)
{
	CALL(cudaHostAlloc);
	SAID(host_alloc(memp, bytes, flags));
}

static cudaError_t free_host(void *mem)
{
	cudaError_t code;

	if (!mem)
		return cudaSuccess;
	code = fake__capture_unsafe();
	if (code != cudaSuccess)
		return code;
	if (!fake__handle(mem, FAKE_PINNED))
		return cudaErrorInvalidValue;
	fake__remove(mem);
	/* Waits for all operations on all streams (measured). */
	code = fake__sync_all();
	if (code == cudaSuccess)
		free(mem);
	return code;
}

cudaError_t cudaFreeHost(void *mem)
{
	CALL(cudaFreeHost);
	SAID(free_host(mem));
}

static cudaError_t host_register(void *mem, size_t bytes, unsigned flags)
{
	const unsigned known = cudaHostRegisterPortable | cudaHostRegisterMapped;
	cudaError_t code;

	if (!mem || !bytes || flags & ~known)
		return cudaErrorInvalidValue;
	code = fake__capture_unsafe();
	if (code != cudaSuccess)
		return code;
	if (fake__find(mem))
		return cudaErrorHostMemoryAlreadyRegistered;
	if (!may_lock(bytes) || fake__enter(mem, bytes, FAKE_REGISTERED, mem))
		return cudaErrorMemoryAllocation;
	return cudaSuccess;
}

cudaError_t cudaHostRegister(void *mem, size_t bytes, unsigned flags)
{
	CALL(cudaHostRegister);
	SAID(host_register(mem, bytes, flags));
}

static cudaError_t host_unregister(void *mem)
{
	cudaError_t code = fake__capture_unsafe();

	if (code != cudaSuccess)
		return code;
	if (!fake__handle(mem, FAKE_REGISTERED))
		return cudaErrorHostMemoryNotRegistered;
	fake__remove(mem);
	return fake__sync_all();
}

cudaError_t cudaHostUnregister(void *mem)
{
	CALL(cudaHostUnregister);
	SAID(host_unregister(mem));
}
