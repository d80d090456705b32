/* SPDX-License-Identifier: MIT */
/* Sets up the process before CUDA starts. */
#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <stdlib.h>

#include <runnel.h>
#include <runnel/device.h>

#include "sys/log.h"
#include "sys/mps.h"
#include "sys/thread.h"

#define CONNECTIONS "CUDA_DEVICE_MAX_CONNECTIONS"
#define CONNECTIONS_MAX "32"	/* the most that CUDA accepts */

/* Returns 1 if this thread is the only one, 0 if not, or -ENOTSUP if the system does not say. */
static int setup_alone(void)
{
	RNL__UNCANCELLED();
	DIR *tasks = opendir("/proc/self/task");
	const struct dirent *entry;
	unsigned nr = 0;

	/* /proc is not mounted.  With one thread this unshare() has no effect: unshare(2). */
	if (!tasks && unshare(CLONE_THREAD))
		return errno == EINVAL ? 0 : -ENOTSUP;
	if (!tasks)
		return 1;
	/* Each thread is a directory. */
	while ((entry = readdir(tasks)) != NULL)
		nr += entry->d_name[0] != '.';
	closedir(tasks);
	return nr == 1;
}

int rnl_setup(void)
{
	const char *mps;
	int alone;

	if (getenv(CONNECTIONS))
		return 0;
	mps = rnl__mps_directory();
	if (mps) {
		rnl__log(NULL, RNL_LOG_INFO, "rnl_setup(): MPS listens in %s, so " CONNECTIONS " was not "
			 "set: more connections for each process leave fewer to others", mps);
		return 0;
	}
	/* CUDA has its own threads once it has started, so this check detects that, too. */
	alone = setup_alone();
	if (alone < 0)
		return rnl__refused(NULL, alone, "rnl_setup(): the system does not say whether other "
				    "threads run: mount /proc, or start the program with " CONNECTIONS
				    "=" CONNECTIONS_MAX);
	if (!alone)
		return rnl__refused(NULL, -EBUSY, "rnl_setup(): other threads run: nothing was set; "
				    "call it first in main()");
	return setenv(CONNECTIONS, CONNECTIONS_MAX, 0) ? -errno : 0;
}
