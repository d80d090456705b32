/* SPDX-License-Identifier: MIT */
/*
 * Hand-written code: threads that issue their work to their own streams.
 *
 * DESIGN
 *	As good as we can make it. Threads pass no work and share no data. Events, words and memory
 *	are made before. A thread has a ring of all jobs that may be in flight; a mark covers some
 *	of them. Only when the ring is full, the thread waits for the oldest mark: until then it
 *	only launches. Each job's output is checked before its memory is used again.
 */
#include "gpu/work.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

#define PAUSES 32		/* between two queries, which slow other threads' launches */
#define LOOKS 1024		/* then yields: there may be more threads than CPUs */

/* ---- a crew -------------------------------------------------------------- */

static void *serve_crew(void *arg)
{
	struct gpu_crew *crew = arg;
	const unsigned index = atomic_fetch_add(&crew->next, 1);
	cudaStream_t stream;

	gpu_enter(crew->ordinal);
	stream = gpu_stream(crew->kind, false);
	pthread_barrier_wait(&crew->end);
	for (;;) {
		pthread_barrier_wait(&crew->start);
		crew->work(crew->arg, index, stream);
		pthread_barrier_wait(&crew->end);
	}
	return NULL;
}

void gpu_crew_start(struct gpu_crew *crew, int ordinal, enum rnl_stream_kind kind, unsigned nr,
		    void (*work)(void *arg, unsigned index, cudaStream_t stream), void *arg)
{
	pthread_t thread;

	crew->ordinal = ordinal;
	crew->kind = kind;
	crew->work = work;
	crew->arg = arg;
	pthread_barrier_init(&crew->start, NULL, nr + 1);
	pthread_barrier_init(&crew->end, NULL, nr + 1);
	for (unsigned i = 0; i < nr; i++)
		bench_must(!pthread_create(&thread, NULL, serve_crew, crew), "pthread_create");
	pthread_barrier_wait(&crew->end);
}

void gpu_crew_begin(struct gpu_crew *crew)
{
	pthread_barrier_wait(&crew->start);
}

void gpu_crew_end(struct gpu_crew *crew)
{
	pthread_barrier_wait(&crew->end);
}

/* ---- a team -------------------------------------------------------------- */

struct hand {
	struct gpu_team *team;
	cudaStream_t stream;
	struct gpu_slot *slots;		/* the team's nr_slots */
	cudaEvent_t *events;		/* GPU_DEPTH_MAX */
	uint32_t *word;			/* page-locked, on its own cache line */
	uint32_t written;		/* value that the last mark writes there */
	uint64_t done, began, ended;
} __attribute__((aligned(64)));

struct gpu_team {
	struct gpu_hand_variant variant;
	gpu_issue_fn *issue;
	bool check;
	unsigned nr_threads, nr_slots;
	struct gpu_crew crew;
	const cudaStream_t *streams;	/* NULL: the crew's */
	atomic_bool stop;
	struct hand *hands;
};

void gpu_hand_name(const struct gpu_hand_variant *variant, char *text, size_t bytes)
{
	static const char *const marks[] = {
		[GPU_EVENT] = "event", [GPU_EVENT_SYNC] = "event sync", [GPU_FLAG] = "flag"
	};

	if (variant->mark == GPU_SYNC)
		snprintf(text, bytes, "stream sync per job");
	else
		snprintf(text, bytes, "%s/%u d%u", marks[variant->mark], variant->jobs,
			 variant->depth);
}

static bool stops(const struct hand *h)
{
	/* relaxed: publishes no data */
	return atomic_load_explicit(&h->team->stop, memory_order_relaxed);
}

static void issue(struct hand *h, struct gpu_slot *slot)
{
	if (h->team->check)
		gpu_prepare(slot);
	gpu_ok(h->team->issue(slot, h->stream), "hand-written work");
}

static void look_at(struct hand *h, const struct gpu_slot *slot)
{
	if (h->team->check)
		gpu_check(slot);
	h->done++;
}

static void mark(struct hand *h, unsigned place)
{
	if (h->team->variant.mark == GPU_FLAG)
		gpu_stream_write(h->stream, h->word, ++h->written);
	else
		gpu_ok(cudaEventRecord(h->events[place], h->stream), "cudaEventRecord");
}

static void query_until_passed(cudaEvent_t event)
{
	unsigned looks = 0;
	cudaError_t code;

	while ((code = cudaEventQuery(event)) == cudaErrorNotReady) {
		for (int i = 0; i < PAUSES; i++)
			bench_relax();
		if (++looks % (LOOKS / PAUSES) == 0)
			sched_yield();
	}
	gpu_ok(code, "cudaEventQuery");
	if (looks)
		(void)cudaGetLastError();	/* "not ready" must not count as a launch's error */
}

void gpu_await_word(const uint32_t *word, uint32_t value)
{
	unsigned looks = 0;

	/* acquire: the stream's work before it wrote the word */
	while ((int32_t)(__atomic_load_n(word, __ATOMIC_ACQUIRE) - value) < 0) {
		bench_relax();
		if (++looks % LOOKS == 0)
			sched_yield();
	}
}

/* Waits for a mark.  @value: the value that it writes. */
static void await(struct hand *h, unsigned place, uint32_t value)
{
	const enum gpu_mark mark = h->team->variant.mark;

	if (mark == GPU_EVENT)
		query_until_passed(h->events[place]);
	else if (mark == GPU_EVENT_SYNC)
		gpu_ok(gpu_event_sync(h->events[place]), "cudaEventSynchronize");
	else
		gpu_await_word(h->word, value);
}

static void run_ring(struct hand *h)
{
	const unsigned jobs = h->team->variant.jobs, depth = h->team->variant.depth;
	const unsigned marks = depth / jobs, ring = depth + h->team->variant.spare;
	const uint32_t before = h->written;
	uint64_t issued = 0, done = 0;

	for (bool last = false; !last || done < issued;) {
		if (last || issued == done + depth) {
			const uint64_t group = done / jobs, end = done + jobs;

			await(h, (unsigned)(group % marks), before + (uint32_t)group + 1);
			for (; done < end; done++)
				look_at(h, &h->slots[done % ring]);
			continue;
		}
		issue(h, &h->slots[issued % ring]);
		issued++;
		if (issued % jobs)
			continue;
		last = stops(h);
		mark(h, (unsigned)((issued / jobs - 1) % marks));
	}
}

static void run_synced(struct hand *h)
{
	while (!stops(h)) {
		issue(h, h->slots);
		gpu_ok(cudaStreamSynchronize(h->stream), "cudaStreamSynchronize");
		look_at(h, h->slots);
	}
}

static void work(void *arg, unsigned index, cudaStream_t stream)
{
	struct gpu_team *team = arg;
	struct hand *h = &team->hands[index];

	h->stream = team->streams ? team->streams[index] : stream;
	h->done = 0;
	h->began = bench_now();
	if (team->variant.mark == GPU_SYNC)
		run_synced(h);
	else
		run_ring(h);
	h->ended = bench_now();
	for (unsigned i = 0; team->check && i < team->nr_slots; i++)
		gpu_check_all(&h->slots[i]);
}

struct gpu_team *gpu_team_start(int ordinal, enum rnl_stream_kind kind, unsigned nr_threads,
				gpu_issue_fn *issued, bool check)
{
	struct gpu_team *team = bench_alloc(sizeof(*team));

	team->issue = issued;
	team->check = check;
	team->nr_threads = nr_threads;
	team->nr_slots = GPU_DEPTH_MAX;
	team->hands = bench_alloc(nr_threads * sizeof(*team->hands));
	for (unsigned i = 0; i < nr_threads; i++) {
		struct hand *h = &team->hands[i];

		h->team = team;
		h->slots = bench_alloc(GPU_DEPTH_MAX * sizeof(*h->slots));
		gpu_slots(h->slots, GPU_DEPTH_MAX, sizeof(*h->slots));
		h->events = bench_alloc(GPU_DEPTH_MAX * sizeof(cudaEvent_t));
		for (int k = 0; k < GPU_DEPTH_MAX; k++)
			h->events[k] = gpu_event(cudaEventDisableTiming);
		h->word = gpu_pinned(128);
	}
	gpu_crew_start(&team->crew, ordinal, kind, nr_threads, work, team);
	return team;
}

void gpu_team_issue(struct gpu_team *team, gpu_issue_fn *issued, bool check)
{
	team->issue = issued;
	team->check = check;
}

void gpu_team_shape(struct gpu_team *team, const struct gpu_shape *shape, unsigned depth,
		    uint32_t *pinned, uint32_t *dev)
{
	const size_t words = (size_t)depth * gpu_largest(shape);

	team->nr_slots = depth;
	for (unsigned i = 0; i < team->nr_threads; i++) {
		struct hand *h = &team->hands[i];

		free(h->slots);
		h->slots = bench_alloc(depth * sizeof(*h->slots));
		gpu_slots_in(h->slots, depth, sizeof(*h->slots), shape, pinned + i * 2 * words,
			     dev + i * words);
	}
}

void gpu_team_kernel(struct gpu_team *team, uint32_t kernel)
{
	for (unsigned i = 0; i < team->nr_threads * team->nr_slots; i++) {
		struct gpu_slot *slot = &team->hands[i / team->nr_slots].slots[i % team->nr_slots];

		slot->kernel = kernel;
		slot->seq = 0;
	}
}

void gpu_team_streams(struct gpu_team *team, const cudaStream_t *streams)
{
	team->streams = streams;
}

void gpu_team_begin(struct gpu_team *team, const struct gpu_hand_variant *variant)
{
	team->variant = *variant;
	atomic_store(&team->stop, false);
	gpu_crew_begin(&team->crew);
}

double gpu_team_end(struct gpu_team *team)
{
	uint64_t began = UINT64_MAX, ended = 0, done = 0;

	atomic_store(&team->stop, true);
	gpu_crew_end(&team->crew);
	for (unsigned i = 0; i < team->nr_threads; i++) {
		const struct hand *h = &team->hands[i];

		began = h->began < began ? h->began : began;
		ended = h->ended > ended ? h->ended : ended;
		done += h->done;
	}
	return (double)done * 1e9 / (double)(ended - began);
}

double gpu_team_rate(struct gpu_team *team, const struct gpu_hand_variant *variant, unsigned ms)
{
	return gpu_teams_rate(&team, 1, variant, ms);
}

double gpu_teams_rate(struct gpu_team *const *teams, unsigned nr,
		      const struct gpu_hand_variant *variant, unsigned ms)
{
	double sum = 0;

	for (unsigned i = 0; i < nr; i++)
		gpu_team_begin(teams[i], variant);
	bench_sleep_ms(ms);
	for (unsigned i = 0; i < nr; i++)
		sum += gpu_team_end(teams[i]);
	return sum;
}
