/* SPDX-License-Identifier: MIT */
/*
 * What producers and the consumer share: lots of chunks on their way from the
 * files to the counts.  gwc_pipe.c describes how.
 */
#ifndef GWC_PIPE_H
#define GWC_PIPE_H

#include <pthread.h>

#include "gwc.h"

#define GWC_LOT_CHUNKS 4
#define GWC_EXTENTS_MAX 512		/* files, or ends of files, in one chunk */

/* Some bytes of an input that are in a chunk, or the news that it is over. */
struct gwc_extent {
	struct gwc_input *in;
	uint64_t bytes;
	uint32_t offset;	/* of its text in the chunk */
	uint32_t nr_pieces;	/* of its text; 0: only the size matters */
	int err;
	unsigned flags;		/* enum gwc_part_flags */
};

struct gwc_chunk {
	struct rnl_job job;
	struct gwc_pipe *pipe;
	unsigned char *text;	/* pinned; behind it the pieces, then the summaries */
	size_t used;		/* of the text; a multiple of GWC_ALIGN */
	unsigned nr_pieces;
	unsigned nr_extents;
	struct gwc_extent extents[GWC_EXTENTS_MAX];
};

struct gwc_lot {
	struct rnl_barrier barrier;
	struct gwc_lot *next;
	bool taken;
	bool ready;
	int err;		/* the producer's; `what` failed */
	const char *what;
	unsigned nr_chunks;
	struct gwc_chunk chunks[GWC_LOT_CHUNKS];
};

struct gwc_producer {
	pthread_t thread;
	struct gwc_pipe *pipe;
	struct gwc_lot *lots;
	struct gwc_lot *lot;		/* being filled */
	struct gwc_chunk *chunk;	/* the same; NULL: the lot is fresh */
	const char *what;		/* failed */
	struct gwc_pipe_stats stats;
};

struct gwc_pipe {
	struct rnl_pool *pool;
	struct gwc_source *src;
	size_t chunk_bytes;
	size_t summaries_at;	/* where they are in a chunk's buffer */
	size_t buffer_bytes;
	bool only_sizes;
	uint32_t printable;
	unsigned nr_producers;
	unsigned nr_lots;	/* of each producer */
	struct gwc_producer *producers;

	pthread_mutex_t turn;

	pthread_mutex_t lock;
	pthread_cond_t ready;		/* the first lot is, or there are no more */
	pthread_cond_t moved;		/* a lot was given back, a stream was read */
	struct gwc_lot *head, **tail;
	unsigned nr_active;		/* producers */
	uint64_t nr_streams_read;

	/* The consumer's: where it is in the first lot. */
	struct gwc_lot *lot;
	unsigned chunk, extent, piece;
};

static inline size_t gwc_round_up(size_t n, size_t to)
{
	return (n + to - 1) / to * to;
}

static inline struct gwc_summary *gwc_summaries(const struct gwc_pipe *pipe, unsigned char *buffer)
{
	return (struct gwc_summary *)(void *)(buffer + pipe->summaries_at);
}

/* gwc_produce.c: the job of a chunk, and the main function of a producer. */
int gwc_count_chunk(struct rnl_job *job);
void *gwc_produce(void *producer);

#endif /* GWC_PIPE_H */
