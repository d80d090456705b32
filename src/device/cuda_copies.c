/* SPDX-License-Identifier: MIT */
/* Many copies at once, on CUDA; cuda_copies.h has the design. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>

#include "device/cuda_copies.h"

#define COPIES_MAX 256u
#define MOVE_BYTES_MAX 16384u	/* of an area; a copy engine is faster with more */

#if CUDART_VERSION >= 13000

/*
 * Block b does moves.list[b].  If both sides are aligned to 16 bytes, a thread moves units of 16, two
 * at a time.  What is left is moved byte by byte.
 */
static const char mover_ptx[] =
	".version 7.0\n.target sm_75\n.address_size 64\n"
	".visible .entry rnl_move(.param .align 8 .b8 moves[768]) .maxntid 512\n{\n"
	"	.reg .pred odd, end, two;\n"
	"	.reg .b32 block, thread, value, a<4>, b<4>;\n"
	"	.reg .b64 move, offset, dst, src, bytes, whole, at, next, from, to;\n"
	"	mov.b64 move, moves;\n"
	"	mov.u32 block, %ctaid.x;\n"
	"	mul.wide.u32 offset, block, 24;\n"
	"	add.u64 move, move, offset;\n"
	"	ld.param.u64 dst, [move];\n"
	"	ld.param.u64 src, [move+8];\n"
	"	ld.param.u64 bytes, [move+16];\n"
	"	cvta.to.global.u64 dst, dst;\n"
	"	cvta.to.global.u64 src, src;\n"
	"	mov.u32 thread, %tid.x;\n"
	"	mov.u64 whole, 0;\n"
	"	or.b64 at, dst, src;\n"
	"	and.b64 at, at, 15;\n"
	"	setp.ne.u64 odd, at, 0;\n"
	"	@odd bra rest;\n"
	"	and.b64 whole, bytes, -16;\n"
	"	mul.wide.u32 at, thread, 16;\n"
	"units:\n"
	"	setp.ge.u64 end, at, whole;\n"
	"	@end bra rest;\n"
	"	add.u64 next, at, 8192;\n"
	"	setp.lt.u64 two, next, whole;\n"
	"	add.u64 from, src, at;\n"
	"	add.u64 to, dst, at;\n"
	"	ld.global.v4.u32 {a0, a1, a2, a3}, [from];\n"
	"	@two ld.global.v4.u32 {b0, b1, b2, b3}, [from+8192];\n"
	"	st.global.v4.u32 [to], {a0, a1, a2, a3};\n"
	"	@two st.global.v4.u32 [to+8192], {b0, b1, b2, b3};\n"
	"	add.u64 at, at, 16384;\n"
	"	bra units;\n"
	"rest:\n"
	"	cvt.u64.u32 at, thread;\n"
	"	add.u64 at, at, whole;\n"
	"bytes_left:\n"
	"	setp.ge.u64 end, at, bytes;\n"
	"	@end ret;\n"
	"	add.u64 from, src, at;\n"
	"	add.u64 to, dst, at;\n"
	"	ld.global.u8 value, [from];\n"
	"	st.global.u8 [to], value;\n"
	"	add.u64 at, at, 512;\n"
	"	bra bytes_left;\n"
	"}\n";

static _Atomic(cudaKernel_t) mover;	/* NULL: there is none */
static _Atomic bool no_batches;		/* the driver is older than the runtime */

cudaKernel_t rnl__cuda_mover(void)
{
	/* relaxed: a handle, which the driver looks up */
	return atomic_load_explicit(&mover, memory_order_relaxed);
}

static bool launch_mover(cudaKernel_t kernel, struct rnl__moves *list, unsigned nr, cudaStream_t stream)
{
	void *args[] = { list };

	return !nr || cudaLaunchKernel((const void *)kernel, (dim3){ nr, 1, 1 },
				       (dim3){ RNL__MOVER_THREADS, 1, 1 }, args, 0, stream) == cudaSuccess;
}

static void make_mover(cudaStream_t stream)
{
	struct rnl__moves nothing = { 0 };
	cudaLibrary_t library;
	cudaKernel_t kernel;

	if (cudaLibraryLoadData(&library, mover_ptx, NULL, NULL, 0, NULL, NULL, 0) != cudaSuccess) {
		(void)cudaGetLastError();
		return;
	}
	if (cudaLibraryGetKernel(&kernel, library, "rnl_move") == cudaSuccess &&
	    launch_mover(kernel, &nothing, 1, stream)) {
		/* relaxed: see rnl__cuda_mover() */
		atomic_store_explicit(&mover, kernel, memory_order_relaxed);
		return;
	}
	(void)cudaLibraryUnload(library);
	(void)cudaGetLastError();
}

void rnl__cuda_copies_init(cudaStream_t stream)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	if (!rnl__cuda_mover())
		make_mover(stream);
	pthread_mutex_unlock(&lock);
}

bool rnl__cuda_moves(const struct rnl__copy *c)
{
	return rnl__cuda_mover() && c->ours && c->rows == 1 && c->width <= MOVE_BYTES_MAX;
}

static bool move_all(const struct rnl__copy *const *copies, unsigned nr, cudaStream_t stream)
{
	struct rnl__moves list;
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
		if (!launch_mover(rnl__cuda_mover(), &list, nr_moves, stream))
			return false;
		nr_moves = 0;
	}
	return launch_mover(rnl__cuda_mover(), &list, nr_moves, stream);
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
	if (copy_batch(copies, nr, stream) && move_all(copies, nr, stream))
		return true;
	(void)cudaGetLastError();
	return false;
}

#else	/* the runtime has neither call */

void rnl__cuda_copies_init(cudaStream_t stream)
{
	(void)stream;
}

bool rnl__cuda_copy_all(const struct rnl__copy *const *copies, unsigned nr, cudaStream_t stream)
{
	(void)copies;
	(void)nr;
	(void)stream;
	return false;
}

#endif
