/* SPDX-License-Identifier: MIT */
/*
 * Counts how many kernels of different workers run on the device at once.
 *
 * DESIGN
 * A job on each worker launches a kernel that ends when all kernels have started, or at its
 * time limit.  A device that can run all of them at once therefore does so, however long the
 * host's threads take to launch.  Each kernel stamps its begin and its end by the device's
 * clock, and the stamps show how many kernels ran at the same time.
 *
 * Each job launches a second kernel right after the first, under a lock.  If streams share a
 * hardware queue, the second kernel waits at the queue's head for the first kernel, and blocks the
 * kernels of the other streams.  Sharing is therefore seen in any order of the launches.
 */
#include "check.h"

#include <pthread.h>
#include <stdio.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>

#define TOGETHER 8		/* with more workers each kernel waits for a shorter time */
#define RUNS_MIN 3		/* with fewer, the median could be a run that got no CPU */
#define BUDGET_NS 1500000000u	/* no run begins later: a run without overlap is slow */

struct meeting {
	const struct check_machine *m;
	struct check_party party;
	uint32_t *come;			/* count of started kernels, in device memory */
	uint64_t *stamps;		/* two for each worker; then one for each second kernel */
	pthread_mutex_t issuing;
	struct guest {
		struct rnl_job job;
		struct meeting *meeting;
		unsigned number;
	} guests[TOOL_WORKERS_MAX];
};

static const struct rnl_dim one = { 1, 1, 1 };

static int meet_clear(struct rnl_job *job)
{
	return rnl_fill(((struct meeting *)job->user)->come, 0, sizeof(uint32_t));
}

static int come(struct rnl_job *job)
{
	struct guest *guest = rnl_container_of(job, struct guest, job);
	struct meeting *meeting = guest->meeting;
	const struct tool_meet_args args = {
		meeting->come, &meeting->stamps[2 * guest->number],
		meeting->m->patience_ns * TOGETHER / meeting->m->nr_workers,
		meeting->m->nr_workers, 0
	};
	const struct tool_stamp_args behind = {
		&meeting->stamps[2 * meeting->m->nr_workers + guest->number]
	};
	int ret = check_party(&meeting->party);

	pthread_mutex_lock(&meeting->issuing);
	if (!ret)
		ret = rnl_launch(&tool_meet, one, one, &args);
	if (!ret)
		ret = rnl_launch(&tool_stamp, one, one, &behind);
	pthread_mutex_unlock(&meeting->issuing);
	return ret;
}

/* Returns the largest number of kernels that ran at the same time, by their stamps. */
static unsigned peak(const struct meeting *meeting)
{
	const unsigned nr = meeting->m->nr_workers;
	unsigned most = 0;

	for (unsigned i = 0; i < nr; i++) {	/* at the begin of kernel i */
		const uint64_t at = meeting->stamps[2 * i];
		unsigned there = 0;

		for (unsigned j = 0; j < nr; j++)
			there += meeting->stamps[2 * j] <= at && at < meeting->stamps[2 * j + 1];
		most = there > most ? there : most;
	}
	return most;
}

static unsigned meet_run(struct meeting *meeting)
{
	const unsigned nr = meeting->m->nr_workers;
	struct rnl_job clearing;

	tool_must(rnl_job_init(&clearing, meet_clear), "a job");
	clearing.user = meeting;
	tool_submit(meeting->m->pool, &clearing);
	tool_wait(&clearing, "clearing a word");
	meeting->party = (struct check_party){ 0, nr };
	for (unsigned i = 0; i < nr; i++) {
		struct guest *guest = &meeting->guests[i];

		guest->meeting = meeting;
		guest->number = i;
		check_submit(meeting->m->pool, &guest->job, come);
	}
	for (unsigned i = 0; i < nr; i++)
		tool_wait(&meeting->guests[i].job, "a kernel on each worker");
	return peak(meeting);
}

static void tell_streams(const struct meeting *meeting, struct check *streams, double together)
{
	const struct check_stream *ids = meeting->m->streams;
	const unsigned nr = meeting->m->nr_workers;
	unsigned same = 0, others = 0;

	if (!meeting->m->info.cuda) {
		if (together >= 2)
			check_says(streams, CHECK_YES, "each worker's stream is a thread of its own");
		else
			check_says(streams, CHECK_UNKNOWN, "no two streams were seen to overlap");
		return;
	}
	for (unsigned i = 0; i < nr; i++) {
		if (ids[i].ret) {
			check_says(streams, CHECK_UNKNOWN, "CUDA does not report them: error %d",
				   ids[i].ret);
			return;
		}
		others += ids[i].id != ids[i].id_of_0;
		for (unsigned j = 0; j < i; j++)
			same += ids[i].id == ids[j].id;
	}
	if (!same && !others) {
		check_says(streams, CHECK_YES,
			   "%u workers, %u streams; stream 0 in a job is its worker's", nr, nr);
		return;
	}
	check_says(streams, CHECK_NO, "of %u workers' streams, %u pairs are one stream, and %u are "
		   "not stream 0 of their jobs", nr, same, others);
	snprintf(streams->cause, sizeof(streams->cause), "stream 0 is the legacy default stream "
		 "here: this program was not built with nvcc --default-stream per-thread");
}

static void tell_kernels(const struct check_machine *m, struct check *kernels, double together)
{
	check_figure(kernels, "kernels_at_once", together);
	if (together >= 2) {
		check_says(kernels, CHECK_YES, "%.0f kernels of %u workers ran at the same time",
			   together, m->nr_workers);
		return;
	}
	check_says(kernels, CHECK_NO, "kernels of %u workers ran one after the other",
		   m->nr_workers);
	check_blame(kernels, m, 2, !m->info.cuda ? "the system ran no two threads at once" :
		    m->gpu.concurrent_kernels ? "a debugger or a profiler that serialises, or another "
		    "process that keeps the GPU busy" : "this GPU runs one kernel at a time");
}

static void tell_queues(const struct check_machine *m, struct check *queues, double together)
{
	const unsigned nr = m->nr_workers;
	char set[64];

	if (!m->info.cuda)
		return check_says(queues, CHECK_NOT_HERE, "the host device has no hardware queues");
	if (m->setting)
		snprintf(set, sizeof(set), TOOL_CONNECTIONS "=%.12s", m->setting);
	else
		snprintf(set, sizeof(set), "rnl_setup(); without it there are %u",
			 TOOL_CONNECTIONS_DEFAULT);
	check_figure(queues, "hardware_queues", m->connections);
	check_figure(queues, "kernels_at_once", together);
	/* With a margin: with 32 workers and 32 queues, about 27 are seen at once. */
	check_says(queues, together >= nr - nr / 4 ? CHECK_YES : CHECK_NO,
		   "%u hardware queue%s (%s); %.0f of %u workers at once", m->connections,
		   m->connections == 1 ? "" : "s", set, together, nr);
	if (queues->answer == CHECK_NO)
		check_blame(queues, m, nr, "another process that keeps the GPU busy");
}

void check_meet(const struct check_machine *m, struct check *streams, struct check *kernels,
		struct check *queues)
{
	static struct meeting meeting = { .issuing = PTHREAD_MUTEX_INITIALIZER };
	double peaks[CHECK_RUNS], together;
	unsigned nr = 0;
	uint64_t start;

	meeting.m = m;
	meeting.come = tool_device_memory(m->pool, 0, sizeof(uint32_t));
	meeting.stamps = tool_pinned(m->pool, sizeof(uint64_t) * 3 * m->nr_workers);
	meet_run(&meeting);		/* CUDA loads a kernel at its first launch */
	start = tool_now();
	while (nr < CHECK_RUNS && (nr < RUNS_MIN || tool_now() - start < BUDGET_NS))
		peaks[nr++] = meet_run(&meeting);
	together = check_median(peaks, nr);
	tell_streams(&meeting, streams, together);
	tell_kernels(m, kernels, together);
	tell_queues(m, queues, together);
	rnl_memory_put(m->pool, meeting.come);
	rnl_memory_put(m->pool, meeting.stamps);
}
