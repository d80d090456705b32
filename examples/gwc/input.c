/* SPDX-License-Identifier: MIT */
/*
 * gwc's input: the files, and the parts that a producer reads next.
 *
 * DESIGN
 * All names are known at the start, because the columns are as wide as the sum of the sizes.
 * Parts are assigned in the order of the output.  A chunk takes many small files, or a part
 * of a large file, so several producers can read a large file concurrently.  A file is read up to
 * the size that it had at the start.
 *
 * Standard input, and files of unknown size, such as pipes and those in /proc, are streams: one
 * producer at a time reads a stream, chunk by chunk, and later inputs wait.
 */
#include "config.h"

#include "common/program.h"
#include "gwc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_stdin(const struct gwc_input *in)
{
	return !in->name || strcmp(in->name, "-") == 0;
}

/* ---- names and sizes ----------------------------------------------------- */

static void append(struct gwc_inputs *inputs, const char *name)
{
	char *copy = name ? strdup(name) : NULL;

	if (!(inputs->nr & (inputs->nr - 1))) {		/* the list doubles */
		const size_t nr = inputs->nr ? 2 * (size_t)inputs->nr : 1;

		inputs->list = realloc(inputs->list, nr * sizeof(*inputs->list));
	}
	program_must(inputs->list && (copy || !name) ? 0 : -ENOMEM, "the list of files");
	inputs->list[inputs->nr] = (struct gwc_input){ .name = copy, .number = inputs->nr + 1 };
	inputs->nr++;
}

static void read_list(struct gwc_inputs *inputs, const char *list)
{
	const bool is_input = strcmp(list, "-") == 0;
	FILE *from = is_input ? stdin : fopen(list, "re");
	char *name = NULL;
	size_t size = 0;

	if (!from)
		program_die("cannot open '%s' for reading: %s", list, strerror(errno));
	while (getdelim(&name, &size, '\0', from) >= 0) {
		append(inputs, name);
		if (is_input && strcmp(name, "-") == 0)
			program_die("'-' is not allowed in a list that comes from standard input");
	}
	if (ferror(from))
		program_die("cannot read file names from '%s': %s", list, strerror(errno));
	free(name);
	if (!is_input)
		fclose(from);
}

/*
 * Gets the sizes of all files.  Returns wc's width of the columns: wide enough for the sum of the
 * sizes of the regular files, and at least 7 if there is any other kind of file.
 */
static int look_at_all(struct gwc_inputs *inputs)
{
	uint64_t total = 0;
	int least = 1, width = 1;

	for (unsigned i = 0; i < inputs->nr; i++) {
		struct gwc_input *in = &inputs->list[i];
		struct stat st;

		in->stream = is_stdin(in);
		if (in->stream ? fstat(STDIN_FILENO, &st) : stat(in->name, &st))
			continue;	/* reading it will report the error */
		if (S_ISREG(st.st_mode))
			total += in->size = (uint64_t)st.st_size;
		else
			least = 7;
		in->stream |= !in->size;
	}
	for (; total >= 10; total /= 10)
		width++;
	return width < least ? least : width;
}

void gwc_inputs_open(struct gwc_inputs *inputs, const struct gwc_options *opt, char **names,
		     unsigned nr)
{
	*inputs = (struct gwc_inputs){ .nr = 0 };
	for (unsigned i = 0; i < nr; i++)
		append(inputs, names[i]);
	if (opt->files0_from)
		read_list(inputs, opt->files0_from);
	else if (!nr)
		append(inputs, NULL);
	inputs->end.input = inputs->nr;
	inputs->width = look_at_all(inputs);
	if (inputs->nr == 1 && opt->lines + opt->words + opt->bytes == 1)
		inputs->width = 1;	/* a lone number */
}

void gwc_inputs_close(struct gwc_inputs *inputs)
{
	for (unsigned i = 0; i < inputs->nr; i++)
		free(inputs->list[i].name);
	free(inputs->list);
}

/* ---- parts --------------------------------------------------------------- */

/* Returns the next part, of up to @space bytes. */
static struct gwc_part next_part(struct gwc_inputs *inputs, size_t space)
{
	struct gwc_place *next = &inputs->next;
	struct gwc_input *in = &inputs->list[next->input];
	const uint64_t end = next->input == inputs->end.input ? inputs->end.offset : in->size;
	struct gwc_part part = { .in = in, .offset = next->offset, .bytes = space,
				 .shard = inputs->shard };

	inputs->busy = in->stream;
	if (in->stream)
		return part;
	if (end - next->offset < space)
		part.bytes = (size_t)(end - next->offset);
	next->offset += part.bytes;
	part.last = next->offset == in->size;
	if (part.last)
		*next = (struct gwc_place){ next->input + 1, 0 };
	part.ends = gwc_inputs_spent(inputs);
	return part;
}

unsigned gwc_inputs_next(struct gwc_inputs *inputs, size_t chunk, struct gwc_part *parts,
			 unsigned max)
{
	size_t used = 0;
	unsigned nr = 0;

	while (nr < max && used < chunk && !gwc_inputs_spent(inputs) &&
	       !(nr && inputs->list[inputs->next.input].stream)) {
		parts[nr] = next_part(inputs, chunk - used);
		used += gwc_align(parts[nr++].bytes);
	}
	return nr;
}

void gwc_inputs_streamed(struct gwc_inputs *inputs, bool ended)
{
	inputs->busy = false;
	inputs->next.offset = !ended;	/* 0: go to the next input */
	inputs->next.input += ended;
}

/* Returns a descriptor at the offset of the part, or -1. */
static int open_part(struct gwc_inputs *inputs, const struct gwc_part *part)
{
	int fd;

	if (is_stdin(part->in))
		return STDIN_FILENO;
	if (part->in->stream && part->offset)
		return inputs->stream_fd;
	fd = open(part->in->name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (part->in->stream)
		inputs->stream_fd = fd;
	else if (fd >= 0 && part->offset)
		lseek(fd, (off_t)part->offset, SEEK_SET);
	return fd;
}

void gwc_part_read(struct gwc_inputs *inputs, struct gwc_part *part, void *to)
{
	const int fd = open_part(inputs, part);
	const size_t wanted = part->bytes;

	part->opened = fd >= 0;
	part->bytes = 0;
	if (fd < 0)
		part->err = errno;
	else
		part->bytes = program_read(fd, to, wanted, &part->err);
	if (part->in->stream)
		part->last = part->bytes < wanted;
	/* A stream that filled its part stays open for the next part. */
	if (fd > STDIN_FILENO && (!part->in->stream || part->last))
		close(fd);
}
