/* SPDX-License-Identifier: MIT */
/* How far a command is, as a line on the terminal of standard error; elsewhere there is none. */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

/* Of @total steps one more is done; behind the last one the line goes. */
void tool_progress_begin(unsigned total);
void tool_progress_step(void);

/* Before other text is written. */
void tool_progress_clear(void);

#endif /* TOOL_PROGRESS_H */
