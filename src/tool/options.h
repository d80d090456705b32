/* SPDX-License-Identifier: MIT */
/* Values of options that several commands have. */
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

#endif /* TOOL_OPTIONS_H */
