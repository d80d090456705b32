/* SPDX-License-Identifier: MIT */
/*
 * Counts lines and words on the CPU.
 *
 * DESIGN
 * 32 bytes of text become three masks with one bit per byte: newlines, spaces, and bytes that make
 * words.  The rest has no branches: the lines are the bits of the first mask; the words are the
 * bytes of the third mask that do not follow a byte of the same word.  One addition finds these
 * for all 32 bytes (gwc_entered()).  With SSE2, which every x86-64 has, the masks are made from 16
 * bytes at a time; other machines make them from four.
 *
 * A shorter block at the end is copied into a block of zeros, and the bits after the text are
 * cleared, which makes them neutral.
 */
#include "count.h"

#include <string.h>

#ifdef __SSE2__
#include <emmintrin.h>

#include <runnel/kernel.h>
#endif

#define BLOCK 32

struct masks {
	uint64_t newlines;
	uint64_t spaces;
	uint64_t words;
};

#ifdef __SSE2__
/* Returns 0xff for signed bytes from `low` to `high`; low - 1 and high + 1 must not wrap. */
static inline __m128i between(__m128i text, char low, char high)
{
	return _mm_and_si128(_mm_cmpgt_epi8(text, _mm_set1_epi8((char)(low - 1))),
			     _mm_cmplt_epi8(text, _mm_set1_epi8((char)(high + 1))));
}

static inline struct masks classify(const unsigned char *text, int printable)
{
	struct masks masks = { 0, 0, 0 };

	for (int i = 0; i < BLOCK; i += 16) {
		const __m128i part = _mm_loadu_si128((const __m128i *)(const void *)(text + i));
		const __m128i newlines = _mm_cmpeq_epi8(part, _mm_set1_epi8('\n'));
		const __m128i spaces = _mm_or_si128(between(part, '\t', '\r'),
						    _mm_cmpeq_epi8(part, _mm_set1_epi8(' ')));
		/* between() would wrap at 0x7f + 1.  Printable: all above ' ' except 0x7f. */
		const __m128i words =
			_mm_andnot_si128(_mm_cmpeq_epi8(part, _mm_set1_epi8(0x7f)),
					 _mm_cmpgt_epi8(part, _mm_set1_epi8(' ')));

		masks.newlines |= (uint64_t)(uint32_t)_mm_movemask_epi8(newlines) << i;
		masks.spaces |= (uint64_t)(uint32_t)_mm_movemask_epi8(spaces) << i;
		masks.words |= (uint64_t)(uint32_t)_mm_movemask_epi8(words) << i;
	}
	if (!printable)
		masks.words = masks.spaces ^ 0xffffffff;
	return masks;
}
#else
static inline struct masks classify(const unsigned char *text, int printable)
{
	struct masks masks = { 0, 0, 0 };

	for (int i = 0; i < BLOCK; i += 4) {
		const uint32_t part = (uint32_t)text[i] | (uint32_t)text[i + 1] << 8 |
				      (uint32_t)text[i + 2] << 16 | (uint32_t)text[i + 3] << 24;
		const struct gwc_flags flags = gwc_classify4(part, (uint32_t)printable);

		masks.newlines |= (uint64_t)gwc_mask4(flags.newlines) << i;
		masks.spaces |= (uint64_t)gwc_mask4(flags.spaces) << i;
		masks.words |= (uint64_t)gwc_mask4(flags.words) << i;
	}
	return masks;
}
#endif

/* Adds a block to the sum.  @inside: 1 if the text so far ends inside a word. */
static inline void add(struct gwc_summary *sum, uint64_t *inside, struct masks masks)
{
	const uint64_t entered = gwc_entered(masks.spaces, masks.words, *inside);

	sum->lines += (uint64_t)__builtin_popcountll(masks.newlines);
	sum->words += (uint64_t)__builtin_popcountll(masks.words & ~entered);
	*inside = entered >> BLOCK & 1;
	if (!sum->first && (masks.spaces | masks.words)) {
		const uint64_t lowest = (masks.spaces | masks.words) &
					-(masks.spaces | masks.words);

		sum->first = masks.words & lowest ? GWC_WORD : GWC_SPACE;
	}
}

static inline struct gwc_summary count(const unsigned char *text, size_t bytes, int printable)
{
	struct gwc_summary sum = { 0, 0, GWC_NEUTRAL, GWC_NEUTRAL };
	uint64_t inside = 0;

	for (; bytes >= BLOCK; text += BLOCK, bytes -= BLOCK)
		add(&sum, &inside, classify(text, printable));
	if (bytes) {
		const uint64_t valid = (UINT64_C(1) << bytes) - 1;
		unsigned char rest[BLOCK] = { 0 };
		struct masks masks;

		memcpy(rest, text, bytes);
		masks = classify(rest, printable);
		masks.newlines &= valid;
		masks.spaces &= valid;
		masks.words &= valid;
		add(&sum, &inside, masks);
	}
	if (sum.first)
		sum.last = inside ? GWC_WORD : GWC_SPACE;
	return sum;
}

struct gwc_summary gwc_count(const unsigned char *text, size_t bytes, int printable)
{
	/* Makes two copies of the loop, each with a constant rule. */
	return printable ? count(text, bytes, 1) : count(text, bytes, 0);
}

uint32_t gwc_cut(struct gwc_piece *pieces, size_t offset, size_t bytes)
{
	const uint32_t nr = gwc_nr_pieces(bytes);

	for (uint32_t i = 0; i < nr; i++, offset += GWC_PIECE, bytes -= GWC_PIECE) {
		pieces[i].offset = (uint32_t)offset;
		pieces[i].bytes = bytes < GWC_PIECE ? (uint32_t)bytes : GWC_PIECE;
	}
	return nr;
}

struct gwc_summary gwc_join_all(const struct gwc_summary *sums, uint32_t nr)
{
	struct gwc_summary sum = { 0, 0, GWC_NEUTRAL, GWC_NEUTRAL };

	for (uint32_t i = 0; i < nr; i++)
		sum = gwc_join(sum, sums[i]);
	return sum;
}

void gwc_count_grid(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct gwc_args *a = (const struct gwc_args *)args;

	(void)block;
	for (uint32_t i = 0; i < grid.x; i++)
		a->summaries[i] = gwc_count(a->text + a->pieces[i].offset, a->pieces[i].bytes,
					    (int)a->printable);
}
