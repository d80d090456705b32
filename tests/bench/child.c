/* SPDX-License-Identifier: MIT */
/*
 * Runs measurements in child processes, and alternates between their variants.
 *
 * DESIGN
 *	Leftovers of one measurement would affect the next one: threads, streams, a CUDA context
 *	with its initial number of connections. Results that a child has sent are kept if it dies
 *	later.
 */
#include "bench.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

void bench_must(int good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "bench: %s: failed\n", what);
	_exit(EXIT_FAILURE);
}

void bench_rnl(int ret, const char *what)
{
	if (ret >= 0)
		return;
	fprintf(stderr, "bench: %s: %s (%d)\n", what, rnl_strerror(ret), ret);
	_exit(EXIT_FAILURE);
}

void *bench_alloc(size_t bytes)
{
	const size_t lines = (bytes + 63) / 64 * 64;
	void *mem = aligned_alloc(64, lines);

	bench_must(mem != NULL, "aligned_alloc");
	return memset(mem, 0, lines);
}

void bench_sleep_ms(unsigned ms)
{
	const struct timespec pause = {
		.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000
	};

	nanosleep(&pause, NULL);
}

/* ---- a process ----------------------------------------------------------- */

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

/* Reads a piece.  Returns true if it is complete. */
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
	size_t got = 0;
	pid_t child;

	fflush(NULL);
	if (pipe(ends)) {
		free(piece);
		return says("pipe: errno", errno, nr);
	}
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		alarm(patience_s);
		fn(arg, ends[1]);
		if (!bench_gpu_begin)
			exit(EXIT_SUCCESS);
		fflush(NULL);
		_exit(EXIT_SUCCESS);	/* skips CUDA's teardown */
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

/* ---- turns --------------------------------------------------------------- */

struct sample {
	const struct bench_way *way;
	void *arg;
	double values[BENCH_VALUES];
	bool notified;
};

static void measure(void *arg, int out)
{
	struct sample *one = arg;

	one->way->measure(one->arg, one->way->which, one->values);
	bench_tell(out, one->values, sizeof(one->values));
}

static void taken(void *arg, void *piece)
{
	struct sample *one = arg;

	memcpy(one->values, piece, sizeof(one->values));
	one->notified = true;
}

static void measure_apart(const struct bench_run *run, struct sample *one)
{
	int nr = 0;
	const char *what = bench_child(measure, taken, one, sizeof(one->values),
				       run->row->patience_s / 2, &nr);

	if (!what && one->notified)
		return;
	fprintf(stderr, "bench: %s, %s: %s %d\n", run->row->name, one->way->figures[0]->variant,
		what ? what : "bytes of figures:", nr);
	_exit(EXIT_FAILURE);
}

void bench_turns(const struct bench_run *run, const struct bench_way *ways, unsigned nr, void *arg)
{
	for (unsigned i = 0; i < run->runs * nr; i++) {
		const unsigned n = (i % nr + i / nr * run->row->shift) % nr;
		struct sample one = { .way = &ways[n], .arg = arg };

		if (one.way->off)
			continue;
		if (run->row->apart)
			measure_apart(run, &one);
		else
			one.way->measure(arg, one.way->which, one.values);
		for (unsigned k = 0; k < BENCH_VALUES; k++)
			if (one.way->figures[k])
				bench_add(one.way->figures[k], one.values[k]);
	}
}
