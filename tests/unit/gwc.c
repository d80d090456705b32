/* SPDX-License-Identifier: MIT */
/*
 * Counting in examples/gwc: the arithmetic that its host function and its CUDA kernel share, and
 * the code for machines without SSE2, which cli/gwc does not run on x86.
 */
#undef __SSE2__
#include <runnel/kernel.h>

#include "examples/gwc/count.c"

#include "suite.h"

static uint32_t seed = 1;

static unsigned draw(unsigned below)
{
	seed = seed * 1664525 + 1013904223;
	return (unsigned)((uint64_t)seed * below >> 32);
}

static enum gwc_class class_of(unsigned char c, int printable)
{
	if (c == ' ' || (c >= '\t' && c <= '\r'))
		return GWC_SPACE;
	return !printable || (c > ' ' && c < 0x7f) ? GWC_WORD : GWC_NEUTRAL;
}

/* The reference: counts byte by byte. */
static struct gwc_summary count_plainly(const unsigned char *text, size_t bytes, int printable)
{
	struct gwc_summary sum = { 0, 0, GWC_NEUTRAL, GWC_NEUTRAL };

	for (size_t i = 0; i < bytes; i++) {
		const enum gwc_class class = class_of(text[i], printable);

		if (text[i] == '\n')
			sum.lines++;
		if (class == GWC_NEUTRAL)
			continue;
		if (class == GWC_WORD && sum.last != GWC_WORD)
			sum.words++;
		if (sum.first == GWC_NEUTRAL)
			sum.first = class;
		sum.last = class;
	}
	return sum;
}

/* Like ck_assert(); Check records every assertion, which takes longer than the counting. */
#define must_hold(condition) \
	do { \
		if (!(condition)) \
			ck_abort_msg("does not hold: " #condition); \
	} while (0)

static void assert_same(struct gwc_summary a, struct gwc_summary b)
{
	must_hold(a.lines == b.lines);
	must_hold(a.words == b.words);
	must_hold(a.first == b.first);
	must_hold(a.last == b.last);
}

/* Texts: all bytes; few words; few spaces; nearly all neutral. */
static size_t make_text(unsigned char *text, size_t size)
{
	static const char *const alphabets[] = { "", "a \n\t\1\200", "aaaaaa\377 ", "\1\2\200\1\1\1a " };
	const char *alphabet = alphabets[draw(4)];
	const unsigned nr = (unsigned)strlen(alphabet);
	const size_t bytes = draw((unsigned)size + 1);

	for (size_t i = 0; i < bytes; i++)
		text[i] = (unsigned char)(nr ? alphabet[draw(nr)] : (char)draw(256));
	return bytes;
}

TEST(every_byte_has_its_class_whatever_is_beside_it, .loops = 2)
{
	for (unsigned c = 0; c < 256; c++) {
		for (unsigned beside = 0; beside < 256; beside++) {
			const unsigned char bytes[4] = { (unsigned char)beside, (unsigned char)c,
							 (unsigned char)~beside,
							 (unsigned char)beside };
			const uint32_t text = bytes[0] | (uint32_t)bytes[1] << 8 |
					      (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24;
			const struct gwc_flags flags = gwc_classify4(text, (uint32_t)_i);

			for (int i = 0; i < 4; i++) {
				const enum gwc_class class = class_of(bytes[i], _i);

				must_hold((gwc_mask4(flags.newlines) >> i & 1) ==
					  (bytes[i] == '\n'));
				must_hold((gwc_mask4(flags.spaces) >> i & 1) ==
					  (class == GWC_SPACE));
				must_hold((gwc_mask4(flags.words) >> i & 1) ==
					  (class == GWC_WORD));
			}
		}
	}
}

TEST(words_are_entered_and_left_through_neutral_bytes)
{
	for (int n = 0; n < 20000; n++) {
		const unsigned bits = 1 + draw(40);
		const uint64_t inside = draw(2);
		uint64_t spaces = 0, words = 0, in = inside, entered;

		for (unsigned i = 0; i < bits; i++) {
			const unsigned class = draw(3);

			spaces |= (uint64_t)(class == GWC_SPACE) << i;
			words |= (uint64_t)(class == GWC_WORD) << i;
		}
		entered = gwc_entered(spaces, words, inside);
		for (unsigned i = 0; i <= bits; i++) {
			must_hold((entered >> i & 1) == in);
			in = (words >> i & 1) | (in & ~(spaces >> i));
		}
	}
}

TEST(text_is_counted_as_byte_by_byte, .loops = 2)
{
	unsigned char text[300];

	for (int n = 0; n < 20000; n++) {
		const size_t bytes = make_text(text, sizeof(text));

		assert_same(gwc_count(text, bytes, _i), count_plainly(text, bytes, _i));
	}
}

TEST(text_may_be_cut_anywhere_and_joined_in_any_grouping, .loops = 2)
{
	unsigned char text[100];

	for (int n = 0; n < 20000; n++) {
		const size_t bytes = make_text(text, sizeof(text));
		const size_t second = draw((unsigned)bytes + 1);
		const size_t first = draw((unsigned)second + 1);
		const struct gwc_summary whole = count_plainly(text, bytes, _i);
		const struct gwc_summary a = gwc_count(text, first, _i);
		const struct gwc_summary b = gwc_count(text + first, second - first, _i);
		const struct gwc_summary c = gwc_count(text + second, bytes - second, _i);

		assert_same(gwc_join(gwc_join(a, b), c), whole);
		assert_same(gwc_join(a, gwc_join(b, c)), whole);
	}
}

TEST(a_grid_counts_each_of_its_pieces, .loops = 2)
{
	unsigned char text[4096];
	struct gwc_piece pieces[16];
	struct gwc_summary sums[16];
	const struct gwc_args args = { text, pieces, sums, (uint32_t)_i, 0 };
	const struct rnl_dim grid = { 16, 1, 1 }, block = { GWC_THREADS, 1, 1 };

	make_text(memset(text, 'x', sizeof(text)), sizeof(text));
	for (unsigned i = 0; i < 16; i++) {
		pieces[i].offset = draw(3000 / GWC_ALIGN) * GWC_ALIGN;
		pieces[i].bytes = 1 + draw(1000);
	}
	gwc_count_grid(grid, block, &args);
	for (unsigned i = 0; i < 16; i++)
		assert_same(sums[i], count_plainly(text + pieces[i].offset, pieces[i].bytes, _i));
}
