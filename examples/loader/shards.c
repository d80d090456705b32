/* SPDX-License-Identifier: MIT */
/*
 * Shards: files of records; writing, opening and reading them.
 *
 * DESIGN
 * A shard is a header of one page, and then records of one size.  A record contains its number and
 * a sum of its words.  The reader checks the number, and the device checks the sum.  So a record
 * that is damaged, torn or misplaced is found, and reported with its file and offset.
 */
#include "config.h"

#include "common/output.h"
#include "common/program.h"
#include "loader.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define HEADER_BYTES 4096
#define RECORD_MAGIC 0x64636572u
#define SUFFIX ".shard"

static const char magic[8] = "rnlshrd";

struct header {
	char magic[8];
	uint32_t id, nr, bytes;
};

/* ---- making -------------------------------------------------------------- */

static int write_shard(FILE *to, uint32_t id, uint32_t nr, struct record *record, uint32_t bytes,
		       uint64_t seed)
{
	char page[HEADER_BYTES] = { 0 };
	const struct header header = { "rnlshrd", id, nr, bytes };

	memcpy(page, &header, sizeof(header));
	if (fwrite(page, sizeof(page), 1, to) != 1)
		return -errno;
	seed = (seed << 32 | id) * 0x9e3779b97f4a7c15u | 1;
	*record = (struct record){ .magic = RECORD_MAGIC, .shard = id };
	for (; record->index < nr; record->index++) {
		for (uint32_t i = 0; i < words_in(bytes); i++) {	/* xorshift64 */
			seed ^= seed << 13;
			seed ^= seed >> 7;
			seed ^= seed << 17;
			record->words[i] = (uint32_t)(seed >> 32);
		}
		record->sum = sum_words(record->words, words_in(bytes), 0, 0, 1);
		if (fwrite(record, bytes, 1, to) != 1)
			return -errno;
	}
	return 0;
}

void shards_make(const char *directory, unsigned nr, uint32_t records, uint32_t bytes,
		 uint32_t seed)
{
	struct record *record = malloc(bytes);

	if (!record)
		program_die("out of memory");
	if (mkdir(directory, 0777) && errno != EEXIST)
		program_die("%s: %s", directory, strerror(errno));
	for (unsigned i = 0; i < nr; i++) {
		struct output out;
		char *file;
		int ret;

		if (asprintf(&file, "%s/%04u" SUFFIX, directory, i) < 0)
			program_die("out of memory");
		ret = output_begin(&out, file);
		if (!ret)
			ret = output_end(&out, write_shard(out.to, i, records, record, bytes, seed));
		program_must(ret, file);
		free(file);
	}
	free(record);
}

/* ---- opening ------------------------------------------------------------- */

static void open_shard(struct shards *s, char *file)
{
	struct shard *shard;
	struct header header;
	struct stat st;
	ssize_t got;

	s->list = realloc(s->list, (s->nr + 1) * sizeof(*s->list));
	if (!s->list)
		program_die("out of memory");
	shard = &s->list[s->nr++];
	shard->file = file;
	/* Without O_NONBLOCK, opening a FIFO would wait for a writer. */
	shard->fd = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (shard->fd < 0 || fstat(shard->fd, &st))
		program_die("%s: %s", file, strerror(errno));
	if (!S_ISREG(st.st_mode))
		program_die("%s: this is not a regular file", file);
	got = pread(shard->fd, &header, sizeof(header), 0);
	if (got < 0)
		program_die("%s: %s", file, strerror(errno));
	if (got < (ssize_t)sizeof(header) || memcmp(header.magic, magic, sizeof(magic)) ||
	    !header.nr || header.bytes <= sizeof(struct record) ||
	    header.bytes % sizeof(struct record))
		program_die("%s: this is not a shard of loader --make", file);
	if (s->bytes && s->bytes != header.bytes)
		program_die("%s: its records have %u bytes, those of %s have %u", file, header.bytes,
			    s->list->file, s->bytes);
	s->bytes = header.bytes;
	shard->id = header.id;
	shard->nr = header.nr;
	shard->first = s->nr_records;
	s->nr_records += header.nr;
}

static int is_shard(const struct dirent *entry)
{
	const size_t length = strlen(entry->d_name);

	return length > strlen(SUFFIX) && !strcmp(entry->d_name + length - strlen(SUFFIX), SUFFIX);
}

void shards_open(struct shards *s, char **directories, unsigned nr)
{
	for (unsigned i = 0; i < nr; i++) {
		struct dirent **entries;
		const int nr_files = scandir(directories[i], &entries, is_shard, alphasort);

		if (nr_files <= 0)
			program_die("%s: %s", directories[i],
				    nr_files < 0 ? strerror(errno) : "it has no shards");
		for (int j = 0; j < nr_files; j++) {
			char *file;

			if (asprintf(&file, "%s/%s", directories[i], entries[j]->d_name) < 0)
				program_die("out of memory");
			open_shard(s, file);
			free(entries[j]);
		}
		free(entries);
	}
}

void shards_close(struct shards *s)
{
	for (unsigned i = 0; i < s->nr; i++) {
		close(s->list[i].fd);
		free(s->list[i].file);
	}
	free(s->list);
}

void shards_drop_cache(const struct shards *s)
{
	for (unsigned i = 0; i < s->nr; i++)
		(void)posix_fadvise(s->list[i].fd, 0, 0, POSIX_FADV_DONTNEED);
}

/* ---- reading ------------------------------------------------------------- */

static const struct shard *shard_of(const struct shards *s, uint64_t record)
{
	const struct shard *shard = s->list;

	while (record >= shard->first + shard->nr)
		shard++;
	return shard;
}

static uint64_t offset_of(const struct shards *s, const struct shard *shard, uint64_t record)
{
	return HEADER_BYTES + (record - shard->first) * s->bytes;
}

void shards_complain(const struct shards *s, uint64_t record, const char *what, char *error)
{
	const struct shard *shard = shard_of(s, record);

	snprintf(error, TEXT, "%s at offset %llu: %s", shard->file,
		 (unsigned long long)offset_of(s, shard, record), what);
}

int shards_read(const struct shards *s, uint64_t record, void *to, const char **wrong)
{
	const struct shard *shard = shard_of(s, record);
	const struct record *have = to;
	size_t done = 0;

	while (done < s->bytes) {
		const ssize_t got = pread(shard->fd, (char *)to + done, s->bytes - done,
					  (off_t)(offset_of(s, shard, record) + done));

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0) {
			*wrong = got ? strerror(errno) : "the file ends in or before this record";
			return got ? -errno : -ENODATA;
		}
		done += (size_t)got;
	}
	*wrong = "this is not the expected record";
	return have->magic == RECORD_MAGIC && have->shard == shard->id &&
	       have->index == record - shard->first ? 0 : -EBADMSG;
}
