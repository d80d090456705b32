/* SPDX-License-Identifier: MIT */
/*
 * The control groups of the process, and their limits.
 *
 * DESIGN
 *	/proc/self/cgroup lists the process's group in each hierarchy, /proc/self/mountinfo the
 *	mounts.  In a container the mount may show only part of a hierarchy.  Then the mount's root
 *	is a group, too, and the process's path begins with that root or is relative to it.  A
 *	group's limit applies to all groups below it, so each group from the process's own up to the
 *	mount's root is read.  A system may use both versions of groups, so both are read.
 *	A file that cannot be read sets no limit.
 */
#ifndef RNL_CGROUP_H
#define RNL_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define RNL__NO_LIMIT UINT64_MAX

/* @folder: the group's directory.  @unified: version 2, which has other file names. */
typedef void rnl__cgroup_fn(void *arg, const char *folder, bool unified);

/*
 * Calls @look for each group of the process that has the named controller.
 * @root: a prefix for each path: "", or a test's directory.
 */
void rnl__cgroup_each(const char *root, const char *controller, rnl__cgroup_fn *look, void *arg);

/*
 * Reads up to @nr numbers from a group's file.  "max" and negative numbers become RNL__NO_LIMIT.
 * Returns the number of values read.
 */
unsigned rnl__cgroup_read(const char *folder, const char *name, uint64_t *numbers, unsigned nr);

#endif
