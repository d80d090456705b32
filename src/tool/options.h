/* SPDX-License-Identifier: MIT */
/* Options of a command: one table for each command, read by argp. */
#ifndef TOOL_OPTIONS_H
#define TOOL_OPTIONS_H

#include <stdbool.h>

#include <runnel.h>
#include <runnel/device.h>

struct tool_option {
	const char *name, *arg, *doc;	/* like those of argp_option; arg is NULL for a flag */
	/* Stores the argument.  Returns 0, or the exit status after a message. */
	int (*take)(const struct tool_option *option, const char *arg);
	void *to;
	unsigned min, max;
};

/* @to: a bool *, an unsigned * (@min to @max), a const char **; TOOL_FILE refuses "". */
#define TOOL_FLAG(name, to, doc) { name, NULL, doc, tool_take_flag, to, 0, 0 }
#define TOOL_NUMBER(name, to, min, max, doc) { name, "N", doc, tool_take_number, to, min, max }
#define TOOL_TEXT(name, arg, to, doc) { name, arg, doc, tool_take_text, to, 0, 0 }
#define TOOL_FILE(name, to, doc) { name, "FILE", doc, tool_take_file, to, 0, 0 }
int tool_take_flag(const struct tool_option *option, const char *arg);
int tool_take_number(const struct tool_option *option, const char *arg);
int tool_take_text(const struct tool_option *option, const char *arg);
int tool_take_file(const struct tool_option *option, const char *arg);

struct tool_usage {
	const char *doc;		/* argp's: text before the options, \v, text after them */
	const char *args;		/* the operands' name in the help; NULL: no operands */
	const char *missing;		/* message if no operand is given */
	const char *too_many;		/* message if more than nr_operands are given */
	unsigned nr_operands;
	unsigned nr_options;		/* up to 8 */
	struct tool_option options[8];
};

#define TOOL_GO_ON (-1)

/*
 * Reads the command line; the operands begin at argv[*first].
 * Returns TOOL_GO_ON, or the exit status after the help or a message.
 */
int tool_options(const struct tool_usage *usage, int argc, char **argv, int *first);

#define TOOL_DEVICES "auto (a GPU if there is one; the default), cuda, cuda:N, cuda:N,N,..., cuda:all, host, host:N"

/*
 * Prepares the process for pools: reads the guard, calls rnl_setup(), and describes @device.
 * Returns 0, or the exit status after a message, also if the tool has no kernels for the device.
 */
int tool_begin(const char *device, struct rnl_device_info *info);

#endif /* TOOL_OPTIONS_H */
