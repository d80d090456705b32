/* SPDX-License-Identifier: MIT */
/*
 * The most memory that the server takes, printed at the start.
 *
 * DESIGN
 * It is the sum of what is bounded: slots and their pinned memory, all made at the start; what
 * a worker needs to decode and encode, and, on the host device, as scratch; connections, each
 * with a head and libevent's buffers; and bodies and answers, by --memory.  Each term is the most
 * that there can be, so the server uses less: the tests compare both.  BASE is the process itself;
 * what CUDA takes beside it is not known here, and the kernel has its socket buffers.
 */
#include "config.h"

#include "server.h"

#include <stdio.h>

#include <runnel/stats.h>

#define BASE (48u << 20)		/* the program, its threads, allocators */
#define WORKER_BYTES (4u << 20)		/* of libpng and zlib */
#define CONNECTION_BYTES (64u << 10)
#define MEGABYTE (1u << 20)

void bound_print(const struct server *server, bool cuda)
{
	const struct options *opt = &server->opt;
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	uint64_t slots, workers, connections, bodies;

	rnl_pool_read_stats(server->pool, RNL_ALL_WORKERS, &stats);
	slots = stats.pinned_locked + (uint64_t)opt->slots * sizeof(struct slot);
	/* Scratch grows from none: for a moment there is the old and the new one. */
	workers = stats.nr_workers *
		  (WORKER_BYTES + (cuda ? 0 : 4 * (uint64_t)slot_buffer_bytes(opt)));
	/* A loop may accept one more than it sees. */
	connections = (uint64_t)(opt->connections + opt->loops) * CONNECTION_BYTES;
	/* For a moment a loop has a body that grows twice, and an answer that is not counted. */
	bodies = opt->memory + FIGURES_BYTES +
		 opt->loops * ((uint64_t)opt->max_body + 2 * slot_buffer_bytes(opt));
	printf("memory: at most %llu MB%s: %llu for %u slots, %llu for %u workers, %llu for %u "
	       "connections, %llu for bodies and answers, %u for the program\n",
	       (unsigned long long)((slots + workers + connections + bodies + BASE) / MEGABYTE + 1),
	       cuda ? " and what CUDA takes" : "", (unsigned long long)(slots / MEGABYTE + 1),
	       opt->slots, (unsigned long long)(workers / MEGABYTE + 1), stats.nr_workers,
	       (unsigned long long)(connections / MEGABYTE + 1), opt->connections,
	       (unsigned long long)(bodies / MEGABYTE + 1), BASE / MEGABYTE);
}
