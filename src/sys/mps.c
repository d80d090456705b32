/* SPDX-License-Identifier: MIT */
/* Looks for the control daemon of MPS; mps.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "sys/mps.h"
#include "sys/thread.h"

#define MPS_DIRECTORY "CUDA_MPS_PIPE_DIRECTORY"
#define MPS_DIRECTORY_DEFAULT "/tmp/nvidia-mps"

/* Returns true if a process has a socket of this name open. */
static bool mps_listens(const struct sockaddr_un *name)
{
	RNL__UNCANCELLED();
	const int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	bool listens;

	if (fd < 0)
		return false;
	listens = !connect(fd, (const struct sockaddr *)name, sizeof(*name)) || errno == EPROTOTYPE;
	(void)close(fd);
	return listens;
}

const char *rnl__mps_directory(void)
{
	struct sockaddr_un name = { .sun_family = AF_UNIX };
	const char *directory = getenv(MPS_DIRECTORY);

	if (!directory || !*directory)
		directory = MPS_DIRECTORY_DEFAULT;
	if (snprintf(name.sun_path, sizeof(name.sun_path), "%s/control", directory) >=
	    (int)sizeof(name.sun_path))
		return NULL;
	return mps_listens(&name) ? directory : NULL;
}
