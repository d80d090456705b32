/* SPDX-License-Identifier: MIT */
/* Which devices a test is for. */
#ifndef SKIP_H
#define SKIP_H

#include <stdbool.h>

#include "suite.h"

static inline bool on_host(void)
{
	return !strcmp(test_device(), "host");
}

/* For tests of what CUDA does otherwise, on a GPU as well as on the double of its runtime. */
#define skip_on_cuda(why) \
	do { \
		if (!on_host()) \
			test_skip("%.*s: " why, (int)strlen(__func__) - 3, __func__); \
	} while (0)

/* For tests whose kernels are host functions, which a gate can hold; the double's are, too. */
#define skip_unless_host() \
	do { \
		if (!on_host() && !test_fake()) \
			test_skip("%.*s: a gate holds kernels of the host device only", \
				  (int)strlen(__func__) - 3, __func__); \
	} while (0)

/*
 * For tests that wait for a job while a gate holds its worker's next function: on
 * the host device a job that issues nothing is done by then, on others the worker
 * tells it when the function has returned.
 */
#define skip_unless_done_on_return() \
	do { \
		if (!on_host()) \
			test_skip("%.*s: its jobs are done on return on the host device only", \
				  (int)strlen(__func__) - 3, __func__); \
	} while (0)

#endif /* SKIP_H */
