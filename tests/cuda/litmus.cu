/* SPDX-License-Identifier: MIT */
/* The device's side of the litmus tests, by the accesses of a GPU's leases; ../unit/litmus.c has the tests. */
#define RNL_NAMES_STREAM 1
#include <runnel/cuda.h>

#include "litmus.h"

#if RNL__HAS_LEASES
static __device__ void add(uint64_t *to, uint64_t nr)
{
	if (nr)
		atomicAdd_system(reinterpret_cast<unsigned long long *>(to), nr);
}

static __device__ struct rnl__mail_piece piece_of(uint32_t tag, uint32_t index)
{
	const struct rnl__mail_piece piece = {
		{ litmus_word(tag, index, 0), litmus_word(tag, index, 1), litmus_word(tag, index, 2) }, tag,
	};

	return piece;
}

static __device__ void put_by_words(struct rnl__mail_piece *at, const struct rnl__mail_piece &piece)
{
	volatile struct rnl__mail_piece *to = at;

	for (unsigned i = 0; i < 3; i++)
		to->payload[i] = piece.payload[i];
	to->tag = piece.tag;
}

static __device__ void read_pieces(const struct litmus_args &args)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	uint64_t changed = 0, wrong = 0;
	uint32_t last = args.first;

	for (uint32_t k = 0; k < args.steps; k++) {
		const struct rnl__mail_piece piece = rnl__piece_load(&args.pieces[i]);

		changed += piece.tag != last;
		wrong += !litmus_whole(&piece, i);
		last = piece.tag;
	}
	add(&args.found->observed, args.steps);
	add(&args.found->changed, changed);
	add(&args.found->wrong, wrong);
}

static __device__ void write_pieces(const struct litmus_args &args)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	for (uint32_t k = 1; k <= args.steps; k++) {
		const struct rnl__mail_piece piece = piece_of(args.first + k, i);

		if (args.broken)
			put_by_words(&args.pieces[i], piece);
		else
			rnl__piece_store(&args.pieces[i], piece);
	}
}

static __device__ __align__(16) struct rnl__lease_turn turns[64];	/* of boxes: device memory, like a batcher's */

static __device__ struct rnl__lease_args lease_of(const struct litmus_args &args, uint32_t number)
{
	struct rnl__lease_args lease = {};

	lease.words = args.words;
	lease.turns = turns;
	lease.lease = number;
	return lease;
}

static __device__ void store_status_load_gate(const struct litmus_args &args, struct rnl__lease_block *block)
{
	struct rnl__mailbox_words *words = &args.words[blockIdx.x];
	uint64_t *gates = args.gates + blockIdx.x * args.steps;

	for (uint32_t k = 1; k <= args.steps; k++) {
		if (args.broken) {
			rnl__word_store(&words->status, k << 1 | 1);
			gates[k - 1] = rnl__word_load(&words->gate) >> 1;
		} else {
			rnl__lease_announce(block, lease_of(args, k), 0);
			gates[k - 1] = block->expected;
		}
	}
}

static __device__ void write_answers(const struct litmus_args &args)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;

	for (uint32_t k = 1; k <= args.steps; k++) {
		if (args.broken && !threadIdx.x)
			rnl__word_store(&args.words[blockIdx.x].status, k << 1);
		rnl__piece_store(&args.pieces[i], piece_of(args.first + k, i));
		__syncthreads();
		if (!threadIdx.x)
			rnl__lease_retire(lease_of(args, k));
	}
}

/* The first block of a box has the odd leases, and passes its mailbox on. */
static __device__ void pass_answers(const struct litmus_args &args, struct rnl__lease_block *block)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	const struct rnl__mail_piece none = {};

	/* The second block waits for another tag than the last run has left here. */
	if (!threadIdx.x)
		rnl__piece_store(&turns[blockIdx.x].ended[0], none);
	for (uint32_t k = 1; k <= args.steps; k++) {
		struct rnl__lease_args lease = lease_of(args, 2 * k - 1);

		if (!threadIdx.x) {
			rnl__lease_begin(block, lease);
			block->passes = true;
		}
		__syncthreads();
		if (args.broken) {
			rnl__lease_end(block, lease, 0);
			/* The next block takes that long to write its status. */
			__nanosleep(2000);
		}
		rnl__piece_store(&args.pieces[i], piece_of(args.first + k, i));
		if (!args.broken)
			rnl__lease_end(block, lease, 0);
		__syncthreads();
	}
}

/* The second block of a box. */
static __device__ void retire_after_pass(const struct litmus_args &args, struct rnl__lease_block *block)
{
	for (uint32_t k = 1; k <= args.steps; k++) {
		struct rnl__lease_args lease = lease_of(args, 2 * k);

		if (!threadIdx.x)
			rnl__lease_begin(block, lease);
		rnl__lease_end(block, lease, 0);
		__syncthreads();
	}
}

static __device__ void read_gate(const struct litmus_args &args, struct rnl__lease_block *block)
{
	const uint32_t i = blockIdx.x * blockDim.x + threadIdx.x;
	uint64_t changed = 0, wrong = 0, last = 0;

	for (uint32_t k = 1; k <= args.steps; k++) {
		if (!threadIdx.x)
			rnl__lease_announce(block, lease_of(args, k), 0);
		__syncthreads();
		changed += block->expected != last;
		last = block->expected;
		wrong += rnl__piece_load(&args.pieces[i]).tag - args.first < last;
		__syncthreads();
	}
	add(&args.found->observed, args.steps);
	add(&args.found->changed, changed);
	add(&args.found->wrong, wrong);
}

static __global__ void litmus_cuda(struct litmus_args args)
{
	__shared__ __align__(16) struct rnl__lease_block block;

	switch (args.shape) {
	case LITMUS_DOWN:
		return read_pieces(args);
	case LITMUS_UP:
		return write_pieces(args);
	case LITMUS_DEKKER:
		return store_status_load_gate(args, &block);
	case LITMUS_ANSWERS:
		return write_answers(args);
	case LITMUS_PASSED:
		return blockIdx.y ? retire_after_pass(args, &block) : pass_answers(args, &block);
	default:
		return read_gate(args, &block);
	}
}
#else
/* Without leases the tests observe nothing. */
static __global__ void litmus_cuda(struct litmus_args)
{
}
#endif
RNL_KERNEL(litmus_kernel, NULL, litmus_cuda, struct litmus_args);
