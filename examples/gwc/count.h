/* SPDX-License-Identifier: MIT */
/* Counting lines and words: shared by the host function, the CUDA kernel and the programs. */
#ifndef GWC_COUNT_H
#define GWC_COUNT_H

#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/kernel.h>

#include "../common/shared.h"

SHARED_BEGIN

/*
 * The class of a byte.  A word is a run of text between spaces that contains at least one byte of
 * class WORD; a neutral byte does not start or end a word.  There are two rules: unprintable
 * bytes are neutral in coreutils before 9.4, and belong to class WORD in later versions.
 */
enum gwc_class {
	GWC_NEUTRAL = 0,
	GWC_SPACE = 1,
	GWC_WORD = 2,
};

/*
 * The counts of a piece of text.  gwc_join() joins the summaries of adjacent pieces.  It is
 * associative with { 0 } as its neutral element, so the text may be cut anywhere.
 */
struct gwc_summary {
	uint64_t lines;
	uint64_t words;
	uint32_t first;		/* enum gwc_class of the first non-neutral byte */
	uint32_t last;		/* ... and of the last non-neutral byte */
};

SHARED struct gwc_summary gwc_join(struct gwc_summary a, struct gwc_summary b)
{
	/* A word across the cut was counted in both pieces. */
	const int one_word = a.last == GWC_WORD && b.first == GWC_WORD;

	a.lines += b.lines;
	a.words += b.words - (uint64_t)one_word;
	a.first = a.first ? a.first : b.first;
	a.last = b.last ? b.last : a.last;
	return a;
}

/*
 * Returns a mask of the bytes that follow, directly or after neutral bytes, a byte of class WORD:
 * bit i for byte i; bit n for the text after n < 64 bytes.  Such a byte is "entered inside a word".
 * In all masks the lowest bit is for the first byte.
 * @spaces, @words: masks of the bytes of class SPACE and of class WORD.
 * @inside: 1 if the first byte is entered inside a word.
 *
 * After a byte of class WORD the text is inside a word, after a space it is not, and a neutral byte
 * changes nothing.  So "inside" is the carry of an addition: a WORD generates a carry, a space
 * absorbs it, and a neutral byte propagates it.
 */
SHARED uint64_t gwc_entered(uint64_t spaces, uint64_t words, uint64_t inside)
{
	return ~spaces ^ words ^ (~spaces + words + inside);
}

/* Packs four flags, each the top bit of a byte, into a mask of four bits. */
SHARED uint32_t gwc_mask4(uint32_t flags)
{
	return (((flags >> 7) & 0x01010101) * 0x01020408) >> 24;
}

struct gwc_flags {
	uint32_t newlines;
	uint32_t spaces;
	uint32_t words;
};

/*
 * Classifies four bytes at a time; each flag is the top bit of a byte.  Adding 0x80 - n to a
 * byte below 0x80 sets its top bit if the byte is n or more.
 */
SHARED struct gwc_flags gwc_classify4(uint32_t text, uint32_t printable)
{
	const uint32_t low = text & 0x7f7f7f7f;
	const uint32_t tab = low + 0x77777777;		/* '\t' or more */
	const uint32_t newline = low + 0x76767676;	/* '\n' or more */
	const uint32_t above_newline = low + 0x75757575;
	const uint32_t above_return = low + 0x72727272;
	const uint32_t space = low + 0x60606060;	/* ' ' or more */
	const uint32_t above_space = low + 0x5f5f5f5f;
	const uint32_t del = low + 0x01010101;		/* 0x7f */
	const uint32_t ascii = ~text & 0x80808080;
	struct gwc_flags flags;

	flags.newlines = newline & ~above_newline & ascii;
	flags.spaces = ((tab & ~above_return) | (space & ~above_space)) & ascii;
	flags.words = printable ? above_space & ~del & ascii : ~flags.spaces & 0x80808080;
	return flags;
}

/* The kernel's text is cut into pieces; each thread block counts one piece. */
#define GWC_PIECE 16384		/* bytes at most */
#define GWC_ALIGN 16		/* a piece starts at a multiple of this */
#define GWC_THREADS 256		/* per block */

static inline size_t gwc_align(size_t bytes)
{
	return (bytes + GWC_ALIGN - 1) / GWC_ALIGN * GWC_ALIGN;
}

struct gwc_piece {
	uint32_t offset;
	uint32_t bytes;		/* at least 1 */
};

struct gwc_args {
	const unsigned char *text;
	const struct gwc_piece *pieces;	/* one for each block of the grid */
	struct gwc_summary *summaries;	/* one for each block */
	uint32_t printable;		/* 1: unprintable bytes are neutral */
	uint32_t unused;
};

extern const struct rnl_kernel gwc_kernel;

static inline uint32_t gwc_nr_pieces(size_t bytes)
{
	return (uint32_t)((bytes + GWC_PIECE - 1) / GWC_PIECE);
}

/* Cuts the text at @offset into pieces.  Returns gwc_nr_pieces(@bytes). */
uint32_t gwc_cut(struct gwc_piece *pieces, size_t offset, size_t bytes);

/* Joins the summaries of adjacent pieces. */
struct gwc_summary gwc_join_all(const struct gwc_summary *sums, uint32_t nr);

/* Counts text on the CPU. */
struct gwc_summary gwc_count(const unsigned char *text, size_t bytes, int printable);

/* The kernel's host function. */
void gwc_count_grid(struct rnl_dim grid, struct rnl_dim block, const void *args);

SHARED_END
#endif /* GWC_COUNT_H */
