/* SPDX-License-Identifier: MIT */
/*
 * Tests whether a class goes before other jobs.
 *
 * DESIGN
 * On a GPU: four workers launch kernels of twice as many blocks as fit, which keeps the device
 * busy for about 30 ms.  Meanwhile another worker, with an empty stream, launches a small kernel.
 * That worker is alternately a class's own, with a stream of the highest priority, and a usual one.
 * The host's clock is good enough,
 * because the two times differ widely (0.13 ms and 5 ms on an H200).  If the device can keep SMs
 * for a class, the urgent kernel is also measured in a pool that does; that is no part of the
 * answer.
 * The host device has no priorities.  There, the only worker of a pool is kept busy while jobs
 * are queued, last one of a class of the first priority.  That one must run first.
 */
#include "check.h"

#include <errno.h>
#include <stdio.h>

#include <runnel/class.h>
#include <runnel/kernel.h>
#include <runnel/memory.h>

#define FLOODERS 4
#define FLOOD_KERNELS 32	/* of each worker */
#define FLOOD_NS 100000		/* how long a block runs */
#define FLOOD_THREADS 1024
#define FLOOD_BLOCKS 4		/* for each multiprocessor, which can run two at once */
#define ISSUE_NS 1000000	/* enough for all flooders to issue their kernels */
#define HELD_UP_US 300		/* the least time of a usual kernel during the flood */
#define GAIN 2

#define QUEUED 8

static const struct rnl_dim one = { 1, 1, 1 };

static struct rnl_class *experiment_class(struct rnl_pool *pool, struct rnl_class_attr attr)
{
	struct rnl_class *cls;

	attr.size = sizeof(attr);
	tool_must(rnl_class_create(&cls, pool, &attr), "a class");
	return cls;
}

/* ---- on a GPU ------------------------------------------------------------ */

struct flood {
	const struct check_machine *m;
	struct check_party party;
	uint32_t *runs;
	uint64_t *stamp;
	uint32_t go;
	struct probe {
		struct rnl_job job;
		bool urgent;
		uint64_t issued_at;
	} probe;
	struct rnl_job flooders[FLOODERS];
};

static int do_flood(struct rnl_job *job)
{
	struct flood *flood = job->user;
	const struct rnl_dim grid = { FLOOD_BLOCKS * flood->m->info.nr_multiprocessors, 1, 1 };
	const struct rnl_dim block = { FLOOD_THREADS, 1, 1 };
	const struct tool_fill_args args = { flood->runs, FLOOD_NS };
	int ret = check_party(&flood->party);

	for (unsigned i = 0; i < FLOOD_KERNELS && !ret; i++)
		ret = rnl_launch(&tool_fill, grid, block, &args);
	return ret;
}

static int do_probe(struct rnl_job *job)
{
	struct flood *flood = job->user;
	const struct tool_stamp_args args = { flood->stamp };
	const int ret = flood->probe.urgent ? 0 : check_party(&flood->party);

	(void)check_await(&flood->go, TOOL_WAIT_NS);
	flood->probe.issued_at = tool_now();
	return ret ? ret : rnl_launch(&tool_stamp, one, one, &args);
}

/* Returns the us from the launch until the wait for the job has returned. */
static double sample(struct flood *flood, struct rnl_pool *pool, struct rnl_class *urgent)
{
	uint64_t end;

	*flood->runs = 0;
	flood->go = 0;
	flood->party = (struct check_party){ 0, FLOODERS + !urgent };
	flood->probe.urgent = urgent != NULL;
	tool_must(rnl_job_init(&flood->probe.job, do_probe), "a job");
	tool_must(rnl_job_set_class(&flood->probe.job, urgent), "a job of a class");
	flood->probe.job.user = flood;
	tool_submit(pool, &flood->probe.job);
	for (unsigned i = 0; i < FLOODERS; i++) {
		tool_must(rnl_job_init(&flood->flooders[i], do_flood), "a job");
		flood->flooders[i].user = flood;
		tool_submit(pool, &flood->flooders[i]);
	}
	(void)check_await(flood->runs, TOOL_WAIT_NS);
	end = tool_now() + ISSUE_NS;
	while (tool_now() < end)
		check_nap();
	check_set(&flood->go, 1);
	tool_wait(&flood->probe.job, "a small kernel");
	end = tool_now();
	for (unsigned i = 0; i < FLOODERS; i++)
		tool_wait(&flood->flooders[i], "kernels that fill the device");
	return (double)(end - flood->probe.issued_at) / 1e3;
}

static void ignore_line(void *arg, enum rnl_log_level level, const char *msg)
{
	(void)arg;
	(void)level;
	(void)msg;
}

/* Returns the us of an urgent kernel that has a group of SMs for itself; < 0: it gets none. */
static double kept_us(const struct check_machine *m, struct flood *flood)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct rnl_class_attr own = RNL_CLASS_ATTR_INIT;
	struct rnl_pool *pool = NULL;
	struct rnl_class *urgent;
	double us[CHECK_RUNS], median = -1;

	attr.device = m->first;
	attr.nr_workers = FLOODERS;
	attr.nr_class_workers = own.nr_workers = 1;
	own.flags = RNL_CLASS_KEPT_SMS;
	attr.stream = RNL_STREAM_PRIVATE;
	attr.kept_sms = m->info.sm_group;
	attr.log = ignore_line;
	/* The driver may refuse it, for example under MPS. */
	if (attr.kept_sms && !rnl_pool_create(&pool, &attr)) {
		urgent = experiment_class(pool, own);
		sample(flood, pool, urgent);	/* warms up */
		for (unsigned i = 0; i < CHECK_RUNS; i++)
			us[i] = sample(flood, pool, urgent);
		median = check_median(us, CHECK_RUNS);
	}
	rnl_pool_destroy(pool);
	return median;
}

static void on_gpu(const struct check_machine *m, struct check *check)
{
	static struct flood flood;
	struct rnl_pool *pool = tool_pool((struct rnl_pool_attr){
		.device = m->first, .nr_workers = FLOODERS + 1, .nr_class_workers = 1,
	});
	struct rnl_class *own = experiment_class(pool, (struct rnl_class_attr){ .nr_workers = 1 });
	double urgent[CHECK_RUNS], usual[CHECK_RUNS], urgent_us, usual_us, with_kept_us;
	char kept[60] = "";

	flood.m = m;
	flood.runs = tool_pinned(m->pool, sizeof(uint32_t));
	flood.stamp = tool_pinned(m->pool, sizeof(uint64_t));
	sample(&flood, pool, own);		/* warms up */
	for (unsigned i = 0; i < CHECK_RUNS; i++) {
		urgent[i] = sample(&flood, pool, own);
		usual[i] = sample(&flood, pool, NULL);
	}
	rnl_pool_destroy(pool);
	with_kept_us = kept_us(m, &flood);
	rnl_memory_put(m->pool, flood.runs);
	rnl_memory_put(m->pool, flood.stamp);
	urgent_us = check_median(urgent, CHECK_RUNS);
	usual_us = check_median(usual, CHECK_RUNS);
	check_figure(check, "urgent_us", urgent_us);
	check_figure(check, "usual_us", usual_us);
	if (with_kept_us >= 0) {
		check_figure(check, "kept_sms_us", with_kept_us);
		snprintf(kept, sizeof(kept), "; on %u SMs kept for it %.0f us", m->info.sm_group,
			 with_kept_us);
	}
	check_says(check, urgent_us * GAIN <= usual_us ? CHECK_YES : CHECK_NO,
		   "while kernels filled the device, an urgent one took %.0f us, a usual one %.0f%s",
		   urgent_us, usual_us, kept);
	if (check->answer == CHECK_NO && usual_us < HELD_UP_US)
		check_says(check, CHECK_UNKNOWN, "kernels that fill the device did not delay "
			   "others (urgent %.0f us, usual %.0f)", urgent_us, usual_us);
	if (check->answer == CHECK_NO)
		check_blame(check, m, FLOODERS + 2, m->gpu.greatest_priority < m->gpu.least_priority ?
			    "another process that keeps the GPU busy" :
			    "this GPU's streams have no priorities");
}

/* ---- on the host device -------------------------------------------------- */

struct queue {
	uint32_t runs, let_go;
	unsigned nr_run, urgent_place;	/* jobs that ran; the urgent job's place, from 1 */
	struct rnl_job first, urgent, others[QUEUED];
};

static int keep_worker(struct rnl_job *job)
{
	struct queue *queue = job->user;

	check_set(&queue->runs, 1);
	return check_await(&queue->let_go, TOOL_WAIT_NS) ? 0 : -ETIMEDOUT;
}

static int take_place(struct rnl_job *job)
{
	struct queue *queue = job->user;

	queue->nr_run++;
	if (job == &queue->urgent)
		queue->urgent_place = queue->nr_run;
	return 0;
}

static void queue_job(struct rnl_pool *pool, struct queue *queue, struct rnl_job *job,
		      int (*fn)(struct rnl_job *job), struct rnl_class *cls)
{
	tool_must(rnl_job_init(job, fn), "a job");
	tool_must(rnl_job_set_class(job, cls), "a job of a class");
	job->user = queue;
	tool_submit(pool, job);
}

static void on_host(const struct check_machine *m, struct check *check)
{
	static struct queue queue;
	struct rnl_pool *pool = tool_pool((struct rnl_pool_attr){ .device = m->first, .nr_workers = 1 });
	struct rnl_class *first = experiment_class(pool, (struct rnl_class_attr){ .priority = -4 });

	queue_job(pool, &queue, &queue.first, keep_worker, NULL);
	(void)check_await(&queue.runs, TOOL_WAIT_NS);
	for (unsigned i = 0; i < QUEUED; i++)
		queue_job(pool, &queue, &queue.others[i], take_place, NULL);
	queue_job(pool, &queue, &queue.urgent, take_place, first);
	check_set(&queue.let_go, 1);
	tool_must(rnl_pool_drain(pool, TOOL_WAIT_NS), "jobs of one worker");
	rnl_pool_destroy(pool);
	check_figure(check, "urgent_place", queue.urgent_place);
	check_says(check, queue.urgent_place == 1 ? CHECK_YES : CHECK_NO,
		   "of %u queued jobs, the urgent one was number %u to run", QUEUED + 1,
		   queue.urgent_place);
}

void check_urgent(const struct check_machine *m, struct check *check)
{
	if (m->info.cuda)
		on_gpu(m, check);
	else
		on_host(m, check);
}
