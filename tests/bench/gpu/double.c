/* SPDX-License-Identifier: MIT */
/* kernels.cu for the double of the CUDA runtime: its streams call host functions. */
#include "gpu/gpu.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include <runnel/kernel.h>

#include "double_kernel.h"
#include "request_kernel.h"

struct resident_args {
	struct gpu_mailbox box;
	uint32_t seq;			/* of a lease: its number */
};

struct until_args {
	const uint32_t *over;
	uint64_t ns, *stamps;
};

struct rounds_args {
	const uint32_t *in;
	uint32_t *out;
	uint64_t nr;
	uint32_t rounds;
};

struct flagged_args {
	const uint32_t *in;
	uint32_t *out, *flag, value;
};

static void work(uint32_t kernel, uint32_t nr, const void *args)
{
	uint32_t *words;

	memcpy(&words, args, sizeof(words));
	for (uint32_t i = 0; i < nr; i++)
		words[i] = gpu_word(kernel, words[i], i);
}

#define WORK(number) \
	static void work_##number(struct rnl_dim grid, struct rnl_dim block, const void *args) \
	{ \
		work(number, grid.x * block.x, args); \
	} \
	DOUBLE_KERNEL(gpu_work_##number, NULL, work_##number, struct gpu_work_args)
WORK(0);
WORK(1);
WORK(2);
WORK(3);
WORK(4);

const struct rnl_kernel *const gpu_works[GPU_KERNELS] = {
	&gpu_work_0, &gpu_work_1, &gpu_work_2, &gpu_work_3, &gpu_work_4
};

static void move(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct gpu_moves *moves = args;

	(void)block;
	for (uint32_t i = 0; i < grid.x; i++)
		memcpy(moves->dst[i], moves->src[i], moves->nr_words[i] * sizeof(uint32_t));
}

DOUBLE_KERNEL(gpu_move, NULL, move, struct gpu_moves);

const struct rnl_kernel *const gpu_mover = &gpu_move;

static void empty(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	(void)args;
}

static void spin(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct gpu_spin *spin = args;
	const struct timespec pause = {
		.tv_sec = (time_t)(spin->ns / 1000000000),
		.tv_nsec = (long)(spin->ns % 1000000000)
	};
	const uint64_t start = bench_now();

	(void)grid;
	(void)block;
	nanosleep(&pause, NULL);
	if (!spin->stamps)
		return;
	spin->stamps[0] = start;
	/* release: the row join reads it while kernels run */
	__atomic_store_n(&spin->stamps[1], bench_now(), __ATOMIC_RELEASE);
}

DOUBLE_KERNEL(gpu_spin_kernel, NULL, spin, struct gpu_spin);

const struct rnl_kernel *const gpu_spinner = &gpu_spin_kernel;

static void until(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct until_args *until = args;
	const struct timespec pause = { .tv_nsec = 100000 };
	const uint64_t start = bench_now();

	(void)grid;
	(void)block;
	/* acquire: gpu/flood.c writes it while kernels run */
	while (!__atomic_load_n(until->over, __ATOMIC_ACQUIRE) && bench_now() - start < until->ns)
		nanosleep(&pause, NULL);
	if (!until->stamps)
		return;
	until->stamps[0] = start;
	until->stamps[1] = bench_now();
}

static void rounds_of(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct rounds_args *a = args;

	(void)grid;
	(void)block;
	for (uint64_t i = 0; i < a->nr; i++) {
		uint32_t x = a->in[i];

		for (uint32_t round = 0; round < a->rounds; round++)
			x = x * GPU_A + GPU_C;
		a->out[i] = x;
	}
}

static void flagged(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct flagged_args *a = args;

	(void)grid;
	(void)block;
	for (uint32_t i = 0; i < GPU_WORDS; i++)
		a->out[i] = gpu_word(GPU_ROUND, a->in[i], i);
	/* release: the words */
	__atomic_store_n(a->flag, a->value, __ATOMIC_RELEASE);
}

static void mix(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct gpu_mix *m = args;
	const struct timespec pause = { .tv_nsec = (long)m->ns };
	uint32_t sum = m->seed;

	(void)grid;
	(void)block;
	for (unsigned i = 0; i < GPU_MIX; i++)
		sum += m->in[i] ? *m->in[i] : 0;
	nanosleep(&pause, NULL);
	*m->out = gpu_mixed(sum);
}

/* Answers a request as its pieces come.  Returns false if it has not begun and the kernel ends. */
static bool answer(const struct gpu_mailbox *box, uint32_t seq, uint64_t end)
{
	for (uint32_t i = 0; i < box->nr; i++) {
		struct gpu_piece *out = &box->out[i];
		uint32_t got;

		/* acquire: the piece's words; gpu/resident.c writes both together */
		while ((got = __atomic_load_n(&box->in[i].seq, __ATOMIC_ACQUIRE)) != seq) {
			if (!i && (got == GPU_RESIDENT_ENDS || bench_now() > end))
				return false;
			sched_yield();
		}
		for (unsigned k = 0; k < GPU_PIECE_WORDS; k++)
			out->words[k] = gpu_word(GPU_ROUND, box->in[i].words[k], 0);
		/* release: the words */
		__atomic_store_n(&out->seq, seq, __ATOMIC_RELEASE);
	}
	return true;
}

static void resident(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct resident_args *a = args;

	(void)grid;
	(void)block;
	for (uint32_t seq = a->seq; answer(&a->box, seq, UINT64_MAX); seq++)
		;
}

static void lease(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct resident_args *a = args;
	const uint64_t end = bench_now() + a->box.lease_ns;
	uint32_t seq = *a->box.next;

	(void)grid;
	(void)block;
	/* relaxed: publishes no data */
	__atomic_store_n(a->box.begun, a->seq, __ATOMIC_RELAXED);
	while (answer(&a->box, seq, end))
		seq++;
	*a->box.next = seq;
}

static cudaError_t launch(void (*fn)(struct rnl_dim, struct rnl_dim, const void *),
			  const void *args, size_t bytes, cudaStream_t stream)
{
	const struct rnl_dim one = { 1, 1, 1 };

	return (cudaError_t)fake_launch(fn, one, one, args, bytes, stream);
}

cudaError_t gpu_issue_launch(const struct gpu_slot *slot, cudaStream_t stream)
{
	const struct rnl_dim grid = { slot->nr_words / GPU_WORK_THREADS, 1, 1 };
	const struct rnl_dim block = { GPU_WORK_THREADS, 1, 1 };
	const struct gpu_work_args args = { slot->dev };

	return (cudaError_t)gpu_works[slot->kernel]->cuda(grid, block, &args, stream);
}

cudaError_t gpu_issue_j(const struct gpu_slot *slot, cudaStream_t stream)
{
	const size_t bytes = slot->nr_words * sizeof(uint32_t);
	cudaError_t code = cudaMemcpyAsync(slot->dev, slot->in, bytes, cudaMemcpyHostToDevice,
					   stream);

	if (code == cudaSuccess)
		code = gpu_issue_launch(slot, stream);
	if (code == cudaSuccess)
		code = cudaMemcpyAsync(slot->out, slot->dev, bytes, cudaMemcpyDeviceToHost, stream);
	return code;
}

cudaError_t gpu_issue_empty(const struct gpu_slot *slot, cudaStream_t stream)
{
	return launch(empty, &slot, sizeof(slot), stream);
}

cudaError_t gpu_issue_spin(unsigned blocks, unsigned threads, uint64_t ns, uint64_t *stamps,
			   cudaStream_t stream)
{
	const struct gpu_spin args = { ns, stamps };

	(void)blocks;
	(void)threads;
	return launch(spin, &args, sizeof(args), stream);
}

cudaError_t gpu_issue_until(unsigned blocks, unsigned threads, const uint32_t *over, uint64_t ns,
			    uint64_t *stamps, cudaStream_t stream)
{
	const struct until_args args = { over, ns, stamps };

	(void)blocks;
	(void)threads;
	return launch(until, &args, sizeof(args), stream);
}

cudaError_t gpu_issue_rounds(const uint32_t *in, uint32_t *out, uint64_t nr, uint32_t rounds,
			     cudaStream_t stream)
{
	const struct rounds_args args = { in, out, nr, rounds };

	return launch(rounds_of, &args, sizeof(args), stream);
}

cudaError_t gpu_issue_flagged(const struct gpu_slot *slot, uint32_t *flag, uint32_t value,
			      cudaStream_t stream)
{
	const struct flagged_args args = { slot->in, slot->out, flag, value };

	return launch(flagged, &args, sizeof(args), stream);
}

cudaError_t gpu_issue_mix(const struct gpu_mix *args, cudaStream_t stream)
{
	return launch(mix, args, sizeof(*args), stream);
}

static int round_each(const struct rnl_request_view *view)
{
	const uint32_t *in = view->in;
	uint32_t *out = view->out;

	for (uint32_t i = 0; i < view->in_bytes / sizeof(*in); i++)
		out[i] = gpu_word(GPU_ROUND, in[i], 0);
	return 0;
}
HOST_REQUEST_KERNEL(gpu_round_each, round_each);

cudaError_t gpu_issue_resident(const struct gpu_mailbox *box, uint32_t seq, cudaStream_t stream)
{
	const struct resident_args args = { *box, seq };

	return launch(resident, &args, sizeof(args), stream);
}

cudaError_t gpu_issue_lease(const struct gpu_mailbox *box, uint32_t number, cudaStream_t stream)
{
	const struct resident_args args = { *box, number };

	return launch(lease, &args, sizeof(args), stream);
}

cudaError_t gpu_device_get(void **memp, size_t bytes)
{
	struct cudaMemPoolProps props = {
		.allocType = cudaMemAllocationTypePinned,
		.location = { .type = cudaMemLocationTypeDevice },
	};
	cudaMemPool_t pool;
	cudaError_t code = cudaGetDevice(&props.location.id);

	if (code == cudaSuccess)
		code = cudaMemPoolCreate(&pool, &props);
	if (code == cudaSuccess)
		code = cudaMallocFromPoolAsync(memp, bytes, pool, cudaStreamPerThread);
	return code == cudaSuccess ? cudaStreamSynchronize(cudaStreamPerThread) : code;
}

/* The double's cudaMemcpyPeerAsync() needs no access. */
cudaError_t gpu_reach(int ordinal, int peer, bool on)
{
	(void)peer;
	(void)on;
	return cudaSetDevice(ordinal);
}

cudaError_t gpu_event_sync(cudaEvent_t event)
{
	cudaError_t code;

	while ((code = cudaEventQuery(event)) == cudaErrorNotReady)
		bench_relax();
	return code;
}

const char *gpu_error_text(cudaError_t code)
{
	(void)code;
	return "an error of the double";
}

int gpu_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job))
{
	return rnl_job_init(job, fn);
}
