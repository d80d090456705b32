/* SPDX-License-Identifier: MIT */
/*
 * The row processes: J per second of one process, of four on one GPU, and of four under MPS.
 *
 * DESIGN
 *	Without MPS a GPU runs the work of one process at a time. Each process has few threads, so
 *	that the CPUs are not what is measured. All processes of a measurement start CUDA and do a
 *	short run; then they all begin, and each sends its rate through its pipe. The figure is the
 *	sum. The control daemon is this row's, in a folder of its own.
 */
#include "gpu/work.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define PROCESSES 4u
#define THREADS 2u		/* of a process, or its pool's workers */
#define REQUESTS 128u		/* for each worker */

enum { ONE, FOUR, FOUR_MPS, LINES };

struct bench {
	const struct bench_options *opt;
	struct gpu_mps mps;
};

/* ---- a process ------------------------------------------------------------ */

/* Waits until all processes are ready: then the parent closes the pipe. */
static void await_others(int out, int go)
{
	const double ready = 0;
	char none;

	bench_tell(out, &ready, sizeof(ready));
	bench_must(read(go, &none, 1) == 0, "the begin of all processes");
}

static double run_by_hand(const struct bench_options *opt, int out, int go)
{
	static const struct gpu_hand_variant events = { GPU_EVENT, 8, 64, 0 };
	struct gpu_team *team = gpu_team_start(opt->info.ordinal, RNL_STREAM_PER_THREAD, THREADS,
					       gpu_issue_j, true);

	(void)gpu_team_rate(team, &events, opt->screen_ms);
	await_others(out, go);
	return gpu_team_rate(team, &events, opt->run_ms);
}

static double run_pool(const struct bench_options *opt, int out, int go)
{
	struct rnl_pool *pool = gpu_pool(opt->device, RNL_STREAM_PER_THREAD, THREADS, NULL);
	struct gpu_request *requests = gpu_requests(THREADS * REQUESTS);

	(void)gpu_pool_rate(pool, requests, THREADS * REQUESTS, GPU_CQ_MANY, 1, opt->screen_ms);
	await_others(out, go);
	return gpu_pool_rate(pool, requests, THREADS * REQUESTS, GPU_CQ_MANY, 1, opt->run_ms);
}

static _Noreturn void run_process(const struct bench_options *opt, bool by_hand, int out, int go)
{
	double rate;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	gpu_setup();
	gpu_begin(opt->info.ordinal);
	rate = by_hand ? run_by_hand(opt, out, go) : run_pool(opt, out, go);
	bench_tell(out, &rate, sizeof(rate));
	fflush(NULL);
	_exit(EXIT_SUCCESS);	/* skips CUDA's teardown */
}

/* ---- processes at the same time ---------------------------------------------- */

struct process {
	pid_t pid;
	int from;
};

static double take(const struct process *process)
{
	double rate = 0;

	bench_must(read(process->from, &rate, sizeof(rate)) == sizeof(rate), "a process");
	return rate;
}

static void start(struct process *process, const struct bench_options *opt, bool by_hand, const int go[2])
{
	int ends[2];

	bench_must(!pipe(ends), "pipe");
	process->pid = fork();
	bench_must(process->pid >= 0, "fork");
	if (!process->pid) {
		close(go[1]);
		run_process(opt, by_hand, ends[1], go[0]);
	}
	close(ends[1]);
	process->from = ends[0];
}

/* Returns thousands of J per second of all processes. */
static double run_processes(const struct bench_options *opt, unsigned nr, bool by_hand)
{
	struct process processes[PROCESSES];
	double sum = 0;
	int go[2];

	bench_must(!pipe(go), "pipe");
	for (unsigned i = 0; i < nr; i++)
		start(&processes[i], opt, by_hand, go);
	for (unsigned i = 0; i < nr; i++)
		(void)take(&processes[i]);
	close(go[1]);
	for (unsigned i = 0; i < nr; i++)
		sum += take(&processes[i]);
	for (unsigned i = 0; i < nr; i++) {
		int status = 1;

		bench_must(waitpid(processes[i].pid, &status, 0) > 0 && !status, "a process's end");
		close(processes[i].from);
	}
	close(go[0]);
	return 1e-3 * sum;
}

/* ---- the row ------------------------------------------------------------- */

/* A line has two ways, the first by hand. */
static void measure(void *arg, unsigned which, double *values)
{
	const struct bench *b = arg;
	const unsigned line = which / 2;

	/* No daemon can listen below /dev/null. */
	setenv("CUDA_MPS_PIPE_DIRECTORY", line == FOUR_MPS ? b->mps.directory : "/dev/null", 1);
	values[0] = run_processes(b->opt, line == ONE ? 1 : PROCESSES, which % 2 == 0);
}

static void run_row(struct bench_run *run)
{
	struct bench b = { .opt = run->opt };
	struct bench_line *lines[LINES];
	struct bench_way ways[2 * LINES];
	char why[48];
	const bool mps = gpu_mps_start(&b.mps, why, sizeof(why));
	const unsigned nr = mps ? LINES : FOUR_MPS;

	for (unsigned i = 0; i < nr; i++) {
		lines[i] = bench_line(run, i, "%s", "");
		ways[2 * i] = (struct bench_way){
			measure, 2 * i, { bench_figure(lines[i], BENCH_HAND, "event/8 d64") }, false
		};
		ways[2 * i + 1] = (struct bench_way){
			measure, 2 * i + 1, { bench_figure(lines[i], BENCH_RUNNEL, "cq, submit_many") }, false
		};
	}
	bench_turns(run, ways, 2 * nr, &b);
	if (mps)
		gpu_mps_stop(&b.mps);
	else
		snprintf(lines[FOUR]->note, sizeof(lines[FOUR]->note), "under MPS: skipped, %s", why);
	for (unsigned i = 0; i < nr; i++)
		bench_line_tell(run, lines[i]);
}

const struct bench_work bench_processes = { .run = run_row };
