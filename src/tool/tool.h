/* SPDX-License-Identifier: MIT */
/*
 * runnel, the tool: the interface of its commands.
 *
 * DESIGN
 * A command is a function in a file of its own.  Its arguments are those after its name;
 * argv[0] is "runnel COMMAND", for getopt's messages.  It prints results to standard output,
 * messages to standard error, and returns the exit status.  It need not check standard
 * output, because main() does.
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

/* Prints a line on standard error.  Returns TOOL_TROUBLE. */
int tool_trouble(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints a message about a wrong command line, and a hint to --help.  Returns TOOL_TROUBLE. */
int tool_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Prints only the hint to --help, after getopt's message.  Returns TOOL_TROUBLE. */
int tool_misused_said(void);

#endif /* TOOL_H */
