/* SPDX-License-Identifier: MIT */
/*
 * An upper bound on the server's memory, printed at the start.
 *
 * DESIGN
 * The bound is the sum of all bounded parts: slots and their pinned memory, all allocated at the
 * start; a worker's memory for decoding and encoding, and, on the host device, its scratch;
 * connections, each with a head and libevent's buffers; bodies and answers, limited by --memory;
 * and BASE, the program itself.  Each term is a maximum: tests check that the server uses less.
 * CUDA's memory and the kernel's socket buffers are not included.
 */
#include "config.h"

#include "server.h"

#include <stdio.h>

#include <runnel/stats.h>

#define BASE (48u << 20)		/* the program, its threads, allocators */
#define WORKER_BYTES (4u << 20)		/* for libpng and zlib */
#define CONNECTION_BYTES (64u << 10)
#define MEGABYTE (1u << 20)

void bound_print(const struct server *server, bool cuda)
{
	const struct options *opt = &server->opt;
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	uint64_t slots, workers, connections, bodies;

	rnl_pool_read_stats(server->pool, RNL_ALL_WORKERS, &stats);
	slots = stats.pinned_locked + (uint64_t)opt->slots * sizeof(struct slot);
	/* When scratch grows, the old and the new memory exist for a moment. */
	workers = stats.nr_workers *
		  (WORKER_BYTES + (cuda ? 0 : 4 * (uint64_t)slot_buffer_bytes(opt)));
	/* A loop may exceed the limit by one connection. */
	connections = (uint64_t)(opt->connections + opt->loops) * CONNECTION_BYTES;
	/* For a moment a loop has two copies of a growing body, and an answer not yet counted. */
	bodies = opt->memory + FIGURES_BYTES +
		 opt->loops * ((uint64_t)opt->max_body + 2 * slot_buffer_bytes(opt));
	printf("memory: at most %llu MB%s: %llu for %u slots, %llu for %u workers, %llu for %u "
	       "connections, %llu for bodies and answers, %u for the program\n",
	       (unsigned long long)((slots + workers + connections + bodies + BASE) / MEGABYTE + 1),
	       cuda ? " and CUDA's memory" : "", (unsigned long long)(slots / MEGABYTE + 1),
	       opt->slots, (unsigned long long)(workers / MEGABYTE + 1), stats.nr_workers,
	       (unsigned long long)(connections / MEGABYTE + 1), opt->connections,
	       (unsigned long long)(bodies / MEGABYTE + 1), BASE / MEGABYTE);
}
