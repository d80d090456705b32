/* SPDX-License-Identifier: MIT */
/*
 * A user's program for ThreadSanitizer; races.sh builds it and links it to the ordinary library.
 *
 * DESIGN
 *	`races ordered` shares plain memory across each order that the library guarantees, with all
 *	kinds of submits and notifications: ThreadSanitizer must not report a race. `races race
 *	NAME` makes accesses that the library does not order: ThreadSanitizer must report them.
 *	There threads only meet by relaxed atomics, which order nothing, so both sides run on any
 *	machine.
 */
#include <runnel/map.h>
#include <runnel/trace.h>

#include "races.h"

struct rnl_pool *pool;
atomic_uint blocked, goes_on;

static void traced(const char *file)
{
	must(rnl_trace_start(pool, file, NULL), "rnl_trace_start");
	waits();
	must(rnl_trace_stop(pool), "rnl_trace_stop");
	remove(file);
}

/* ---- accesses without an order ---------------------------------------------------- */

static unsigned victim;
static atomic_int arrived;

/* Waits until both workers are in their functions, before one of them writes. */
static void meet(void)
{
	/* relaxed, both: must not order anything */
	atomic_fetch_add_explicit(&arrived, 1, memory_order_relaxed);
	while (atomic_load_explicit(&arrived, memory_order_relaxed) < 2)
		nap();
}

/* Writes several times, because ThreadSanitizer may miss two simultaneous accesses. */
static void write_often(void)
{
	for (int i = 0; i < 10; i++) {
		victim++;
		nap();
	}
}

static int write_victim(struct rnl_job *job)
{
	(void)job;
	meet();
	write_often();
	return 0;
}

static void two_jobs_in(struct rnl_barrier *barrier)
{
	struct rnl_job jobs[2];

	for (unsigned i = 0; i < 2; i++) {
		rnl_job_init(&jobs[i], write_victim);
		if (barrier)
			rnl_barrier_add(barrier, &jobs[i]);
		must((rnl_job_set_key(&jobs[i], RNL_KEY_WORKER(i)), rnl_submit(pool, &jobs[i])),
		     "submit");
	}
	for (unsigned i = 0; i < 2; i++)
		must(rnl_job_wait(&jobs[i], RNL_FOREVER), "wait");
}

static void race_jobs(void)
{
	two_jobs_in(NULL);
}

/* Jobs of one barrier have no order among them. */
static void race_barrier(void)
{
	struct rnl_barrier barrier;

	rnl_barrier_init(&barrier, pool);
	two_jobs_in(&barrier);
}

/* The caller writes its job's data after the submit. */
static void race_submit(void)
{
	struct rnl_job job;

	rnl_job_init(&job, write_victim);
	must(rnl_submit(pool, &job), "submit");
	meet();
	write_often();
	must(rnl_job_wait(&job, RNL_FOREVER), "wait");
}

/* A job's end does not order another job. */
static void race_other(void)
{
	struct rnl_job writer, other;

	rnl_job_init(&writer, write_victim);
	rnl_job_init(&other, block);
	goes_on = 1;
	must((rnl_job_set_key(&writer, RNL_KEY_WORKER(0)), rnl_submit(pool, &writer)),
	     "submit");
	meet();
	must((rnl_job_set_key(&other, RNL_KEY_WORKER(1)), rnl_submit(pool, &other)),
	     "submit");
	must(rnl_job_wait(&other, RNL_FOREVER), "wait");
	write_often();
	must(rnl_job_wait(&writer, RNL_FOREVER), "wait");
}

/* A wait for a job does not wait for its callback. */
static void write_in_callback(struct rnl_job *job)
{
	write_victim(job);
}

static void race_callback(void)
{
	struct rnl_job job;

	rnl_job_init(&job, block);
	rnl_job_set_on_done(&job, write_in_callback);
	goes_on = 1;
	must(rnl_submit(pool, &job), "submit");
	must(rnl_job_wait(&job, RNL_FOREVER), "wait");
	meet();
	write_often();
	must(rnl_pool_drain(pool, RNL_FOREVER), "drain");
}

/* Different keys have no order; requests of a batcher and chunks of a map have no order, either. */
static int race_chunk(const struct rnl_chunk *chunk)
{
	if (chunk->index >= 2)
		return 0;
	meet();
	write_often();
	return 0;
}

static void race_map(void)
{
	static unsigned numbers[JOBS * NUMBERS];
	struct rnl_map map = RNL_MAP_INIT;
	struct rnl_barrier barrier;

	rnl_barrier_init(&barrier, pool);
	map.fn = race_chunk;
	map.nr = JOBS * NUMBERS;
	map.chunk = NUMBERS;
	map.in_bytes = sizeof(numbers[0]);
	map.in = numbers;
	must(rnl_map_start(pool, &map, &barrier), "rnl_map_start");
	must(rnl_barrier_wait(&barrier, RNL_FOREVER), "wait");
}

/* ---- main --------------------------------------------------------------------------------- */

static const struct scene {
	const char *name;
	void (*run)(void);
} ordered[] = {
	{ "waits", waits }, { "many", many }, { "queues", queues }, { "callbacks", callbacks },
	{ "barriers", barriers }, { "notifies", notifies }, { "joins", joins },
	{ "cancelled after", cancelled_after }, { "keyed", keyed }, { "chains", chains },
	{ "orders", orders }, { "holds", holds }, { "delayed", delayed }, { "unrun", unrun },
	{ "notice", notice }, { "memory", memory },
	{ "streams", streams }, { "maps", maps }, { "batchers", batchers },
	{ "lives", lives },
}, races[] = {
	{ "jobs", race_jobs }, { "barrier", race_barrier }, { "submit", race_submit },
	{ "other", race_other }, { "callback", race_callback }, { "map", race_map },
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

int main(int argc, char **argv)
{
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	unsigned nr = 0;

	attr.device = "host";
	attr.nr_workers = WORKERS;
	attr.nr_class_workers = 1;
	must(rnl_pool_create(&pool, &attr), "rnl_pool_create");
	for (size_t i = 0; i < COUNT(ordered); i++)
		if (argc == 2 && (!strcmp(argv[1], "ordered") || !strcmp(argv[1], ordered[i].name))) {
			ordered[i].run();
			nr++;
		}
	if (argc == 3 && !strcmp(argv[1], "traced")) {
		traced(argv[2]);
		nr++;
	}
	for (size_t i = 0; i < COUNT(races); i++)
		if (argc == 3 && !strcmp(argv[1], "race") && !strcmp(argv[2], races[i].name)) {
			races[i].run();
			nr++;
		}
	rnl_pool_destroy(pool);
	printf("%u\n", nr);
	return nr ? EXIT_SUCCESS : EXIT_FAILURE;
}
