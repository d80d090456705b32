/* SPDX-License-Identifier: MIT */
/* The library's own kernels on CUDA; cuda_kernels.h has the design. */
#include "config.h"

#include <pthread.h>
#include <stdatomic.h>

#include <runnel/kernel.h>

#include "device/cuda_calls.h"
#include "device/cuda_driver.h"
#include "device/cuda_kernels.h"

#if CUDART_VERSION >= 13000

/*
 * The mover: block b moves moves.list[b].  If both sides are aligned to 16 bytes, a thread moves
 * units of 16 bytes, two at a time.  The rest is moved byte by byte.
 * The arguments kernel: each thread writes four bytes.
 */
static const char ptx[] =
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
	"}\n"
	".visible .entry rnl_args(.param .align 8 .b8 args[1040]) .maxntid 256\n{\n"
	"	.reg .pred end;\n"
	"	.reg .b32 thread, value;\n"
	"	.reg .b64 dst, bytes, at, from;\n"
	"	ld.param.u64 dst, [args];\n"
	"	ld.param.u64 bytes, [args+8];\n"
	"	cvta.to.global.u64 dst, dst;\n"
	"	mov.u32 thread, %tid.x;\n"
	"	mul.wide.u32 at, thread, 4;\n"
	"	setp.ge.u64 end, at, bytes;\n"
	"	@end ret;\n"
	"	mov.b64 from, args;\n"
	"	add.u64 from, from, at;\n"
	"	ld.param.u32 value, [from+16];\n"
	"	add.u64 dst, dst, at;\n"
	"	st.global.u32 [dst], value;\n"
	"	ret;\n"
	"}\n";

_Static_assert(sizeof(struct rnl__moves) == 768 && sizeof(struct rnl__args) == 1040,
	       "the PTX has the sizes of the kernels' arguments");

static _Atomic(cudaKernel_t) mover, args_kernel;	/* NULL: not loaded */

cudaKernel_t rnl__cuda_mover(void)
{
	/* relaxed: only a handle, which the driver looks up */
	return atomic_load_explicit(&mover, memory_order_relaxed);
}

static cudaKernel_t get_args_kernel(void)
{
	/* relaxed: see rnl__cuda_mover() */
	return atomic_load_explicit(&args_kernel, memory_order_relaxed);
}

static cudaError_t kernels_launch(cudaKernel_t kernel, unsigned blocks, unsigned threads,
				  const void *args, cudaStream_t stream)
{
	void *argv[] = { (void *)(uintptr_t)args };

	return cudaLaunchKernel((const void *)kernel, (dim3){ blocks, 1, 1 },
				(dim3){ threads, 1, 1 }, argv, 0, stream);
}

cudaError_t rnl__cuda_move(const struct rnl__moves *moves, unsigned nr, cudaStream_t stream)
{
	return kernels_launch(rnl__cuda_mover(), nr, RNL__MOVER_THREADS, moves, stream);
}

static int launch_args(struct rnl_dim grid, struct rnl_dim block, const void *args, void *stream)
{
	return (int)kernels_launch(get_args_kernel(), grid.x, block.x, args, stream);
}

int rnl__cuda_args_function(void **functionp)
{
	if (!rnl__cuda_driver.complete)
		return (int)cudaErrorNotSupported;
	return (int)rnl__cuda_driver.function((CUfunction *)functionp, (CUkernel)get_args_kernel());
}

const struct rnl_kernel *rnl__cuda_args(void)
{
	static const struct rnl_kernel kernel = {
		"rnl_args", sizeof(struct rnl__args), NULL, launch_args, rnl__cuda_args_function,
	};

	return get_args_kernel() ? &kernel : NULL;
}

/* Runs each kernel once without work, on the stream's device. */
static bool run_once(const cudaKernel_t kernels[2], cudaStream_t stream)
{
	const struct rnl__moves moves = { 0 };
	const struct rnl__args args = { 0 };
	cudaError_t code = kernels_launch(kernels[0], 1, RNL__MOVER_THREADS, &moves, stream);

	if (code == cudaSuccess)
		code = kernels_launch(kernels[1], 1, 1, &args, stream);
	rnl__cuda_forget(code);
	return code == cudaSuccess;
}

/* Loads both kernels. */
static void make(cudaStream_t stream)
{
	cudaLibrary_t library;
	cudaKernel_t kernels[2];
	cudaError_t code = cudaLibraryLoadData(&library, ptx, NULL, NULL, 0, NULL, NULL, 0);

	rnl__cuda_forget(code);
	if (code != cudaSuccess)
		return;
	code = cudaLibraryGetKernel(&kernels[0], library, "rnl_move");
	if (code == cudaSuccess)
		code = cudaLibraryGetKernel(&kernels[1], library, "rnl_args");
	rnl__cuda_forget(code);
	if (code == cudaSuccess && run_once(kernels, stream)) {
		/* relaxed: see get_args_kernel() */
		atomic_store_explicit(&args_kernel, kernels[1], memory_order_relaxed);
		/* relaxed: see rnl__cuda_mover() */
		atomic_store_explicit(&mover, kernels[0], memory_order_relaxed);
		return;
	}
	rnl__cuda_forget(cudaLibraryUnload(library));
}

void rnl__cuda_kernels_init(cudaStream_t stream)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	cudaKernel_t kernels[2];

	pthread_mutex_lock(&lock);
	kernels[0] = rnl__cuda_mover();
	kernels[1] = get_args_kernel();
	if (!kernels[0])
		make(stream);
	else
		(void)run_once(kernels, stream);
	pthread_mutex_unlock(&lock);
}

#else	/* the runtime cannot load kernels */

void rnl__cuda_kernels_init(cudaStream_t stream)
{
	(void)stream;
}

const struct rnl_kernel *rnl__cuda_args(void)
{
	return NULL;
}

#endif
