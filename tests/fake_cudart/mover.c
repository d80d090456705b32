/* SPDX-License-Identifier: MIT */
/* The library's own kernels (src/device/cuda_kernels.c), as host functions. */
#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>

#include "internal.h"

#if CUDART_VERSION >= 13000

#define MOVES_MAX 32

struct move {
	uint64_t dst, src, bytes;
};

static const char code_begin[] = ".version", mover_name[] = "rnl_move", args_name[] = "rnl_args";

/* One launch's moves.  Addresses are checked at the launch: memory may be freed later. */
struct launch {
	bool reaches;
	struct move list[MOVES_MAX];
};

static bool reaches(uint64_t address, size_t bytes)
{
	enum cudaMemoryType type;

	if (!bytes)
		return true;
	return fake__memory_of((struct fake_area){ (void *)(uintptr_t)address, bytes }, &type) ==
		       cudaSuccess &&
	       type != cudaMemoryTypeUnregistered;
}

/*
 * Moves block by block, the last one first. The device fails if an address is neither in device nor
 * in page-locked memory.
 */
static void move_host(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct launch *l = args;

	(void)block;
	for (uint32_t i = grid.x; i--;) {
		bool goes;

		fake__lock();
		if (!l->reaches)
			fake__fail(cudaErrorIllegalAddress);
		goes = fake__move();
		fake__unlock();
		if (!goes)
			return;
		if (l->list[i].bytes)
			memmove((void *)(uintptr_t)l->list[i].dst,
				(void *)(uintptr_t)l->list[i].src, l->list[i].bytes);
		fake__lock();
		fake__moved();
		fake__unlock();
	}
}

const struct fake_kernel *fake__mover(void)
{
	return fake__kernel_of(move_host, MOVES_MAX * sizeof(struct move));
}

struct args {
	uint64_t dst, bytes;
	unsigned char data[1024];
};

static void write_args(struct rnl_dim grid, struct rnl_dim block, const void *argument)
{
	const struct args *a = argument;
	bool goes;

	(void)grid;
	(void)block;
	if (!a->bytes)
		return;
	fake__lock();
	goes = fake__move();
	fake__unlock();
	if (!goes)
		return;
	memcpy((void *)(uintptr_t)a->dst, a->data, a->bytes);
	fake__lock();
	fake__moved();
	fake__unlock();
}

const struct fake_kernel *fake__library_kernel(const void *kernel)
{
	return kernel == mover_name ? fake__mover() :
	       kernel == args_name ? fake__kernel_of(write_args, sizeof(struct args)) : NULL;
}

void *fake__mover_args(uint32_t nr, const void *moves, size_t *bytes)
{
	struct launch *l = calloc(1, sizeof(*l));

	if (!l)
		return NULL;
	l->reaches = nr <= MOVES_MAX;
	memcpy(l->list, moves, sizeof(l->list));
	for (uint32_t i = 0; i < nr && l->reaches; i++)
		l->reaches = reaches(l->list[i].dst, l->list[i].bytes) &&
			     reaches(l->list[i].src, l->list[i].bytes);
	*bytes = sizeof(*l);
	return l;
}

cudaError_t cudaLibraryLoadData(cudaLibrary_t *library, const void *code,
				enum cudaJitOption *jit, void **jit_values, unsigned nr_jit,
				enum cudaLibraryOption *options, void **values, unsigned nr)
{
	CALL(cudaLibraryLoadData);
	(void)jit;
	(void)jit_values;
	(void)options;
	(void)values;
	if (nr || nr_jit || strncmp(code, code_begin, strlen(code_begin)))
		return fake__said(cudaErrorInvalidValue);
	*library = (cudaLibrary_t)(uintptr_t)code;
	return cudaSuccess;
}

cudaError_t cudaLibraryUnload(cudaLibrary_t library)
{
	CALL(cudaLibraryUnload);
	return fake__said(library ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaLibraryGetKernel(cudaKernel_t *kernel, cudaLibrary_t library, const char *name)
{
	const char *known = !strcmp(name, mover_name) ? mover_name :
			    !strcmp(name, args_name) ? args_name : NULL;

	CALL(cudaLibraryGetKernel);
	if (!known || !strstr((const char *)library, known))
		return fake__said(cudaErrorSymbolNotFound);
	*kernel = (cudaKernel_t)(uintptr_t)known;
	return cudaSuccess;
}

cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **args,
			     size_t shared_bytes, cudaStream_t stream)
{
	const struct rnl_dim blocks = { grid.x, grid.y, grid.z };
	const struct rnl_dim threads = { block.x, block.y, block.z };
	size_t bytes;
	void *l;
	int code;

	if (kernel == args_name && !shared_bytes)
		return (cudaError_t)fake_launch(write_args, blocks, threads, args[0],
						sizeof(struct args), stream);
	if (kernel != mover_name || shared_bytes || grid.x > MOVES_MAX)
		return fake__said(cudaErrorInvalidDeviceFunction);
	fake__lock();
	l = fake__mover_args(grid.x, args[0], &bytes);
	fake__unlock();
	if (!l)
		return fake__said(cudaErrorMemoryAllocation);
	code = fake_launch(move_host, blocks, threads, l, bytes, stream);
	free(l);
	return (cudaError_t)code;
}

#endif
