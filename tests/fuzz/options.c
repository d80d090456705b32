/* SPDX-License-Identifier: MIT */
/*
 * Command lines: the options that the examples and the program runnel accept.
 *
 * DESIGN
 * Each line of an input is an argument. The examples' parser is included, with an argp that does
 * not exit, so it goes on after a mistake. An accepted number is in its range, a size is a
 * multiple, a choice exists, a text is not empty.
 */
#include "config.h"

#include <argp.h>

#define argp_error(state, ...) mistake()
#define argp_parse(argp, argc, argv, flags, index, input) \
	(argp_parse)(argp, argc, argv, (flags) | ARGP_NO_EXIT | ARGP_NO_ERRS | ARGP_NO_HELP, index, input)
static void mistake(void);
#include "examples/common/options.c"
#undef argp_parse

#include "src/tool/experiment.h"
#include "src/tool/facts.h"
#include "src/tool/kernels.h"
#include "src/tool/options.h"
#include "src/tool/tool.h"

#include "tests/fuzz/fuzz.h"

#define ARGUMENTS_MAX 32

static bool mistaken;		/* the program would have exited */

static void mistake(void)
{
	mistaken = true;
}

/* ---- the tool's messages ------------------------------------------------------- */

static unsigned nr_messages;

int tool_trouble(const char *format, ...)
{
	must(*format);
	nr_messages++;
	return TOOL_TROUBLE;
}

int tool_misused(const char *format, ...)
{
	must(*format);
	nr_messages++;
	return TOOL_TROUBLE;
}

int tool_misused_said(void)
{
	nr_messages++;
	return TOOL_TROUBLE;
}

/* Needed by tool_begin(), which is not called. */
const bool tool_has_cuda_kernels;

int tool_guard(void)
{
	return 0;
}

void tool_must(int ret, const char *what)
{
	must(!ret && what);
}

void tool_cuda_look(struct tool_cuda *cuda)
{
	*cuda = (struct tool_cuda){ 0 };
}

/* ---- the options --------------------------------------------------------------- */

struct taken {
	bool flag;
	uint32_t number, choice;
	uint64_t size;
	const char *text, *device;
	void *parsed;
};

static const char *parse_even(void *to, const char *arg)
{
	*(void **)to = NULL;
	return strlen(arg) % 2 ? "give an even number of letters" : NULL;
}

static void by_example(int argc, char **argv)
{
	struct taken t = { .number = 3, .size = 8, .text = "x", .device = "auto" };
	struct program_operands operands = { NULL, 0 };
	const struct program_option table[] = {
		{ "flag", 'f', NULL, "a flag", OPTION_FLAG(&t.flag) },
		{ "number", 'n', "N", "2 to 32", OPTION_NUMBER(&t.number, 2, 32) },
		{ "size", 0, "SIZE", "a multiple of 8", OPTION_SIZE(&t.size, 8, 1ull << 40) },
		{ "choice", 0, "C", "one of three", OPTION_CHOICE(&t.choice, "one|two|three") },
		{ "may-choose", 0, "C", "or none", OPTION_MAY_CHOOSE(&t.choice, "one|two|three") },
		{ "text", 't', "T", "a text", OPTION_TEXT(&t.text) },
		OPTION_DEVICE(&t.device),
		{ "even", 0, "E", "even", OPTION_PARSED(&t.parsed, parse_even) },
		{ .name = NULL }
	};

	mistaken = false;
	program_options(argc, argv, "doc", table, &operands);
	must(t.number >= 2 && t.number <= 32 && t.choice < 3);
	must(t.size >= 8 && t.size <= 1ull << 40 && t.size % 8 == 0);
	must(mistaken || (*t.text && *t.device));
	must(operands.nr < (unsigned)argc);
}

static void by_tool(int argc, char **argv)
{
	bool flag = false;
	unsigned number = 3;
	const char *text = "", *file = "x";
	const struct tool_usage usage = {
		.doc = "doc", .args = "FILE", .missing = "none", .too_many = "many", .nr_operands = 2,
		.nr_options = 4, .options = {
			TOOL_FLAG("flag", &flag, "a flag"),
			TOOL_NUMBER("number", &number, 2, 32, "2 to 32"),
			TOOL_TEXT("text", "T", &text, "a text"),
			TOOL_FILE("file", &file, "a file"),
		},
	};
	int first = 0, status;

	nr_messages = 0;
	status = tool_options(&usage, argc, argv, &first);
	must(number >= 2 && number <= 32 && *file);
	must(status == TOOL_GO_ON || status == TOOL_YES || (status == TOOL_TROUBLE && nr_messages));
	must(status != TOOL_GO_ON || (first >= 1 && first < argc && argc - first <= 2));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	char *text = malloc(bytes + 1), *argv[ARGUMENTS_MAX + 2], *at = text;
	int argc = 1;

	must(text != NULL);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	for (int way = 0; way < 2; way++) {
		argv[0] = "fuzz";
		for (argc = 1, at = text; argc <= ARGUMENTS_MAX && at <= text + bytes; argc++) {
			argv[argc] = at;
			at += strcspn(at, "\n");
			*at++ = '\0';
		}
		argv[argc] = NULL;
		if (way)
			by_tool(argc, argv);
		else
			by_example(argc, argv);
		memcpy(text, data, bytes);
	}
	free(text);
	return 0;
}
