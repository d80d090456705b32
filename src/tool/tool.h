/* SPDX-License-Identifier: MIT */
/*
 * runnel, the tool: what its commands have in common.
 *
 * DESIGN
 * A command is a function in a file of its own.  Its arguments are those behind its name;
 * argv[0] is "runnel COMMAND", for getopt's messages.  It prints results to standard output,
 * messages to standard error, and returns the exit status.  It need not check standard
 * output: main() does.
 */
#ifndef TOOL_H
#define TOOL_H

enum tool_status {
	TOOL_YES = 0,		/* done; nothing wrong was found */
	TOOL_NO = 1,		/* done; something wrong was found */
	TOOL_TROUBLE = 2,	/* could not be done: standard error says why */
};

typedef int tool_command_fn(int argc, char **argv);

tool_command_fn tool_bench;	/* bench.c */
tool_command_fn tool_check;	/* check.c */
tool_command_fn tool_info;	/* info.c */
tool_command_fn tool_lint;	/* lint.c */
tool_command_fn tool_report;	/* report.c */
tool_command_fn tool_top;	/* top.c */

/* Prints a line on standard error.  Return: TOOL_TROUBLE. */
int tool_trouble(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same for a wrong command line: also names --help. */
int tool_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Only names --help, after getopt's message.  Return: TOOL_TROUBLE. */
int tool_misused_said(void);

#endif /* TOOL_H */
