/* SPDX-License-Identifier: MIT */
/*
 * runnel, the tool: what its commands have in common.
 *
 * DESIGN
 * A command is a function of its own file, called with the arguments behind its
 * name; argv[0] is "runnel COMMAND", for getopt's messages.  It prints
 * what was asked for to standard output, all else to standard error, and returns
 * the exit status.  It need not look whether standard output took everything: main()
 * does, and makes it an error.
 */
#ifndef TOOL_H
#define TOOL_H

enum tool_status {
	TOOL_YES = 0,		/* done; nothing is wrong with what was looked at */
	TOOL_NO = 1,		/* done; something is */
	TOOL_TROUBLE = 2,	/* could not be done: standard error says why */
};

typedef int tool_command_fn(int argc, char **argv);

tool_command_fn tool_bench;	/* bench.c */
tool_command_fn tool_check;	/* check.c */
tool_command_fn tool_info;	/* info.c */
tool_command_fn tool_lint;	/* lint.c */
tool_command_fn tool_report;	/* report.c */

/* Says on standard error, in one line, what went wrong.  Return: TOOL_TROUBLE. */
int tool_trouble(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, of the command line: names --help, too. */
int tool_misused(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* The same, without text of its own: getopt has said what is wrong. */
int tool_misused_said(void);

#endif /* TOOL_H */
