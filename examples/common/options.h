/* SPDX-License-Identifier: MIT */
/*
 * The command line of an example: one table of options, from which argp makes --help, --version
 * and the error messages.
 */
#ifndef EXAMPLES_OPTIONS_H
#define EXAMPLES_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define EXIT_USAGE 2		/* exit status after an error in the command line */

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
	uint64_t min, max;	/* a size must be a multiple of `min` */
	const char *choices;	/* "first|second": the variable receives 0 or 1 */
	bool optional;		/* the argument may be omitted, which means the first choice */
	bool several;		/* a list of devices is allowed */
	const char *(*parse)(void *to, const char *arg);	/* returns an error text, or NULL */
};

/* Each macro is the end of a row, for one kind of argument. */
#define OPTION_TO(k, p) .kind = OPTION_IS_##k, .to = (p), .size = sizeof(*(p))
#define OPTION_FLAG(p) OPTION_TO(FLAG, p)
#define OPTION_NUMBER(p, least, most) OPTION_TO(NUMBER, p), .min = (least), .max = (most)
#define OPTION_SIZE(p, step, most) OPTION_TO(SIZE, p), .min = (step), .max = (most)
#define OPTION_TEXT(p) OPTION_TO(TEXT, p)
#define OPTION_CHOICE(p, names) OPTION_TO(CHOICE, p), .choices = (names)
#define OPTION_MAY_CHOOSE(p, names) OPTION_CHOICE(p, names), .optional = true
#define OPTION_PARSED(p, fn) OPTION_TO(PARSED, p), .parse = (fn)

/* A whole row. */
#define OPTION_DEVICE(p) \
	{ "device", 0, "D", "auto (a GPU if there is one), cuda, cuda:N, host", OPTION_TO(DEVICE, p) }
/* A whole row, for a program that can use several devices. */
#define OPTION_DEVICES(p) \
	{ "device", 0, "D", "auto (a GPU if there is one), cuda, cuda:N, cuda:N,N,..., cuda:all, host, " \
	  "host:N", OPTION_TO(DEVICE, p), .several = true }

struct program_operands {
	char **names;
	unsigned nr;
};

/*
 * Parses the command line.  Exits with 0 after --help and --version, and with 2 after an error.
 * @doc: what the program does, for --help; the text after a '\v' is printed below the options.
 * @table: ends with a row without a name.
 * @operands: receives the arguments that are not options; NULL: such an argument is an error.
 */
void program_options(int argc, char **argv, const char *doc, const struct program_option *table,
		     struct program_operands *operands);

/* For errors that the table cannot express: prints the message and exits with 2. */
__attribute__((format(printf, 1, 2))) _Noreturn void program_misuse(const char *format, ...);

#endif /* EXAMPLES_OPTIONS_H */
