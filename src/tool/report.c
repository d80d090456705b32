/* SPDX-License-Identifier: MIT */
/* runnel report: what a trace tells of the overlap. */
#include "tool.h"

#include <getopt.h>
#include <stdio.h>

static const struct option options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: runnel report [OPTION]... TRACE\n"
"Tells from a trace what ran at the same time, and what did not.\n"
"\n"
"      --help  print this and exit\n";

int tool_report(int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option != 'h')
			return tool_misused_said();
		fputs(help, stdout);
		return TOOL_YES;
	}
	if (optind == argc)
		return tool_misused("there is no trace to look at");
	return tool_trouble("this is not built in yet");
}
