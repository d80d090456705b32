/* SPDX-License-Identifier: MIT */
/* The threads of this process, by name. */
#ifndef THREADS_H
#define THREADS_H

#include <dirent.h>
#include <fnmatch.h>

#include "suite.h"

/*
 * Returns the number of threads whose name matches.  Until a thread has set its name, it has the
 * name of the thread that started it.  So wait for the expected number.
 */
static inline unsigned nr_threads_named(const char *pattern)
{
	DIR *dir = opendir("/proc/self/task");
	unsigned nr = 0;

	ck_assert_ptr_nonnull(dir);
	for (const struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
		char path[300], name[32] = "";
		FILE *file;

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "/proc/self/task/%s/comm", entry->d_name);
		file = fopen(path, "r");
		if (!file)
			continue;	/* it has ended */
		if (fgets(name, sizeof(name), file)) {
			name[strcspn(name, "\n")] = '\0';
			nr += !fnmatch(pattern, name, 0);
		}
		fclose(file);
	}
	closedir(dir);
	return nr;
}

#endif
