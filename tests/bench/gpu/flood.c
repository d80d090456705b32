/* SPDX-License-Identifier: MIT */
/* A flood: classes that always have work, which fills the GPU; flood.h has the design. */
#include "gpu/flood.h"

#include <errno.h>
#include <string.h>

static cudaError_t issue(const struct gpu_flood *f, unsigned class, gpu_stamps *at,
			 cudaStream_t stream)
{
	const uint64_t ns = f->of->ns[class % GPU_FLOOD_KINDS];

	return ns == GPU_FLOOD_ENDLESS ? gpu_issue_until(f->blocks, 1024, f->over, ns, *at, stream) :
					 gpu_issue_spin(f->blocks, 1024, ns, *at, stream);
}

/* Counts a kernel that has ended. */
static void count(struct gpu_flood *f, unsigned class, gpu_stamps *at)
{
	const uint64_t end = (*at)[1], ns = f->of->ns[class % GPU_FLOOD_KINDS];
	uint64_t from = (*at)[0];

	bench_must(ns == GPU_FLOOD_ENDLESS ? end - from < ns : end - from >= ns * 9 / 10,
		   "a kernel's time");
	(*at)[0] = (*at)[1] = 0;
	from = from > f->begin_ns ? from : f->begin_ns;
	while (from < end) {
		const uint64_t second = (from - f->begin_ns) / f->second_ns;
		const uint64_t next = f->begin_ns + (second + 1) * f->second_ns;
		const uint64_t to = end < next ? end : next;

		if (second >= f->nr_seconds)
			return;
		/* relaxed: read when all jobs are done */
		__atomic_fetch_add(&f->used[second][class], to - from, __ATOMIC_RELAXED);
		from = to;
	}
}

static void await(struct gpu_flood *f, unsigned class, unsigned index, unsigned n)
{
	gpu_ok(gpu_event_sync(f->events[index][n % 2]), "cudaEventSynchronize");
	count(f, class, &f->stamps[2 * index + n % 2]);
}

static void by_stream(void *arg, unsigned index, cudaStream_t stream)
{
	struct gpu_flood *f = arg;
	unsigned class = 0, streams = 0, n;

	while (class < f->of->nr && (streams += f->of->weights[class % GPU_FLOOD_KINDS]) <= index)
		class++;
	if (class == f->of->nr)
		return;
	stream = f->green ? f->rest[index] : stream;
	for (n = 0; n < 2 || !atomic_load(&f->stop); n++) {
		if (n >= 2)
			await(f, class, index, n);
		gpu_ok(issue(f, class, &f->stamps[2 * index + n % 2], stream), "a kernel");
		gpu_ok(cudaEventRecord(f->events[index][n % 2], stream), "cudaEventRecord");
	}
	await(f, class, index, n);
	await(f, class, index, n + 1);
}

static int run_item(struct rnl_job *job)
{
	const struct gpu_flood_item *item = rnl_container_of(job, struct gpu_flood_item, job);

	return issue(job->user, item->class, item->stamps, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

/* A pool estimates by function, so the two lengths of a pair have different functions. */
static int run_other(struct rnl_job *job)
{
	return run_item(job);
}

static void submit_again(struct rnl_job *job)
{
	const struct gpu_flood_item *item = rnl_container_of(job, struct gpu_flood_item, job);
	struct gpu_flood *f = job->user;

	if (job->result == -ECANCELED && atomic_load(&f->stop))
		return;
	bench_rnl(job->result, "a kernel");
	count(f, item->class, item->stamps);
	if (!atomic_load(&f->stop))
		bench_rnl(rnl_submit(f->pool, job), "rnl_submit");
}

struct rnl_class *gpu_flood_class(struct gpu_flood *f, const struct rnl_class_attr *attr)
{
	struct rnl_class *class = NULL;

	bench_rnl(rnl_class_create(&class, f->pool, attr), "rnl_class_create");
	return class;
}

/* Submits a job that submits itself again. */
static void submit_item(struct gpu_flood *f, unsigned i)
{
	struct gpu_flood_item *item = &f->items[i];

	item->class = i % f->of->nr;
	item->stamps = &f->stamps[i];
	bench_rnl(gpu_job_init(&item->job, item->class ? run_other : run_item), "rnl_job_init");
	item->job.user = f;
	if (f->classed)
		bench_rnl(rnl_job_set_class(&item->job, f->classes[item->class]), "rnl_job_set_class");
	bench_rnl(rnl_job_set_on_done(&item->job, submit_again), "rnl_job_set_on_done");
	bench_rnl(rnl_submit(f->pool, &item->job), "rnl_submit");
}

void gpu_flood_begin(struct gpu_flood *f, const struct gpu_flood_of *of, bool by_hand,
		     const struct rnl_class_attr *attr)
{
	f->of = of;
	f->by_hand = by_hand;
	f->classed = attr && !by_hand;
	atomic_store(&f->stop, false);
	*f->over = 0;
	memset(f->used, 0, sizeof(f->used));
	gpu_ok(gpu_issue_spin(1, 1, 1, *f->stamps, f->stream), "a kernel");
	gpu_ok(cudaStreamSynchronize(f->stream), "cudaStreamSynchronize");
	f->begin_ns = (*f->stamps)[1] + (uint64_t)f->ramp_ms * 1000000;
	for (unsigned i = 0; i < of->nr && f->classed; i++) {
		struct rnl_class_attr its = *attr;

		its.weight = of->weights[i % GPU_FLOOD_KINDS];
		f->classes[i] = gpu_flood_class(f, &its);
	}
	if (by_hand)
		gpu_crew_begin(&f->crew);
	for (unsigned i = 0; i < GPU_FLOOD_QUEUED * of->nr && !by_hand; i++)
		submit_item(f, i);
	bench_sleep_ms(f->ramp_ms);
}

void gpu_flood_end(struct gpu_flood *f)
{
	bench_sleep_ms(2);	/* the last second ends */
	atomic_store(&f->stop, true);
	/* release: the double's kernels read it; a GPU sees it in time */
	__atomic_store_n(f->over, 1, __ATOMIC_RELEASE);
	if (f->by_hand)
		gpu_crew_end(&f->crew);
	else
		bench_rnl(rnl_pool_cancel(f->pool), "rnl_pool_cancel");
	bench_rnl(rnl_pool_drain(f->pool, RNL_FOREVER), "rnl_pool_drain");
	f->sum = 1;	/* ns: never 0, even if the machine stood still */
	for (unsigned i = 0; i < f->of->nr; i++) {
		if (f->classed)
			rnl_class_destroy(f->classes[i]);
		f->sums[i] = 0;
		for (unsigned s = 0; s < f->nr_seconds; s++)
			f->sums[i] += (double)f->used[s][i];
		f->sum += f->sums[i];
	}
}

double gpu_flood_busy(const struct gpu_flood *f)
{
	return 100 * f->sum / ((double)f->second_ns * f->nr_seconds);
}

void gpu_flood_open(struct gpu_flood *f, const struct bench_run *run, unsigned part)
{
	const unsigned ms = (run->opt->quick ? 1 : part) * run->opt->run_ms;

	f->blocks = 2 * run->opt->info.nr_multiprocessors;
	f->ramp_ms = run->opt->quick ? 10 : 100;
	f->nr_seconds = ms < 1000 ? 1 : ms / 1000;
	f->run_ms = ms < 1000 ? ms : f->nr_seconds * 1000;
	f->second_ns = (uint64_t)f->run_ms * 1000000 / f->nr_seconds;
	f->over = gpu_pinned(sizeof(*f->over));
	f->stamps = gpu_pinned(GPU_FLOOD_CLASSES * GPU_FLOOD_QUEUED * sizeof(*f->stamps));
	f->stream = gpu_stream(RNL_STREAM_PRIVATE, false);
	for (unsigned i = 0; i < 2 * GPU_FLOOD_CLASSES; i++)
		f->events[i / 2][i % 2] = gpu_event(cudaEventDisableTiming);
	gpu_crew_start(&f->crew, run->opt->info.ordinal, RNL_STREAM_PRIVATE, GPU_FLOOD_CLASSES,
		       by_stream, f);
	/* CUDA loads a kernel at its first launch, which would wait for an endless one. */
	*f->over = 1;
	gpu_ok(gpu_issue_until(1, 1, f->over, 1, NULL, f->stream), "a kernel");
	gpu_ok(cudaStreamSynchronize(f->stream), "cudaStreamSynchronize");
}
