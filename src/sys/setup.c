/* SPDX-License-Identifier: MIT */
/* Settings of the process, made before CUDA starts. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include <runnel.h>

#include "sys/log.h"
#include "sys/thread.h"

#define CONNECTIONS "CUDA_DEVICE_MAX_CONNECTIONS"
#define CONNECTIONS_MAX "32"	/* the most that CUDA takes */

/* Whether this thread is the only one; each is a directory.  If they cannot be seen: false. */
static bool alone(void)
{
	RNL__UNCANCELLED();
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned nr = 0;

	if (!tasks)
		return false;
	while ((entry = readdir(tasks)) != NULL)
		nr += entry->d_name[0] != '.';
	closedir(tasks);
	return nr == 1;
}

int rnl_setup(void)
{
	if (getenv(CONNECTIONS))
		return 0;
	/* CUDA has threads of its own once it has started, so this notices that, too. */
	if (!alone())
		return rnl__refused(NULL, -EBUSY, "rnl_setup(): other threads run, or /proc/self/task "
				    "cannot be read: nothing was set; call it first in main()");
	return setenv(CONNECTIONS, CONNECTIONS_MAX, 0) ? -errno : 0;
}
