/* SPDX-License-Identifier: MIT */
/*
 * Tests whether other processes take turns with this one on the GPU.
 *
 * DESIGN
 * Without MPS a GPU runs kernels of one process at a time, and changes to another process after a
 * time slice.  A kernel of one thread reads the GPU's clock in a loop.  While another process has
 * the GPU, the kernel is stopped, and its next reading is late.  All kernels of the experiment are
 * launched in advance, so a delay of the host makes no gap.  A process that uses the GPU rarely may
 * make a gap or none in this time: the answer is no only if this process has lost a part of it.
 */
#include "check.h"

#include <stdio.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>

#define TURNS_KERNELS 8
#define TURNS_RUN_NS 10000000u	/* of a kernel: several time slices */
#define TURNS_GAPS 3u		/* the fewest gaps, ... */
#define TURNS_AWAY 0.05		/* ... and the least part of the time, of a no */

struct turns_job {
	struct rnl_job job;
	struct tool_turns *turns;
};

static int turns_issue(struct rnl_job *job)
{
	const struct turns_job *t = rnl_container_of(job, struct turns_job, job);
	const struct tool_turns_args args = { t->turns, TURNS_RUN_NS };
	const struct rnl_dim one = { 1, 1, 1 };
	int ret = 0;

	for (unsigned i = 0; i < TURNS_KERNELS && !ret; i++)
		ret = rnl_launch(&tool_turns, one, one, &args);
	return ret;
}

static void turns_tell(const struct check_machine *m, struct check *check,
		       const struct tool_turns *turns)
{
	const double ns = (double)(turns->last - turns->first);
	const double away = ns > 0 ? (double)turns->away_ns / ns : 0;

	check_figure(check, "gaps", (double)turns->gaps);
	check_figure(check, "away_percent", 100 * away);
	check_figure(check, "longest_gap_us", (double)turns->longest_ns / 1e3);
	if (turns->step_ns >= TOOL_TURNS_GAP_NS) {
		check_says(check, CHECK_UNKNOWN, "the GPU's clock advances in steps of %.1f ms",
			   (double)turns->step_ns / 1e6);
		return;
	}
	if (!turns->gaps) {
		check_says(check, CHECK_YES, "in %.0f ms a kernel was never stopped", ns / 1e6);
		return;
	}
	check_says(check, turns->gaps >= TURNS_GAPS && away >= TURNS_AWAY ? CHECK_NO : CHECK_YES,
		   "in %.0f ms a kernel was stopped %.0f times, at most for %.1f ms: %.0f %% of the time",
		   ns / 1e6, (double)turns->gaps, (double)turns->longest_ns / 1e6, 100 * away);
	if (check->answer == CHECK_NO)
		snprintf(check->cause, sizeof(check->cause), "another process%s, or a display, uses the "
			 "GPU: %s", m->gpu.mps ? ", which is not a client of MPS" : "", m->gpu.mps ?
			 "start it as a client" : "run one process on each GPU, or all of them under MPS");
}

void check_turns(const struct check_machine *m, struct check *check)
{
	struct turns_job t;

	if (!m->info.cuda)
		return check_says(check, CHECK_NOT_HERE, "processes share CPUs on the host device");
	t.turns = tool_pinned(m->pool, sizeof(*t.turns));
	check_submit(m->pool, &t.job, turns_issue);
	tool_wait(&t.job, "kernels that read the clock");
	turns_tell(m, check, t.turns);
	rnl_memory_put(m->pool, t.turns);
}
