/* SPDX-License-Identifier: MIT */
/*
 * Measures a way: its rate with many requests under way, and the latency of lone requests.
 *
 * DESIGN
 * For the rate, each producer, a thread, keeps its share of the requests under way: like a server it
 * waits only for its completion queue, takes all answers that are there, and sends as many new
 * requests.  It takes answers before it sends, because a batcher may have no space for a new request
 * until old ones are released.  For the latency, this thread sends one request at a time and waits
 * for it.  Both measurements are done twice, and the first, shorter one warms up.
 */
#include "config.h"

#include "common/program.h"
#include "small_jobs.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

#include <runnel/replay.h>

#define REAP 64
#define LONE_MAX (1 << 20)		/* requests */
#define LONE_MIN 100			/* for the 99th percentile */
#define WARM_UP 4			/* takes the time of a measurement divided by this */

static atomic_bool interrupted;

static void interrupt(int number)
{
	(void)number;
	atomic_store(&interrupted, true);
}

void small_catch_signals(void)
{
	const struct sigaction action = { .sa_handler = interrupt, .sa_flags = SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

static bool is_over(uint64_t end)
{
	return atomic_load(&interrupted) || program_now_ns() >= end;
}

/* ---- many requests under way --------------------------------------------- */

struct producer {
	pthread_t thread;
	struct small *s;
	struct small_request *requests;	/* its share */
	unsigned nr;
	uint64_t end;			/* time */
	uint64_t nr_done;
};

static void *produce(void *arg)
{
	struct producer *p = arg;
	unsigned under_way = p->nr;
	struct rnl_job *done[REAP];
	struct rnl_cq *cq;

	program_must(rnl_cq_create(&cq), "a completion queue");
	for (unsigned i = 0; i < p->nr; i++) {
		program_must(rnl_job_set_cq(&p->requests[i].request.job, cq), "a request's queue");
		small_send(p->s, &p->requests[i]);
	}
	while (under_way) {
		const int nr = rnl_cq_reap(cq, done, REAP, RNL_FOREVER);
		const bool stop = is_over(p->end);

		program_must(nr, "a completion queue");
		for (int i = 0; i < nr; i++)
			small_take(p->s, rnl_container_of(done[i], struct small_request, request.job));
		p->nr_done += (unsigned)nr;
		if (stop)
			under_way -= (unsigned)nr;
		for (int i = 0; i < nr && !stop; i++)
			small_send(p->s, rnl_container_of(done[i], struct small_request, request.job));
	}
	for (unsigned i = 0; i < p->nr; i++)
		program_must(rnl_job_set_cq(&p->requests[i].request.job, NULL), "a request's queue");
	rnl_cq_destroy(cq);
	return NULL;
}

static void note(const struct small_way *way, uint64_t nr, const struct small_counts *from,
		 const struct small_counts *to, struct small_figures *f)
{
	const uint64_t batches = to->batches - from->batches;
	const uint64_t jobs = way->flags & RNL_GATHER ? to->gathered - from->gathered :
						       to->replayed - from->replayed;

	if (batches)
		snprintf(f->note, sizeof(f->note), ", %.1f on average",
			 (double)(to->requests - from->requests) / (double)batches);
	else if (way->flags)
		snprintf(f->note, sizeof(f->note), ": %.0f %%", 100 * (double)jobs / (double)nr);
}

static void measure_rate(struct small *s, uint64_t ns, struct small_figures *f)
{
	struct producer producers[PROGRAM_WORKERS_MAX];
	const struct small_counts from = small_count(s);
	const uint64_t begin = program_now_ns();
	struct small_counts to;
	uint64_t nr_done = 0;

	for (unsigned i = 0; i < s->producers; i++) {
		const unsigned first = s->under_way * i / s->producers;

		producers[i] = (struct producer){
			.s = s, .requests = s->requests + first, .end = begin + ns,
			.nr = s->under_way * (i + 1) / s->producers - first,
		};
		program_must(-pthread_create(&producers[i].thread, NULL, produce, &producers[i]),
			     "starting a producer");
	}
	for (unsigned i = 0; i < s->producers; i++) {
		pthread_join(producers[i].thread, NULL);
		nr_done += producers[i].nr_done;
	}
	f->per_s = (double)nr_done * 1e9 / (double)(program_now_ns() - begin);
	to = small_count(s);
	note(s->way, nr_done, &from, &to, f);
}

/* ---- one request at a time ----------------------------------------------- */

/* Notes how many lone requests the resident kernel answered. */
static void note_resident(const struct small_counts *from, const struct small_counts *to, unsigned nr,
			  struct small_figures *f)
{
	const size_t at = strlen(f->note);

	if (to->resident)
		snprintf(f->note + at, sizeof(f->note) - at, "; lone ones: %.0f %% resident",
			 100 * (double)(to->resident - from->resident) / (double)nr);
}

static void measure_latency(struct small *s, uint64_t ns, double *times, struct small_figures *f)
{
	const uint64_t end = program_now_ns() + ns;
	const struct small_counts from = small_count(s);
	struct small_request *r = s->requests;
	struct small_counts to;
	unsigned nr = 0;

	while (nr < LONE_MAX && (nr < LONE_MIN || !is_over(end))) {
		const uint64_t begin = program_now_ns();

		small_send(s, r);
		program_must(rnl_job_wait(&r->request.job, RNL_FOREVER), s->way->name);
		times[nr++] = (double)(program_now_ns() - begin) / 1e3;
		small_take(s, r);
	}
	to = small_count(s);
	note_resident(&from, &to, nr, f);
	f->p50_us = program_median(times, nr);
	f->p99_us = times[nr * 99 / 100];	/* they are sorted */
}

bool small_measure(struct small *s, const struct small_way *way, struct small_figures *figures)
{
	const uint64_t ns = s->ms * 1000000ull;
	double *times = calloc(LONE_MAX, sizeof(*times));

	if (!times)
		program_die("%s: out of memory", way->name);
	*figures = (struct small_figures){ .way = way };
	small_begin(s, way);
	measure_latency(s, ns / WARM_UP, times, figures);
	measure_rate(s, ns / WARM_UP, figures);
	measure_rate(s, ns, figures);
	measure_latency(s, ns, times, figures);
	small_end(s);
	free(times);
	return !atomic_load(&interrupted);
}
