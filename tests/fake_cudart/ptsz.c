/* SPDX-License-Identifier: MIT */
/* Calls of units that are compiled for per-thread default streams: their stream 0 is the thread's. */
#include "internal.h"

cudaError_t cudaMemcpyAsync_ptsz(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
				 cudaStream_t stream);
cudaError_t cudaMemsetAsync_ptsz(void *mem, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream);

static cudaStream_t own(cudaStream_t stream)
{
	return stream ? stream : cudaStreamPerThread;
}

cudaError_t cudaMemcpyAsync_ptsz(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
				 cudaStream_t stream)
{
	return cudaMemcpyAsync(dst, src, bytes, kind, own(stream));
}

cudaError_t cudaMemsetAsync_ptsz(void *mem, int value, size_t bytes, cudaStream_t stream)
{
	return cudaMemsetAsync(mem, value, bytes, own(stream));
}

cudaError_t cudaStreamQuery_ptsz(cudaStream_t stream)
{
	return cudaStreamQuery(own(stream));
}
