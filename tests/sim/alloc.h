/* SPDX-License-Identifier: MIT */
/* Included first in each source of the library: with SIM_FAULTS=alloc some allocations fail. */
#ifndef SIM_ALLOC_H
#define SIM_ALLOC_H

#include "config.h"	/* before any header of the system */

#include <stdbool.h>
#include <stdlib.h>

bool rnl__sim_lacks(void);		/* device.c */

#define aligned_alloc(...) (rnl__sim_lacks() ? NULL : aligned_alloc(__VA_ARGS__))
#define calloc(...) (rnl__sim_lacks() ? NULL : calloc(__VA_ARGS__))
#define malloc(...) (rnl__sim_lacks() ? NULL : malloc(__VA_ARGS__))
#define realloc(...) (rnl__sim_lacks() ? NULL : realloc(__VA_ARGS__))

#endif
