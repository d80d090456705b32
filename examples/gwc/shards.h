/* SPDX-License-Identifier: MIT */
/* What the ranks of gwc_mpi take, and what they tell of it. */
#ifndef GWC_SHARDS_H
#define GWC_SHARDS_H

#include "gwc.h"

#define SHARD_INPUTS_MAX 1024

/* A run of inputs, of which the first and the last may be cut. */
struct shard {
	struct gwc_place from, to;
	bool stream;			/* one input that rank 0 has to read */
};

struct shards {
	struct shard *list;		/* in the order of the inputs: all of them, without a gap */
	unsigned nr;
	unsigned *shared;		/* the numbers of those that any rank may take */
	unsigned nr_shared;
};

/* Cuts the inputs into shards of @bytes: the same ones in each rank.  Dies without memory. */
void shards_cut(struct shards *shards, const struct gwc_inputs *inputs, uint64_t bytes);
void shards_free(struct shards *shards);

/* What a rank tells of one input, or of the piece of it that is in the shard. */
struct shard_count {
	struct gwc_summary sum;
	uint64_t bytes;
	int32_t err;			/* an errno: reading ended with it; or 0 */
	uint32_t opened;
};

struct shard_report {
	uint32_t shard;
	uint32_t nr;
	struct shard_count counts[SHARD_INPUTS_MAX];
};

static inline size_t shard_report_bytes(const struct shard_report *report)
{
	return offsetof(struct shard_report, counts) + report->nr * sizeof(report->counts[0]);
}

/*
 * Adds a part of a shard; parts come in order.  @report: with an nr of 0, it begins.
 * Return: whether that was the shard's last part.
 */
bool shard_report_add(struct shard_report *report, const struct shards *shards,
		      const struct gwc_inputs *inputs, const struct gwc_part *part);

/* Adds what the report tells to the tally.  Context: reports come in the order of the shards. */
void shard_report_tally(const struct shard_report *report, const struct shards *shards,
			const struct gwc_inputs *inputs, struct gwc_tally *tally);

#endif /* GWC_SHARDS_H */
