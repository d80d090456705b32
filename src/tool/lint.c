/* SPDX-License-Identifier: MIT */
/* runnel lint: objects and libraries that use the legacy default stream. */
#include "tool.h"

#include <getopt.h>
#include <stdio.h>

static const struct option options[] = {
	{ "help", no_argument, NULL, 'h' },
	{ NULL, 0, NULL, 0 },
};

static const char help[] =
"Usage: runnel lint [OPTION]... OBJECT...\n"
"Names objects and libraries that use the legacy default stream.\n"
"\n"
"      --help  print this and exit\n";

int tool_lint(int argc, char **argv)
{
	int option;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option != 'h')
			return tool_misused_said();
		fputs(help, stdout);
		return TOOL_YES;
	}
	if (optind == argc)
		return tool_misused("there is no object to look at");
	return tool_trouble("this is not built in yet");
}
