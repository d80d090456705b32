/* SPDX-License-Identifier: MIT */
/* A trace's file: valid JSON at any time; trace_file.h has the design. */
#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "sys/mute.h"
#include "trace/trace_file.h"

#define BEGIN "[\n"
#define END "\n]\n"
#define END_BYTES (sizeof(END) - 1)

/* Writes a part.  This may be a caller's thread, in which a failed write must raise no signal. */
static ssize_t write_some(struct rnl__trace_file *f, const char *text, size_t bytes, uint64_t at)
{
	struct rnl__mute mute;
	ssize_t n;

	rnl__mute_begin(&mute);
	n = pwrite(f->fd, text, bytes, (off_t)at);
	rnl__mute_end(&mute, n < 0 ? errno : 0);
	return n;
}

/* Writes all of the text.  Returns 0 or a negative errno. */
static int write_at(struct rnl__trace_file *f, const char *text, size_t bytes, uint64_t at)
{
	while (bytes) {
		ssize_t n = write_some(f, text, bytes, at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n ? -errno : -EIO;
		text += n;
		at += (uint64_t)n;
		bytes -= (size_t)n;
	}
	return 0;
}

static int trace_file_begin(struct rnl__trace_file *f)
{
	struct stat st;
	int ret;

	if (fstat(f->fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (ftruncate(f->fd, 0))
		return -errno;
	ret = write_at(f, BEGIN, sizeof(BEGIN) - 1, 0);
	f->size = sizeof(BEGIN) - 1;
	return ret;
}

int rnl__trace_open(struct rnl__trace_file *f, const char *path, uint64_t max)
{
	int ret;

	f->max = max;
	f->fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0666);
	if (f->fd < 0)
		return errno == ENXIO ? -EINVAL : -errno;	/* a pipe without a reader */
	ret = trace_file_begin(f);
	if (ret)
		close(f->fd);
	return ret;
}

bool rnl__trace_fits(struct rnl__trace_file *f, uint64_t bytes)
{
	if (f->size + f->used + END_BYTES + f->reserved + bytes > f->max)
		f->full = true;
	return !f->full && !f->error;
}

void rnl__trace_print(struct rnl__trace_file *f, const char *format, ...)
{
	/* rnl__trace_flush() appends the JSON's end to the text. */
	size_t space = sizeof(f->buf) - END_BYTES - f->used;
	va_list ap, again;
	int n;

	va_start(ap, format);
	va_copy(again, ap);
	n = vsnprintf(f->buf + f->used, space, format, ap);
	if (n >= 0 && (size_t)n >= space && f->mark) {
		rnl__trace_flush(f);
		space = sizeof(f->buf) - END_BYTES - f->used;
		n = vsnprintf(f->buf + f->used, space, format, again);
	}
	if (n > 0)
		f->used += (size_t)n < space ? (size_t)n : space - 1;
	va_end(again);
	va_end(ap);
}

void rnl__trace_mark(struct rnl__trace_file *f)
{
	f->mark = f->used;
}

/* Restores the file's end after a failed write. */
static void restore_end(struct rnl__trace_file *f)
{
	struct rnl__mute mute;
	int ret;

	/* The disk had space for these bytes before. */
	(void)write_at(f, END, END_BYTES, f->size);
	rnl__mute_begin(&mute);
	/* If this fails, a reader finds text after the end, and reports it. */
	ret = ftruncate(f->fd, (off_t)(f->size + END_BYTES));
	rnl__mute_end(&mute, ret ? errno : 0);
}

void rnl__trace_flush(struct rnl__trace_file *f)
{
	char behind[END_BYTES];

	if (!f->mark)
		return;
	memcpy(behind, f->buf + f->mark, END_BYTES);
	memcpy(f->buf + f->mark, END, END_BYTES);
	if (!f->error)
		f->error = write_at(f, f->buf, f->mark + END_BYTES, f->size);
	if (f->error)
		restore_end(f);
	else
		f->size += f->mark;
	memcpy(f->buf + f->mark, behind, END_BYTES);
	f->used -= f->mark;
	memmove(f->buf, f->buf + f->mark, f->used);
	f->mark = 0;
}

int rnl__trace_close(struct rnl__trace_file *f)
{
	rnl__trace_flush(f);
	if (close(f->fd) && !f->error && errno != EINTR)
		f->error = -errno;
	return f->error;
}
