/* SPDX-License-Identifier: MIT */
/* Many copies in a few calls, on CUDA; cuda_copies.h has the design. */
#include "config.h"

#include <stdatomic.h>

#include "device/cuda_calls.h"
#include "device/cuda_copies.h"
#include "device/cuda_kernels.h"

#define COPIES_MAX 256u
#define MOVE_BYTES_MAX 16384u	/* bytes of an area; for larger ones a copy engine is faster */

#if CUDART_VERSION >= 13000

static _Atomic bool no_batches;		/* the driver has no cudaMemcpyBatchAsync() */

bool rnl__cuda_moves(const struct rnl__copy *c)
{
	return rnl__cuda_mover() && c->ours && c->rows == 1 && c->width <= MOVE_BYTES_MAX;
}

static bool launch_mover(const struct rnl__moves *list, unsigned nr, cudaStream_t stream)
{
	const cudaError_t code = nr ? rnl__cuda_move(list, nr, stream) : cudaSuccess;

	rnl__cuda_forget(code);
	return code == cudaSuccess;
}

static bool move_all(const struct rnl__copy *const *copies, unsigned nr, cudaStream_t stream)
{
	struct rnl__moves list = { 0 };	/* zeroed, because records compare all of it */
	unsigned nr_moves = 0;

	for (unsigned i = 0; i < nr; i++) {
		const struct rnl__copy *c = copies[i];

		if (!rnl__cuda_moves(c))
			continue;
		list.list[nr_moves++] = (struct rnl__move){
			(uintptr_t)c->dst, (uintptr_t)c->src, c->width,
		};
		if (nr_moves < RNL__MOVES_MAX)
			continue;
		if (!launch_mover(&list, nr_moves, stream))
			return false;
		nr_moves = 0;
	}
	return launch_mover(&list, nr_moves, stream);
}

static bool copy_batch(const struct rnl__copy *const *copies, unsigned nr, cudaStream_t stream)
{
	struct cudaMemcpyAttributes order = { .srcAccessOrder = cudaMemcpySrcAccessOrderStream };
	const void *src[COPIES_MAX];
	void *dst[COPIES_MAX];
	size_t bytes[COPIES_MAX], first = 0, nr_left = 0;
	cudaError_t code;

	for (unsigned i = 0; i < nr; i++) {
		if (rnl__cuda_moves(copies[i]))
			continue;
		dst[nr_left] = copies[i]->dst;
		src[nr_left] = copies[i]->src;
		bytes[nr_left++] = copies[i]->width;
	}
	if (!nr_left)
		return true;
	if (no_batches)
		return false;
	code = cudaMemcpyBatchAsync(dst, src, bytes, nr_left, &order, &first, 1, stream);
	if (code == cudaErrorNotSupported || code == cudaErrorCallRequiresNewerDriver)
		no_batches = true;
	rnl__cuda_forget(code);
	return code == cudaSuccess;
}

bool rnl__cuda_copy_all(const struct rnl__copy *const *copies, unsigned nr, cudaStream_t stream)
{
	if (nr > COPIES_MAX)
		return false;
	for (unsigned i = 0; i < nr; i++) {
		if (copies[i]->rows != 1)
			return false;
	}
	return copy_batch(copies, nr, stream) && move_all(copies, nr, stream);
}

#else	/* the runtime has no mover and no batches */

bool rnl__cuda_moves(const struct rnl__copy *c)
{
	(void)c;
	return false;
}

bool rnl__cuda_copy_all(const struct rnl__copy *const *copies, unsigned nr, cudaStream_t stream)
{
	(void)copies;
	(void)nr;
	(void)stream;
	return false;
}

#endif
