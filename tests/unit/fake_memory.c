/* SPDX-License-Identifier: MIT */
/* The memory of the double of the CUDA runtime, and copies of it. */
#include <string.h>

#include "fake.h"

/* ---- memory ---------------------------------------------------------------- */

static int type_of(const void *mem)
{
	struct cudaPointerAttributes attributes;

	ck_cuda(cudaPointerGetAttributes(&attributes, mem));
	return (int)attributes.type;
}

TEST(an_address_tells_whose_memory_it_is)
{
	cudaMemPool_t pool = pool_of_device(true);
	char *device = device_of(pool, 1000, own), *pinned = pinned_of(100), stack;

	ck_assert_int_eq(type_of(device), cudaMemoryTypeDevice);
	ck_assert_int_eq(type_of(device + 999), cudaMemoryTypeDevice);
	ck_assert_int_eq(type_of(pinned), cudaMemoryTypeHost);
	ck_assert_int_eq(type_of(pinned + 99), cudaMemoryTypeHost);
	ck_assert_int_eq(type_of(&stack), cudaMemoryTypeUnregistered);
	ck_assert_uint_eq(alive().device_bytes, 1000);
	ck_assert_uint_eq(alive().pinned_bytes, 100);
	ck_cuda(cudaFreeHost(pinned));
	ck_cuda(cudaFreeHost(NULL));
	ck_cuda(cudaFreeAsync(device, own));
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_uint_eq(alive().device_bytes + alive().pinned_bytes, 0);
	ck_cuda(cudaMemPoolDestroy(pool));
	ck_assert_uint_eq(alive().pools, 0);
}

TEST(what_is_freed_or_unknown_is_refused_and_counted)
{
	cudaMemPool_t pool = pool_of_device(true);
	char *device = device_of(pool, 4 * KB, own), *pinned = pinned_of(4 * KB), stack;

	ck_misused(cudaMemsetAsync(device, 1, 4 * KB + 1, own), cudaErrorInvalidValue);
	ck_misused(cudaMemcpyAsync(pinned + 1, device, 4 * KB, cudaMemcpyDefault, own),
		   cudaErrorInvalidValue);
	ck_misused(cudaFreeAsync(device + 512, own), cudaErrorInvalidValue);
	ck_misused(cudaFreeAsync(pinned, own), cudaErrorInvalidValue);
	ck_misused(cudaFreeHost(&stack), cudaErrorInvalidValue);
	ck_cuda(cudaFreeAsync(NULL, own));
	ck_misused(cudaFreeHost(device), cudaErrorInvalidValue);
	ck_refused(cudaMemsetAsync(&stack, 1, 1, own), cudaErrorInvalidValue);
	ck_cuda(cudaFreeAsync(device, own));
	ck_misused(cudaFreeAsync(device, own), cudaErrorInvalidValue);
	ck_misused(cudaMemsetAsync(device, 1, 1, own), cudaErrorInvalidValue);
	ck_misused(cudaMemcpyAsync(pinned, device, 1, cudaMemcpyDefault, own), cudaErrorInvalidValue);
	ck_assert_ptr_nonnull(strstr(fake_last_misuse(), "nobody's"));
	ck_cuda(cudaFreeHost(pinned));
	ck_misused(cudaFreeHost(pinned), cudaErrorInvalidValue);
}

TEST(device_memory_that_is_freed_before_its_last_use_is_counted, .loops = 2)
{
	cudaStream_t other = stream_of(cudaStreamNonBlocking);
	cudaMemPool_t pool = pool_of_device(true);
	char *device = device_of(pool, KB, own), *pinned = pinned_of(KB);
	struct gate gate = GATE_INIT;
	cudaEvent_t event = event_of(cudaEventDisableTiming);

	ck_cuda(cudaStreamSynchronize(own));
	ck_cuda(hold(other, &gate, NULL, 0));
	ck_cuda(cudaMemcpyAsync(device, pinned, KB, cudaMemcpyDefault, other));
	if (_i) {
		/* A free after the copy is not a misuse. */
		ck_cuda(cudaEventRecord(event, other));
		ck_cuda(cudaStreamWaitEvent(own, event, 0));
		ck_cuda(cudaFreeAsync(device, own));
	} else {
		ck_cuda(cudaFreeAsync(device, own));
		ck_cuda(cudaStreamSynchronize(own));
	}
	ck_assert_uint_eq(fake_misuses(), !_i);
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(other));
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_uint_eq(fake_misuses(), !_i);
}

static int free_pinned(void *mem)
{
	return (int)cudaFreeHost(mem);
}

TEST(freeing_page_locked_memory_waits_for_every_stream, .loops = 3)
{
	const cudaStream_t streams[] = { own, cudaStreamLegacy, stream_of(cudaStreamNonBlocking) };
	struct gate gate = GATE_INIT;
	struct call call;

	ck_cuda(hold(streams[_i], &gate, NULL, 0));
	call_start(&call, free_pinned, pinned_of(KB));
	ck_waits(call.tid);
	ck_assert(!call.returned);
	/* Page-locking does not wait for streams. */
	(void)pinned_of(KB);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	ck_cuda(cudaStreamSynchronize(streams[_i]));
}

TEST(memory_that_is_used_before_its_allocation_is_counted)
{
	cudaStream_t other = stream_of(cudaStreamNonBlocking);
	cudaMemPool_t pool = pool_of_device(true);
	struct gate gate = GATE_INIT;
	char *device;

	ck_cuda(hold(own, &gate, NULL, 0));
	device = device_of(pool, KB, own);
	ck_cuda(cudaMemsetAsync(device, 1, KB, own));
	ck_assert_uint_eq(fake_misuses(), 0);
	ck_cuda(cudaMemsetAsync(device, 1, KB, other));
	ck_cuda(cudaStreamSynchronize(other));
	ck_assert_uint_eq(fake_misuses(), 1);
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(own));
	ck_cuda(cudaMemsetAsync(device, 1, KB, other));
	ck_cuda(cudaStreamSynchronize(other));
	ck_assert_uint_eq(fake_misuses(), 1);
}

TEST(freed_memory_is_its_streams_at_once_and_others_later)
{
	cudaStream_t other = stream_of(cudaStreamNonBlocking);
	cudaMemPool_t pool = pool_of_device(true);
	char *mem = device_of(pool, 64 * KB, own), *again, *others;
	struct gate gate = GATE_INIT;

	ck_cuda(hold(own, &gate, NULL, 0));
	ck_cuda(cudaFreeAsync(mem, own));
	others = device_of(pool, 64 * KB, other);
	ck_assert_ptr_ne(others, mem);
	again = device_of(pool, 32 * KB, own);
	ck_assert_ptr_eq(again, mem);
	ck_cuda(cudaFreeAsync(again, own));
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_uint_eq(alive().kept_bytes, 64 * KB);
	again = device_of(pool, 64 * KB, other);
	ck_assert_ptr_eq(again, mem);
}

TEST(a_pool_keeps_what_it_may_until_it_is_trimmed)
{
	cudaMemPool_t keeping = pool_of_device(true), other = pool_of_device(false);

	ck_cuda(cudaFreeAsync(device_of(keeping, 8 * KB, own), own));
	ck_cuda(cudaFreeAsync(device_of(other, 8 * KB, own), own));
	ck_assert_uint_eq(alive().kept_bytes, 16 * KB);
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_uint_eq(alive().kept_bytes, 8 * KB);
	ck_cuda(cudaMemPoolTrimTo(keeping, 8 * KB));
	ck_assert_uint_eq(alive().kept_bytes, 8 * KB);
	ck_cuda(cudaMemPoolTrimTo(keeping, 0));
	ck_assert_uint_eq(alive().kept_bytes, 0);
}

TEST(memory_is_bounded)
{
	struct cudaDeviceProp prop;
	cudaMemPool_t pools[2];
	void *mem = &mem;
	char *half;

	ck_assert_int_eq(fake_plan("memory=1M,pinned=64K"), 0);
	ck_cuda(cudaGetDeviceProperties(&prop, 0));
	ck_assert_uint_eq(prop.totalGlobalMem, KB * KB);
	pools[0] = pool_of_device(true);
	pools[1] = pool_of_device(true);
	half = device_of(pools[0], KB * KB / 2, own);
	ck_refused(cudaMallocFromPoolAsync(&mem, KB * KB / 2 + 1, pools[0], own),
		   cudaErrorMemoryAllocation);
	ck_refused(cudaMallocFromPoolAsync(&mem, SIZE_MAX - 8, pools[0], own),
		   cudaErrorMemoryAllocation);
	ck_cuda(cudaFreeAsync(half, own));
	ck_cuda(cudaStreamSynchronize(own));
	/* A pool's cached memory is not given to another pool. */
	ck_refused(cudaMallocFromPoolAsync(&mem, KB * KB, pools[1], own), cudaErrorMemoryAllocation);
	ck_cuda(cudaMemPoolTrimTo(pools[0], 0));
	ck_assert_ptr_nonnull(device_of(pools[1], KB * KB, own));
	ck_assert_ptr_nonnull(pinned_of(60 * KB));
	ck_refused(cudaHostAlloc(&mem, 5 * KB, cudaHostAllocPortable), cudaErrorMemoryAllocation);
}

/* ---- copies ---------------------------------------------------------------- */

struct copying {
	void *dst;
	const void *src;
	size_t bytes;
	bool waits;
};

static int copy_on_legacy(void *arg)
{
	struct copying *c = arg;

	return (int)cudaMemcpyAsync(c->dst, c->src, c->bytes, cudaMemcpyDefault, cudaStreamLegacy);
}

TEST(copies_hold_their_callers_as_a_gpus_do, .loops = 10)
{
	enum { LARGE = 4 << 20 };
	char *device = device_of(pool_of_device(true), LARGE, cudaStreamLegacy);
	char *pinned = pinned_of(128), *pageable = calloc(1, LARGE);
	struct copying copies[] = {
		{ pinned, device, 64, false }, { device, pinned, 64, false },
		{ device, device + 64, 64, false }, { device, pageable, 64, false },
		{ device, pageable, LARGE, true }, { pageable, device, 64, true },
		{ pageable, pageable + 64, 64, true }, { pinned, pageable, 64, true },
		{ pageable, pinned, 64, true }, { pinned, pinned + 64, 64, true },
	};
	struct gate gate = GATE_INIT;
	struct call call;

	ck_cuda(hold(cudaStreamLegacy, &gate, NULL, 0));
	call_start(&call, copy_on_legacy, &copies[_i]);
	if (copies[_i].waits)
		ck_waits(call.tid);
	else
		ck_eventually(call.returned);
	ck_assert_int_eq(call.returned, !copies[_i].waits);
	/* The driver has already copied the source, so the caller may change it. */
	if (!copies[_i].waits)
		memset(pageable, 9, 64);
	gate_open(&gate);
	ck_assert_int_eq(call_end(&call), 0);
	ck_cuda(cudaMemcpyAsync(pinned, device, 64, cudaMemcpyDefault, cudaStreamLegacy));
	ck_cuda(cudaStreamSynchronize(cudaStreamLegacy));
	if (copies[_i].src == pageable && copies[_i].dst == device)
		ck_assert_bytes((unsigned char *)pinned, 64, 0);
	free(pageable);
}

TEST(a_copy_of_rows_leaves_what_lies_between)
{
	char *device = device_of(pool_of_device(true), 64, own), *pinned = pinned_of(64);

	for (int i = 0; i < 64; i++)
		pinned[i] = (char)i;
	ck_cuda(cudaMemsetAsync(device, 99, 64, own));
	ck_cuda(cudaMemcpy2DAsync(device, 16, pinned, 8, 3, 4, cudaMemcpyDefault, own));
	ck_cuda(cudaMemcpyAsync(pinned, device, 64, cudaMemcpyDeviceToHost, own));
	ck_cuda(cudaStreamSynchronize(own));
	for (int i = 0; i < 64; i++)
		ck_assert_int_eq(pinned[i], i % 16 < 3 ? i / 16 * 8 + i % 16 : 99);
	ck_refused(cudaMemcpy2DAsync(device, 2, pinned, 8, 3, 4, cudaMemcpyDefault, own),
		   cudaErrorInvalidPitchValue);
	/* The addresses decide the direction. */
	ck_cuda(cudaMemcpyAsync(pinned, device, 64, cudaMemcpyHostToDevice, own));
	ck_refused(cudaMemcpyAsync(pinned, device, 64, (enum cudaMemcpyKind)99, own),
		   cudaErrorInvalidMemcpyDirection);
	ck_cuda(cudaMemcpyAsync(NULL, NULL, 0, cudaMemcpyDefault, own));
}

/* ---- words ------------------------------------------------------------------ */

typedef CUresult write_fn(CUstream stream, CUdeviceptr address, cuuint32_t value, unsigned flags);

static write_fn *find_write(void)
{
	enum cudaDriverEntryPointQueryResult status;
	void *fn;

	ck_cuda(cudaGetDriverEntryPointByVersion("cuStreamWriteValue32", &fn, 11070,
						 cudaEnablePerThreadDefaultStream, &status));
	ck_assert_int_eq(status == cudaDriverEntryPointSuccess, fn != NULL);
	return (write_fn *)fn;
}

TEST(a_word_is_written_after_what_was_issued_before_it)
{
	write_fn *write = find_write();
	char *pinned = pinned_of(64);
	volatile uint32_t *word = (uint32_t *)(void *)pinned;
	struct gate gate = GATE_INIT;

	*word = 0;
	ck_cuda(hold(own, &gate, NULL, 0));
	ck_cuda(write(own, (CUdeviceptr)(uintptr_t)word, 77, CU_STREAM_WRITE_VALUE_DEFAULT));
	gate_await(&gate, 1);
	ck_assert_uint_eq(*word, 0);
	gate_open(&gate);
	ck_cuda(cudaStreamSynchronize(own));
	ck_assert_uint_eq(*word, 77);
	ck_assert_int_eq(write(own, (CUdeviceptr)(uintptr_t)pinned + 2, 1, 0),
			 CUDA_ERROR_INVALID_VALUE);
	/* The driver API has no last error. */
	ck_assert_int_eq(cudaGetLastError(), cudaSuccess);
}

TEST(a_device_may_have_no_words)
{
	ck_assert_int_eq(fake_plan("nowrite"), 0);
	ck_assert(!find_write());
}

int suite_begin(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	unsetenv(FAKE_ENV);	/* these tests make misuses and count them */
	return SUITE_GOES_ON;
}

/* The system may run out of memory, too: the double's memory is a mapping. */
TEST(device_memory_that_the_system_has_not_is_out_of_memory)
{
	cudaMemPool_t pool = pool_of_device(true);
	void *mem = NULL;

	ck_assert_int_eq(fake_plan("memory=1073741824G"), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(cudaMallocFromPoolAsync(&mem, 1000, pool, own),
				 cudaErrorMemoryAllocation);
		ck_assert_int_eq(cudaMalloc(&mem, 1000), cudaErrorMemoryAllocation);
		ck_cuda(cudaMemPoolTrimTo(pool, 0));
		ck_assert_ptr_null(mem);
	}
	ck_assert_uint_eq(alive().device_bytes, 0);
	ck_assert_uint_eq(alive().kept_bytes, 0);
	ck_assert_int_eq(fake_plan("memory=256M"), 0);
	ck_cuda(cudaFreeAsync(device_of(pool, 1000, own), own));
}
