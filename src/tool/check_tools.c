/* SPDX-License-Identifier: MIT */
/* Code that the experiments of runnel check share: words, waits, jobs that start together. */
#include "check.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tool.h"

#define NAP_NS 50000
#define PARTY_NS 60000000000	/* limit for idle workers to arrive; CPUs may be busy */

void check_says(struct check *check, enum check_answer answer, const char *format, ...)
{
	va_list args;

	check->answer = answer;
	va_start(args, format);
	vsnprintf(check->says, sizeof(check->says), format, args);
	va_end(args);
}

void check_figure(struct check *check, const char *name, double value)
{
	struct check_figure *figure = check->figures;

	while (figure->name)
		figure++;
	*figure = (struct check_figure){ name, value };
}

void check_blame(struct check *check, const struct check_machine *m, unsigned nr_streams,
		 const char *otherwise)
{
	const unsigned nr = nr_streams > m->nr_workers ? nr_streams : m->nr_workers;
	const char *blocking = getenv("CUDA_LAUNCH_BLOCKING");

	if (!m->info.cuda)
		snprintf(check->cause, sizeof(check->cause), "%s", otherwise);
	else if (m->connections < nr_streams && m->connections < TOOL_CONNECTIONS_MAX)
		snprintf(check->cause, sizeof(check->cause),
			 "connections: " TOOL_CONNECTIONS " is %s, so %u workers share %u hardware "
			 "queue%s: unset it and call rnl_setup(), or set it to %u before the program "
			 "starts", m->setting ? m->setting : "not set", nr, m->connections,
			 m->connections == 1 ? "" : "s",
			 nr < TOOL_CONNECTIONS_MAX ? nr : TOOL_CONNECTIONS_MAX);
	else if (m->connections < nr_streams)
		snprintf(check->cause, sizeof(check->cause),
			 "connections: CUDA has %u hardware queues at most, so some of %u workers "
			 "share one: take %u workers or fewer", TOOL_CONNECTIONS_MAX, nr,
			 TOOL_CONNECTIONS_MAX);
	else if (blocking && strcmp(blocking, "0"))
		snprintf(check->cause, sizeof(check->cause),
			 "CUDA_LAUNCH_BLOCKING is %s, so every launch waits for its kernel: "
			 "unset it", blocking);
	else
		snprintf(check->cause, sizeof(check->cause), "%s", otherwise);
}

double check_median(double *values, unsigned nr)
{
	tool_sort(values, nr);
	return nr % 2 ? values[nr / 2] : (values[nr / 2 - 1] + values[nr / 2]) / 2;
}

void check_submit(struct rnl_pool *pool, struct rnl_job *job, int (*fn)(struct rnl_job *job))
{
	tool_must(rnl_job_init(job, fn), "a job");
	tool_submit(pool, job);
}

uint32_t check_get(const uint32_t *word)
{
	/* acquire: the caller also sees the writes that precede the set of the word */
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void check_set(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);	/* release: see check_get() */
}

void check_nap(void)
{
	const struct timespec nap = { .tv_nsec = NAP_NS };

	nanosleep(&nap, NULL);
}

bool check_await(const uint32_t *word, uint64_t timeout_ns)
{
	const uint64_t end = tool_now() + timeout_ns;

	while (!check_get(word)) {
		if (tool_now() > end)
			return false;
		check_nap();
	}
	return true;
}

int check_party(struct check_party *party)
{
	const uint64_t end = tool_now() + PARTY_NS;

	__atomic_fetch_add(&party->come, 1, __ATOMIC_ACQ_REL);	/* like check_get(), check_set() */
	while (check_get(&party->come) < party->wanted) {
		if (tool_now() > end)
			return -ETIMEDOUT;
		check_nap();
	}
	return 0;
}
