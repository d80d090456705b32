/* SPDX-License-Identifier: MIT */
/*
 * How far a program is, as a line on the terminal of standard error; elsewhere there is none.
 *
 * DESIGN
 * A program does one thing at a time, so there is one line.  It comes after a tenth of a second,
 * and again every tenth; messages, and the end, clear it.  One thread calls all but
 * progress_clear().
 */
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

#include <stdint.h>

/*
 * @what: as "counting"; @total: 0: not known, and there is no percent, and no time left;
 * @size: of what is counted in @unit: 1e6 and "MB" for bytes.
 */
void progress_begin(const char *what, uint64_t total, double size, const char *unit);

/* @done: so far; at @total the line goes. */
void progress_show(uint64_t done);

/* Before other text is written.  Context: any thread. */
void progress_clear(void);

#endif /* EXAMPLES_PROGRESS_H */
