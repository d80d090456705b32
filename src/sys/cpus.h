/* SPDX-License-Identifier: MIT */
/* How many CPUs the process has, and a thread's own. */
#ifndef RNL_CPUS_H
#define RNL_CPUS_H

#include <stdint.h>

/*
 * Return: the CPUs that the calling thread may run on, or the whole CPUs' time that its control
 * groups allow, if that is less: a quota of 1.5 CPUs counts as 2.  At least 1.
 */
unsigned rnl__cpus(void);

/* The same, with the files of /proc and of the groups below @root, a test's folder. */
unsigned rnl__cpus_below(const char *root);

/* Return: one more than the highest number that a CPU can have; UINT_MAX: the kernel does not say. */
unsigned rnl__cpus_most(void);

/* Keeps the calling thread on one CPU, of any number.  Return: 0 or a negative errno. */
int rnl__cpus_keep_on(unsigned cpu);

#endif
