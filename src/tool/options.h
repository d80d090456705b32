/* SPDX-License-Identifier: MIT */
/* Values of options, and of the environment, that several commands have. */
#ifndef TOOL_OPTIONS_H
#define TOOL_OPTIONS_H

#include <stdbool.h>

#include <runnel.h>

/* A number from @min to @max.  Return: 0, or the exit status, and what is wrong was said. */
int tool_number(const char *option, const char *arg, unsigned min, unsigned max, unsigned *number);

/*
 * A device that answers, and that this program has kernels for.
 * Return: 0, or the exit status, and what is wrong was said.
 */
int tool_device(const char *arg, struct rnl_device_info *info);

/*
 * What RUNNEL_GUARD wants of a pool's guard: nothing, 1 (reports) or 2 (has jobs fail).
 * Return: 0, or the exit status, and what is wrong was said.
 */
int tool_guard(uint32_t *guard);

/* For pools: shows errors, and what a guard finds. */
rnl_log_fn tool_log;

#endif /* TOOL_OPTIONS_H */
