/* SPDX-License-Identifier: MIT */
/*
 * The shards of the inputs, and the report of a shard.
 *
 * DESIGN
 * A shard is some small files, or a piece of a large one.  Its bounds depend only on the list of
 * inputs, so each rank computes them without communication, and a number identifies a shard.  Each
 * stream is one shard, which only rank 0 reads, because other hosts cannot: standard input is not
 * theirs, and a pipe or a file of /proc has other contents there.
 *
 * A report has a summary for each input of the shard.  gwc_join() is associative, so the tally
 * adds these summaries like the parts of a file that one machine has read.
 */
#include "config.h"

#include "common/program.h"
#include "shards.h"

#include <errno.h>
#include <stdlib.h>

/* ---- cutting ------------------------------------------------------------- */

/* Adds the shard from *@from to @to, unless it is empty. */
static void end_shard(struct shards *shards, struct gwc_place *from, struct gwc_place to,
		      bool stream)
{
	if (from->input == to.input && from->offset == to.offset)
		return;
	if (!(shards->nr & (shards->nr - 1))) {		/* the lists double */
		const size_t nr = shards->nr ? 2 * (size_t)shards->nr : 1;

		shards->list = realloc(shards->list, nr * sizeof(*shards->list));
		shards->shared = realloc(shards->shared, nr * sizeof(*shards->shared));
		program_must(shards->list && shards->shared ? 0 : -ENOMEM, "the shards");
	}
	if (!stream)
		shards->shared[shards->nr_shared++] = shards->nr;
	shards->list[shards->nr++] = (struct shard){ *from, to, stream };
	*from = to;
}

void shards_cut(struct shards *shards, const struct gwc_inputs *inputs, uint64_t bytes)
{
	struct gwc_place from = { 0, 0 };	/* start of the shard */
	uint64_t used = 0;			/* bytes in it */

	*shards = (struct shards){ .nr = 0 };
	for (unsigned i = 0; i < inputs->nr; i++) {
		const struct gwc_input *in = &inputs->list[i];
		uint64_t offset = 0;

		if (in->stream || i - from.input == SHARD_INPUTS_MAX) {
			end_shard(shards, &from, (struct gwc_place){ i, 0 }, false);
			used = 0;
		}
		for (; in->size - offset > bytes - used; used = 0) {
			offset += bytes - used;
			end_shard(shards, &from, (struct gwc_place){ i, offset }, false);
		}
		used += in->size - offset;
		if (in->stream || used == bytes) {
			end_shard(shards, &from, (struct gwc_place){ i + 1, 0 }, in->stream);
			used = 0;
		}
	}
	end_shard(shards, &from, (struct gwc_place){ inputs->nr, 0 }, false);
}

void shards_free(struct shards *shards)
{
	free(shards->list);
	free(shards->shared);
}

/* ---- reports ------------------------------------------------------------- */

bool shard_report_add(struct shard_report *report, const struct shards *shards,
		      const struct gwc_inputs *inputs, const struct gwc_part *part)
{
	const unsigned input = (unsigned)(part->in - inputs->list);
	const unsigned at = input - shards->list[part->shard].from.input;
	struct shard_count *count = &report->counts[at];

	report->shard = part->shard;
	if (at == report->nr) {
		*count = (struct shard_count){ .bytes = 0 };
		report->nr++;
	}
	if (!count->err) {		/* after an error, later parts are ignored */
		count->sum = gwc_join(count->sum, part->sum);
		count->bytes += part->bytes;
		count->err = part->err;
	}
	count->opened = part->opened;
	return part->in->stream ? part->last : part->ends;
}

void shard_report_tally(const struct shard_report *report, const struct shards *shards,
			const struct gwc_inputs *inputs, struct gwc_tally *tally)
{
	const struct shard *shard = &shards->list[report->shard];

	for (unsigned i = 0; i < report->nr; i++) {
		const struct shard_count *count = &report->counts[i];
		const unsigned input = shard->from.input + i;
		const struct gwc_part part = {
			.in = &inputs->list[input],
			.sum = count->sum,
			.bytes = (size_t)count->bytes,
			.err = count->err,
			.opened = count->opened,
			.last = input < shard->to.input,	/* else the next shard has more */
		};

		gwc_tally_add(tally, &part);
	}
}
