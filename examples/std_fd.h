/* SPDX-License-Identifier: MIT */
/* Standard descriptors that were closed when the program began. */
#ifndef STD_FD_H
#define STD_FD_H

#include <stdbool.h>

/*
 * A standard descriptor that is closed would be given to the next file that is
 * opened, and what is meant for one would go to the other.  So /dev/null takes its
 * place, opened the wrong way round: it fails as the closed one would.
 * Return: false if it was closed.  Exits if it cannot be helped.
 */
bool std_fd_keep(int fd);

#endif /* STD_FD_H */
