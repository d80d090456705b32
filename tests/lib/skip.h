/* SPDX-License-Identifier: MIT */
/* Selects the devices of a test. */
#ifndef SKIP_H
#define SKIP_H

#include <stdbool.h>

#include "suite.h"

static inline bool on_host(void)
{
	return !strcmp(test_device(), "host");
}

/* For tests that cannot work on CUDA: not on a GPU, nor on the double of its runtime. */
#define skip_on_cuda(why) \
	do { \
		if (!on_host()) \
			test_skip("%.*s: " why, (int)strlen(__func__) - 3, __func__); \
	} while (0)

/* For tests whose kernels are host functions that wait at a gate; the double runs them, too. */
#define skip_unless_host() \
	do { \
		if (!on_host() && !test_fake()) \
			test_skip("%.*s: a gate holds kernels of the host device only", \
				  (int)strlen(__func__) - 3, __func__); \
	} while (0)

/*
 * For tests that wait for a job while a gate holds its worker's next function.  On the host device
 * a job that issues no work is done when its own function has returned.  On other devices the
 * worker completes the job only after the next function.
 */
#define skip_unless_done_on_return() \
	do { \
		if (!on_host()) \
			test_skip("%.*s: its jobs are done on return on the host device only", \
				  (int)strlen(__func__) - 3, __func__); \
	} while (0)

#endif /* SKIP_H */
