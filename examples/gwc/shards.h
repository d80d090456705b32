/* SPDX-License-Identifier: MIT */
/* The shards that gwc_mpi's ranks take, and the ranks' reports. */
#ifndef GWC_SHARDS_H
#define GWC_SHARDS_H

#include "gwc.h"

#define SHARD_INPUTS_MAX 1024

/* Consecutive inputs; the first and the last one may be cut. */
struct shard {
	struct gwc_place from, to;
	bool stream;			/* one input that rank 0 must read */
};

struct shards {
	struct shard *list;		/* in the order of the inputs, without gaps */
	unsigned nr;
	unsigned *shared;		/* the numbers of the shards that any rank may take */
	unsigned nr_shared;
};

/* Cuts the inputs into shards of @bytes, equally in each rank.  Dies if out of memory. */
void shards_cut(struct shards *shards, const struct gwc_inputs *inputs, uint64_t bytes);
void shards_free(struct shards *shards);

/* A rank's report of one input, or of the input's piece in the shard. */
struct shard_count {
	struct gwc_summary sum;
	uint64_t bytes;
	int32_t err;			/* an errno that ended the reading, or 0 */
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
 * Adds a part of a shard; call it for the parts in order.  @report: empty if its nr is 0.  Returns
 * true if this was the shard's last part.
 */
bool shard_report_add(struct shard_report *report, const struct shards *shards,
		      const struct gwc_inputs *inputs, const struct gwc_part *part);

/* Adds a report to the tally.  Context: call it for reports in the order of the shards. */
void shard_report_tally(const struct shard_report *report, const struct shards *shards,
			const struct gwc_inputs *inputs, struct gwc_tally *tally);

#endif /* GWC_SHARDS_H */
