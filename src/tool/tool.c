/* SPDX-License-Identifier: MIT */
/*
 * runnel, the tool: finds the command, and makes sure that its output was written.
 *
 * DESIGN
 * Exit status 0, 1 and 2, as grep's and cmp's: yes, no, and trouble.  A report that was not
 * written in full is trouble, so main() checks standard output at the end.
 */
#include "config.h"

#include "tool.h"

#include "progress.h"
#include "text.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <runnel.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static const struct command {
	const char *name;
	tool_command_fn *run;
} commands[] = {
	{ "bench", tool_bench },
	{ "check", tool_check },
	{ "info", tool_info },
	{ "lint", tool_lint },
	{ "report", tool_report },
	{ "top", tool_top },
};

static const char help[] =
"Usage: runnel COMMAND [ARGUMENT]...\n"
"Tells what CUDA's streams do, here and in a program that uses runnel.\n"
"\n"
"  bench     jobs per second, and how long one takes, on this machine\n"
"  check     tries whether streams overlap here; says why where they do not\n"
"  info      devices, what they have, and what of it works\n"
"  lint      names objects and libraries that use the legacy default stream\n"
"  report    tells from a trace what ran at the same time, and what did not\n"
"  top       what a pool does while its program runs\n"
"\n"
"      --help     print this and exit; runnel COMMAND --help tells of a command\n"
"      --version  print the version and exit\n"
"\n"
"The exit status is 0; 1 if a command found something wrong with what it looked at;\n"
"2 if it could not do its work.\n";

static char name[32] = "runnel";	/* "runnel COMMAND" */

__attribute__((format(printf, 1, 0)))
static void say(const char *format, va_list args)
{
	char *text = NULL;

	tool_progress_clear();
	fprintf(stderr, "%s: ", name);
	if (vasprintf(&text, format, args) < 0)
		text = NULL;
	tool_put_text(stderr, text ? text : "out of memory");
	fputc('\n', stderr);
	free(text);
}

int tool_trouble(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return TOOL_TROUBLE;
}

int tool_misused_said(void)
{
	fprintf(stderr, "Try '%s --help' for more information.\n", name);
	return TOOL_TROUBLE;
}

int tool_misused(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	say(format, args);
	va_end(args);
	return tool_misused_said();
}

/*
 * A standard descriptor that is closed would be given to the next file that is opened.
 * /dev/null takes its place, opened the wrong way round, so that using it fails.
 */
static void keep_standard_descriptors(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++)
		if (fcntl(fd, F_GETFD) == -1 && errno == EBADF &&
		    open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
			_exit(TOOL_TROUBLE);
}

static int tool_run(const struct command *command, int argc, char **argv)
{
	snprintf(name, sizeof(name), "runnel %s", command->name);
	argv[0] = name;
	return command->run(argc, argv);
}

static int run_named(int argc, char **argv)
{
	if (argc < 2)
		return tool_misused("there is no command");
	if (!strcmp(argv[1], "--help")) {
		fputs(help, stdout);
		return TOOL_YES;
	}
	if (!strcmp(argv[1], "--version")) {
		const uint32_t version = rnl_version();

		printf("runnel %u.%u.%u\n", version >> 16, version >> 8 & 255, version & 255);
		return TOOL_YES;
	}
	for (unsigned i = 0; i < COUNT(commands); i++)
		if (!strcmp(argv[1], commands[i].name))
			return tool_run(&commands[i], argc - 1, argv + 1);
	return tool_misused("'%s' is no command", argv[1]);
}

int main(int argc, char **argv)
{
	int status;

	keep_standard_descriptors();
	status = run_named(argc, argv);
	if (fflush(stdout) || ferror(stdout))
		return tool_trouble("standard output: %s", strerror(errno));
	return status;
}
