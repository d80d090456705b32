/* SPDX-License-Identifier: MIT */
/*
 * batch_sha256's input: the named files, or their lines.
 *
 * DESIGN
 * Files are read directly into the slots of their messages, many concurrently.  A slot has room for
 * one byte more than the file's size, so one read also finds the end.  A stream (standard input, a
 * pipe or a device) is opened when all earlier messages are printed, because waiting for its input
 * would delay their output.
 *
 * getline() reads a line completely.  If it is longer than a part, it stays in the buffer, and the
 * next line is read only after the last part of this line was copied.
 */
#include "config.h"

#include "batch_sha256.h"
#include "common/program.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define OPEN_MAX_FILES 2048
#define UNKNOWN_BYTES 4096	/* buffer for a file of unknown size */

void sha256_input_close(struct sha256_input *in)
{
	free(in->line);
}

/* ---- files --------------------------------------------------------------- */

/* Opens the next file, or sets an error in @m.  Returns like sha256_input_next(). */
static int open_next(struct sha256_input *in, struct sha256_message *m, bool alone)
{
	struct stat st;
	bool is_stdin;

	if (in->nr_taken == in->nr_names)
		return 0;
	m->name = in->names[in->nr_taken];
	is_stdin = strcmp(m->name, "-") == 0;
	if (is_stdin || stat(m->name, &st))
		st.st_mode = 0;
	in->is_stream = is_stdin || (st.st_mode && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
	m->left = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	if (!alone && (in->is_stream || in->nr_open == OPEN_MAX_FILES))
		return -EAGAIN;
	if (in->is_stream)
		program_flush();
	m->fd = is_stdin ? STDIN_FILENO : open(m->name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	m->err = m->fd < 0 ? errno : 0;
	if (m->err == EMFILE && !alone)
		return -EAGAIN;
	in->nr_taken++;
	return 1;
}

static int next_file(struct sha256_input *in, struct sha256_message *m, bool alone)
{
	const int ret = open_next(in, m, alone);

	in->nr_open += ret > 0 && !m->err;
	return ret;
}

static int fill_from_file(struct sha256_input *in, struct sha256_message *m, void *to, size_t space)
{
	int err;
	const size_t done = program_read(m->fd, to, space, &err);

	m->last = done < space;
	m->bytes = (uint32_t)done;
	m->left -= done < m->left ? done : m->left;
	if (m->last) {
		if (m->fd != STDIN_FILENO)
			close(m->fd);
		in->nr_open--;
	}
	return err;
}

/* ---- lines --------------------------------------------------------------- */

/* Returns true if the next read would wait for the writer of a stream. */
static bool would_block(const struct sha256_input *in)
{
	struct pollfd fd = { .fd = fileno(in->file), .events = POLLIN };

	return in->is_stream && poll(&fd, 1, 0) == 0;
}

/* Returns like sha256_input_next().  Sets an error in @m if the file cannot be opened. */
static int next_file_of_lines(struct sha256_input *in, struct sha256_message *m, bool alone)
{
	const int ret = open_next(in, m, alone);

	if (ret <= 0 || m->err)
		return ret;
	in->nr_lines = 0;
	in->file = m->fd == STDIN_FILENO ? stdin : fdopen(m->fd, "r");
	if (!in->file)
		m->err = errno;
	return 1;
}

/* Reads the next line.  Returns false at the end of the file or after a read error. */
static bool read_line(struct sha256_input *in, struct sha256_message *m)
{
	const ssize_t bytes = getline(&in->line, &in->line_size, in->file);

	m->name = in->names[in->nr_taken - 1];
	if (bytes < 0) {
		m->err = ferror(in->file) ? errno : 0;
		if (in->file != stdin)
			fclose(in->file);
		in->file = NULL;
		return false;
	}
	m->left = (uint64_t)bytes - (in->line[bytes - 1] == '\n');
	m->text = in->line;
	m->line = ++in->nr_lines;
	in->in_line = true;
	return true;
}

static int next_line(struct sha256_input *in, struct sha256_message *m, bool alone)
{
	do {
		const int ret = in->file ? 1 : next_file_of_lines(in, m, alone);

		if (ret <= 0 || m->err)
			return ret;
		if (would_block(in)) {
			if (!alone)
				return -EAGAIN;
			program_flush();
		}
	} while (!read_line(in, m) && !m->err);
	return 1;
}

/* ---- messages ------------------------------------------------------------ */

int sha256_input_next(struct sha256_input *in, struct sha256_message *m, bool alone)
{
	if (in->in_line)
		return -EAGAIN;
	m->err = 0;
	m->line = 0;
	return in->lines ? next_line(in, m, alone) : next_file(in, m, alone);
}

size_t sha256_input_wants(const struct sha256_input *in, const struct sha256_message *m)
{
	const uint64_t wants = m->line ? m->left : m->left ? m->left + 1 : UNKNOWN_BYTES;

	return wants < in->part ? (size_t)wants : in->part;
}

int sha256_input_fill(struct sha256_input *in, struct sha256_message *m, void *to, size_t space)
{
	if (!m->line)
		return fill_from_file(in, m, to, space);
	m->last = m->left <= in->part;
	m->bytes = (uint32_t)(m->last ? m->left : in->part);
	memcpy(to, m->text, m->bytes);
	m->text += m->bytes;
	m->left -= m->bytes;
	if (m->last)
		in->in_line = false;
	return 0;
}
