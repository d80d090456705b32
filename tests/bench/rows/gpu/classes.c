/* SPDX-License-Identifier: MIT */
/*
 * The rows classes: classes' shares of the GPU, and what a class of priority -4 waits for a flood.
 *
 * DESIGN
 *	A flood is some classes that always have jobs queued: a job's callback submits it again. A
 *	job is a kernel that fills the GPU: two blocks of 1,024 threads for each SM, which spin for
 *	the class's time. By hand a class has a stream for each unit of its weight, and each stream
 *	has a thread, which keeps two kernels on it.
 *	The figures are of the device's clock: a kernel's first block stores its start and its end,
 *	and its class has used that time, cut into seconds. A run of less than a second is one
 *	"second". Before the first one, the pool learns what its functions take. As all kernels fill
 *	the GPU, it is busy for the sum of their times.
 *	A sample of the tail is a kernel of one block, a millisecond after the last one's end: by
 *	hand issued and synced, else a job of priority -4, from its submit until the waiter has
 *	returned. Its class has a worker of its own, perhaps with one group of SMs that are kept for
 *	it, or it shares the flood's workers: then it waits for the jobs that the flood's class has
 *	under way, of which that class may have only one.
 */
#include "gpu/work.h"

#include <errno.h>
#include <string.h>

#include <runnel/class.h>

#define WORKERS 4
#define IN_FLIGHT 2		/* of a worker: the pool has at most 8 jobs on the device */
#define QUEUED 64		/* jobs of a class */
#define CLASSES_MAX 16
#define KINDS 3			/* of classes, in a flood */
#define SECONDS_MAX 100
#define RUN_MS_PART 10		/* multiplies --run-ms, unless quick */
#define ASKED 75		/* A's part, of two classes 3:1 */
#define SAMPLE_NS 10000
#define FIGURES_MAX 18		/* lines, and ways */

enum { SHARE_SIDES = 2, TAIL_SIDES = 6 };

static const struct flood {
	const char *name;
	unsigned first, nr_lines;	/* quantities in the table */
	unsigned nr;			/* classes; class i has weight and time i % KINDS */
	unsigned weights[KINDS];
	uint64_t ns[KINDS];
} shares[] = {
	{ "; A 0.5 ms, B 0.5 ms", 0, 4, 2, { 3, 1 }, { 500000, 500000 } },
	{ "; A 0.05 ms, B 0.5 ms", 0, 4, 2, { 3, 1 }, { 50000, 500000 } },
	{ "; A 2 ms, B 0.05 ms", 0, 4, 2, { 3, 1 }, { 2000000, 50000 } },
	{ "", 4, 1, 3, { 4, 2, 1 }, { 500000, 500000, 500000 } },
	{ "", 5, 1, CLASSES_MAX, { 1, 1, 1 }, { 200000, 200000, 200000 } },
}, tails[] = {
	{ "; blocks of 0.05 ms", 0, 3, 1, { 4 }, { 50000 } },
	{ "; blocks of 0.5 ms", 0, 3, 1, { 4 }, { 500000 } },
	{ "; blocks of 5 ms", 0, 3, 1, { 4 }, { 5000000 } },
};

typedef uint64_t stamps[2];		/* a kernel's start and end */

struct bench {
	struct rnl_pool *pool;		/* the first: gpu_row_end() */
	struct rnl_pool *usual, *keeps;	/* the row's pools; `keeps` keeps SMs; NULL: it cannot */
	bool green;
	cudaStream_t rest[CLASSES_MAX], kept; /* by hand, in green contexts */
	unsigned blocks, group, ramp_ms, run_ms;
	double *us;			/* samples */
	const struct flood *flood;
	bool by_hand;
	atomic_bool stop;
	stamps *stamps;			/* of each item; by hand two of each stream */
	uint64_t begin_ns, second_ns;	/* of the device's clock */
	unsigned nr_seconds;
	uint64_t used[SECONDS_MAX][CLASSES_MAX];
	double sums[CLASSES_MAX], sum;	/* of all seconds */
	cudaStream_t streams[2];	/* of samples; [1]: of the highest priority */
	struct gpu_crew crew;
	cudaEvent_t events[CLASSES_MAX][2];
	struct rnl_class *classes[CLASSES_MAX];
	struct item {
		struct rnl_job job;
		unsigned class;
		stamps *stamps;
	} items[CLASSES_MAX * QUEUED];
};

/* ---- a flood ------------------------------------------------------------- */

static cudaError_t issue(const struct bench *b, unsigned class, stamps *at, cudaStream_t stream)
{
	return gpu_issue_spin(b->blocks, 1024, b->flood->ns[class % KINDS], *at, stream);
}

/* Counts a kernel that has ended. */
static void count(struct bench *b, unsigned class, stamps *at)
{
	const uint64_t end = (*at)[1];
	uint64_t from = (*at)[0];

	bench_must(end - from >= b->flood->ns[class % KINDS] * 9 / 10, "a kernel's time");
	(*at)[0] = (*at)[1] = 0;
	from = from > b->begin_ns ? from : b->begin_ns;
	while (from < end) {
		const uint64_t second = (from - b->begin_ns) / b->second_ns;
		const uint64_t next = b->begin_ns + (second + 1) * b->second_ns;
		const uint64_t to = end < next ? end : next;

		if (second >= b->nr_seconds)
			return;
		/* relaxed: read when all jobs are done */
		__atomic_fetch_add(&b->used[second][class], to - from, __ATOMIC_RELAXED);
		from = to;
	}
}

static void await(struct bench *b, unsigned class, unsigned index, unsigned n)
{
	gpu_ok(gpu_event_sync(b->events[index][n % 2]), "cudaEventSynchronize");
	count(b, class, &b->stamps[2 * index + n % 2]);
}

static void by_stream(void *arg, unsigned index, cudaStream_t stream)
{
	struct bench *b = arg;
	unsigned class = 0, streams = 0, n;

	while (class < b->flood->nr && (streams += b->flood->weights[class % KINDS]) <= index)
		class++;
	if (class == b->flood->nr)
		return;
	stream = b->green ? b->rest[index] : stream;
	for (n = 0; n < 2 || !atomic_load(&b->stop); n++) {
		if (n >= 2)
			await(b, class, index, n);
		gpu_ok(issue(b, class, &b->stamps[2 * index + n % 2], stream), "a kernel");
		gpu_ok(cudaEventRecord(b->events[index][n % 2], stream), "cudaEventRecord");
	}
	await(b, class, index, n);
	await(b, class, index, n + 1);
}

static int run_item(struct rnl_job *job)
{
	const struct item *item = rnl_container_of(job, struct item, job);

	return issue(job->user, item->class, item->stamps, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

/* A pool estimates by function, so the two lengths of a pair have different functions. */
static int run_other(struct rnl_job *job)
{
	return run_item(job);
}

static void submit_again(struct rnl_job *job)
{
	const struct item *item = rnl_container_of(job, struct item, job);
	struct bench *b = job->user;

	if (job->result == -ECANCELED && atomic_load(&b->stop))
		return;
	bench_rnl(job->result, "a kernel");
	count(b, item->class, item->stamps);
	if (!atomic_load(&b->stop))
		bench_rnl(rnl_submit(b->pool, job), "rnl_submit");
}

static struct rnl_class *create_class(struct bench *b, struct rnl_class_attr attr)
{
	struct rnl_class *class = NULL;

	bench_rnl(rnl_class_create(&class, b->pool, &attr), "rnl_class_create");
	return class;
}

/* Begins a flood, and waits until the first second begins.  @attr: of its classes. */
static void begin_flood(struct bench *b, const struct flood *flood, bool by_hand,
			struct rnl_class_attr attr)
{
	b->flood = flood;
	b->by_hand = by_hand;
	atomic_store(&b->stop, false);
	memset(b->used, 0, sizeof(b->used));
	gpu_ok(gpu_issue_spin(1, 1, 1, *b->stamps, b->streams[0]), "a kernel");
	gpu_ok(cudaStreamSynchronize(b->streams[0]), "cudaStreamSynchronize");
	b->begin_ns = (*b->stamps)[1] + (uint64_t)b->ramp_ms * 1000000;
	if (by_hand)
		gpu_crew_begin(&b->crew);
	for (unsigned i = 0; i < QUEUED * flood->nr && !by_hand; i++) {
		struct item *item = &b->items[i];

		item->class = i % flood->nr;
		item->stamps = &b->stamps[i];
		attr.weight = flood->weights[item->class % KINDS];
		if (i < flood->nr)
			b->classes[i] = create_class(b, attr);
		bench_rnl(gpu_job_init(&item->job, item->class ? run_other : run_item),
			  "rnl_job_init");
		item->job.user = b;
		bench_rnl(rnl_job_set_class(&item->job, b->classes[item->class]),
			  "rnl_job_set_class");
		bench_rnl(rnl_job_set_on_done(&item->job, submit_again), "rnl_job_set_on_done");
		bench_rnl(rnl_submit(b->pool, &item->job), "rnl_submit");
	}
	bench_sleep_ms(b->ramp_ms);
}

static void end_flood(struct bench *b)
{
	bench_sleep_ms(2);	/* the last second ends */
	atomic_store(&b->stop, true);
	if (b->by_hand)
		gpu_crew_end(&b->crew);
	else
		bench_rnl(rnl_pool_cancel(b->pool), "rnl_pool_cancel");
	bench_rnl(rnl_pool_drain(b->pool, RNL_FOREVER), "rnl_pool_drain");
	b->sum = 1;	/* ns: never 0, even if the machine stood still */
	for (unsigned i = 0; i < b->flood->nr; i++) {
		if (!b->by_hand)
			rnl_class_destroy(b->classes[i]);
		b->sums[i] = 0;
		for (unsigned s = 0; s < b->nr_seconds; s++)
			b->sums[i] += (double)b->used[s][i];
		b->sum += b->sums[i];
	}
}

static double busy(const struct bench *b)
{
	return 100 * b->sum / ((double)b->second_ns * b->nr_seconds);
}

/* ---- shares -------------------------------------------------------------- */

/* Returns how many percent the worst of three classes is off its share; of more, Jain's index. */
static double compare(const struct bench *b)
{
	const struct flood *f = b->flood;
	const unsigned weights = f->weights[0] + f->weights[1] + f->weights[2];
	double off = 0, squares = 1;

	for (unsigned i = 0; i < f->nr; i++) {
		off = fmax(off, fabs(b->sums[i] / b->sum * weights / f->weights[i % KINDS] - 1));
		squares += b->sums[i] * b->sums[i];
	}
	return f->nr == KINDS ? 100 * off : b->sum * b->sum / (f->nr * squares);
}

static void measure_shares(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;

	begin_flood(b, &shares[way / SHARE_SIDES], way % SHARE_SIDES == 0,
		    (struct rnl_class_attr)RNL_CLASS_ATTR_INIT);
	bench_sleep_ms(b->run_ms);
	end_flood(b);
	if (b->flood->nr > 2) {
		values[0] = compare(b);
		return;
	}
	values[0] = 100 * b->sums[0] / b->sum;
	values[2] = 0;
	for (unsigned s = 0; s < b->nr_seconds; s++) {
		const uint64_t *used = b->used[s];
		const double part = 100 * (double)used[0] / (double)(used[0] + used[1] + 1);

		if (fabs(part - ASKED) < values[2])
			continue;
		values[1] = part;
		values[2] = fabs(part - ASKED);
	}
	values[3] = busy(b);
}

/* ---- the tail ------------------------------------------------------------ */

static int run_sample(struct rnl_job *job)
{
	(void)job;
	return gpu_issue_spin(1, 1, SAMPLE_NS, NULL, (cudaStream_t)rnl_stream()) ? -1 : 0;
}

/* Returns the time of a kernel on a stream, or if that is NULL, of the job. */
static double sample(struct bench *b, cudaStream_t stream, struct rnl_job *job)
{
	const uint64_t start = bench_now();

	if (stream) {
		gpu_ok(gpu_issue_spin(1, 1, SAMPLE_NS, NULL, stream), "a kernel");
		gpu_ok(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
	} else {
		bench_rnl(rnl_submit(b->pool, job), "rnl_submit");
		bench_rnl(rnl_job_wait(job, RNL_FOREVER), "rnl_job_wait");
		bench_rnl(job->result, "a kernel");
	}
	return (double)(bench_now() - start) * 1e-3;
}

static void measure_tail(void *arg, unsigned way, double *values)
{
	struct bench *b = arg;
	const struct flood *flood = &tails[way / TAIL_SIDES];
	const unsigned side = way % TAIL_SIDES;
	const bool by_hand = side < 3;
	const unsigned all_blocks = b->blocks;
	cudaStream_t const streams[] = { b->streams[0], b->streams[1], b->kept };
	struct rnl_class_attr low = RNL_CLASS_ATTR_INIT, high = RNL_CLASS_ATTR_INIT;
	struct rnl_job job;
	struct rnl_class *class;
	uint64_t end;
	size_t nr = 0;

	low.priority = 3;
	high.priority = -4;
	if (side == 5)
		low.max_device_ns = 1;	/* one job may start in any case */
	else
		high.nr_workers = 1;
	if (side == 4) {
		high.flags = RNL_CLASS_KEPT_SMS;
		high.spin_us = 2000;	/* a sample begins 1 ms after the last one */
	}
	b->green = side == 2;
	if (side == 2 || side == 4)	/* the flood fills the other SMs */
		b->blocks -= 2 * b->group;
	b->pool = side == 4 ? b->keeps : b->usual;
	class = create_class(b, high);
	bench_rnl(gpu_job_init(&job, run_sample), "rnl_job_init");
	bench_rnl(rnl_job_set_class(&job, class), "rnl_job_set_class");
	begin_flood(b, flood, by_hand, low);
	end = bench_now() + (uint64_t)b->run_ms * 1000000;
	do {
		bench_sleep_ms(1);
		b->us[nr++] = sample(b, by_hand ? streams[side] : NULL, &job);
	} while (bench_now() < end);
	end_flood(b);
	rnl_class_destroy(class);
	values[0] = bench_percentile(b->us, nr, 50);
	values[1] = bench_percentile(b->us, nr, 99);
	values[2] = busy(b) * b->blocks / all_blocks;
	b->blocks = all_blocks;
	b->pool = b->usual;
	b->green = false;
}

/* ---- the rows ------------------------------------------------------------ */

static struct bench *begin(const struct bench_run *run)
{
	const unsigned ms = (run->opt->quick ? 1 : RUN_MS_PART) * run->opt->run_ms;
	struct bench *b = bench_alloc(sizeof(*b));
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;

	b->blocks = 2 * run->opt->info.nr_multiprocessors;
	b->ramp_ms = run->opt->quick ? 10 : 100;
	b->nr_seconds = ms < 1000 ? 1 : ms / 1000;
	b->run_ms = ms < 1000 ? ms : b->nr_seconds * 1000;
	b->second_ns = (uint64_t)b->run_ms * 1000000 / b->nr_seconds;
	b->us = bench_alloc((b->run_ms + 2) * sizeof(*b->us));
	b->stamps = gpu_pinned(CLASSES_MAX * QUEUED * sizeof(*b->stamps));
	for (unsigned i = 0; i < 2; i++)
		b->streams[i] = gpu_stream(RNL_STREAM_PRIVATE, i);
	for (unsigned i = 0; i < 2 * CLASSES_MAX; i++)
		b->events[i / 2][i % 2] = gpu_event(cudaEventDisableTiming);
	gpu_crew_start(&b->crew, run->opt->info.ordinal, RNL_STREAM_PRIVATE, CLASSES_MAX, by_stream,
		       b);
	attr.max_in_flight = IN_FLIGHT;
	attr.nr_class_workers = 1;
	b->pool = b->usual = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, WORKERS, &attr);
	if (run->row->work != &bench_classes_tail || !run->opt->info.sm_group)
		return b;
	attr.kept_sms = b->group = run->opt->info.sm_group;
	b->keeps = gpu_pool(run->opt->device, RNL_STREAM_PRIVATE, WORKERS, &attr);
	gpu_green_streams(run->opt->info.ordinal, attr.kept_sms, &b->kept, b->rest, CLASSES_MAX);
	return b;
}

/* Measures floods by the row's ways: each flood has its own lines. */
static void run_row(struct bench_run *run)
{
	const bool tail = run->row->work == &bench_classes_tail;
	const struct flood *f = tail ? tails : shares;
	const struct flood *end = f + (tail ? sizeof(tails) : sizeof(shares)) / sizeof(*f);
	struct bench *b = begin(run);
	struct bench_line *lines[FIGURES_MAX];
	struct bench_way ways[FIGURES_MAX] = { { .which = 0 } };
	unsigned nr_lines = 0, nr_ways = 0, nr_floods = 0;

	for (; f < end; nr_lines += f++->nr_lines, nr_floods++) {
		for (unsigned i = 0; i < f->nr_lines; i++)
			lines[nr_lines + i] = bench_line(run, f->first + i, "%s", f->name);
		for (const struct bench_side_of *side = run->row->ways; side->name; side++) {
			struct bench_way *way = &ways[nr_ways];

			if (tail && !b->keeps && strstr(side->name, "kept SMs"))
				continue;
			way->measure = tail ? measure_tail : measure_shares;
			way->which = nr_floods * (tail ? TAIL_SIDES : SHARE_SIDES) +
				     (unsigned)(side - run->row->ways);
			nr_ways++;
			for (unsigned i = 0; i < f->nr_lines; i++)
				way->figures[i] = bench_figure(lines[nr_lines + i], side->side,
							       side->name);
		}
	}
	bench_turns(run, ways, nr_ways, b);
	rnl_pool_destroy(b->keeps);
	gpu_row_end(b, NULL);
	for (unsigned i = 0; i < nr_lines; i++)
		bench_line_tell(run, lines[i]);
}

const struct bench_work bench_classes = { .run = run_row };
const struct bench_work bench_classes_tail = { .run = run_row };
