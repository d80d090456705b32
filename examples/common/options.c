/* SPDX-License-Identifier: MIT */
/*
 * The command line of an example, parsed by argp.
 *
 * DESIGN
 * The rows of the example's table are converted to argp's rows.  argp returns each option's key;
 * the key's row says how to read the argument and where to store it.  An error message names the
 * argument and the option, and says which arguments are valid.
 */
#include "config.h"

#include "common/options.h"

#include <argp.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <runnel.h>

#define OPTIONS_MAX 31
#define FIRST_KEY 256		/* keys of options without a letter start here */

struct command_line {
	const struct program_option *table;
	struct program_operands *operands;
};

static int key_of(const struct program_option *table, const struct program_option *o)
{
	return o->letter ? o->letter : FIRST_KEY + (int)(o - table);
}

static void store(const struct program_option *o, uint64_t value)
{
	const uint32_t word = (uint32_t)value;

	if (o->size == sizeof(bool))
		*(bool *)o->to = value;
	else if (o->size == sizeof(word))
		memcpy(o->to, &word, sizeof(word));
	else
		memcpy(o->to, &value, sizeof(value));
}

static void store_number(struct argp_state *state, const struct program_option *o, const char *arg)
{
	const bool units = o->kind == OPTION_IS_SIZE;
	unsigned long long number = 0;
	char *end = NULL;

	errno = 0;
	if (*arg >= '0' && *arg <= '9')
		number = strtoull(arg, &end, 10);
	if (end && units && *end && strchr("KkMmGg", *end)) {
		const unsigned shift = strchr("Kk", *end) ? 10 : strchr("Mm", *end) ? 20 : 30;

		/* Shifting a number that is too large could overflow to a small one. */
		number = number > o->max ? number : number << shift;
		end++;
	}
	if (end && !*end && !errno && number >= o->min && number <= o->max &&
	    (!units || number % o->min == 0)) {
		store(o, number);
		return;
	}
	argp_error(state, "'%s' is not good for --%s: give a %s %llu %s %llu%s", arg, o->name,
		   units && o->min > 1 ? "multiple of" : "number from",
		   (unsigned long long)o->min, units && o->min > 1 ? "up to" : "to",
		   (unsigned long long)o->max, units ? ", optionally followed by K, M or G" : "");
}

static void store_choice(struct argp_state *state, const struct program_option *o, const char *arg)
{
	const char *name = o->choices;
	const size_t length = strlen(arg);

	for (unsigned i = 0; name; i++) {
		if (!strncmp(name, arg, length) && (!name[length] || name[length] == '|')) {
			store(o, i);
			return;
		}
		name = strchr(name, '|');
		name = name ? name + 1 : NULL;
	}
	argp_error(state, "'%s' is not good for --%s: give %s", arg, o->name, o->choices);
}

/* Checks only the spelling, without asking CUDA: a server must not start CUDA before it forks. */
static void store_device(struct argp_state *state, const struct program_option *o, const char *arg)
{
	const bool host = o->several && !strncmp(arg, "host:", 5);
	const char *numbers = host || !strncmp(arg, "cuda:", 5) ? arg + 5 : "";
	const bool all = o->several && !host && !strcmp(numbers, "all");

	if (strcmp(arg, "auto") && strcmp(arg, "host") && strcmp(arg, "cuda") && !all &&
	    (!*numbers || numbers[strspn(numbers, o->several && !host ? "0123456789," :
								       "0123456789")]))
		argp_error(state, "'%s' is not good for --%s: give auto, cuda, cuda:N%s or host%s",
			   arg, o->name, o->several ? ", cuda:N,N,..., cuda:all," : "",
			   o->several ? ":N" : "");
	*(const char **)o->to = arg;
}

static void take(struct argp_state *state, const struct program_option *o, const char *arg)
{
	const char *wrong;

	switch (o->kind) {
	case OPTION_IS_FLAG:
		store(o, 1);
		break;
	case OPTION_IS_NUMBER:
	case OPTION_IS_SIZE:
		store_number(state, o, arg);
		break;
	case OPTION_IS_TEXT:
		if (!*arg)
			argp_error(state, "--%s has an empty argument", o->name);
		*(const char **)o->to = arg;
		break;
	case OPTION_IS_CHOICE:
		if (arg)
			store_choice(state, o, arg);
		else
			store(o, 0);
		break;
	case OPTION_IS_DEVICE:
		store_device(state, o, arg);
		break;
	case OPTION_IS_PARSED:
		wrong = o->parse(o->to, arg);
		if (wrong)
			argp_error(state, "'%s' is not good for --%s: %s", arg, o->name, wrong);
		break;
	}
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	const struct command_line *line = state->input;

	if (key == ARGP_KEY_ARGS && !line->operands)
		argp_error(state, "'%s' is unexpected: give only options",
			   state->argv[state->next]);
	if (key == ARGP_KEY_ARGS) {
		line->operands->names = state->argv + state->next;
		line->operands->nr = (unsigned)(state->argc - state->next);
		return 0;
	}
	for (const struct program_option *o = line->table; o->name; o++) {
		if (key_of(line->table, o) == key) {
			take(state, o, arg);
			return 0;
		}
	}
	return ARGP_ERR_UNKNOWN;
}

void program_options(int argc, char **argv, const char *doc, const struct program_option *table,
		     struct program_operands *operands)
{
	struct argp_option rows[OPTIONS_MAX + 1] = { 0 };
	struct argp argp = { .options = rows, .parser = parse, .doc = doc,
			     .args_doc = operands ? "[FILE...]" : NULL };
	struct command_line line = { table, operands };
	static char version[64];

	snprintf(version, sizeof(version), "%s (runnel) %d.%d.%d", program_invocation_short_name,
		 RNL_VERSION_MAJOR, RNL_VERSION_MINOR, RNL_VERSION_PATCH);
	argp_program_version = version;
	argp_err_exit_status = EXIT_USAGE;
	for (unsigned i = 0; table[i].name && i < OPTIONS_MAX; i++) {
		rows[i].name = table[i].name;
		rows[i].key = key_of(table, &table[i]);
		rows[i].arg = table[i].arg;
		rows[i].flags = table[i].optional ? OPTION_ARG_OPTIONAL : 0;
		rows[i].doc = table[i].help;
		rows[i].group = (int)i + 1;	/* --help keeps the order of the table */
	}
	if (argc)
		argv[0] = program_invocation_short_name;
	argp_parse(&argp, argc, argv, 0, NULL, &line);
}

void program_misuse(const char *format, ...)
{
	va_list args;

	fprintf(stderr, "%s: ", program_invocation_short_name);
	va_start(args, format);
	vfprintf(stderr, format, args);
	va_end(args);
	fprintf(stderr, "\nTry `%s --help' for more information.\n", program_invocation_short_name);
	exit(EXIT_USAGE);
}
