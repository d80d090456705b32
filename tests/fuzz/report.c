/* SPDX-License-Identifier: MIT */
/*
 * Untrusted traces: how runnel report reads, computes, prints and draws them.
 *
 * DESIGN
 * An input is a trace. For any input, text, JSON and page are UTF-8 without control characters, the
 * JSON is valid, and each minimum is at most its maximum.
 */
#include "config.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <jansson.h>

#include "src/tool/experiment.h"
#include "src/tool/options.h"
#include "src/tool/text.h"
#include "src/tool/tool.h"

#include "tests/fuzz/fuzz.h"

/* ---- instead of the command line ---------------------------------------------- */

static bool as_json;
static char trace_path[32], page_path[32];

int tool_options(const struct tool_usage *usage, int argc, char **argv, int *first)
{
	(void)argc;
	(void)argv;
	for (unsigned i = 0; i < usage->nr_options; i++) {
		const struct tool_option *option = &usage->options[i];

		if (!strcmp(option->name, "json"))
			*(bool *)option->to = as_json;
		if (!strcmp(option->name, "html"))
			*(const char **)option->to = as_json ? NULL : page_path;
	}
	*first = 1;
	return TOOL_GO_ON;
}

int tool_take_flag(const struct tool_option *option, const char *arg)
{
	(void)option;
	(void)arg;
	return 0;
}

int tool_take_file(const struct tool_option *option, const char *arg)
{
	return tool_take_flag(option, arg);
}

int tool_trouble(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	must_format(format, args);
	va_end(args);
	return TOOL_TROUBLE;
}

int tool_misused(const char *format, ...)
{
	(void)format;
	return TOOL_TROUBLE;
}

static int by_value(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

void tool_sort(double *values, unsigned nr)
{
	qsort(values, nr, sizeof(*values), by_value);
}

/* ---- checks of the output ------------------------------------------------------------ */

static void check_text(const char *text, size_t bytes)
{
	const char *end = text + bytes;

	must(strlen(text) == bytes);
	while (text < end) {
		uint32_t point;
		const unsigned nr = tool_character(text, &point);

		must(nr && (*text == '\n' || !tool_is_obeyed(point)));
		text += nr;
	}
}

static json_int_t number(const json_t *of, const char *name)
{
	const json_t *value = json_object_get(of, name);

	must(json_is_integer(value) && json_integer_value(value) >= 0);
	return json_integer_value(value);
}

static void check_depth(const json_t *overlap, const char *name)
{
	const json_t *value, *list = json_object_get(overlap, name);
	json_int_t sum = 0;
	size_t i;

	json_array_foreach(list, i, value)
		sum += json_integer_value(value);
	must(json_is_array(list) && sum == number(overlap, "elapsed_ns"));
}

static void check_busy(const json_t *of, json_int_t elapsed)
{
	must(number(of, "busy_ns") <= number(of, "busy_most_ns") &&
	     number(of, "busy_most_ns") <= elapsed);
}

static void check_json(const char *text)
{
	json_t *all = json_loads(text, 0, NULL);
	const json_t *overlap = json_object_get(all, "overlap"), *worker;
	const json_int_t elapsed = number(overlap, "elapsed_ns");
	size_t i;

	check_depth(overlap, "at_once_ns");
	check_depth(overlap, "at_once_most_ns");
	check_busy(overlap, elapsed);
	json_array_foreach(json_object_get(all, "workers"), i, worker)
		check_busy(worker, elapsed);
	json_decref(all);
}

/* Returns the command's status.  The caller frees its output. */
static int report(char **text, size_t *bytes)
{
	FILE *const was = stdout;
	char *argv[] = { "runnel report", trace_path, NULL };
	int status;

	stdout = open_memstream(text, bytes);
	must(stdout != NULL);
	status = tool_report(2, argv);
	must(!fclose(stdout));
	stdout = was;
	return status;
}

static int memory_file(char path[32])
{
	const int fd = memfd_create("fuzz", MFD_CLOEXEC);

	must(fd >= 0);
	snprintf(path, 32, "/proc/self/fd/%d", fd);
	return fd;
}

static void check_page(int fd)
{
	const off_t bytes = lseek(fd, 0, SEEK_END);
	char *text = calloc(1, (size_t)bytes + 1);

	must(text && pread(fd, text, (size_t)bytes, 0) == bytes);
	check_text(text, (size_t)bytes);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static int trace = -1, page = -1;
	size_t length;
	char *text;
	int status;

	if (trace < 0) {
		trace = memory_file(trace_path);
		page = memory_file(page_path);
	}
	must(!ftruncate(trace, 0) && !ftruncate(page, 0) && lseek(trace, 0, SEEK_SET) == 0);
	must(pwrite(trace, data, bytes, 0) == (ssize_t)bytes);
	as_json = true;
	status = report(&text, &length);
	must(status == TOOL_YES || (status == TOOL_TROUBLE && !length));
	if (!status) {
		check_text(text, length);
		check_json(text);
	}
	free(text);
	as_json = false;
	must(report(&text, &length) == status);
	check_text(text, length);
	if (!status)
		check_page(page);
	free(text);
	return 0;
}
