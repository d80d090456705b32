/* SPDX-License-Identifier: MIT */
/*
 * What gwc reads: the files, and the ranges of them that a producer reads next.
 *
 * DESIGN
 * All names are known at the start, as the columns are as wide as the sum of the sizes.
 * Ranges are given out in the order of the output.  A chunk takes many small files, or a
 * part of a large one, so several producers can read a large file at the same time.  A file
 * is read up to the size that it had at the start.
 *
 * Standard input and all that does not tell its size, as pipes and files in /proc, are
 * streams: one producer at a time reads a stream, chunk by chunk, and later inputs wait.
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

/* ---- names --------------------------------------------------------------- */

static void append(struct gwc_inputs *inputs, char *name)
{
	if (!(inputs->nr & (inputs->nr - 1))) {		/* the list doubles */
		const size_t nr = inputs->nr ? 2 * (size_t)inputs->nr : 1;

		inputs->list = realloc(inputs->list, nr * sizeof(*inputs->list));
		program_must(inputs->list ? 0 : -ENOMEM, "the list of files");
	}
	inputs->list[inputs->nr++] = (struct gwc_input){ .name = name };
}

/* Return: whether the list is a regular file. */
static bool read_list(struct gwc_inputs *inputs, const char *list)
{
	FILE *from = strcmp(list, "-") ? fopen(list, "re") : stdin;
	char *name = NULL;
	struct stat st;
	size_t size = 0;
	bool regular;

	if (!from)
		program_die("cannot open '%s' for reading: %s", list, strerror(errno));
	regular = fstat(fileno(from), &st) == 0 && S_ISREG(st.st_mode);
	inputs->own_names = true;
	while (getdelim(&name, &size, '\0', from) >= 0) {
		char *copy = strdup(name);

		program_must(copy ? 0 : -ENOMEM, "the list of files");
		append(inputs, copy);
	}
	if (ferror(from))
		program_die("cannot read file names from '%s': %s", list, strerror(errno));
	free(name);
	if (from != stdin)
		fclose(from);
	return regular;
}

/* ---- sizes --------------------------------------------------------------- */

/*
 * Looks at all files.  Return: the width that wc takes: what the sum of the sizes of the
 * regular files needs, and at least 7 if there is any other kind.
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
			continue;	/* reading it shows what is wrong */
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
	const int columns = opt->lines + opt->words + opt->chars + opt->bytes;
	bool known = true;

	*inputs = (struct gwc_inputs){ .nr = 0 };
	for (unsigned i = 0; i < nr; i++)
		append(inputs, names[i]);
	if (opt->files0_from)
		known = read_list(inputs, opt->files0_from);
	else if (!nr)
		append(inputs, NULL);
	inputs->width = look_at_all(inputs);
	/* wc prints a list from a pipe while it comes, and a lone number as it is. */
	if (!known || opt->total == GWC_TOTAL_ONLY || (inputs->nr == 1 && columns == 1))
		inputs->width = 1;
}

void gwc_inputs_close(struct gwc_inputs *inputs)
{
	for (unsigned i = 0; inputs->own_names && i < inputs->nr; i++)
		free(inputs->list[i].name);
	free(inputs->list);
}

/* ---- ranges -------------------------------------------------------------- */

static struct gwc_range next_range(struct gwc_inputs *inputs, size_t room)
{
	struct gwc_input *in = &inputs->list[inputs->next];
	const uint64_t left = in->size - inputs->offset;
	struct gwc_range range = { in, inputs->offset, room, false };

	inputs->stream_busy = in->stream;
	if (in->stream)
		return range;
	range.last = left <= room;
	if (range.last) {
		range.bytes = (size_t)left;
		inputs->next++;
		inputs->offset = 0;
	} else {
		inputs->offset += room;
	}
	return range;
}

unsigned gwc_inputs_next(struct gwc_inputs *inputs, size_t chunk, struct gwc_range *ranges,
			 unsigned max)
{
	size_t used = 0;
	unsigned nr = 0;

	while (nr < max && used < chunk && inputs->next < inputs->nr &&
	       !(nr && inputs->list[inputs->next].stream)) {
		ranges[nr] = next_range(inputs, chunk - used);
		used += gwc_align(ranges[nr++].bytes);
	}
	return nr;
}

void gwc_inputs_streamed(struct gwc_inputs *inputs, bool ended)
{
	inputs->stream_busy = false;
	inputs->offset = !ended;	/* 0: the next input begins */
	inputs->next += ended;
}

/* Return: a descriptor at the offset of the range, or -1. */
static int open_range(struct gwc_inputs *inputs, const struct gwc_range *range)
{
	int fd;

	if (is_stdin(range->in))
		return STDIN_FILENO;
	if (range->in->stream && inputs->offset)
		return inputs->stream_fd;
	fd = open(range->in->name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (range->in->stream)
		inputs->stream_fd = fd;
	else if (fd >= 0 && range->offset)
		lseek(fd, (off_t)range->offset, SEEK_SET);
	return fd;
}

ssize_t gwc_range_read(struct gwc_inputs *inputs, const struct gwc_range *range, void *to, int *err)
{
	const int fd = open_range(inputs, range);
	size_t done = 0;

	*err = fd < 0 ? errno : 0;
	while (!*err && done < range->bytes) {
		const ssize_t got = read(fd, (char *)to + done, range->bytes - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			*err = errno;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	/* A stream that fills its range goes on in the next one. */
	if (fd > STDIN_FILENO && (!range->in->stream || done < range->bytes))
		close(fd);
	return fd < 0 ? -1 : (ssize_t)done;
}
