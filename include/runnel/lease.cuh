/* SPDX-License-Identifier: MIT */
/* Private, for runnel/cuda.h: the kernels that serve requests; runnel/mailbox.h has the design. */
#ifndef RUNNEL_LEASE_CUH
#define RUNNEL_LEASE_CUH

#include <cuda_runtime_api.h>

#include <runnel/mailbox.h>

#if CUDART_VERSION >= 12030
#define RNL__HAS_LEASES 1

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 700

static __device__ __forceinline__ struct rnl__mail_piece rnl__piece_load(const struct rnl__mail_piece *at)
{
	struct rnl__mail_piece piece;

	/* One access of 128 bits: PTX ISA 8.3 and later. */
	asm volatile("{\n\t.reg .b128 all;\n\t.reg .b64 low, high;\n\t"
		     "ld.relaxed.sys.global.b128 all, [%4];\n\t"
		     "mov.b128 {low, high}, all;\n\t"
		     "mov.b64 {%0, %1}, low;\n\tmov.b64 {%2, %3}, high;\n\t}"
		     : "=r"(piece.payload[0]), "=r"(piece.payload[1]), "=r"(piece.payload[2]),
		       "=r"(piece.tag)
		     : "l"(at) : "memory");
	return piece;
}

static __device__ __forceinline__ void rnl__piece_store(struct rnl__mail_piece *at,
							const struct rnl__mail_piece piece)
{
	asm volatile("{\n\t.reg .b128 all;\n\t.reg .b64 low, high;\n\t"
		     "mov.b64 low, {%1, %2};\n\tmov.b64 high, {%3, %4};\n\t"
		     "mov.b128 all, {low, high};\n\t"
		     "st.relaxed.sys.global.b128 [%0], all;\n\t}"
		     :: "l"(at), "r"(piece.payload[0]), "r"(piece.payload[1]),
			"r"(piece.payload[2]), "r"(piece.tag) : "memory");
}

static __device__ __forceinline__ uint64_t rnl__word_load(const uint64_t *word)
{
	uint64_t value;

	asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
	return value;
}

static __device__ __forceinline__ void rnl__word_store(uint64_t *word, uint64_t value)
{
	asm volatile("st.relaxed.sys.global.u64 [%0], %1;" :: "l"(word), "l"(value) : "memory");
}

/* Orders this thread's earlier accesses, and those that it has seen, before its later ones. */
static __device__ __forceinline__ void rnl__device_fence(void)
{
	asm volatile("fence.acq_rel.sys;" ::: "memory");
}

static __device__ __forceinline__ uint64_t rnl__device_now(void)
{
	uint64_t ns;

	asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(ns));
	return ns;
}

/* What a poll found, as the first thread knows it. */
struct rnl__lease_found {
	uint32_t bytes;			/* of the request, if its head has come; ~0: it has not */
	bool over, hot;			/* the lease's time; the whole mailbox is to be polled */
};

/* What the threads of a block share. */
struct rnl__lease_block {
	uint32_t in[RNL__MAILBOX_BYTES / 4], out[RNL__MAILBOX_BYTES / 4];
	uint64_t expected;		/* at the begin */
	bool closed;
	bool passes;			/* the next lease's block waits: it gets the mailbox at the end */
	/* Of even and odd polls: threads may be in two polls at a time. */
	struct rnl__lease_found found[2];
};

/*
 * A lease may get its multiprocessors while the one before serves (programmatic dependent launch).
 * Then a mailbox changes hands by two accesses of device memory, and no other kernel gets between.
 * Before the kernel ends, it waits for the last one's end: the stream's order holds for others.
 */
static __device__ __forceinline__ void rnl__lease_follow(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

/* Lets the next lease start, up to its turn. */
static __device__ __forceinline__ void rnl__lease_let(void)
{
#if __CUDA_ARCH__ >= 900
	asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

/* Returns the lease whose block waits for its turn, or an earlier one. */
static __device__ __forceinline__ uint32_t rnl__turn_came(const uint32_t *came)
{
	uint32_t lease;

	asm volatile("ld.relaxed.gpu.global.u32 %0, [%1];" : "=r"(lease) : "l"(came) : "memory");
	return lease;
}

/* Waits for the end of the last lease's block.  Returns what it left.  Called by one thread. */
static __device__ struct rnl__mail_piece rnl__turn_await(const struct rnl__lease_args &args)
{
	struct rnl__lease_turn *turn = args.turns + blockIdx.x;
	const uint32_t lease = static_cast<uint32_t>(args.lease), last = lease - 1;
	struct rnl__mail_piece ended = rnl__piece_load(&turn->ended[last & 1]);

	/* A mailbox is not passed on if the host has closed the gate, perhaps to clear the pieces. */
	if (ended.tag != last && !(rnl__word_load(&args.words[blockIdx.x].gate) & 1))
		asm volatile("st.relaxed.gpu.global.u32 [%0], %1;"
			     :: "l"(&turn->came[lease & 1]), "r"(lease) : "memory");
	while (ended.tag != last) {
		__nanosleep(20);
		ended = rnl__piece_load(&turn->ended[last & 1]);
	}
	/* All that the last block's threads have read and written comes before. */
	__threadfence();
	return ended;
}

/* Announces the block, and finds out whether it may serve, and which request comes next. */
static __device__ void rnl__lease_announce(struct rnl__lease_block *b,
					   const struct rnl__lease_args &args, uint64_t answered)
{
	struct rnl__mailbox_words *words = args.words + blockIdx.x;
	uint64_t gate;

	rnl__word_store(&words->status, args.lease << 1 | 1);
	/* Pairs with the host's barrier between the gate and the status. */
	__threadfence_system();
	gate = rnl__word_load(&words->gate);
	/* All polls follow: pieces that were cleared before the gate opened are seen so. */
	rnl__device_fence();
	b->closed = gate & 1;
	/* The device knows what it has answered; the host knows what it has taken back. */
	b->expected = !b->closed && gate >> 1 > answered ? gate >> 1 : answered;
}

/* Begins the block's service when its turn comes.  Called by one thread. */
static __device__ void rnl__lease_begin(struct rnl__lease_block *b,
					const struct rnl__lease_args &args)
{
	const struct rnl__mail_piece ended = rnl__turn_await(args);
	const uint64_t answered = ended.payload[0] | static_cast<uint64_t>(ended.payload[1]) << 32;

	b->passes = false;
	if (!ended.payload[2])
		return rnl__lease_announce(b, args, answered);
	rnl__word_store(&args.words[blockIdx.x].status, args.lease << 1 | 1);
	b->closed = false;
	b->expected = answered;
}

/* Shows that no block serves: then a host sees all threads' answers.  Called by one thread. */
static __device__ __forceinline__ void rnl__lease_retire(const struct rnl__lease_args &args)
{
	rnl__device_fence();
	rnl__word_store(&args.words[blockIdx.x].status, args.lease << 1);
}

/* Ends the block's service; @expected: the request that the next lease expects. */
static __device__ void rnl__lease_end(const struct rnl__lease_block *b,
				      const struct rnl__lease_args &args, uint64_t expected)
{
	const uint32_t lease = static_cast<uint32_t>(args.lease);
	const struct rnl__mail_piece ended = {
		{ static_cast<uint32_t>(expected), static_cast<uint32_t>(expected >> 32), b->passes }, lease,
	};

	__syncthreads();
	if (threadIdx.x)
		return;
	if (!b->passes) {
		rnl__lease_retire(args);
		/* The next block's status comes later. */
		rnl__device_fence();
	} else {
		/* The answers come before the next block's end, and what a host sees by that. */
		__threadfence();
	}
	rnl__piece_store(&args.turns[blockIdx.x].ended[lease & 1], ended);
}

/* Keeps the payload of a piece that was read.  Returns true if the piece has arrived. */
static __device__ __forceinline__ bool rnl__lease_keep(struct rnl__lease_block *b, uint32_t i,
						       const struct rnl__mail_piece &piece, uint32_t tag,
						       struct rnl__lease_found *found)
{
	if (!i)
		found->bytes = piece.tag == tag ? piece.payload[0] : ~0u;
	for (unsigned j = 0; i && j < 3; j++)
		b->in[3 * (i - 1) + j] = piece.payload[j];
	return piece.tag == tag;
}

/*
 * Reads the first @nr pieces, and sets *@found, which is the same in all threads.  Returns true if the
 * request has arrived; it is in `in` then.
 */
static __device__ bool rnl__lease_poll(struct rnl__lease_block *b, const struct rnl__lease_args &args,
				       uint32_t tag, uint32_t nr, struct rnl__lease_found *shared,
				       struct rnl__lease_found *found)
{
	const struct rnl__mail_piece *from = args.requests + blockIdx.x * args.request_pieces;
	uint32_t missing = nr;
	bool all;

	/* Two reads at a time are under way. */
	for (uint32_t i = threadIdx.x; i < nr; i += 2 * blockDim.x) {
		const uint32_t k = i + blockDim.x;
		const struct rnl__mail_piece one = rnl__piece_load(&from[i]);
		const struct rnl__mail_piece two = k < nr ? rnl__piece_load(&from[k]) : one;

		if (!rnl__lease_keep(b, i, one, tag, shared) && i < missing)
			missing = i;
		if (k < nr && !rnl__lease_keep(b, k, two, tag, shared) && k < missing)
			missing = k;
	}
	all = __syncthreads_and(missing == nr);
	*found = *shared;
	if (all)
		return rnl__pieces_of(found->bytes) <= nr;
	/* Fewer pieces than were read may be all of the request. */
	if (found->bytes == ~0u || rnl__pieces_of(found->bytes) >= nr)
		return false;
	return __syncthreads_and(missing >= rnl__pieces_of(found->bytes));
}

/* Runs the function on the request that has arrived, and writes its answer. */
template <int (*fn)(const struct rnl_request_view *view)>
static __device__ void rnl__lease_answer(struct rnl__lease_block *b,
					 const struct rnl__lease_args &args, uint32_t tag,
					 uint32_t bytes)
{
	struct rnl__mail_piece *to = args.answers + blockIdx.x * args.answer_pieces;
	const struct rnl_request_view view = {
		args.arg, b->in, args.out_bytes ? b->out : nullptr, bytes, args.out_bytes,
	};
	const uint32_t answer_pieces = rnl__pieces_of(args.out_bytes);
	const int result = fn(&view);

	__syncthreads();
	for (uint32_t i = threadIdx.x; i < answer_pieces; i += blockDim.x) {
		struct rnl__mail_piece piece = { { static_cast<uint32_t>(result), 0, 0 }, tag };

		for (unsigned j = 0; i && j < 3; j++)
			piece.payload[j] = b->out[3 * (i - 1) + j];
		rnl__piece_store(&to[i], piece);
	}
}

/*
 * Serves a mailbox until the lease is over.  Returns the number of the next request.  Only the first
 * mailbox is polled as a whole, while requests come; of the others only the head is polled.
 */
template <int (*fn)(const struct rnl_request_view *view)>
static __device__ uint64_t rnl__lease_serve(struct rnl__lease_block *b,
					    const struct rnl__lease_args &args)
{
	const uint64_t start = threadIdx.x ? 0 : rnl__device_now();
	const uint32_t next = static_cast<uint32_t>(args.lease) + 1;
	uint32_t usual = args.fixed_pieces ? args.fixed_pieces : 1, nr = blockIdx.x ? 1 : usual;
	uint64_t expected = b->expected, last = start;
	struct rnl__lease_found found;

	for (unsigned poll = 0;; poll ^= 1) {
		const uint32_t tag = static_cast<uint32_t>(expected);
		bool all;

		if (!threadIdx.x) {
			const uint64_t now = rnl__device_now();

			b->found[poll].over = now - start > args.lease_ns;
			b->found[poll].hot = !blockIdx.x && now - last < args.hot_ns;
			/* Looked for early, so that the last poll need not wait for it. */
			if (!b->passes && now - start > args.lease_ns / 2)
				b->passes = next && rnl__turn_came(&args.turns[blockIdx.x].came[next & 1]) == next;
		}
		all = rnl__lease_poll(b, args, tag, nr, &b->found[poll], &found);
		if (all) {
			rnl__lease_answer<fn>(b, args, tag, found.bytes);
			expected = rnl__request_after(expected);
			usual = rnl__pieces_of(found.bytes);
			last = threadIdx.x ? 0 : rnl__device_now();
		}
		if (found.over)
			return expected;
		if (!all && found.bytes != ~0u)
			nr = rnl__pieces_of(found.bytes);
		else
			nr = found.hot || (all && !blockIdx.x) ? usual : 1;
		if (!all && found.bytes == ~0u && nr == 1)
			__nanosleep(200);
	}
}

template <int (*fn)(const struct rnl_request_view *view)>
static __device__ void rnl__lease_run(const struct rnl__lease_args &args)
{
	__shared__ __align__(16) struct rnl__lease_block block;
	uint64_t expected;

	if (!threadIdx.x)
		rnl__lease_begin(&block, args);
	__syncthreads();
	rnl__lease_let();
	expected = block.closed ? block.expected : rnl__lease_serve<fn>(&block, args);
	rnl__lease_end(&block, args, expected);
	rnl__lease_follow();
}
#else
/* Not launched: it needs accesses of 128 bits. */
template <int (*fn)(const struct rnl_request_view *view)>
static __device__ void rnl__lease_run(const struct rnl__lease_args &)
{
}
#endif
#else
#define RNL__HAS_LEASES 0
#endif

/* Serves the request of this block of a batch. */
template <int (*fn)(const struct rnl_request_view *view)>
static __device__ void rnl__each_run(const struct rnl__each_args &args)
{
	const struct rnl_batch *batch = &args.batch;
	const uint32_t i = blockIdx.x;
	const char *in = static_cast<const char *>(batch->in);
	char *out = static_cast<char *>(batch->out);
	const struct rnl_request_view view = {
		batch->arg, in + (batch->spans ? batch->spans[i].offset : i * args.in_bytes),
		out ? out + static_cast<size_t>(i) * args.out_bytes : nullptr,
		batch->spans ? batch->spans[i].bytes : static_cast<uint32_t>(args.in_bytes),
		args.out_bytes,
	};
	const int result = fn(&view);

	if (!threadIdx.x)
		batch->status[i] = result;
}

#endif /* RUNNEL_LEASE_CUH */
