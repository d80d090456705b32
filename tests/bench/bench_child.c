/* SPDX-License-Identifier: MIT */
/*
 * A measurement in a process of its own, which tells its figures through a pipe.
 *
 * DESIGN
 *	One measurement's leftovers would be the next one's surroundings: threads,
 *	streams, a CUDA context with the number of connections that it began with.
 *	And what a child has told is kept if it dies later.
 */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void bench_must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "%s: %s: failed\n", bench_name, what);
	_exit(EXIT_FAILURE);
}

void *bench_alloc(size_t bytes)
{
	const size_t lines = (bytes + 63) / 64 * 64;
	void *mem = aligned_alloc(64, lines);

	bench_must(mem != NULL, "aligned_alloc");
	return memset(mem, 0, lines);
}

void bench_tell(int out, const void *piece, size_t bytes)
{
	const char *at = piece;

	while (bytes) {
		const ssize_t nr = write(out, at, bytes);

		if (nr < 0 && errno == EINTR)
			continue;
		bench_must(nr > 0, "write to the pipe");
		at += nr;
		bytes -= (size_t)nr;
	}
}

/* Return: whether a whole piece came. */
static bool take(int from, char *piece, size_t bytes, size_t *got)
{
	ssize_t nr;

	*got = 0;
	while (*got < bytes && ((nr = read(from, piece + *got, bytes - *got)) > 0 ||
				(nr < 0 && errno == EINTR)))
		*got += nr > 0 ? (size_t)nr : 0;
	return *got == bytes;
}

static const char *says(const char *what, int value, int *nr)
{
	*nr = value;
	return what;
}

const char *bench_child(void (*fn)(void *arg, int out), void (*taken)(void *arg, void *piece),
			void *arg, size_t bytes, unsigned patience_s, int *nr)
{
	char *piece = bench_alloc(bytes);
	int ends[2], status;
	size_t got;
	pid_t child;

	fflush(NULL);
	if (pipe(ends)) {
		free(piece);
		return says("pipe: errno", errno, nr);
	}
	child = fork();
	if (!child) {
		close(ends[0]);
		alarm(patience_s);
		fn(arg, ends[1]);
		exit(EXIT_SUCCESS);
	}
	close(ends[1]);
	while (child > 0 && take(ends[0], piece, bytes, &got))
		taken(arg, piece);
	close(ends[0]);
	free(piece);
	if (child < 0)
		return says("fork: errno", errno, nr);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return says("waitpid: errno", errno, nr);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
		return says("it hangs: its seconds were", (int)patience_s, nr);
	if (WIFSIGNALED(status))
		return says("it died of signal", WTERMSIG(status), nr);
	if (WEXITSTATUS(status))
		return says("it ended with status", WEXITSTATUS(status), nr);
	return got ? says("bytes of figures:", (int)got, nr) : NULL;
}
