/* SPDX-License-Identifier: MIT */
/*
 * The counting kernel.
 *
 * DESIGN
 * A thread block counts one piece of text.  Each of its warps counts one eighth of the piece, 512
 * bytes at a time: each lane loads 16 bytes, next to its neighbour's.  About the preceding text, a
 * lane needs only one bit: whether the text ends inside a word.  Two ballots give this bit to all
 * lanes: one says which lanes have a non-neutral byte, the other whether the last such byte of each
 * lane makes a word.  A lane reads the bit of the nearest lower lane with such a byte.  At the end
 * each warp has a summary, and one thread joins the eight.
 *
 * Loads may go past the piece, up to the next multiple of 16.  The buffer is long enough, and the
 * masks exclude these bytes.
 */
#include <runnel/cuda.h>

#include "count.h"

#define WARPS (GWC_THREADS / 32)
#define ROUNDS (GWC_PIECE / GWC_THREADS / 16)
#define ALL_LANES 0xffffffffu

static_assert(WARPS * 32 * ROUNDS * 16 == GWC_PIECE, "the threads share the piece evenly");

struct masks {
	uint32_t newlines;
	uint32_t spaces;
	uint32_t words;
};

static __device__ __forceinline__ struct masks classify(const uint4 text, uint32_t bytes,
							uint32_t printable)
{
	const uint32_t parts[4] = { text.x, text.y, text.z, text.w };
	const uint32_t valid = (1u << bytes) - 1;
	struct masks masks = { 0, 0, 0 };

#pragma unroll
	for (int i = 0; i < 4; i++) {
		const struct gwc_flags flags = gwc_classify4(parts[i], printable);

		masks.newlines |= gwc_mask4(flags.newlines) << 4 * i;
		masks.spaces |= gwc_mask4(flags.spaces) << 4 * i;
		masks.words |= gwc_mask4(flags.words) << 4 * i;
	}
	masks.newlines &= valid;
	masks.spaces &= valid;
	masks.words &= valid;
	return masks;
}

/* Returns the bit of `mask` at the highest set bit of `where`, which must not be 0. */
static __device__ __forceinline__ uint32_t at_highest(uint32_t mask, uint32_t where)
{
	return mask >> (31 - __clz((int)where)) & 1;
}

static __device__ __forceinline__ uint32_t at_lowest(uint32_t mask, uint32_t where)
{
	return mask >> (__ffs((int)where) - 1) & 1;
}

static __device__ __forceinline__ uint32_t warp_sum(uint32_t n)
{
#pragma unroll
	for (int distance = 16; distance; distance /= 2)
		n += __shfl_xor_sync(ALL_LANES, n, distance);
	return n;
}

static __global__ void __launch_bounds__(GWC_THREADS) count_piece(const struct gwc_args args)
{
	__shared__ struct gwc_summary warps[WARPS];
	const struct gwc_piece piece = args.pieces[blockIdx.x];
	const uint32_t lane = threadIdx.x % 32;
	const uint32_t warp = threadIdx.x / 32;
	const uint32_t lanes_below = (1u << lane) - 1;
	const uint32_t start = warp * (ROUNDS * 512) + lane * 16;
	uint32_t lines = 0, words = 0;
	uint32_t first = GWC_NEUTRAL, inside = 0;
	uint4 text[ROUNDS];

	/* Issue all loads before the first use, to overlap their latencies. */
#pragma unroll
	for (int i = 0; i < ROUNDS; i++) {
		const uint32_t at = start + i * 512;

		text[i] = make_uint4(0, 0, 0, 0);
		if (at < piece.bytes)
			text[i] = *(const uint4 *)(args.text + piece.offset + at);
	}
#pragma unroll
	for (int i = 0; i < ROUNDS; i++) {
		const uint32_t at = start + i * 512;
		const uint32_t bytes = at < piece.bytes ? min(piece.bytes - at, 16u) : 0;
		const struct masks m = classify(text[i], bytes, args.printable);
		const uint32_t some = m.spaces | m.words;
		const uint32_t lanes = __ballot_sync(ALL_LANES, some != 0);
		const uint32_t in_word = __ballot_sync(ALL_LANES,
						       some && at_highest(m.words, some));
		const uint32_t below = lanes & lanes_below;
		const uint32_t enter = below ? at_highest(in_word, below) : inside;
		const uint32_t entered = (uint32_t)gwc_entered(m.spaces, m.words, enter);

		lines += __popc(m.newlines);
		words += __popc(m.words & ~entered);
		if (!first && lanes) {	/* uniform: the same in all lanes */
			const uint32_t on_word = __ballot_sync(ALL_LANES,
							       some && at_lowest(m.words, some));

			first = at_lowest(on_word, lanes) ? GWC_WORD : GWC_SPACE;
		}
		if (lanes)
			inside = at_highest(in_word, lanes);
	}
	lines = warp_sum(lines);
	words = warp_sum(words);
	if (!lane) {
		warps[warp].lines = lines;
		warps[warp].words = words;
		warps[warp].first = first;
		warps[warp].last = !first ? GWC_NEUTRAL : inside ? GWC_WORD : GWC_SPACE;
	}
	__syncthreads();
	if (!threadIdx.x) {
		struct gwc_summary sum = warps[0];

		for (int i = 1; i < WARPS; i++)
			sum = gwc_join(sum, warps[i]);
		args.summaries[blockIdx.x] = sum;
	}
}

RNL_KERNEL(gwc_kernel, gwc_count_grid, count_piece, struct gwc_args);
