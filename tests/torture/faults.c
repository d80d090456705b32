/* SPDX-License-Identifier: MIT */
/*
 * Faults: on the double of the CUDA runtime, calls fail, are delayed, or lose the device; and
 * checks for objects that a round leaks, on the double and in the process.
 */
#include "torture.h"

#include <dirent.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "fake_cudart/fake_cudart.h"
#include "lib/sanitizers.h"

#pragma weak fake_alive
#pragma weak fake_fail
#pragma weak fake_fail_sticky
#pragma weak fake_last_misuse
#pragma weak fake_misuses
#pragma weak fake_plan

/* Calls that may fail.  Calls that free are not listed, because a failed one would leak. */
static const char *const functions[] = {
	"cuStreamWriteValue32", "cudaEventCreateWithFlags", "cudaEventRecord", "cudaHostAlloc",
	"cudaLaunchKernel", "cudaMallocFromPoolAsync", "cudaMemcpy2DAsync", "cudaMemcpyAsync",
	"cudaMemsetAsync", "cudaStreamWaitEvent",
};

enum { MEMORY_ALLOCATION = 2, ILLEGAL_ADDRESS = 700, LAUNCH_FAILURE = 719, UNKNOWN = 999 };

static struct {
	struct fake_alive alive;
	uint64_t misuses;
	unsigned files, threads;
} expected;

__attribute__((format(printf, 1, 2))) static void plan(const char *format, ...)
{
	char text[120];
	va_list ap;

	va_start(ap, format);
	vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (fake_plan(text))
		tally_wrong(MISUSED, "the double does not understand '%s'", text);
}

void faults_prepare(uint64_t *random)
{
	const unsigned queues[] = { 0, 1, 4, 32 };

	if (!options.fake)
		return;
	plan("junk,seed=%u,queues=%u%s", 1 + draw(random, 1 << 30),
	     queues[draw(random, COUNT(queues))], draw(random, 4) ? "" : ",nowrite");
	plan("devices=%u", strcmp(options.device, "cuda") || !draw(random, 4) ?
			   1 : 2 + draw(random, PLACES_MAX - 1));
}

void faults_begin(struct round *r)
{
	const unsigned up_to_us[] = { 0, 0, 10, 100, 1000 };

	if (options.fake)
		plan("delay_calls=%u,delay_ops=%u", up_to_us[draw(&r->random, COUNT(up_to_us) - 1)],
		     up_to_us[draw(&r->random, COUNT(up_to_us))]);
	/* In some rounds calls fail before there is a pool. */
	if (r->faults == SOME_CALLS && !draw(&r->random, 4))
		(void)fake_fail(functions[draw(&r->random, COUNT(functions))],
				1 + draw(&r->random, 20), MEMORY_ALLOCATION, false);
}

void faults_end(struct round *r)
{
	if (!options.fake)
		return;
	plan("nofail,delay_calls=0,delay_ops=0");
	if (fake_misuses() != expected.misuses)
		tally_wrong(MISUSED, "%s", fake_last_misuse());
	expected.misuses = fake_misuses();
	(void)r;
}

static void lose_the_device(struct seat *seat)
{
	const int codes[] = { ILLEGAL_ADDRESS, LAUNCH_FAILURE, UNKNOWN };
	const int code = codes[draw(&seat->random, COUNT(codes))];
	struct round *r = seat->round;

	nap_us(draw(&seat->random, 60000));
	r->failed_at_ns = now_ns();
	r->failing = true;
	/* The device fails in one of the next calls, or immediately. */
	if (draw(&seat->random, 2)) {
		(void)fake_fail(NULL, 1 + draw(&seat->random, 50), code, true);
		nap_us(draw(&seat->random, 5000));
	}
	fake_fail_sticky(code);
}

void faults_meddle(struct seat *seat)
{
	struct round *r = seat->round;

	at(seat, "having calls fail");
	if (r->faults == THE_DEVICE) {
		lose_the_device(seat);
		return;
	}
	while (!r->over) {
		const char *function = functions[draw(&seat->random, COUNT(functions))];

		/* Fails if all plans are in use. */
		if (!fake_fail(function, 1 + draw(&seat->random, 100), MEMORY_ALLOCATION, false))
			tally_add(NR_FAULTS, 1);
		nap_us(draw(&seat->random, 3000));
	}
}

/* ---- leaks ------------------------------------------------------------------- */

static unsigned entries_of(const char *path)
{
	DIR *dir = opendir(path);
	unsigned nr = 0;

	while (dir && readdir(dir))
		nr++;
	if (dir)
		closedir(dir);
	return nr;
}

/*
 * Counts the process's threads without the double's executors, which may stay. ThreadSanitizer
 * starts threads at any time, so there the count is 0.
 */
static unsigned nr_threads(void)
{
	struct fake_alive before = { 0 }, after = { 0 };
	unsigned nr;

	if (THREAD_SANITIZED)
		return 0;
	/* Repeats if the executors changed meanwhile, because the difference would be wrong. */
	do {
		if (options.fake)
			fake_alive(&before);
		nr = sim_begin ? sim_nr_alive() : entries_of("/proc/self/task");
		if (options.fake)
			fake_alive(&after);
	} while (before.executors != after.executors);
	return nr - after.executors;
}

/* Returns false for a GPU, whose driver may open files and start threads at any time. */
static bool counts_files(void)
{
	return on_host() || options.fake;
}

void leaks_expect(void)
{
	if (options.fake) {
		fake_alive(&expected.alive);
		expected.misuses = fake_misuses();
	}
	expected.files = entries_of("/proc/self/fd");
	expected.threads = nr_threads();
}

static bool is_more(const char *what, uint64_t is, uint64_t was)
{
	if (is > was)
		tally_wrong(LEAKED, "%llu %s, there were %llu", (unsigned long long)is, what,
			    (unsigned long long)was);
	return is > was;
}

void leaks_check(struct round *r)
{
	const uint64_t until = now_ns() + (uint64_t)long_ns();

	(void)r;
	if (!counts_files())
		return;
	is_more("files", entries_of("/proc/self/fd"), expected.files);
	if (options.fake) {
		struct fake_alive now;

		fake_alive(&now);
		is_more("bytes on the device", now.device_bytes, expected.alive.device_bytes);
		is_more("pinned bytes", now.pinned_bytes, expected.alive.pinned_bytes);
		is_more("streams", now.streams, expected.alive.streams);
		is_more("events", now.events, expected.alive.events);
		is_more("memory pools", now.pools, expected.alive.pools);
	}
	/* The kernel may list a thread for a moment after its join. */
	while (nr_threads() > expected.threads && now_ns() < until)
		nap_us(100);
	is_more("threads", nr_threads(), expected.threads);
}
