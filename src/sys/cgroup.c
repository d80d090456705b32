/* SPDX-License-Identifier: MIT */
/* Limits of control groups; cgroup.h has the design. */
#include "config.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sys/cgroup.h"

/* A mounted hierarchy that may have the controller. */
struct hierarchy {
	const char *controller;
	bool unified;
	char root[PATH_MAX];		/* the group at the mount point */
	char folder[PATH_MAX];		/* the mount point */
};

static FILE *cgroup_open(const char *root, const char *path)
{
	char name[PATH_MAX];

	if (snprintf(name, sizeof(name), "%s%s", root, path) >= (int)sizeof(name))
		return NULL;
	return fopen(name, "re");
}

/* Reads a line.  Truncates a line that is too long, such as a mount of many layers. */
static bool cgroup_line(FILE *file, char *line, size_t bytes)
{
	int c = 0;

	if (!fgets(line, (int)bytes, file))
		return false;
	if (!strchr(line, '\n'))
		while ((c = getc(file)) != EOF && c != '\n')
			;
	line[strcspn(line, "\n")] = '\0';
	return true;
}

/* Returns true if a comma-separated list contains the word. */
static bool cgroup_lists(const char *list, const char *word)
{
	const size_t length = strlen(word);

	for (; list; list = strchr(list, ',')) {
		list += *list == ',';
		if (!strncmp(list, word, length) && (!list[length] || list[length] == ','))
			return true;
	}
	return false;
}

/* Parses a line of mountinfo.  Returns false if the line is not a mount of the hierarchy. */
static bool cgroup_is_mount(char *line, struct hierarchy *h)
{
	char *behind = strstr(line, " - "), type[16], options[256];

	if (!behind || sscanf(behind, " - %15s %*s %255s", type, options) != 2)
		return false;
	if (strcmp(type, h->unified ? "cgroup2" : "cgroup") ||
	    (!h->unified && !cgroup_lists(options, h->controller)))
		return false;
	_Static_assert(sizeof(h->root) == 4096 && sizeof(h->folder) == 4096, "one more than below");
	return sscanf(line, "%*s %*s %*s %4095s %4095s", h->root, h->folder) == 2;
}

static bool cgroup_find_mount(const char *root, struct hierarchy *h)
{
	FILE *file = cgroup_open(root, "/proc/self/mountinfo");
	char line[PATH_MAX];
	bool found = false;

	if (!file)
		return false;
	while (!found && cgroup_line(file, line, sizeof(line)))
		found = cgroup_is_mount(line, h);
	(void)fclose(file);
	return found;
}

/* Returns the part of the group's path that is below the mount's root. */
static const char *cgroup_below(const struct hierarchy *h, const char *path)
{
	const size_t length = strcmp(h->root, "/") ? strlen(h->root) : 0;

	if (!strncmp(path, h->root, length) && (!path[length] || path[length] == '/'))
		path += length;
	/* A group outside the mount has no files in it: use the mount's root. */
	return strstr(path, "/..") || !strcmp(path, "/") ? "" : path;
}

/* Calls @look for a group and its ancestors, up to the mount's root. */
static void cgroup_climb(const char *root, const struct hierarchy *h, const char *path,
			 rnl__cgroup_fn *look, void *arg)
{
	char folder[PATH_MAX];
	size_t top;

	if (snprintf(folder, sizeof(folder), "%s%s%s", root, h->folder, cgroup_below(h, path)) >=
	    (int)sizeof(folder))
		return;
	top = strlen(root) + strlen(h->folder);
	while (strlen(folder) > top) {
		look(arg, folder, h->unified);
		*strrchr(folder, '/') = '\0';
	}
	look(arg, folder, h->unified);
}

void rnl__cgroup_each(const char *root, const char *controller, rnl__cgroup_fn *look, void *arg)
{
	FILE *file = cgroup_open(root, "/proc/self/cgroup");
	char line[PATH_MAX], *list, *path;

	if (!file)
		return;
	/* "4:cpu,cpuacct:/a/group", or "0::/a/group" in version 2 */
	while (cgroup_line(file, line, sizeof(line))) {
		struct hierarchy h = { .controller = controller };

		list = strchr(line, ':');
		path = list ? strchr(list + 1, ':') : NULL;
		if (!path)
			continue;
		*path++ = '\0';
		h.unified = !*++list;
		if ((h.unified || cgroup_lists(list, controller)) && cgroup_find_mount(root, &h))
			cgroup_climb(root, &h, path, look, arg);
	}
	(void)fclose(file);
}

unsigned rnl__cgroup_read(const char *folder, const char *name, uint64_t *numbers, unsigned nr)
{
	unsigned had = 0;
	char path[PATH_MAX], word[24];
	FILE *file;

	if (snprintf(path, sizeof(path), "%s/%s", folder, name) >= (int)sizeof(path))
		return 0;
	file = fopen(path, "re");
	if (!file)
		return 0;
	while (had < nr && fscanf(file, "%23s", word) == 1)
		numbers[had++] = *word >= '0' && *word <= '9' ? strtoull(word, NULL, 10) :
								RNL__NO_LIMIT;
	(void)fclose(file);
	return had;
}
