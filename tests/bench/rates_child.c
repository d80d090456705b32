/* SPDX-License-Identifier: MIT */
/*
 * A measurement in a process of its own, which tells its figures through a pipe.
 *
 * DESIGN
 *	libuv's pool, OpenMP's and oneTBB's threads are their process', and one
 *	measurement's leftovers would be the next one's surroundings.  The parent
 *	makes no thread and no pool, so fork() is enough.
 */
#include "rates.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATIENCE_S 900		/* then a child hangs */

static const char *const measures[RATES_MEASURES] = {
	[RATES_THROUGHPUT] = "throughput",
	[RATES_HANDOFF] = "submit to start",
	[RATES_RETURN] = "submit to return",
	[RATES_BURST] = "bursts",
	[RATES_FORK_JOIN] = "fork and join",
};

void rates_must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "rates: %s: failed\n", what);
	_exit(EXIT_FAILURE);
}

void *rates_alloc(size_t bytes)
{
	const size_t lines = (bytes + 63) / 64 * 64;
	void *mem = aligned_alloc(64, lines);

	rates_must(mem != NULL, "aligned_alloc");
	return memset(mem, 0, lines);
}

static bool complain(const struct rates_peer *peer, const struct rates_cell *cell, const char *what,
		     int nr)
{
	fprintf(stderr, "rates: %s, %s, %u workers, %u producers: %s %d\n", peer->name,
		measures[cell->measure], cell->config.workers, cell->config.producers, what, nr);
	return false;
}

bool rates_child(const struct rates_peer *peer, const struct rates_cell *cell,
		 enum rates_wrong wrong, double *figures)
{
	const size_t bytes = RATES_FIGURES * sizeof(*figures);
	size_t got = 0;
	ssize_t nr;
	int ends[2], status;
	pid_t child;

	fflush(NULL);
	if (pipe(ends))
		return complain(peer, cell, "pipe: errno", errno);
	child = fork();
	if (child < 0)
		return complain(peer, cell, "fork: errno", errno);
	if (!child) {
		close(ends[0]);
		alarm(PATIENCE_S);
		rates_measure(peer, cell, wrong, figures);
		rates_must(write(ends[1], figures, bytes) == (ssize_t)bytes, "write to the pipe");
		exit(EXIT_SUCCESS);
	}
	close(ends[1]);
	while (got < bytes && ((nr = read(ends[0], (char *)figures + got, bytes - got)) > 0 ||
			       (nr < 0 && errno == EINTR)))
		got += nr > 0 ? (size_t)nr : 0;
	close(ends[0]);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return complain(peer, cell, "waitpid: errno", errno);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		return complain(peer, cell, "it hangs: its seconds were", PATIENCE_S);
	if (WIFSIGNALED(status))
		return complain(peer, cell, "it died of signal", WTERMSIG(status));
	if (WEXITSTATUS(status))
		return complain(peer, cell, "it ended with status", WEXITSTATUS(status));
	return got == bytes || complain(peer, cell, "bytes of figures:", (int)got);
}
