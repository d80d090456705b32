/* SPDX-License-Identifier: MIT */
/*
 * What batch_sha256 hashes: the files that are named, or their lines.
 *
 * DESIGN
 * Files are read straight into the slots of their messages.  A slot is so large that
 * reading a regular file also finds its end, if the file is as long as it was said to
 * be; whatever else it does is found out as it is read.
 *
 * Regular files are read side by side.  Standard input, pipes and the like are not
 * read before all that comes before them is printed, nor is a line that is not there
 * yet: waiting for it would hold up what is done.  While such a message is read, and
 * while a line is that is longer than a part, there is no next message.
 */
#include "config.h"

#include "batch_sha256.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define FILES_WANTED 4096	/* open at the same time */
#define UNKNOWN_BYTES 4096	/* room for what is behind a file's end, as it was said to be */

void sha256_input_open(struct sha256_input *in, const struct sha256_options *opt, bool no_stdin)
{
	struct rlimit limit = { .rlim_cur = 64, .rlim_max = 64 };

	*in = (struct sha256_input){ .opt = opt, .no_stdin = no_stdin };
	sha256_lines_init(&in->lines);
	getrlimit(RLIMIT_NOFILE, &limit);
	if (limit.rlim_cur < FILES_WANTED) {
		limit.rlim_cur = limit.rlim_max < FILES_WANTED ? limit.rlim_max : FILES_WANTED;
		setrlimit(RLIMIT_NOFILE, &limit);
		getrlimit(RLIMIT_NOFILE, &limit);
	}
	/* The rest is for the library, which has some of its own. */
	in->max_open = FILES_WANTED / 2;
	if (limit.rlim_cur < FILES_WANTED)
		in->max_open = (unsigned)limit.rlim_cur / 2;
}

void sha256_input_close(struct sha256_input *in)
{
	sha256_lines_free(&in->lines);
}

/* ---- files --------------------------------------------------------------- */

struct file {
	const char *name;
	int fd;
	bool stream;
	uint64_t size;		/* of a regular file, as it is said to be */
};

static void look_at(struct file *file)
{
	struct stat st;

	file->stream = strcmp(file->name, "-") == 0;
	file->size = 0;
	if (file->stream || stat(file->name, &st))
		return;
	file->stream = !S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode);
	if (S_ISREG(st.st_mode))
		file->size = (uint64_t)st.st_size;
}

/* Return: a descriptor or a negative errno. */
static int open_file(struct sha256_input *in, const char *name)
{
	int fd;

	if (strcmp(name, "-") != 0) {
		fd = open(name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		return fd < 0 ? -errno : fd;
	}
	in->read_stdin = true;
	return in->no_stdin ? -EBADF : STDIN_FILENO;
}

/*
 * Opens the next file.
 * Return: 1, and `fd` is a descriptor or a negative errno; 0 that were all; -EAGAIN not
 *	while others are under way.
 */
static int next_file(struct sha256_input *in, struct file *file, bool alone)
{
	if (in->nr_taken == in->opt->nr_names)
		return 0;
	file->name = in->opt->names[in->nr_taken];
	look_at(file);
	if (!alone && (file->stream || in->nr_open >= in->max_open))
		return -EAGAIN;
	if (file->stream)
		sha256_report_flush();
	file->fd = open_file(in, file->name);
	if (!alone && (file->fd == -EMFILE || file->fd == -ENFILE))
		return -EAGAIN;
	in->nr_taken++;
	return 1;
}

static int next_whole(struct sha256_input *in, struct sha256_message *m, bool alone)
{
	struct file file;
	const int ret = next_file(in, &file, alone);

	if (ret <= 0)
		return ret;
	m->name = file.name;
	m->number = 0;
	m->fd = file.fd;
	m->left = file.size;
	if (file.fd < 0)
		m->err = -file.fd;
	else if (file.fd > STDIN_FILENO)
		in->nr_open++;
	if (file.fd >= 0 && file.stream)
		in->reader = m;
	return 1;
}

static void end_file(struct sha256_input *in, struct sha256_message *m)
{
	if (in->reader == m)
		in->reader = NULL;
	if (m->fd > STDIN_FILENO) {
		close(m->fd);
		in->nr_open--;
	}
	m->fd = -1;
}

static int fill_from_file(struct sha256_input *in, struct sha256_message *m, unsigned char *to,
			  size_t room)
{
	size_t done = 0;
	int err = 0;

	m->last = false;
	while (done < room && !m->last) {
		const ssize_t got = read(m->fd, to + done, room - done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			err = errno;
		else
			done += (size_t)got;
		m->last = got <= 0;
	}
	m->bytes = (uint32_t)done;
	m->left -= done < m->left ? done : m->left;
	if (m->last)
		end_file(in, m);
	return err;
}

/* ---- lines --------------------------------------------------------------- */

static int next_line(struct sha256_input *in, struct sha256_message *m, bool alone)
{
	struct file file;
	size_t bytes;
	int ret;

	for (;;) {
		while (in->lines.fd < 0) {
			ret = next_file(in, &file, alone);
			if (ret <= 0)
				return ret;
			m->name = file.name;
			m->number = 0;
			if (file.fd < 0) {
				m->err = -file.fd;
				return 1;
			}
			sha256_lines_begin(&in->lines, file.fd, file.stream);
			in->number = 0;
		}
		ret = sha256_lines_look(&in->lines, in->opt->part, alone, &bytes, &m->last);
		if (ret == -EAGAIN)
			return ret;
		m->name = in->opt->names[in->nr_taken - 1];
		m->number = 0;
		if (ret < 0)
			m->err = in->lines.err;
		if (ret > 0) {
			m->number = ++in->number;
			in->reader = m;
		}
		if (ret)
			return 1;
	}
}

/* ---- messages ------------------------------------------------------------ */

int sha256_input_next(struct sha256_input *in, struct sha256_message *m, bool alone)
{
	if (in->reader)
		return -EAGAIN;
	m->err = 0;
	return in->opt->lines ? next_line(in, m, alone) : next_whole(in, m, alone);
}

static int look_at_line(struct sha256_input *in, struct sha256_message *m, bool alone,
			size_t *bytes)
{
	const int ret = sha256_lines_look(&in->lines, in->opt->part, alone, bytes, &m->last);

	if (ret == -EAGAIN)
		return ret;
	m->bytes = (uint32_t)*bytes;
	if (ret > 0)
		return 0;
	in->reader = NULL;
	return in->lines.err;
}

int sha256_input_look(struct sha256_input *in, struct sha256_message *m, bool alone,
		      size_t *bytes)
{
	const size_t most = in->opt->part;

	if (m->number)
		return look_at_line(in, m, alone, bytes);
	if (in->reader == m)
		*bytes = most;
	else if (m->left)
		*bytes = m->left < most ? (size_t)m->left + 1 : most;
	else
		*bytes = UNKNOWN_BYTES < most ? UNKNOWN_BYTES : most;
	return 0;
}

int sha256_input_fill(struct sha256_input *in, struct sha256_message *m, void *to, size_t room)
{
	if (!m->number)
		return fill_from_file(in, m, to, room);
	sha256_lines_take(&in->lines, to, m->bytes, m->last);
	if (m->last)
		in->reader = NULL;
	return 0;
}
