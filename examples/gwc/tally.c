/* SPDX-License-Identifier: MIT */
/* The output of gwc and gwc_mpi: a line for each input, in order, and the total. */
#include "config.h"

#include "common/program.h"
#include "common/progress.h"
#include "gwc.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Prints a name with a newline like wc: quoted for a shell. */
static void print_quoted(const char *name)
{
	static const char controls[] = "\a\b\t\n\v\f\r", letters[] = "abtnvfr";
	bool escapes = false;		/* within $'...' */

	printf(" '");
	for (const char *c = name; *c; c++) {
		const char *control = strchr(controls, *c);

		if (*c >= ' ' && *c <= '~') {
			if (escapes && *c != '\'')
				printf("''");
			printf(*c == '\'' ? "'\\''" : "%c", *c);
			escapes = false;
			continue;
		}
		if (!escapes)
			printf("'$'");
		escapes = true;
		if (control)
			printf("\\%c", letters[control - controls]);
		else
			printf("\\%03o", (unsigned char)*c);
	}
	putchar('\'');
}

/* Reports why an input cannot be opened or read to its end. */
static void complain(const struct gwc_tally *tally, const struct gwc_input *in, int err)
{
	if (in->name && !*in->name && tally->opt->files0_from)
		program_warn("%s:%u: invalid zero-length file name", tally->opt->files0_from, in->number);
	else if (in->name && !*in->name)
		program_warn("invalid zero-length file name");
	else
		program_warn("%s: %s", in->name ? in->name : "standard input", strerror(err));
}

static void print_counts(const struct gwc_tally *tally, const struct gwc_counts *counts,
			 const char *name)
{
	const struct {
		bool wanted;
		uint64_t count;
	} columns[] = {
		{ tally->opt->lines, counts->lines },
		{ tally->opt->words, counts->words },
		{ tally->opt->bytes, counts->bytes },
	};
	const char *space = "";

	progress_clear();
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++) {
		if (!columns[i].wanted)
			continue;
		printf("%s%*" PRIu64, space, tally->width, columns[i].count);
		space = " ";
	}
	if (name && strchr(name, '\n'))
		print_quoted(name);
	else
		printf("%s%s", name ? " " : "", name ? name : "");
	putchar('\n');
}

void gwc_tally_begin(struct gwc_tally *tally, const struct gwc_inputs *inputs)
{
	uint64_t bytes = 0;
	bool known = true;

	for (unsigned i = 0; i < inputs->nr; i++) {
		bytes += inputs->list[i].size;
		known = known && inputs->list[i].size;
	}
	tally->width = inputs->width;
	progress_begin("counting", known ? bytes : 0, 1e6, "MB");
}

void gwc_tally_add(void *arg, const struct gwc_part *part)
{
	struct gwc_input *in = part->in;
	struct gwc_tally *tally = arg;
	struct gwc_counts counts;

	tally->done += part->bytes;
	progress_show(tally->done);
	if (!in->failed) {
		in->sum = gwc_join(in->sum, part->sum);
		in->bytes += part->bytes;
		if (part->err) {
			complain(tally, in, part->err);
			in->failed = tally->failed = true;
		}
	}
	if (!part->last || (in->failed && !part->opened))
		return;
	counts = (struct gwc_counts){ in->sum.lines, in->sum.words, in->bytes };
	print_counts(tally, &counts, in->name);
	tally->total.lines += counts.lines;
	tally->total.words += counts.words;
	tally->total.bytes += counts.bytes;
}

void gwc_tally_end(const struct gwc_tally *tally, const struct gwc_inputs *inputs)
{
	if (inputs->nr > 1)
		print_counts(tally, &tally->total, "total");
}
