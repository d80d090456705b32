/* SPDX-License-Identifier: MIT */
/*
 * What every Check-based test shares: one main, one device, one time scale.
 *
 *	int main(void) { return suite_main(make_suite); }
 *
 * Check forks each test, and CUDA does not survive a fork: touch runnel only
 * in a test's body or in a checked fixture, never in make_suite().
 */
#ifndef SUITE_H
#define SUITE_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include <runnel.h>

/* Seconds for a test whose case sets none; creating a CUDA context takes some. */
#define SUITE_TIMEOUT 20

/* Ends the test as skipped: the runner prints the line and counts it as such. */
#define test_skip(...) \
	do { \
		printf("SKIP: " __VA_ARGS__); \
		printf("\n"); \
		fflush(stdout); \
		return; \
	} while (0)

/* The device that this run is about, for the pool's attribute. */
static inline const char *test_device(void)
{
	const char *device = getenv("RNL_TEST_DEVICE");

	return device ? device : "host";
}

/* Whether it is the double of the CUDA runtime that must answer: tests/fake_cudart. */
static inline int test_fake(void)
{
	return getenv("RNL_TEST_FAKE") != NULL;
}

/* How many times slower than usual this build is: sanitizers, wrappers. */
static inline double test_scale(void)
{
	const char *scale = getenv("RNL_TEST_SCALE");

	return scale && atof(scale) > 0 ? atof(scale) : 1;
}

/* Asks in a child: the parent of later forks must not initialise CUDA. */
static inline int suite_device_answers(void)
{
	int status;
	pid_t pid;

	if (!strcmp(test_device(), "host"))
		return 1;
	fflush(NULL);
	pid = fork();
	if (!pid) {
		struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
		int ret = rnl_device_info(test_device(), &info);

		if (ret)
			printf("no device \"%s\" here: %s\n", test_device(), rnl_strerror(ret));
		fflush(stdout);
		_exit(ret ? 77 : 0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) < 0)
		return 1;	/* the tests will tell */
	return !WIFEXITED(status) || WEXITSTATUS(status) != 77;
}

/* Runs the suite; its results go to the runner as TAP. */
static inline int suite_main(Suite *(*make)(void))
{
	char scale[32], timeout[32];
	SRunner *runner;
	int nr_failed;

	if (!suite_device_answers())
		return test_fake() ? EXIT_FAILURE : 77;	/* the double is always there */
	snprintf(scale, sizeof(scale), "%g", test_scale());
	setenv("CK_TIMEOUT_MULTIPLIER", scale, 0);
	snprintf(timeout, sizeof(timeout), "%d", SUITE_TIMEOUT);
	setenv("CK_DEFAULT_TIMEOUT", timeout, 0);

	runner = srunner_create(make());
	srunner_run_all(runner, CK_NORMAL);
	nr_failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	return nr_failed ? EXIT_FAILURE : EXIT_SUCCESS;
}

#endif /* SUITE_H */
