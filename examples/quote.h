/* SPDX-License-Identifier: MIT */
/* Names in diagnostics, quoted as coreutils quote them in the C locale. */
#ifndef QUOTE_H
#define QUOTE_H

#include <stdbool.h>

/*
 * A name as a shell would read it back, in quotes if it needs them or if they
 * are wanted in any case.  Valid until the next call; one thread only.
 */
const char *quote_name(const char *name, bool always);

#endif /* QUOTE_H */
