/* SPDX-License-Identifier: MIT */
/*
 * runnel check: small experiments.  Its parts:
 *
 *	check.c			the command line, which experiments, printing
 *	check_meet.c		workers' kernels meet: streams, kernels, hardware queues
 *	check_beside.c		copies beside a kernel that is held; pinned memory
 *	check_both.c		copies in and out at the same time
 *	check_urgent.c		priorities
 *	check_peers.c		copies between devices
 *	check_tools.c		words, waits, jobs that start together
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
	CHECK_NOT_HERE,		/* the question makes no sense for this device */
	CHECK_YES,
	CHECK_NO,
	CHECK_UNKNOWN,		/* could not be found out */
};

/* A worker's stream, and what stream 0 is in its thread, as cudaStreamGetId() has it. */
struct check_stream {
	int ret;
	uint64_t id, id_of_0;
};

/* The machine that is checked. */
struct check_machine {
	const char *device;		/* as rnl_device_describe() takes it */
	char first[24];			/* of several, the one that all but check_peers() is about */
	struct rnl_device_info info;	/* of that one */
	struct tool_cuda cuda;
	struct tool_gpu gpu;		/* info.cuda */
	unsigned nr_workers;
	const char *setting;		/* the user's, of CUDA_DEVICE_MAX_CONNECTIONS; or NULL */
	unsigned connections;		/* after rnl_setup() */
	uint64_t patience_ns;		/* of kernels that wait */
	struct rnl_pool *pool;		/* of all but check_urgent() and check_peers() */
	struct check_stream streams[TOOL_WORKERS_MAX]; /* of the pool's workers */
};

struct check {
	const char *name, *question;
	enum check_answer answer;
	char says[200];			/* what was seen */
	char cause[400];		/* why not, and what to do; or "" */
	struct check_figure {
		const char *name;	/* with its unit; NULL: no more */
		double value;
	} figures[4];
};

/* Experiments fill in answers, observations, and figures. */
void check_meet(const struct check_machine *m, struct check *streams, struct check *kernels,
		struct check *queues);
void check_beside(const struct check_machine *m, struct check *in, struct check *out,
		  struct check *pinned);
void check_both(const struct check_machine *m, struct check *both);
void check_urgent(const struct check_machine *m, struct check *urgent);
void check_peers(const struct check_machine *m, struct check *peers);

/* ---- check_tools.c ------------------------------------------------------- */

#define CHECK_RUNS 5		/* of each experiment, at most */
#define CHECK_MAJORITY 3

void check_says(struct check *check, enum check_answer answer, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void check_figure(struct check *check, const char *name, double value);

/*
 * Sets the cause for which @nr_streams streams wait for each other: the one that the
 * settings show, else @otherwise.
 */
void check_blame(struct check *check, const struct check_machine *m, unsigned nr_streams,
		 const char *otherwise);

double check_median(double *values, unsigned nr);

/* Initialises a job, and submits it. */
void check_submit(struct rnl_pool *pool, struct rnl_job *job, int (*fn)(struct rnl_job *job));

/* Words that threads and devices set for each other. */
uint32_t check_get(const uint32_t *word);
void check_set(uint32_t *word, uint32_t value);
void check_nap(void);

/* Whether the word becomes other than 0 in that time. */
bool check_await(const uint32_t *word, uint64_t timeout_ns);

/*
 * Job functions that wait for each other before they go on.  So each is on a worker of its
 * own, and they issue their work at the same time.
 */
struct check_party {
	uint32_t come, wanted;
};
/* Each function calls this.  Return: 0; -ETIMEDOUT: the other functions did not come. */
int check_party(struct check_party *party);

#endif /* TOOL_CHECK_H */
