/* SPDX-License-Identifier: MIT */
/*
 * The kernels of check and bench for the host device.
 *
 * DESIGN
 * A kernel that waits sleeps in short intervals, so more kernels than CPUs can run at once.
 */
#include "kernels.h"

#include <time.h>

#include <runnel/kernel.h>

#include "experiment.h"

#define NAP_NS 20000

static void host_nap(void)
{
	const struct timespec ts = { .tv_nsec = NAP_NS };

	nanosleep(&ts, NULL);
}

static uint64_t cpu_time(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

/* release and acquire: a thread that sees the word set also sees the writes that precede it */
static void host_set(uint32_t *word, uint32_t value)
{
	__atomic_store_n(word, value, __ATOMIC_RELEASE);
}

static uint32_t host_get(const uint32_t *word)
{
	return __atomic_load_n(word, __ATOMIC_ACQUIRE);
}

void tool_hold_host(struct rnl_dim grid, struct rnl_dim block, const void *arg)
{
	const struct tool_hold_args *args = arg;
	const uint64_t end = tool_now() + args->patience_ns;
	bool let_go;

	(void)grid;
	(void)block;
	host_set(&args->words[TOOL_HOLD_RUNS], 1);
	while (!(let_go = host_get(&args->words[TOOL_HOLD_LET_GO])) && tool_now() < end)
		host_nap();
	host_set(&args->words[TOOL_HOLD_ENDED], let_go ? TOOL_WAS_LET_GO : TOOL_RAN_OUT);
}

void tool_meet_host(struct rnl_dim grid, struct rnl_dim block, const void *arg)
{
	const struct tool_meet_args *args = arg;
	const uint64_t start = tool_now();
	uint64_t met;

	(void)grid;
	(void)block;
	__atomic_fetch_add(args->come, 1, __ATOMIC_ACQ_REL);
	while (host_get(args->come) < args->wanted && tool_now() < start + args->patience_ns)
		host_nap();
	met = tool_now();
	while (tool_now() < met + TOOL_MEET_STAYS_NS)
		host_nap();
	args->stamps[0] = start;
	args->stamps[1] = tool_now();
}

void tool_stamp_host(struct rnl_dim grid, struct rnl_dim block, const void *arg)
{
	(void)grid;
	(void)block;
	*((const struct tool_stamp_args *)arg)->stamp = tool_now();
}

/* Its clock is the thread's CPU time: other threads of the machine make no gap. */
void tool_turns_host(struct rnl_dim grid, struct rnl_dim block, const void *arg)
{
	const struct tool_turns_args *args = arg;
	struct tool_turns turns = *args->turns;
	const uint64_t start = cpu_time();
	uint64_t at;

	(void)grid;
	(void)block;
	do {
		at = cpu_time();
		tool_turns_read(&turns, at);
	} while (at - start < args->run_ns);
	*args->turns = turns;
}

void tool_fill_host(struct rnl_dim grid, struct rnl_dim block, const void *arg)
{
	const struct tool_fill_args *args = arg;
	const uint64_t end = tool_now() + args->ns;

	(void)grid;
	(void)block;
	if (args->runs)
		host_set(args->runs, 1);
	while (tool_now() < end)
		host_nap();
}

void tool_words_host(struct rnl_dim grid, struct rnl_dim block, const void *arg)
{
	uint32_t *words = ((const struct tool_words_args *)arg)->words;

	for (uint32_t i = 0; i < grid.x * block.x; i++)
		words[i] = words[i] * TOOL_WORDS_A + TOOL_WORDS_C;
}
