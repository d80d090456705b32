/* SPDX-License-Identifier: MIT */
/* The kernels of gpu, and code that must be compiled with them. */
#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>

#include "gpu/gpu.h"

#define THREADS GPU_WORK_THREADS
#define BLOCKS_MAX 4096

template <uint32_t KERNEL>
static __global__ void work(struct gpu_work_args args)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	args.words[i] = gpu_word(KERNEL, args.words[i], i);
}

RNL_KERNEL(gpu_work_0, NULL, work<0>, struct gpu_work_args);
RNL_KERNEL(gpu_work_1, NULL, work<1>, struct gpu_work_args);
RNL_KERNEL(gpu_work_2, NULL, work<2>, struct gpu_work_args);
RNL_KERNEL(gpu_work_3, NULL, work<3>, struct gpu_work_args);
RNL_KERNEL(gpu_work_4, NULL, work<4>, struct gpu_work_args);

const struct rnl_kernel *const gpu_works[GPU_KERNELS] = {
	&gpu_work_0, &gpu_work_1, &gpu_work_2, &gpu_work_3, &gpu_work_4
};

static void (*const works[GPU_KERNELS])(struct gpu_work_args args) = {
	work<0>, work<1>, work<2>, work<3>, work<4>
};

static __global__ void move(struct gpu_moves moves)
{
	const uint4 *src = reinterpret_cast<const uint4 *>(moves.src[blockIdx.x]);
	uint4 *dst = reinterpret_cast<uint4 *>(moves.dst[blockIdx.x]);

	for (uint32_t i = threadIdx.x; i < moves.nr_words[blockIdx.x] / 4; i += THREADS)
		dst[i] = src[i];
}

RNL_KERNEL(gpu_move, NULL, move, struct gpu_moves);

const struct rnl_kernel *const gpu_mover = &gpu_move;

static __global__ void empty(void)
{
}

static __device__ uint64_t device_ns(void)
{
	uint64_t now;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
	return now;
}

static __global__ void spin(struct gpu_spin args)
{
	volatile uint64_t *const stamps = args.stamps;
	const uint64_t start = device_ns();
	uint64_t now;

	do {
		now = device_ns();
	} while (now - start < args.ns);
	if (!stamps || blockIdx.x || threadIdx.x)
		return;
	stamps[0] = start;
	stamps[1] = now;
}

RNL_KERNEL(gpu_spin_kernel, NULL, spin, struct gpu_spin);

const struct rnl_kernel *const gpu_spinner = &gpu_spin_kernel;

static __global__ void until(const volatile uint32_t *over, uint64_t ns, volatile uint64_t *stamps)
{
	const uint64_t start = device_ns();
	uint64_t now = start;

	/* A thread of each block reads the host's memory, each 20 us; the others wait for it. */
	while (!threadIdx.x && now - start < ns && !*over) {
		const uint64_t last = now;

		do {
			now = device_ns();
		} while (now - last < 20000);
	}
	__syncthreads();
	if (!stamps || blockIdx.x || threadIdx.x)
		return;
	stamps[0] = start;
	stamps[1] = now;
}

static __global__ void rounds_of(const uint32_t *in, uint32_t *out, uint64_t nr, uint32_t rounds)
{
	const uint64_t step = (uint64_t)gridDim.x * THREADS;

	for (uint64_t i = (uint64_t)blockIdx.x * THREADS + threadIdx.x; i < nr; i += step) {
		uint32_t x = in[i];

		for (uint32_t round = 0; round < rounds; round++)
			x = x * GPU_A + GPU_C;
		out[i] = x;
	}
}

/* One block, so that its barrier is between all words and the flag. */
static __global__ void flagged(const uint4 *in, uint4 *out, uint32_t *flag, uint32_t value)
{
	const uint4 x = in[threadIdx.x];

	out[threadIdx.x] = make_uint4(gpu_word(GPU_ROUND, x.x, 0), gpu_word(GPU_ROUND, x.y, 0),
				      gpu_word(GPU_ROUND, x.z, 0), gpu_word(GPU_ROUND, x.w, 0));
	__syncthreads();
	if (threadIdx.x)
		return;
	__threadfence_system();	/* the words of all threads, for the host */
	*(volatile uint32_t *)flag = value;
}

static __global__ void mix(struct gpu_mix args)
{
	const uint64_t start = device_ns();
	uint32_t sum = args.seed;

	for (unsigned i = 0; i < GPU_MIX; i++)
		sum += args.in[i] ? *args.in[i] : 0;
	while (device_ns() - start < args.ns)
		;
	*args.out = gpu_mixed(sum);
}

/* ---- a resident kernel ---------------------------------------------------- */

/* One access of 16 bytes moves a piece's words and its number over the bus. */
static __device__ uint4 load_piece(const struct gpu_piece *from)
{
	uint4 piece;

	asm volatile("ld.volatile.global.v4.u32 {%0, %1, %2, %3}, [%4];"
		     : "=r"(piece.x), "=r"(piece.y), "=r"(piece.z), "=r"(piece.w)
		     : "l"(from) : "memory");
	return piece;
}

static __device__ void answer_piece(struct gpu_piece *to, uint4 piece)
{
	asm volatile("st.volatile.global.v4.u32 [%0], {%1, %2, %3, %4};"
		     :: "l"(to), "r"(gpu_word(GPU_ROUND, piece.x, 0)),
		     "r"(gpu_word(GPU_ROUND, piece.y, 0)), "r"(gpu_word(GPU_ROUND, piece.z, 0)),
		     "r"(piece.w) : "memory");
}

/* Threads need not wait for each other, because the host waits for all pieces of an answer. */
static __global__ void resident(struct gpu_mailbox box, uint32_t seq)
{
	const uint32_t i = threadIdx.x;

	while (i < box.nr) {
		const uint4 piece = load_piece(&box.in[i]);

		if (piece.w == GPU_RESIDENT_ENDS)
			return;
		if (piece.w != seq)
			continue;
		answer_piece(&box.out[i], piece);
		seq++;
	}
}

/* Threads vote on each request, because a lease must not end in the middle of one. */
static __global__ void lease(struct gpu_mailbox box, uint32_t number)
{
	const uint64_t start = device_ns();
	const uint32_t i = threadIdx.x;
	uint32_t seq = *box.next;

	if (!i)
		*(volatile uint32_t *)box.begun = number;
	for (;;) {
		const bool mine = i < box.nr;
		uint4 piece = {};
		bool came = false, goes_on;

		if (mine) {
			piece = load_piece(&box.in[i]);
			came = piece.w == seq;
		}
		if (__syncthreads_and(came || !mine)) {
			if (mine)
				answer_piece(&box.out[i], piece);
			seq++;
			continue;
		}
		/* Only the first thread looks at the clock, so all threads end together. */
		goes_on = came || (!i && device_ns() - start < box.lease_ns);
		if (!__syncthreads_or(goes_on))
			break;
	}
	if (!i)
		*box.next = seq;
}

static __device__ int round_each(const struct rnl_request_view *view)
{
	const uint32_t *in = static_cast<const uint32_t *>(view->in);
	uint32_t *out = static_cast<uint32_t *>(view->out);

	for (uint32_t i = threadIdx.x; i < view->in_bytes / sizeof(*in); i += blockDim.x)
		out[i] = gpu_word(GPU_ROUND, in[i], 0);
	return 0;
}
RNL_REQUEST_KERNEL(gpu_round_each, NULL, round_each);

/* ---- what the host calls -------------------------------------------------- */

/* Returns the threads of a block with one for each piece. */
static unsigned threads_of(const struct gpu_mailbox *box)
{
	return (box->nr + 31) / 32 * 32;
}

cudaError_t gpu_issue_resident(const struct gpu_mailbox *box, uint32_t seq, cudaStream_t stream)
{
	resident<<<1, threads_of(box), 0, stream>>>(*box, seq);
	return cudaGetLastError();
}

cudaError_t gpu_issue_lease(const struct gpu_mailbox *box, uint32_t number, cudaStream_t stream)
{
	lease<<<1, threads_of(box), 0, stream>>>(*box, number);
	return cudaGetLastError();
}

cudaError_t gpu_issue_mix(const struct gpu_mix *args, cudaStream_t stream)
{
	mix<<<1, 1, 0, stream>>>(*args);
	return cudaGetLastError();
}

cudaError_t gpu_issue_launch(const struct gpu_slot *slot, cudaStream_t stream)
{
	const struct gpu_work_args args = { slot->dev };

	works[slot->kernel]<<<slot->nr_words / THREADS, THREADS, 0, stream>>>(args);
	return cudaGetLastError();
}

cudaError_t gpu_issue_j(const struct gpu_slot *slot, cudaStream_t stream)
{
	const size_t bytes = slot->nr_words * sizeof(uint32_t);
	cudaError_t code = cudaMemcpyAsync(slot->dev, slot->in, bytes, cudaMemcpyHostToDevice,
					   stream);

	if (code != cudaSuccess)
		return code;
	code = gpu_issue_launch(slot, stream);
	if (code != cudaSuccess)
		return code;
	return cudaMemcpyAsync(slot->out, slot->dev, bytes, cudaMemcpyDeviceToHost, stream);
}

cudaError_t gpu_issue_empty(const struct gpu_slot *slot, cudaStream_t stream)
{
	(void)slot;
	empty<<<1, 1, 0, stream>>>();
	return cudaGetLastError();
}

cudaError_t gpu_issue_spin(unsigned blocks, unsigned threads, uint64_t ns, uint64_t *stamps,
			   cudaStream_t stream)
{
	const struct gpu_spin args = { ns, stamps };

	spin<<<blocks, threads, 0, stream>>>(args);
	return cudaGetLastError();
}

cudaError_t gpu_issue_until(unsigned blocks, unsigned threads, const uint32_t *over, uint64_t ns,
			    uint64_t *stamps, cudaStream_t stream)
{
	until<<<blocks, threads, 0, stream>>>(over, ns, stamps);
	return cudaGetLastError();
}

cudaError_t gpu_issue_rounds(const uint32_t *in, uint32_t *out, uint64_t nr, uint32_t rounds,
			     cudaStream_t stream)
{
	const uint64_t blocks = (nr + THREADS - 1) / THREADS;

	rounds_of<<<(unsigned)(blocks < BLOCKS_MAX ? blocks : BLOCKS_MAX), THREADS, 0, stream>>>(
		in, out, nr, rounds);
	return cudaGetLastError();
}

cudaError_t gpu_issue_flagged(const struct gpu_slot *slot, uint32_t *flag, uint32_t value,
			      cudaStream_t stream)
{
	flagged<<<1, GPU_WORDS / 4, 0, stream>>>(reinterpret_cast<const uint4 *>(slot->in),
						 reinterpret_cast<uint4 *>(slot->out), flag, value);
	return cudaGetLastError();
}

cudaError_t gpu_device_get(void **memp, size_t bytes)
{
	return cudaMalloc(memp, bytes);
}

cudaError_t gpu_reach(int ordinal, int peer, bool on)
{
	int peers = 0;
	cudaError_t code = cudaDeviceCanAccessPeer(&peers, ordinal, peer);

	if (code == cudaSuccess && peers)
		code = cudaSetDevice(ordinal);
	if (code != cudaSuccess || !peers)
		return code;
	return on ? cudaDeviceEnablePeerAccess(peer, 0) : cudaDeviceDisablePeerAccess(peer);
}

cudaError_t gpu_event_sync(cudaEvent_t event)
{
	return cudaEventSynchronize(event);
}

const char *gpu_error_text(cudaError_t code)
{
	return cudaGetErrorString(code);
}

int gpu_job_init(struct rnl_job *job, int (*fn)(struct rnl_job *job))
{
	return rnl_job_init(job, fn);
}
