/* SPDX-License-Identifier: MIT */
/*
 * Included first in each source of the library.  With SIM_FAULTS=alloc some allocations fail, and
 * signals interrupt interruptible calls.
 */
#ifndef SIM_FAULTS_H
#define SIM_FAULTS_H

#include "config.h"	/* before any system header */

#include <poll.h>
#include <stdlib.h>
#include <time.h>

#include "sim/sim.h"

#define aligned_alloc(...) (rnl__sim_lacks() ? NULL : aligned_alloc(__VA_ARGS__))
#define calloc(...) (rnl__sim_lacks() ? NULL : calloc(__VA_ARGS__))
#define malloc(...) (rnl__sim_lacks() ? NULL : malloc(__VA_ARGS__))
#define realloc(...) (rnl__sim_lacks() ? NULL : realloc(__VA_ARGS__))

#define nanosleep(...) (rnl__sim_interrupts() ? -1 : nanosleep(__VA_ARGS__))
#define ppoll(...) (rnl__sim_interrupts() ? -1 : ppoll(__VA_ARGS__))

#endif
