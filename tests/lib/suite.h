/* SPDX-License-Identifier: MIT */
/*
 * Shared by every test program: tests that declare themselves, the device under test, a time scale.
 * suite.c has main().
 *
 *	TEST(a_key_keeps_its_worker, .timeout_s = 60)
 *	{
 *		...
 *	}
 *
 * Check forks each test, except on a GPU.  CUDA does not survive a fork: call runnel only in a
 * test's body or its setup, never before.
 */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <runnel.h>

#ifdef __cplusplus
/* tests set only some fields */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
extern "C" {
#endif

/* The options of a test, in this order. */
struct suite_test {
	const TTest *body;
	int timeout_s;		/* limit on an idle machine; 0: SUITE_TIMEOUT_S */
	int loops;		/* number of runs, with _i from 0; 0: one run */
	void (*setup)(void), (*teardown)(void);
	int left_out;		/* the test does not run */
	const char *not_simulated;	/* why it does not run on a simulated machine (make sim) */
	/*
	 * Why the library fails the test until a later change fixes it.  The runner counts the
	 * failure as skipped.  A pass is a failure, because the fix must remove this mark.  The
	 * test must not skip; it must not hang or crash on a GPU, where tests share a process.
	 */
	const char *known_to_fail;
};

/* For PATIENCE_S.  Short in a test that is known to fail: the event it waits for never happens. */
extern double suite_patience_s;
extern bool suite_known_to_fail;	/* of the running test */

/* Adds a test to the program.  TEST() calls it. */
void suite_add(const struct suite_test *test);

/* Declares a test and adds it to the program: the only place that names it. */
#define TEST(name_, ...) \
	static void name_##_fn(int _i); \
	static const TTest name_##_body = { #name_, name_##_fn, __FILE__, __LINE__ }; \
	__attribute__((constructor)) static void name_##_is_added(void) \
	{ \
		const struct suite_test test_ = { .body = &name_##_body, ##__VA_ARGS__ }; \
		suite_add(&test_); \
	} \
	static void name_##_fn(int _i CK_ATTRIBUTE_UNUSED)

/*
 * A file may define these functions.  suite_begin() is called before the first test; it returns
 * SUITE_GOES_ON or the program's exit status.  suite_end() is called after the last test.
 */
#define SUITE_GOES_ON (-1)
__attribute__((weak)) int suite_begin(int argc, char **argv);
__attribute__((weak)) void suite_end(int nr_failed);

/*
 * A GPU takes a second to start in each process, so the tests of a file share one process there: a
 * test that dies ends the rest of the file.  A file whose tests each need a process says
 * SUITE_FORKS.
 */
__attribute__((weak)) int suite_forks(void);
#define SUITE_FORKS int suite_forks(void) { return 1; }

/* Begins a test on a simulated machine, if the program is linked with one: docs/simulation.md. */
__attribute__((weak)) void sim_begin(void);

#ifdef __cplusplus
}
#endif

/*
 * Timeouts only end tests that hang.  A test declares its limit in seconds on an idle machine; the
 * default is SUITE_TIMEOUT_S, since creating a CUDA context takes seconds.  SUITE_BUSY is the
 * factor by which a busy machine may be slower.  PATIENCE_S is the time in seconds that an expected
 * event may take there.
 */
#define SUITE_TIMEOUT_S 20
#define SUITE_BUSY 10
#define PATIENCE_S (suite_patience_s * test_scale())

/*
 * Ends the test as skipped.  The runner prints and counts the line.  A test that is known to fail
 * must not skip, so it fails.
 */
#define test_skip(...) \
	do { \
		if (suite_known_to_fail) \
			ck_abort_msg(__VA_ARGS__); \
		printf("SKIP: " __VA_ARGS__); \
		printf("\n"); \
		fflush(stdout); \
		return; \
	} while (0)

#define MS 1000000ll		/* in ns, for timeouts */
#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* A call that must return 0. */
#define must(call) ck_assert_int_eq(call, 0)

/* Checks every byte; an assertion for each of a million bytes would take a second. */
#define ck_assert_bytes(bytes, nr, value) \
	do { \
		const unsigned char *b_ = (bytes); \
		size_t i_ = 0; \
		while (i_ < (size_t)(nr) && b_[i_] == (value)) \
			i_++; \
		ck_assert_msg(i_ == (size_t)(nr), "byte %zu of " #bytes " is %d, not %d", i_, \
			      b_[i_], (value)); \
	} while (0)

/* The device under test, for a pool's attributes. */
static inline const char *test_device(void)
{
	const char *device = getenv("RNL_TEST_DEVICE");

	return device ? device : "host";
}

/* Returns true if the double of the CUDA runtime must answer: tests/fake_cudart. */
static inline int test_fake(void)
{
	return getenv("RNL_TEST_FAKE") != NULL;
}

/* Returns the factor by which this build is slower than usual, for sanitizers and wrappers. */
static inline double test_scale(void)
{
	const char *scale = getenv("RNL_TEST_SCALE");

	return scale && atof(scale) > 0 ? atof(scale) : 1;
}

/*
 * Returns how many of the @nr rounds run of a loop that looks for rare schedules.  A real machine
 * repeats a few schedules, so a sample is enough; a slow build runs fewer rounds.  On a simulated
 * machine each seed draws other schedules, so it runs more.
 */
#define SAMPLE 10	/* one round in SAMPLE */
#define SAMPLE_SIM 4
static inline unsigned rounds_of(unsigned nr)
{
	const double sample = sim_begin ? SAMPLE_SIM : SAMPLE, scale = test_scale();

	return (unsigned)(nr / (scale > sample ? scale : sample));
}

/* Fills or compares much data; a simulated machine does not look for races in it. */
#ifdef RNL__SIMULATION
#define MUCH_DATA __attribute__((no_sanitize("thread")))
#else
#define MUCH_DATA
#endif

/* Returns the duration of a stress test: RNL_STRESS_SECONDS or the usual one. */
static inline double stress_seconds(double usual)
{
	const char *seconds = getenv("RNL_STRESS_SECONDS");

	return seconds && atof(seconds) > 0 ? atof(seconds) : usual;
}

/* Returns the seconds that something may take: @idle_s, or PATIENCE_S on a busy machine. */
static inline double seconds_allowed(double idle_s)
{
	const double busy = (double)sysconf(_SC_NPROCESSORS_ONLN) / 4;
	FILE *file = fopen("/proc/loadavg", "r");
	double mean = 1e9, now = 1e9;	/* last minute's load; running threads, with this one */

	if (file) {
		if (fscanf(file, "%lf %*f %*f %lf", &mean, &now) != 2)
			mean = 1e9;
		fclose(file);
	}
	return mean > busy || now - 1 > busy ? PATIENCE_S : idle_s * test_scale();
}

/* Timeout of a wait that reaches it only if a wake was lost. */
static inline int64_t patience_ns(void)
{
	return (int64_t)(PATIENCE_S * 1e9);
}

#endif /* SUITE_H */
