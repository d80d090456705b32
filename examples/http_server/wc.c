/* SPDX-License-Identifier: MIT */
/*
 * POST /wc: the lines, words and bytes of a body, as wc(1) has them.
 *
 * DESIGN
 * The kernel is gwc's: see gwc_count.h.  It wants the text cut into pieces, counts
 * each of them, and whoever has the summaries joins them.  The table of pieces
 * lies right behind the text, so that one copy takes both to the device:
 *
 *	in, device_in	text, pieces
 *	out, device_out	summaries
 */
#include "config.h"

#include "server.h"

#include <jansson.h>

#include "gwc_count.h"

static size_t nr_pieces(size_t bytes)
{
	return (bytes + GWC_PIECE - 1) / GWC_PIECE;
}

size_t wc_buffer_bytes(const struct options *opt)
{
	const size_t pieces = nr_pieces(opt->max_body);
	const size_t in = slot_align(opt->max_body) + pieces * sizeof(struct gwc_piece);
	const size_t out = pieces * sizeof(struct gwc_summary);

	return in > out ? in : out;
}

static void cut(const struct slot *slot, struct gwc_piece *pieces)
{
	for (size_t i = 0, at = 0; at < slot->bytes; i++, at += GWC_PIECE) {
		const size_t rest = slot->bytes - at;

		pieces[i].offset = (uint32_t)at;
		pieces[i].bytes = (uint32_t)(rest < GWC_PIECE ? rest : GWC_PIECE);
	}
}

static int wc_issue(struct slot *slot)
{
	const size_t pieces_at = slot_align(slot->bytes);
	const size_t nr = nr_pieces(slot->bytes);
	const struct gwc_args args = {
		.text = slot->device_in,
		.pieces = (const struct gwc_piece *)(void *)(slot->device_in + pieces_at),
		.summaries = (struct gwc_summary *)(void *)slot->device_out,
		.printable = RNL_WC_WORDS_PRINTABLE,
	};
	const struct rnl_dim grid = { (uint32_t)nr, 1, 1 };
	const struct rnl_dim block = { GWC_THREADS, 1, 1 };
	int ret;

	if (!nr)	/* an empty body: nothing is issued, and the job is done */
		return 0;
	cut(slot, (struct gwc_piece *)(void *)(slot->in + pieces_at));
	ret = rnl_copy(slot->device_in, slot->in, pieces_at + nr * sizeof(struct gwc_piece));
	if (!ret)
		ret = rnl_launch(&gwc_kernel, grid, block, &args);
	if (!ret)
		ret = rnl_copy(slot->out, slot->device_out, nr * sizeof(struct gwc_summary));
	return ret;
}

static const char *wc_write(struct slot *slot, struct evbuffer *out)
{
	const struct gwc_summary *sums = (const struct gwc_summary *)(void *)slot->out;
	const size_t nr = nr_pieces(slot->bytes);
	struct gwc_summary sum = { 0, 0, GWC_NEUTRAL, GWC_NEUTRAL };
	json_t *counts;

	for (size_t i = 0; i < nr; i++)
		sum = gwc_join(sum, sums[i]);
	counts = json_pack("{s:I, s:I, s:I}", "lines", (json_int_t)sum.lines,
			   "words", (json_int_t)sum.words, "bytes", (json_int_t)slot->bytes);
	return answer_json(counts, out);
}

const struct task wc_task = {
	.issue = wc_issue,
	.write = wc_write,
};
