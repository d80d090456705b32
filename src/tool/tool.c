/* SPDX-License-Identifier: MIT */
/*
 * runnel, the tool: runs the named command, and checks that its output was written.
 *
 * DESIGN
 * The exit statuses 0, 1 and 2 mean yes, no and trouble, like those of grep and cmp.  Output
 * that was not written completely is trouble, so main() checks standard output at the end.
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
"Shows what CUDA's streams do, on this machine and in a program that uses runnel.\n"
"\n"
"  bench     measures jobs per second, and the time of one job, on this machine\n"
"  check     tests whether streams overlap on this machine, and says why if not\n"
"  info      lists devices, their attributes, and the features that runnel can use\n"
"  lint      finds objects and libraries that use the legacy default stream\n"
"  report    reports from a trace what ran at the same time, and what did not\n"
"  top       shows what a pool does while its program runs\n"
"\n"
"      --help     print this and exit; runnel COMMAND --help describes a command\n"
"      --version  print the version and exit\n"
"\n"
"The exit status is 0; 1 if the command found a problem in what it checked;\n"
"2 if the command could not do its work.\n";

static char name[32] = "runnel";	/* "runnel COMMAND" once the command is known */

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
 * Opens /dev/null for each closed standard descriptor, which the next open() would use otherwise.
 * The access mode is the wrong one, so reading standard input or writing the others fails.
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
