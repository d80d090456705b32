/* SPDX-License-Identifier: MIT */
/*
 * What gwc reads: names become inputs, and inputs become work for producers.
 *
 * DESIGN
 * Inputs wait in a list, in the order of the output.  Names on the command line
 * or in a list of modest size are all there from the start, because wc makes
 * its columns as wide as the sum of the sizes needs; names that come from a
 * pipe are added as they arrive, and the columns are one wide.
 *
 * Work is given out in order, and of three kinds, so that producers have
 * something to do side by side: a group of small files; a slice of a large
 * file; and what can only be read from one end to the other, like a pipe, which
 * one producer reads when all such inputs before it are read, since they may be
 * the same pipe.
 *
 * The size of a file is only a hint.  The last slice goes on until the file
 * ends; if a file ends earlier, no more slices are given out but an empty one
 * to end it.
 */
#include "config.h"

#include "gwc.h"
#include "quote.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define GROUP_MAX 256			/* files in one group */
#define LIST_MAX (10 << 20)		/* wc reads a longer list name by name */
#define LIST_CHUNK (64 << 10)

static void *grow(void *mem, size_t size)
{
	mem = realloc(mem, size);
	if (!mem) {
		fputs("gwc: memory exhausted\n", stderr);
		_exit(EXIT_FAILURE);
	}
	return mem;
}

bool gwc_input_is_stdin(const struct gwc_input *in)
{
	return !in->name || strcmp(in->name, "-") == 0;
}

void gwc_input_free(struct gwc_input *in)
{
	if (in->fd >= 0)
		close(in->fd);
	free(in->name);
	free(in);
}

/* ---- names --------------------------------------------------------------- */

static struct gwc_input *append(struct gwc_source *src, const char *name)
{
	struct gwc_input *in = grow(NULL, sizeof(*in));

	*in = (struct gwc_input){ .fd = -1, .number = ++src->nr_names };
	if (name) {
		const size_t size = strlen(name) + 1;

		in->name = memcpy(grow(NULL, size), name, size);
		if (!*name)
			in->kind = GWC_INPUT_EMPTY_NAME;
		else if (src->list_fd == STDIN_FILENO && gwc_input_is_stdin(in))
			in->kind = GWC_INPUT_DASH;
	}
	*src->tail = in;
	src->tail = &in->next;
	return in;
}

/* Appends the names that end in the buffer, and leaves the rest in it. */
static void take_names(struct gwc_source *src)
{
	size_t start = 0;

	for (;;) {
		const char *nul = memchr(src->list + start, '\0', src->list_used - start);

		if (!nul)
			break;
		append(src, src->list + start);
		start = (size_t)(nul - src->list) + 1;
	}
	src->list_used -= start;
	memmove(src->list, src->list + start, src->list_used);
}

/*
 * Reads on in the list until there is another name, or the list is at its end.
 * Return: 0 or an errno.
 */
static int read_names(struct gwc_source *src)
{
	const unsigned long had = src->nr_names;

	while (src->list_fd >= 0 && src->nr_names == had) {
		ssize_t got;
		int err;

		if (src->list_size - src->list_used < LIST_CHUNK) {
			src->list_size = 2 * src->list_size + LIST_CHUNK;
			src->list = grow(src->list, src->list_size);
		}
		/* One byte stays free: the last name need not end with a NUL. */
		got = read(src->list_fd, src->list + src->list_used,
			   src->list_size - src->list_used - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got > 0) {
			src->list_used += (size_t)got;
			take_names(src);
			continue;
		}
		err = got < 0 ? errno : 0;
		if (!err && src->list_used) {
			src->list[src->list_used++] = '\0';
			take_names(src);
		}
		if (src->list_fd != STDIN_FILENO)
			close(src->list_fd);
		src->list_fd = -1;
		if (err)
			return err;
	}
	return 0;
}

static void open_list(struct gwc_source *src)
{
	const char *name = src->opt->files0_from;
	struct stat st;

	src->list_fd = STDIN_FILENO;
	if (strcmp(name, "-") != 0)
		src->list_fd = open(name, O_RDONLY | O_CLOEXEC);
	if (src->list_fd < 0) {
		gwc_report_error(errno, "cannot open %s for reading", quote_name(name, true));
		exit(gwc_report_end(true));
	}
	if (fstat(src->list_fd, &st) || !S_ISREG(st.st_mode) || st.st_size > LIST_MAX)
		return;
	while (src->list_fd >= 0) {
		if (!read_names(src))
			continue;
		gwc_report_error(0, "cannot read file names from %s", quote_name(name, true));
		exit(gwc_report_end(true));
	}
}

static struct gwc_input *first_input(struct gwc_source *src)
{
	int err;

	if (src->head)
		return src->head;
	err = read_names(src);
	if (err) {
		struct gwc_input *in = append(src, NULL);

		in->kind = GWC_INPUT_BAD_LIST;
		in->err = err;
	}
	return src->head;
}

static struct gwc_input *pop(struct gwc_source *src)
{
	struct gwc_input *in = src->head;

	src->head = in->next;
	if (!src->head)
		src->tail = &src->head;
	return in;
}

/* ---- a look at the files ------------------------------------------------- */

/* Return: false if there is nothing there to be looked at. */
static bool look(const struct gwc_source *src, struct gwc_input *in, struct stat *st)
{
	enum gwc_input_kind kind = GWC_INPUT_QUICK;
	bool there;

	if (gwc_input_is_stdin(in)) {
		there = !src->no_stdin && fstat(STDIN_FILENO, st) == 0;
		kind = GWC_INPUT_STREAM;
	} else {
		there = stat(in->name, st) == 0;
		if (there && S_ISREG(st->st_mode)) {
			kind = GWC_INPUT_FILE;
			in->size = (uint64_t)st->st_size;
		} else if (there && !S_ISDIR(st->st_mode)) {
			kind = GWC_INPUT_STREAM;
		}
	}
	if (in->kind == GWC_INPUT_UNSEEN)
		in->kind = kind;
	return there;
}

/*
 * The width that wc takes: what the sum of the regular files' sizes needs, and
 * at least 7 if there is anything else.  One number of one file stands alone,
 * and names that come from a pipe are not known yet.
 */
static int look_at_all(struct gwc_source *src)
{
	const struct gwc_options *opt = src->opt;
	const int columns = opt->lines + opt->words + opt->chars + opt->bytes;
	uint64_t total = 0;
	int least = 1;
	int width = 1;

	if (src->nr_names == 1 && columns == 1)
		return 1;
	for (struct gwc_input *in = src->head; in; in = in->next) {
		struct stat st;

		if (!look(src, in, &st))
			continue;
		if (S_ISREG(st.st_mode))
			total += (uint64_t)st.st_size;
		else
			least = 7;
	}
	for (; total >= 10; total /= 10)
		width++;
	return width < least ? least : width;
}

void gwc_source_open(struct gwc_source *src, const struct gwc_options *opt, uint64_t work_bytes,
		     bool no_stdin)
{
	*src = (struct gwc_source){
		.opt = opt,
		.work_bytes = work_bytes,
		.no_stdin = no_stdin,
		.tail = &src->head,
		.list_fd = -1,
	};
	for (unsigned i = 0; i < opt->nr_names; i++)
		append(src, opt->names[i]);
	if (opt->files0_from)
		open_list(src);
	else if (!opt->nr_names)
		append(src, NULL);
	src->width = opt->total == GWC_TOTAL_ONLY ? 1 : look_at_all(src);
}

/* ---- work ---------------------------------------------------------------- */

static bool next_slice(struct gwc_source *src, struct gwc_work *work)
{
	struct gwc_input *in = src->sliced;

	*work = (struct gwc_work){
		.kind = GWC_WORK_SLICE,
		.first = in,
		.nr = 1,
		.offset = src->offset,
		.bytes = src->work_bytes,
	};
	if (in->ended || src->offset + src->work_bytes >= in->size) {
		work->bytes = in->ended ? 0 : UINT64_MAX;
		work->last = true;
		src->sliced = NULL;
	}
	src->offset += src->work_bytes;
	return true;
}

/* What an input takes of a producer's buffers, where texts are aligned. */
static uint64_t room_for(const struct gwc_input *in)
{
	return in->kind == GWC_INPUT_FILE ? in->size + GWC_ALIGN : 0;
}

static void see(const struct gwc_source *src, struct gwc_input *in)
{
	struct stat st;

	if (in->kind == GWC_INPUT_UNSEEN)
		look(src, in, &st);
}

bool gwc_source_next(struct gwc_source *src, struct gwc_work *work)
{
	const bool only_sizes = gwc_options_only_sizes(src->opt);
	struct gwc_input *in;
	uint64_t room;

	if (src->sliced)
		return next_slice(src, work);
	in = first_input(src);
	if (!in)
		return false;
	see(src, in);
	pop(src);
	*work = (struct gwc_work){ .kind = GWC_WORK_FILES, .first = in, .nr = 1 };
	if (in->kind == GWC_INPUT_STREAM) {
		work->kind = GWC_WORK_STREAM;
		work->turn = src->nr_streams++;
		return true;
	}
	if (in->kind == GWC_INPUT_FILE && in->size > src->work_bytes && !only_sizes) {
		in->fd = gwc_input_open(src, in);
		if (in->fd >= 0) {
			src->sliced = in;
			src->offset = 0;
			return next_slice(src, work);
		}
		/* As one of a group it fails to open again, and that is reported. */
	}
	/* Only with names that are there: a group does not wait for more. */
	room = room_for(in);
	while (work->nr < GROUP_MAX && src->head) {
		see(src, src->head);
		room += only_sizes ? 0 : room_for(src->head);
		if (src->head->kind == GWC_INPUT_STREAM || room > src->work_bytes)
			break;
		pop(src);
		work->nr++;
	}
	return true;
}

/* ---- reading ------------------------------------------------------------- */

int gwc_input_open(const struct gwc_source *src, const struct gwc_input *in)
{
	int fd;

	if (gwc_input_is_stdin(in))
		return src->no_stdin ? -EBADF : STDIN_FILENO;
	fd = open(in->name, O_RDONLY | O_CLOEXEC | O_NOCTTY);
	return fd < 0 ? -errno : fd;
}

/*
 * The offset of standard input moves along, as by reading, and as with wc 9.4; wc
 * 9.1 leaves it, and counts the same bytes again for a second "-".
 */
uint64_t gwc_input_skip(int fd)
{
	const long page = sysconf(_SC_PAGESIZE);
	struct stat st;
	off_t here, end;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return 0;
	here = lseek(fd, 0, SEEK_CUR);
	end = st.st_size;
	/* In /proc and /sys a size of whole pages is only the most it can be. */
	if (end % page == 0)
		end -= end < st.st_blksize ? end : st.st_blksize;
	if (here < 0 || end <= here || lseek(fd, end, SEEK_SET) < 0)
		return 0;
	return (uint64_t)(end - here);
}

size_t gwc_input_read(int fd, unsigned char *buf, size_t bytes, int64_t offset, int *err)
{
	size_t done = 0;

	*err = 0;
	while (done < bytes) {
		const ssize_t got = offset < 0 ?
			read(fd, buf + done, bytes - done) :
			pread(fd, buf + done, bytes - done, (off_t)(offset + (int64_t)done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			*err = errno;
		if (got <= 0)
			break;
		done += (size_t)got;
	}
	return done;
}
