/* SPDX-License-Identifier: MIT */
/*
 * The command line of an example: one table of options, from which argp makes --help,
 * --version, and the messages about mistakes.
 */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXIT_USAGE 2		/* the exit status when something is wrong with the command line */

enum option_kind {
	OPTION_IS_FLAG,
	OPTION_IS_NUMBER,
	OPTION_IS_SIZE,		/* K, M or G may follow the number */
	OPTION_IS_TEXT,
	OPTION_IS_CHOICE,
	OPTION_IS_DEVICE,
	OPTION_IS_PARSED,
};

struct program_option {
	const char *name;
	char letter;		/* 0: the option has a long name only */
	const char *arg;	/* its argument, as --help shows it */
	const char *help;
	enum option_kind kind;
	void *to;		/* the variable that receives the value ... */
	size_t size;		/* ... and its size */
	uint64_t min, max;	/* a size has to be a multiple of `min` */
	const char *choices;	/* "first|second": the variable receives 0 or 1 */
	bool optional;		/* without an argument the choice is the first */
	bool several;		/* a device may be a list of them */
	const char *(*parse)(void *to, const char *arg);	/* returns what is wrong, or NULL */
};

/* The end of a row, by the kind of the option's argument. */
#define OPTION_TO(k, p) .kind = OPTION_IS_##k, .to = (p), .size = sizeof(*(p))
#define OPTION_FLAG(p) OPTION_TO(FLAG, p)
#define OPTION_NUMBER(p, least, most) OPTION_TO(NUMBER, p), .min = (least), .max = (most)
#define OPTION_SIZE(p, step, most) OPTION_TO(SIZE, p), .min = (step), .max = (most)
#define OPTION_TEXT(p) OPTION_TO(TEXT, p)
#define OPTION_CHOICE(p, names) OPTION_TO(CHOICE, p), .choices = (names)
#define OPTION_MAY_CHOOSE(p, names) OPTION_CHOICE(p, names), .optional = true
#define OPTION_PARSED(p, fn) OPTION_TO(PARSED, p), .parse = (fn)

/* A row of its own. */
#define OPTION_DEVICE(p) \
	{ "device", 0, "D", "auto (a GPU if there is one), cuda, cuda:N, host", OPTION_TO(DEVICE, p) }
/* Of a program that spreads its work over several. */
#define OPTION_DEVICES(p) \
	{ "device", 0, "D", "auto (a GPU if there is one), cuda, cuda:N, cuda:N,N,..., cuda:all, host, " \
	  "host:N", OPTION_TO(DEVICE, p), .several = true }

struct program_operands {
	char **names;
	unsigned nr;
};

/*
 * Parses the command line.  Exits after --help and --version with 0, and with 2 when
 * something is wrong.
 * @doc: what the program does, for --help; the text behind a '\v' follows the options.
 * @table: ends with a row that has no name.
 * @operands: receives the arguments that are no options; NULL: there must be none.
 */
void program_options(int argc, char **argv, const char *doc, const struct program_option *table,
		     struct program_operands *operands);

/* For what a row of the table cannot say: prints the message, and exits with 2. */
__attribute__((format(printf, 1, 2))) _Noreturn void program_misuse(const char *format, ...);

#endif /* EXAMPLES_OPTIONS_H */
