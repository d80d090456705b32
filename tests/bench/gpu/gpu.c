/* SPDX-License-Identifier: MIT */
/* Calls of CUDA and of runnel that end the process if they fail. */
#include "gpu/gpu.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <runnel/device.h>
#include <runnel/kernel.h>
#include <runnel/thread.h>

#define WRITE_VALUE_VERSION 11070	/* the cuStreamWriteValue32 that all GPUs have */

typedef CUresult write_value_fn(CUstream stream, CUdeviceptr addr, cuuint32_t value,
				unsigned int flags);

static write_value_fn *write_value;
static uint32_t *first_word;	/* each stream's first write */

static _Noreturn void fail(const char *what, const char *why, int code)
{
	fprintf(stderr, "bench: %s: %s (%d)\n", what, why, code);
	_exit(EXIT_FAILURE);
}

void gpu_ok(cudaError_t code, const char *what)
{
	if (code != cudaSuccess)
		fail(what, gpu_error_text(code), (int)code);
}

void gpu_setup(void)
{
	const int ret = rnl_setup();

#ifdef BENCH_TSAN
	if (ret == -EBUSY)	/* ThreadSanitizer has its own thread from the start */
		return;
#endif
	bench_rnl(ret, "rnl_setup");
}

void gpu_enter(int ordinal)
{
	gpu_ok(cudaSetDevice(ordinal), "cudaSetDevice");
}

void *gpu_driver(const char *name, unsigned version)
{
	enum cudaDriverEntryPointQueryResult status;
	void *fn = NULL;

	gpu_ok(cudaGetDriverEntryPointByVersion(name, &fn, version,
						cudaEnablePerThreadDefaultStream, &status),
	       "cudaGetDriverEntryPointByVersion");
	bench_must(status == cudaDriverEntryPointSuccess && fn, name);
	return fn;
}

void gpu_begin(int ordinal)
{
	gpu_enter(ordinal);
	write_value = (write_value_fn *)gpu_driver("cuStreamWriteValue32", WRITE_VALUE_VERSION);
	first_word = gpu_pinned(sizeof(*first_word));
	gpu_warm_up();
}

void bench_gpu_begin(const int *gpus, unsigned nr)
{
	gpu_setup();
	for (unsigned i = nr; --i;) {
		gpu_enter(gpus[i]);
		gpu_warm_up();
	}
	gpu_begin(gpus[0]);
}

const char *gpu_names(const struct bench_options *opt, unsigned first, unsigned nr)
{
	static char name[128];
	char *at = name;

	for (unsigned i = 0; i < nr; i++)
		at += snprintf(at, (size_t)(name + sizeof(name) - at), "%s%d", i ? "," : "cuda:",
			       opt->gpus[first + i]);
	return name;
}

cudaStream_t gpu_stream(enum rnl_stream_kind kind, bool urgent)
{
	cudaStream_t stream = cudaStreamPerThread;
	cudaStreamAttrValue value;
	int least, greatest;

	gpu_ok(cudaDeviceGetStreamPriorityRange(&least, &greatest),
	       "cudaDeviceGetStreamPriorityRange");
	if (kind == RNL_STREAM_PRIVATE)
		gpu_ok(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking,
						    urgent ? greatest : least),
		       "cudaStreamCreateWithPriority");
	gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");	/* the stream exists now */
	memset(&value, 0, sizeof(value));
	value.priority = greatest;
	if (urgent && kind != RNL_STREAM_PRIVATE)
		gpu_ok(cudaStreamSetAttribute(stream, cudaStreamAttributePriority, &value),
		       "cudaStreamSetAttribute");
	/* Like the pool, see inflight.h: else the first kernels may wait for each other. */
	gpu_stream_write(stream, first_word, 0);
	gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	return stream;
}

void gpu_stream_end(cudaStream_t stream)
{
	gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	if (stream != cudaStreamPerThread)
		gpu_ok(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

void *gpu_pinned(size_t bytes)
{
	void *mem = NULL;

	gpu_ok(cudaHostAlloc(&mem, bytes, cudaHostAllocPortable | cudaHostAllocMapped),
	       "cudaHostAlloc");
	memset(mem, 0, bytes);
	return mem;
}

void *gpu_memory(size_t bytes)
{
	void *mem = NULL;

	gpu_ok(gpu_device_get(&mem, bytes), "cudaMalloc");
	return mem;
}

cudaEvent_t gpu_event(unsigned flags)
{
	cudaEvent_t event;

	gpu_ok(cudaEventCreateWithFlags(&event, flags), "cudaEventCreateWithFlags");
	return event;
}

void gpu_stream_write(cudaStream_t stream, uint32_t *word, uint32_t value)
{
	const CUresult code = write_value(stream, (CUdeviceptr)(uintptr_t)word, value,
					  CU_STREAM_WRITE_VALUE_DEFAULT);

	if (code != CUDA_SUCCESS)
		fail("cuStreamWriteValue32", "the driver refused it", (int)code);
}

/* ---- J's memory ---------------------------------------------------------- */

uint32_t gpu_largest(const struct gpu_shape *shape)
{
	uint32_t largest = 0;

	for (unsigned i = 0; i < shape->nr_sizes; i++)
		largest = shape->sizes[i] > largest ? shape->sizes[i] : largest;
	return largest;
}

void gpu_slots_in(struct gpu_slot *slots, size_t nr, size_t stride, const struct gpu_shape *shape,
		  uint32_t *pinned, uint32_t *dev)
{
	const size_t largest = gpu_largest(shape);
	char *at = (char *)slots;

	for (size_t i = 0; i < nr; i++, at += stride) {
		struct gpu_slot *slot = (struct gpu_slot *)(void *)at;

		slot->in = pinned + i * largest;
		slot->out = slot->in + nr * largest;
		slot->dev = dev + i * largest;
		slot->nr_words = shape->sizes[i % shape->nr_sizes];
		slot->kernel = (uint32_t)(i % shape->nr_kernels);
		slot->seq = 0;
		for (uint32_t word = 0; word < slot->nr_words; word++)
			slot->in[word] = (uint32_t)(i * largest) + word;
	}
}

void gpu_slots(struct gpu_slot *slots, size_t nr, size_t stride)
{
	const struct gpu_shape j = { 1, 1, { GPU_WORDS } };

	gpu_slots_in(slots, nr, stride, &j, gpu_pinned(nr * 2 * GPU_WORDS * sizeof(uint32_t)),
		     gpu_memory(nr * GPU_WORDS * sizeof(uint32_t)));
}

static _Noreturn void wrong(const struct gpu_slot *slot, uint32_t word)
{
	fprintf(stderr, "bench: J number %u in its memory: word %u came out as 0x%x, which is wrong\n",
		slot->seq, word, slot->out[word]);
	_exit(EXIT_FAILURE);
}

void gpu_check(const struct gpu_slot *slot)
{
	if (!gpu_right(slot))
		wrong(slot, slot->out[0] == gpu_word(slot->kernel, slot->seq, 0) ?
			    slot->nr_words - 1 : 0);
}

void gpu_check_all(const struct gpu_slot *slot)
{
	if (!slot->seq)
		return;
	for (uint32_t word = 0; word < slot->nr_words; word++)
		if (slot->out[word] != gpu_word(slot->kernel, slot->in[word], word))
			wrong(slot, word);
}

void gpu_warm_up(void)
{
	const struct rnl_dim grid = { GPU_WORDS / GPU_WORK_THREADS, 1, 1 };
	const struct rnl_dim block = { GPU_WORK_THREADS, 1, 1 };
	struct gpu_work_args args;
	struct gpu_slot slot;
	cudaStream_t stream;

	gpu_ok(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking),
	       "cudaStreamCreateWithFlags");
	gpu_slots(&slot, 1, sizeof(slot));
	gpu_prepare(&slot);
	gpu_ok(gpu_issue_j(&slot, stream), "J");
	gpu_ok(cudaStreamSynchronize(stream), "J");
	gpu_check_all(&slot);
	args.words = slot.dev;
	for (unsigned i = 0; i < GPU_KERNELS; i++)
		gpu_ok((cudaError_t)gpu_works[i]->cuda(grid, block, &args, stream), "J's kernel");
	gpu_ok(gpu_issue_empty(&slot, stream), "an empty kernel");
	gpu_ok(gpu_issue_spin(1, 1, 1, NULL, stream), "a kernel that spins");
	gpu_ok(gpu_issue_rounds(slot.dev, slot.dev, GPU_WORDS, 1, stream), "a kernel");
	gpu_stream_end(stream);
}

struct rnl_pool *gpu_pool(const char *device, enum rnl_stream_kind kind, unsigned nr_workers,
			  const struct rnl_pool_attr *others)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_pool *pool = NULL;

	if (others)
		attr = *others;
	attr.device = device;
	attr.stream = kind;
	attr.nr_workers = nr_workers;
	bench_rnl(rnl_pool_create(&pool, &attr), "rnl_pool_create");
	return pool;
}

double gpu_other(const struct bench_line *line, const char *variant)
{
	for (unsigned i = 0; i < line->nr; i++)
		if (line->figures[i].side == BENCH_OTHER && !strcmp(line->figures[i].variant, variant))
			return bench_summary(&line->figures[i]).median;
	return (double)NAN;
}

void gpu_scales(struct bench_line *line, unsigned nr_gpus, const char *one, enum bench_side side,
		const char *side_one)
{
	const double ours = bench_summary(bench_best(line, BENCH_RUNNEL)).median;
	const double theirs = bench_summary(bench_best(line, side)).median;
	const double ours_one = gpu_other(line, one), theirs_one = gpu_other(line, side_one);

	snprintf(line->note, sizeof(line->note), "%.0f %% of linear, by hand %.0f %%",
		 100 * ours / ours_one / nr_gpus, 100 * theirs / theirs_one / nr_gpus);
	if (line->goal != BENCH_OF_SCALING)
		return;
	line->goal = BENCH_ABSOLUTE;
	line->goal_value *= ours_one * theirs / theirs_one;
}

void gpu_row_end(void *arg, struct bench_line **lines)
{
	(void)lines;
	rnl_thread_attach(NULL);
	rnl_pool_destroy(*(struct rnl_pool **)arg);
}
