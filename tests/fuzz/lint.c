/* SPDX-License-Identifier: MIT */
/*
 * Untrusted objects: how runnel lint reads an object, an archive, a library.
 *
 * DESIGN
 * The top bit of an input's first byte is inverted, so the corpus has no object files, which a
 * source package must not have. A file is read, or there is a message. The names of a use are
 * sorted and unique, and each is a name of that use.
 */
#include "config.h"

#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "src/tool/lint.h"
#include "src/tool/tool.h"

#include "tests/fuzz/fuzz.h"

static unsigned nr_messages;

int tool_trouble(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	must_format(format, args);
	va_end(args);
	nr_messages++;
	return TOOL_TROUBLE;
}

static void take(struct lint_object *object, void *arg)
{
	must(object->file && arg == &nr_messages);
	for (unsigned use = 0; use < LINT_USES; use++) {
		const struct lint_names *names = &object->uses[use];

		for (size_t i = 0; i < names->nr; i++) {
			must(lint_use_of(names->names[i]) == use);
			must(!i || strcmp(names->names[i - 1], names->names[i]) < 0);
		}
	}
	lint_object_free(object);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static char path[32];
	static int fd = -1;

	if (fd < 0) {
		fd = memfd_create("fuzz", MFD_CLOEXEC);
		must(fd >= 0);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	must(!ftruncate(fd, 0) && pwrite(fd, data, bytes, 0) == (ssize_t)bytes);
	if (bytes)
		must(pwrite(fd, &(uint8_t){ *data ^ 0x80 }, 1, 0) == 1);
	nr_messages = 0;
	must(lint_read(path, take, &nr_messages) == !nr_messages);
	return 0;
}
