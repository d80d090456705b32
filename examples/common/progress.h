/* SPDX-License-Identifier: MIT */
/*
 * A progress line on standard error, if that is a terminal.
 *
 * DESIGN
 * A program does one task at a time, so there is one line.  It appears after a tenth of a second,
 * and is updated every tenth.  Messages and the end of the task clear it.  One thread calls all
 * functions except progress_clear().
 */
#ifndef EXAMPLES_PROGRESS_H
#define EXAMPLES_PROGRESS_H

#include <stdint.h>

/*
 * @what: the task, such as "counting"; @total: 0 if unknown (then the line has no percentage and no
 * time left); @size: progress counts in one @unit, such as 1e6 bytes in one "MB".
 */
void progress_begin(const char *what, uint64_t total, double size, const char *unit);

/* Shows the progress; clears the line when @done reaches @total. */
void progress_show(uint64_t done);

/* Clears the line; call it before other output.  Context: any thread. */
void progress_clear(void);

#endif /* EXAMPLES_PROGRESS_H */
