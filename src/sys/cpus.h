/* SPDX-License-Identifier: MIT */
/* Counts the CPUs of the process, and keeps a thread on one CPU. */
#ifndef RNL_CPUS_H
#define RNL_CPUS_H

#include <stdint.h>

/*
 * Returns the number of CPUs that the calling thread may run on, or the number whose time its
 * control groups allow, if that is less.  A quota of 1.5 CPUs counts as 2.  Returns at least 1.
 */
unsigned rnl__cpus(void);

/* Like rnl__cpus(), with the files of /proc and of the groups below @root, a test's directory. */
unsigned rnl__cpus_below(const char *root);

/* Returns one more than the highest possible CPU number, or UINT_MAX if that is unknown. */
unsigned rnl__cpus_most(void);

/* Keeps the calling thread on one CPU, of any number.  Returns 0 or a negative errno. */
int rnl__cpus_keep_on(unsigned cpu);

#endif
