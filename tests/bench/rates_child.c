/* SPDX-License-Identifier: MIT */
/*
 * A measurement in a process of its own.
 *
 * DESIGN
 *	libuv's pool, OpenMP's and oneTBB's threads are their process'.
 */
#include "rates.h"

#include <string.h>

#define PATIENCE_S 900		/* then a child hangs */

static const char *const measures[RATES_MEASURES] = {
	[RATES_THROUGHPUT] = "throughput",
	[RATES_HANDOFF] = "submit to start",
	[RATES_RETURN] = "submit to return",
	[RATES_BURST] = "bursts",
	[RATES_FORK_JOIN] = "fork and join",
};

struct task {
	const struct rates_peer *peer;
	const struct rates_cell *cell;
	enum rates_wrong wrong;
	double *figures;
	bool told;
};

static void measure(void *arg, int out)
{
	const struct task *task = arg;

	rates_measure(task->peer, task->cell, task->wrong, task->figures);
	bench_tell(out, task->figures, RATES_FIGURES * sizeof(*task->figures));
}

static void taken(void *arg, void *piece)
{
	struct task *task = arg;

	memcpy(task->figures, piece, RATES_FIGURES * sizeof(*task->figures));
	task->told = true;
}

bool rates_child(const struct rates_peer *peer, const struct rates_cell *cell,
		 enum rates_wrong wrong, double *figures)
{
	struct task task = { peer, cell, wrong, figures, false };
	int nr = 0;
	const char *what = bench_child(measure, taken, &task, RATES_FIGURES * sizeof(*figures),
				       PATIENCE_S, &nr);

	if (!what && task.told)
		return true;
	fprintf(stderr, "rates: %s, %s, %u workers, %u producers: %s %d\n", peer->name,
		measures[cell->measure], cell->config.workers, cell->config.producers,
		what ? what : "bytes of figures:", nr);
	return false;
}
