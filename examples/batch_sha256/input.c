/* SPDX-License-Identifier: MIT */
/*
 * What batch_sha256 hashes: the files that are named, or their lines.
 *
 * DESIGN
 * Files are read straight into the slots of their messages, many side by side.  A slot has
 * room for one byte more than the file is said to have, so reading finds the end as well.
 * Streams, which are standard input, pipes and devices, begin when all messages before them
 * are printed, as waiting for their input would hold up what is done.
 *
 * A line is read in full.  If it is longer than a part, it stays in the buffer, and the next
 * line is not read before its last part is copied.
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
#define UNKNOWN_BYTES 4096	/* room for a file that does not tell its size */

void sha256_input_close(struct sha256_input *in)
{
	free(in->line);
}

/* ---- files --------------------------------------------------------------- */

/*
 * Opens the next file.
 * @size: receives the size of a regular file, else 0.
 * Return: 1, and @fd is a descriptor or a negative errno; else as sha256_input_next().
 */
static int open_next(struct sha256_input *in, bool alone, int *fd, bool *stream, uint64_t *size)
{
	struct stat st;
	const char *name;
	bool is_stdin;

	if (in->nr_taken == in->nr_names)
		return 0;
	name = in->names[in->nr_taken];
	is_stdin = strcmp(name, "-") == 0;
	if (is_stdin || stat(name, &st))
		st.st_mode = 0;
	*stream = is_stdin || (st.st_mode && !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode));
	*size = S_ISREG(st.st_mode) ? (uint64_t)st.st_size : 0;
	if (!alone && (*stream || in->nr_open == OPEN_MAX_FILES))
		return -EAGAIN;
	if (*stream)
		program_flush();
	*fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	if (*fd < 0)
		*fd = -errno;
	if (*fd == -EMFILE && !alone)
		return -EAGAIN;
	in->nr_taken++;
	return 1;
}

static int next_file(struct sha256_input *in, struct sha256_message *m, bool alone)
{
	bool stream;
	const int ret = open_next(in, alone, &m->fd, &stream, &m->left);

	if (ret <= 0)
		return ret;
	m->name = in->names[in->nr_taken - 1];
	if (m->fd < 0)
		m->err = -m->fd;
	else
		in->nr_open++;
	return 1;
}

static int fill_from_file(struct sha256_input *in, struct sha256_message *m, void *to, size_t room)
{
	int err;
	const size_t done = program_read(m->fd, to, room, &err);

	m->last = done < room;
	m->bytes = (uint32_t)done;
	m->left -= done < m->left ? done : m->left;
	if (m->last) {
		if (m->fd != STDIN_FILENO)
			close(m->fd);
		m->fd = -1;
		in->nr_open--;
	}
	return err;
}

/* ---- lines --------------------------------------------------------------- */

/* Return: whether reading on would wait for the writer of a stream. */
static bool would_block(const struct sha256_input *in)
{
	struct pollfd fd = { .fd = fileno(in->file), .events = POLLIN };

	return in->file_is_stream && poll(&fd, 1, 0) == 0;
}

/* Return: as sha256_input_next(); @m has an error if the file cannot be opened. */
static int next_file_of_lines(struct sha256_input *in, struct sha256_message *m, bool alone)
{
	uint64_t size;
	int fd;
	const int ret = open_next(in, alone, &fd, &in->file_is_stream, &size);

	if (ret <= 0)
		return ret;
	in->nr_lines = 0;
	if (fd >= 0)
		in->file = fd == STDIN_FILENO ? stdin : fdopen(fd, "r");
	if (!in->file)
		m->err = fd < 0 ? -fd : errno;
	return 1;
}

/* Reads the next line.  Return: false if the file is at its end, or cannot be read. */
static bool read_line(struct sha256_input *in, struct sha256_message *m)
{
	const ssize_t bytes = getline(&in->line, &in->line_size, in->file);

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

		if (ret <= 0)
			return ret;
		m->name = in->names[in->nr_taken - 1];
		if (m->err)
			return 1;
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

int sha256_input_fill(struct sha256_input *in, struct sha256_message *m, void *to, size_t room)
{
	if (!m->line)
		return fill_from_file(in, m, to, room);
	m->last = m->left <= in->part;
	m->bytes = (uint32_t)(m->last ? m->left : in->part);
	memcpy(to, m->text, m->bytes);
	m->text += m->bytes;
	m->left -= m->bytes;
	if (m->last)
		in->in_line = false;
	return 0;
}
