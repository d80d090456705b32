/* SPDX-License-Identifier: MIT */
/*
 * The control groups that the process is in, and their limits.
 *
 * DESIGN
 *	/proc/self/cgroup has the process's group in each hierarchy, and /proc/self/mountinfo where
 *	a hierarchy is mounted.  A container may see only a part of a hierarchy: then the mount's
 *	root is a group, too, and the process's path begins with it, or is relative to it.  A limit
 *	of a group holds for all groups in it, so each group from the process's own to the mount's
 *	root is looked at.  Both versions are looked at: a system may have both.
 *	A file that cannot be read is no limit.
 */
#ifndef RNL_CGROUP_H
#define RNL_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

#define RNL__NO_LIMIT UINT64_MAX

/* @folder: a group's; @unified: version 2, whose files have other names. */
typedef void rnl__cgroup_fn(void *arg, const char *folder, bool unified);

/*
 * Calls @look for each group of the process that has the controller of that name.
 * @root: goes before each path: "", or a folder of a test's.
 */
void rnl__cgroup_each(const char *root, const char *controller, rnl__cgroup_fn *look, void *arg);

/*
 * Reads up to @nr numbers from a group's file; "max", and what is negative, is RNL__NO_LIMIT.
 * Return: how many there were.
 */
unsigned rnl__cgroup_read(const char *folder, const char *name, uint64_t *numbers, unsigned nr);

#endif
