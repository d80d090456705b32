/* SPDX-License-Identifier: MIT */
/* Keeps the numbers of the standard descriptors from being given to files. */
#include "std_fd.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

bool std_fd_keep(int fd)
{
	if (fcntl(fd, F_GETFD) != -1 || errno != EBADF)
		return true;
	if (open("/dev/null", fd == STDIN_FILENO ? O_WRONLY : O_RDONLY) != fd)
		_exit(EXIT_FAILURE);
	return false;
}
