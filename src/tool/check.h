/* SPDX-License-Identifier: MIT */
/*
 * runnel check: small experiments.  The files:
 *
 *	check.c			the command line, the list of experiments, printing
 *	check_meet.c		kernels of all workers at once: streams, kernels, hardware queues
 *	check_beside.c		copies while a kernel runs; pinned memory
 *	check_both.c		copies in and out at the same time
 *	check_urgent.c		priorities
 *	check_turns.c		processes that take turns
 *	check_peers.c		copies between devices
 *	check_tools.c		shared words, waits, jobs that start together
 */
#ifndef TOOL_CHECK_H
#define TOOL_CHECK_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <runnel.h>
#include <runnel/device.h>

#include "experiment.h"
#include "facts.h"
#include "kernels.h"

enum check_answer {
	CHECK_NOT_HERE,		/* the question does not apply to this device */
	CHECK_YES,
	CHECK_NO,
	CHECK_UNKNOWN,		/* the experiment gave no answer */
};

/* CUDA's ids of a worker's stream and of stream 0 in the worker's thread. */
struct check_stream {
	int ret;			/* of tool_stream_ids() */
	uint64_t id, id_of_0;
};

/* The machine to check. */
struct check_machine {
	const char *device;		/* name of one or more devices: see rnl_pool_create() */
	char first[24];			/* its first device; all but check_peers() use that */
	struct rnl_device_info info;	/* description of the first device */
	struct tool_cuda cuda;
	struct tool_gpu gpu;		/* set if info.cuda is true */
	struct tool_limits limits;
	unsigned nr_workers;
	const char *setting;		/* the user's CUDA_DEVICE_MAX_CONNECTIONS, or NULL */
	unsigned connections;		/* hardware queues, after rnl_setup() */
	uint64_t patience_ns;		/* the longest wait of a kernel */
	struct rnl_pool *pool;		/* used by all but check_urgent() and check_peers() */
	struct check_stream streams[TOOL_WORKERS_MAX]; /* the streams of the pool's workers */
};

struct check {
	const char *name, *question;
	enum check_answer answer;
	char says[200];			/* the observation */
	char cause[400];		/* likely cause of CHECK_NO, and the remedy; or "" */
	struct check_figure {
		const char *name;	/* includes the unit; NULL ends the list */
		double value;
	} figures[4];
};

/* Each experiment fills in the answers, observations and figures of its checks. */
void check_meet(const struct check_machine *m, struct check *streams, struct check *kernels,
		struct check *queues);
void check_beside(const struct check_machine *m, struct check *in, struct check *out,
		  struct check *pinned);
void check_both(const struct check_machine *m, struct check *both);
void check_urgent(const struct check_machine *m, struct check *urgent);
void check_turns(const struct check_machine *m, struct check *turns);
void check_peers(const struct check_machine *m, struct check *peers);

/* ---- check_tools.c ------------------------------------------------------- */

#define CHECK_RUNS 5		/* the most runs of an experiment */
#define CHECK_MAJORITY 3

void check_says(struct check *check, enum check_answer answer, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void check_figure(struct check *check, const char *name, double value);

/*
 * Sets the likely cause why @nr_streams streams wait for each other: a setting that explains
 * it, or @otherwise.
 */
void check_blame(struct check *check, const struct check_machine *m, unsigned nr_streams,
		 const char *otherwise);

double check_median(double *values, unsigned nr);

/* Initialises a job and submits it. */
void check_submit(struct rnl_pool *pool, struct rnl_job *job, int (*fn)(struct rnl_job *job));

/* Read and set a word that threads and devices share. */
uint32_t check_get(const uint32_t *word);
void check_set(uint32_t *word, uint32_t value);
void check_nap(void);

/* Waits until the word is not 0.  Returns false on a timeout. */
bool check_await(const uint32_t *word, uint64_t timeout_ns);

/*
 * A rendezvous of job functions.  Because they wait for each other, each runs on a different
 * worker, and they issue their work at the same time.
 */
struct check_party {
	uint32_t come, wanted;		/* functions that have arrived; functions in all */
};
/* Waits for the other functions.  Returns 0, or -ETIMEDOUT if not all of them arrive. */
int check_party(struct check_party *party);

#endif /* TOOL_CHECK_H */
