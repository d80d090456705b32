/* SPDX-License-Identifier: MIT */
/*
 * Statistics as text for Prometheus.
 *
 * DESIGN
 *	The text is first written to allocated memory (open_memstream).  So the caller's buffer gets
 *	all of it or nothing.  Names and units follow Prometheus' conventions: base units, _total
 *	for counters.  A histogram has a bucket for each power of two, 1 us to 17 s: Prometheus
 *	stores each as a series.  For `runnel top` it has each bucket in which a time was counted.
 */
#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/stats.h>

#include "pool/classes.h"
#include "pool/pool.h"
#include "stats/stats.h"
#include "sys/thread.h"

#define FIRST_BITS 10		/* 2^10 ns = 1.024 us */
#define LAST_BITS 34

#define SECONDS "%" PRIu64 ".%09" PRIu64
#define seconds(ns) (uint64_t)(ns) / 1000000000, (uint64_t)(ns) % 1000000000

struct page {
	FILE *out;
	const char *pool;		/* value of the label `pool` */
	bool fine;			/* the text is for `runnel top` */
	unsigned nr;			/* workers and, last, the timer thread */
	struct rnl__figures *workers;	/* figures of each */
	struct rnl__figures all;
	struct rnl__class_figures *classes;
	unsigned nr_classes;
	struct rnl__class_figures *of;	/* the class whose figures are written; NULL: none */
};

/* Writes a label; escapes backslash, quote and newline in its value. */
static void put_name(const struct page *p, const char *label, const char *name)
{
	fprintf(p->out, "%s=\"", label);
	for (const char *c = name; *c; c++) {
		if (*c == '\n')
			fputs("\\n", p->out);
		else
			fprintf(p->out, *c == '\\' || *c == '"' ? "\\%c" : "%c", *c);
	}
	fputc('"', p->out);
}

/* Writes the pool's label, and those of the class whose figures are written. */
static void metrics_put_label(const struct page *p)
{
	put_name(p, "pool", p->pool);
	if (!p->of)
		return;
	put_name(p, ",class", p->of->name);
	fprintf(p->out, ",index=\"%u\"", p->of->index);
}

static void put_head(const struct page *p, const char *name, const char *type, const char *help)
{
	fprintf(p->out, "# HELP rnl_%s %s\n# TYPE rnl_%s %s\n", name, help, name, type);
}

/* Writes a figure.  @part: appended to its name.  @label: a second label, or NULL. */
static void metrics_put(const struct page *p, const char *name, const char *part, const char *label,
			const char *value, uint64_t figure)
{
	fprintf(p->out, "rnl_%s%s{", name, part);
	metrics_put_label(p);
	if (label)
		fprintf(p->out, ",%s=\"%s\"", label, value);
	fprintf(p->out, "} %" PRIu64 "\n", figure);
}

/* Writes a figure of a worker with its device, or of the timer thread, which has no device. */
static void put_of_worker(const struct page *p, const char *name, const struct rnl__worker *w,
			  uint64_t figure)
{
	char device[RNL__DEVICE_NAME_BYTES];

	fprintf(p->out, "rnl_%s{", name);
	metrics_put_label(p);
	if (w->index == RNL__TIMER) {
		fprintf(p->out, ",worker=\"timer\"} %" PRIu64 "\n", figure);
		return;
	}
	rnl__device_name(w->device, device);
	fprintf(p->out, ",worker=\"%u\",device=\"%s\"} %" PRIu64 "\n", w->index, device, figure);
}

/* Writes a figure of the pool with its description. */
static void put_one(const struct page *p, const char *name, const char *type, const char *help,
		    uint64_t figure)
{
	put_head(p, name, type, help);
	metrics_put(p, name, "", NULL, NULL, figure);
}

/* Writes a figure of each worker. */
static void put_each(const struct page *p, const struct rnl_pool *pool, const char *name,
		     size_t field)
{
	for (unsigned i = 0; i < p->nr; i++) {
		const bool timer = i == p->nr - 1;
		uint64_t value;

		memcpy(&value, (const char *)&p->workers[i].stats + field, sizeof(value));
		put_of_worker(p, name, timer ? &pool->timer.self : rnl__worker_at(pool, i), value);
	}
}

static void put_seconds(const struct page *p, const char *name, const char *part, uint64_t ns)
{
	fprintf(p->out, "rnl_%s%s{", name, part);
	metrics_put_label(p);
	fprintf(p->out, "} " SECONDS "\n", seconds(ns));
}

static void put_permille(const struct page *p, const char *name, uint64_t value)
{
	fprintf(p->out, "rnl_%s{", name);
	metrics_put_label(p);
	fprintf(p->out, "} %" PRIu64 ".%03" PRIu64 "\n", value / 1000, value % 1000);
}

static void put_bucket(const struct page *p, const char *name, uint64_t end_ns, uint64_t below)
{
	char end[32];

	snprintf(end, sizeof(end), SECONDS, seconds(end_ns));
	metrics_put(p, name, "_bucket", "le", end, below);
}

static void put_buckets(const struct page *p, const char *name, const struct rnl__hist_sum *sum)
{
	uint64_t below = 0;

	for (unsigned bits = FIRST_BITS; !p->fine && bits <= LAST_BITS; bits++)
		put_bucket(p, name, UINT64_C(1) << bits, rnl__hist_below(sum, bits));
	for (unsigned i = 0; p->fine && i < RNL__HIST_BUCKETS - 1; i++) {
		below += sum->nr[i];
		if (sum->nr[i])
			put_bucket(p, name, rnl__hist_end_of(i), below);
	}
	metrics_put(p, name, "_bucket", "le", "+Inf", sum->total);
	put_seconds(p, name, "_sum", sum->sum_ns);
	metrics_put(p, name, "_count", NULL, NULL, sum->total);
}

static void put_histogram(const struct page *p, const char *name, const struct rnl__hist_sum *sum,
			  const char *help)
{
	put_head(p, name, "histogram", help);
	put_buckets(p, name, sum);
}

static void put_health(const struct page *p, struct rnl_pool *pool)
{
	struct rnl_health health = RNL_HEALTH_INIT;

	(void)rnl_pool_health(pool, &health);
	put_one(p, "health", "gauge", "0 ok, 1 overloaded, 2 a worker is stuck, 3 device failed.",
		health.state);
	put_one(p, "workers", "gauge", "Workers that serve.", p->all.stats.nr_workers);
}

#define FIELD(name) offsetof(struct rnl_pool_stats, name)

static const struct {
	const char *name, *type, *help;
	size_t field;
} figures[] = {
	{ "jobs_done_total", "counter", "Jobs completed.", FIELD(done) },
	{ "jobs_failed_total", "counter", "Jobs completed with a negative result.", FIELD(failed) },
	{ "jobs_cancelled_total", "counter", "Jobs cancelled, not run.", FIELD(cancelled) },
	{ "jobs_timed_out_total", "counter", "Jobs past their deadline, not run.",
	  FIELD(timed_out) },
	{ "jobs_stolen_total", "counter", "Jobs run by another worker.", FIELD(stolen) },
	{ "jobs_gathered_total", "counter", "Jobs issued with the work of others.",
	  FIELD(gathered) },
	{ "graphs_total", "counter", "Graphs launched for jobs that gather.",
	  FIELD(graphs) },
	{ "jobs_replayed_total", "counter", "Jobs whose recorded work was issued without a call.",
	  FIELD(replayed) },
	{ "worker_sleeps_total", "counter", "Times that a worker fell asleep idle.", FIELD(slept) },
	{ "staged_bytes_total", "counter", "Bytes of pageable copies, which a CPU copied.",
	  FIELD(staged_bytes) },
	{ "untraced_total", "counter", "Records of jobs that a trace had no room for.",
	  FIELD(untraced) },
	{ "jobs_queued", "gauge", "Jobs on the worker's queue.", FIELD(queued) },
	{ "jobs_in_flight", "gauge", "Jobs on the worker's stream.", FIELD(in_flight) },
	{ "jobs_held", "gauge", "Jobs that wait for nothing but their holds.", FIELD(held) },
};

/* Writes the guard's figures.  A pool of private streams on CUDA has a guard in any case. */
static void put_guard(const struct page *p)
{
	const struct rnl_guard_stats *guard = &p->all.stats.guard;
	const struct {
		const char *kind;
		uint64_t nr;
	} found[] = {
		{ "legacy_stream", guard->legacy },
		{ "wait", guard->waits },
		{ "memory", guard->memory },
		{ "wait_or_memory", guard->waits_or_memory },
		{ "pageable_copy", guard->pageable },
		{ "unclear", guard->unclear },
		{ "stray", guard->strays },
	};

	put_one(p, "guard_functions_total", "counter",
		"Functions of jobs that guard has watched.", guard->functions);
	put_head(p, "guard_findings_total", "counter",
		 "Functions in which guard has found something.");
	for (size_t i = 0; i < sizeof(found) / sizeof(found[0]); i++)
		metrics_put(p, "guard_findings_total", "", "kind", found[i].kind, found[i].nr);
	put_one(p, "guard_called_again_total", "counter", "Calls that guard had to make twice.",
		guard->twice);
	put_head(p, "guard_unwatched_total", "counter", "Runs of functions not watched yet: "
		 "the pool was not quiet, or they are too many.");
	metrics_put(p, "guard_unwatched_total", "", "reason", "not_quiet", guard->postponed);
	metrics_put(p, "guard_unwatched_total", "", "reason", "too_many", guard->beyond);
}

/* The figures of a class; the pool's own has only the first one. */
static const struct {
	const char *name, *type, *help;
} of_classes[] = {
	{ "class_jobs_run_total", "counter", "Jobs whose function was called." },
	{ "class_jobs_accepted_total", "counter", "Jobs that the class accepted." },
	{ "class_jobs_refused_total", "counter", "Times that a submit found the class full." },
	{ "class_jobs_unadmitted_total", "counter", "Submits refused, because the job would be late." },
	{ "class_jobs_expired_total", "counter", "Jobs past their deadline, not run." },
	{ "class_jobs_late_total", "counter", "Jobs that would have ended late, not run." },
	{ "class_jobs_queued", "gauge", "Jobs on the class's queue." },
	{ "class_jobs_started", "gauge", "Jobs of the class started and not done." },
};

static void put_figures_of_class(struct page *p, size_t figure)
{
	const struct rnl_class_stats *s = &p->of->stats;
	/* In the order of the table. */
	const uint64_t values[] = {
		s->done, s->accepted, s->refused, s->unadmitted, s->expired, s->late, s->queued,
		s->started,
	};

	metrics_put(p, of_classes[figure].name, "", NULL, NULL, values[figure]);
}

static void put_classes(struct page *p)
{
	struct rnl__class_figures *const end = p->classes + p->nr_classes;

	for (size_t i = 0; i < sizeof(of_classes) / sizeof(of_classes[0]); i++) {
		put_head(p, of_classes[i].name, of_classes[i].type, of_classes[i].help);
		for (p->of = p->classes + (i > 0); p->of < end; p->of++)
			put_figures_of_class(p, i);
	}
	put_head(p, "class_device_seconds_total", "counter", "Device time that jobs have used.");
	for (p->of = p->classes; p->of < end; p->of++)
		put_seconds(p, "class_device_seconds_total", "", p->of->stats.device_ns);
	put_head(p, "class_estimate_error_ratio", "gauge", "Distance of estimates from what jobs used.");
	for (p->of = p->classes; p->of < end; p->of++)
		put_permille(p, "class_estimate_error_ratio", p->of->stats.error_permille);
	put_head(p, "class_queue_wait_seconds", "histogram",
		 "On the class's queue, of the jobs timed.");
	for (p->of = p->classes + 1; p->of < end; p->of++)
		put_buckets(p, "class_queue_wait_seconds", &p->of->queue_wait);
	p->of = NULL;
}

static void put_all(struct page *p, struct rnl_pool *pool)
{
	const struct rnl_pool_stats *all = &p->all.stats;

	put_health(p, pool);
	put_one(p, "jobs_unfinished", "gauge", "Jobs accepted and not done.",
		all->accepted > all->done ? all->accepted - all->done : 0);
	put_one(p, "pinned_locked_bytes", "gauge", "Bytes page-locked for pinned buffers.",
		all->pinned_locked);
	put_one(p, "pinned_used_bytes", "gauge", "Bytes in pinned buffers given out.",
		all->pinned_used);
	put_one(p, "device_calls_total", "counter",
		"Calls of the process that had the device allocate, free, or make an event.",
		all->device_calls);
	if (pool->guard)
		put_guard(p);
	for (size_t i = 0; i < sizeof(figures) / sizeof(figures[0]); i++) {
		put_head(p, figures[i].name, figures[i].type, figures[i].help);
		put_each(p, pool, figures[i].name, figures[i].field);
	}
	put_histogram(p, "queue_wait_seconds", &p->all.queue_wait,
		      "From submit to start, of the jobs timed.");
	put_histogram(p, "host_seconds", &p->all.host, "In the job's function, of the jobs timed.");
	put_histogram(p, "device_seconds", &p->all.device,
		      "From the function's return until done, of the jobs timed.");
	if (p->nr_classes)
		put_classes(p);
}

char *rnl__metrics_text(struct rnl_pool *pool, const char *name, bool fine, size_t *length)
{
	RNL__UNCANCELLED();
	char *text = NULL;
	struct page *p = calloc(1, sizeof(*p));
	int bad = 1;

	if (!p)
		return NULL;
	p->pool = name ? name : pool->name;
	p->fine = fine;
	p->nr = rnl__pool_nr_workers(pool) + 1;
	p->workers = calloc(p->nr, sizeof(*p->workers));
	p->classes = calloc(RNL__CLASSES_NR, sizeof(*p->classes));
	p->out = p->workers && p->classes ? open_memstream(&text, length) : NULL;
	if (p->out) {
		for (unsigned i = 0; i < p->nr - 1; i++)
			rnl__stats_add(&p->workers[i], rnl__worker_at(pool, i));
		rnl__stats_add(&p->workers[p->nr - 1], &pool->timer.self);
		rnl__stats_add_all(&p->all, pool);
		p->nr_classes = rnl__classes_figures(pool, p->classes);
		put_all(p, pool);
		bad = ferror(p->out);
		bad = fclose(p->out) || bad;
	}
	free(p->workers);
	free(p->classes);
	free(p);
	if (!bad)
		return text;
	free(text);
	return NULL;
}

int rnl_pool_stats_text(struct rnl_pool *pool, const char *name, char *buf, size_t bytes)
{
	int ret = rnl__pool_given(pool, "rnl_pool_stats_text()");
	size_t length;
	char *text;

	if (ret)
		return ret;
	if (!buf && bytes)
		return rnl__invalid(&pool->log, "rnl_pool_stats_text(): buf is NULL, and bytes is %zu",
				    bytes);
	text = rnl__metrics_text(pool, name, false, &length);
	if (!text || length > INT_MAX) {
		free(text);
		return -ENOMEM;
	}
	if (length < bytes)
		memcpy(buf, text, length + 1);
	else if (bytes)
		*buf = '\0';
	free(text);
	return (int)length;
}
