/* SPDX-License-Identifier: MIT */
/*
 * Operations: their execution, and the calls that issue copies, fills and writes of words.
 *
 * DESIGN
 *	A copy to pageable memory, or between two host memories, blocks its caller until the stream
 *	has done it. So does a large copy from pageable memory to the device. For a small one, the
 *	driver copies the source immediately (measured).
 *	Only executors may touch device memory, but the double does not notice other accesses.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "sys/simulation.h"

#define BETWEEN ((enum cudaMemcpyKind)-1) /* the caller names the devices */
#define STAGED_MAX (2u << 20)	/* a GPU's caller waits for 4 MiB, not for 2 MiB */

/* ---- the executor's side -------------------------------------------------- */

static void copy_rows(const struct fake_op *op)
{
	for (size_t i = 0; i < op->copy.rows; i++)
		memmove(op->copy.dst + i * op->copy.dst_pitch,
			op->copy.src + i * op->copy.src_pitch, op->copy.width);
}

void fake__execute(struct fake_op *op)
{
	switch (op->kind) {
	case FAKE_OP_COPY:
		rnl__sim_copy(op->to, op->from, op->copy.rows * op->copy.width);
		copy_rows(op);
		break;
	case FAKE_OP_FILL:
		rnl__sim_copy(0, 0, op->fill.bytes);
		memset(op->fill.dst, op->fill.value, op->fill.bytes);
		break;
	case FAKE_OP_LAUNCH:
		rnl__sim_kernel();
		op->launch.fn(op->launch.grid, op->launch.block, op->launch.args);
		break;
	case FAKE_OP_WRITE:
		if (fake__failed() == cudaSuccess)
			atomic_store_explicit(op->write.word, op->write.value,
					      memory_order_release);
		break;
	case FAKE_OP_FREE:
		if (fake__settings.junk)
			memset((char *)op->freed.begin, 0xdb, op->freed.bytes);
		break;
	case FAKE_OP_ALLOC:
	case FAKE_OP_RECORD:
	case FAKE_OP_WAIT:
		break;
	}
}

void fake__finish(struct fake_op *op)
{
	if (op->kind == FAKE_OP_RECORD)
		fake__record_reached(op->record);
	if (op->kind == FAKE_OP_FREE && fake__in_use(op->freed, op->serial))
		fake__misuse("device memory at %p was freed before its last use",
			     (const void *)op->freed.begin);
}

/* ---- copies and fills ------------------------------------------------------ */

/* Copies the source if the driver would; otherwise leaves it in place. */
static void stage(struct fake_op *op)
{
	const size_t bytes = op->uses[1].bytes;

	op->copy.staged = bytes <= STAGED_MAX ? malloc(bytes) : NULL;
	if (!op->copy.staged)
		return;
	memcpy(op->copy.staged, op->copy.src, bytes);
	op->copy.src = op->copy.staged;
	op->uses[1] = (struct fake_area){ 0 };
}

static cudaError_t copy(struct fake_op *op, enum cudaMemcpyKind kind, cudaStream_t handle)
{
	enum cudaMemoryType to, from;
	bool waits;
	struct fake_stream *stream;
	cudaError_t code;

	op->kind = FAKE_OP_COPY;
	op->uses[0] = (struct fake_area){
		op->copy.dst, (op->copy.rows - 1) * op->copy.dst_pitch + op->copy.width
	};
	op->uses[1] = (struct fake_area){
		op->copy.src, (op->copy.rows - 1) * op->copy.src_pitch + op->copy.width
	};
	code = fake__room(handle, &stream);
	if (code == cudaSuccess)
		code = fake__memory_of(op->uses[0], &to);
	if (code == cudaSuccess)
		code = fake__memory_of(op->uses[1], &from);
	/*
	 * A device cannot reach memory of another device's pool (measured), unless
	 * cudaMemPoolSetAccess() has opened the pool to it.
	 */
	if (code == cudaSuccess && kind != BETWEEN && to == from && to == cudaMemoryTypeDevice &&
	    fake__owner(op->copy.dst) != fake__owner(op->copy.src) &&
	    !(fake__reaches(stream->device, op->copy.dst) &&
	      fake__reaches(stream->device, op->copy.src)))
		code = cudaErrorInvalidValue;
	/* The kind must exist; the addresses decide the direction. */
	if (code == cudaSuccess && kind != BETWEEN && (unsigned)kind > cudaMemcpyDefault)
		code = cudaErrorInvalidMemcpyDirection;
	if (code != cudaSuccess)
		return code;
	/* A graph reads the source when it runs. */
	if (to == cudaMemoryTypeDevice && from == cudaMemoryTypeUnregistered && !stream->capture)
		stage(op);
	waits = to == cudaMemoryTypeDevice ?
		from == cudaMemoryTypeUnregistered && !op->copy.staged :
		to == cudaMemoryTypeUnregistered || from != cudaMemoryTypeDevice;
	code = fake__issue(stream, op);
	if (code != cudaSuccess)
		free(op->copy.staged);
	return code == cudaSuccess && waits && !stream->capture ? fake__sync(stream) : code;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
			    cudaStream_t stream)
{
	struct fake_op op = { .copy = { dst, src, bytes, bytes, bytes, 1, NULL } };

	CALL(cudaMemcpyAsync);
	if (!bytes)
		return cudaSuccess;
	SAID(copy(&op, kind, stream));
}

cudaError_t cudaMemcpy2DAsync(void *dst, size_t dst_pitch, const void *src, size_t src_pitch,
			      size_t width, size_t rows, enum cudaMemcpyKind kind,
			      cudaStream_t stream)
{
	struct fake_op op = { .copy = { dst, src, dst_pitch, src_pitch, width, rows, NULL } };

	CALL(cudaMemcpy2DAsync);
	if (width > dst_pitch || width > src_pitch)
		return fake__said(cudaErrorInvalidPitchValue);
	if (!width || !rows)
		return cudaSuccess;
	SAID(copy(&op, kind, stream));
}

#if CUDART_VERSION >= 13000
/* If the batch is refused, no copy is issued. */
static cudaError_t copy_all(void *const *dsts, const void *const *srcs, const size_t *sizes,
			    size_t count, cudaStream_t stream)
{
	enum cudaMemoryType type;
	cudaError_t code = cudaSuccess;

	for (size_t i = 0; code == cudaSuccess && i < count; i++) {
		code = fake__memory_of((struct fake_area){ dsts[i], sizes[i] }, &type);
		if (code == cudaSuccess)
			code = fake__memory_of((struct fake_area){ srcs[i], sizes[i] }, &type);
	}
	/* CUDA allows any order: the double begins with the last copy. */
	for (size_t i = count; code == cudaSuccess && i--;) {
		struct fake_op op = {
			.copy = { dsts[i], srcs[i], sizes[i], sizes[i], sizes[i], 1, NULL },
		};

		code = copy(&op, cudaMemcpyDefault, stream);
	}
	return code;
}

cudaError_t cudaMemcpyBatchAsync(void *const *dsts, const void *const *srcs, const size_t *sizes,
				 size_t count, struct cudaMemcpyAttributes *attrs,
				 size_t *attrsIdxs, size_t numAttrs, cudaStream_t stream)
{
	CALL(cudaMemcpyBatchAsync);
	if (!count || numAttrs != 1 || attrsIdxs[0] || !stream || stream == cudaStreamLegacy ||
	    attrs->srcAccessOrder != cudaMemcpySrcAccessOrderStream)
		return fake__said(cudaErrorInvalidValue);
	for (size_t i = 0; i < count; i++) {
		if (!dsts[i] || !srcs[i] || !sizes[i])
			return fake__said(cudaErrorInvalidValue);
	}
	SAID(copy_all(dsts, srcs, sizes, count, stream));
}
#endif

static cudaError_t copy_between(struct fake_op *op, int to, int from, cudaStream_t stream)
{
	if (fake__owner(op->copy.dst) != to || fake__owner(op->copy.src) != from)
		return cudaErrorInvalidValue;
	return copy(op, BETWEEN, stream);
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t bytes,
				cudaStream_t stream)
{
	struct fake_op op = { .copy = { dst, src, bytes, bytes, bytes, 1, NULL } };

	CALL(cudaMemcpyPeerAsync);
	if (!bytes)
		return cudaSuccess;
	SAID(copy_between(&op, to, from, stream));
}

cudaError_t cudaMemcpy3DPeerAsync(const struct cudaMemcpy3DPeerParms *p, cudaStream_t stream)
{
	struct fake_op op = {
		.copy = { p->dstPtr.ptr, p->srcPtr.ptr, p->dstPtr.pitch, p->srcPtr.pitch,
			  p->extent.width, p->extent.height, NULL },
	};

	CALL(cudaMemcpy3DPeerAsync);
	if (p->extent.depth != 1 || p->dstArray || p->srcArray)
		return fake__said(cudaErrorInvalidValue);
	SAID(copy_between(&op, p->dstDevice, p->srcDevice, stream));
}

static cudaError_t fill(void *dst, int value, size_t bytes, cudaStream_t handle)
{
	struct fake_op op = {
		.kind = FAKE_OP_FILL, .uses = { { dst, bytes } }, .fill = { dst, value, bytes },
	};
	enum cudaMemoryType type;
	struct fake_stream *stream;
	cudaError_t code = fake__room(handle, &stream);

	if (code == cudaSuccess)
		code = fake__memory_of(op.uses[0], &type);
	if (code == cudaSuccess && type == cudaMemoryTypeUnregistered)
		code = cudaErrorInvalidValue;
	return code == cudaSuccess ? fake__issue(stream, &op) : code;
}

cudaError_t cudaMemsetAsync(void *dst, int value, size_t bytes, cudaStream_t stream)
{
	CALL(cudaMemsetAsync);
	if (!bytes)
		return cudaSuccess;
	SAID(fill(dst, value, bytes, stream));
}

/* ---- words ----------------------------------------------------------------- */

static CUresult write_word(CUstream handle, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
	struct fake_op op = {
		.kind = FAKE_OP_WRITE,
		.uses = { { (const char *)(uintptr_t)address, sizeof(value) } },
		.write = { (_Atomic uint32_t *)(uintptr_t)address, value },
	};
	enum cudaMemoryType type;
	struct fake_stream *stream;
	cudaError_t code;

	if (flags & ~(unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER || address % sizeof(value))
		return CUDA_ERROR_INVALID_VALUE;
	code = fake__room(handle, &stream);
	if (code == cudaSuccess)
		code = fake__memory_of(op.uses[0], &type);
	/* Memory of a memory pool (measured), and unknown memory, are refused. */
	if (code == cudaSuccess && type != cudaMemoryTypeHost)
		code = cudaErrorInvalidValue;
	if (code == cudaSuccess)
		code = fake__issue(stream, &op);
	return (CUresult)code;
}

/* A call of the driver does not change the runtime's last error. */
static CUresult stream_write(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags)
{
	CUresult code = (CUresult)fake__call(FAKE_cuStreamWriteValue32);

	if (code != CUDA_SUCCESS)
		return code;
	fake__lock();
	code = write_word(stream, address, value, flags);
	fake__unlock();
	return code;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **fn, unsigned version,
					     unsigned long long flags,
					     enum cudaDriverEntryPointQueryResult *status)
{
	void *found = NULL;

	CALL(cudaGetDriverEntryPointByVersion);
	(void)flags;
	if (!symbol || !fn || !version)
		return fake__said(cudaErrorInvalidValue);
	if (!strcmp(symbol, "cuStreamWriteValue32"))
		found = fake__settings.no_writes ? NULL : (void *)stream_write;
	else
		found = fake__graph_function(symbol);
	if (!found)
		found = fake__green_function(symbol);
	if (!found)
		found = fake__context_function(symbol);
	if (!found)
		found = fake__log_function(symbol);
	*fn = found;
	if (status)
		*status = found ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
	return cudaSuccess;
}
