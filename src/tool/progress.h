/* SPDX-License-Identifier: MIT */
/* Prints a command's progress as a line on standard error, if that is a terminal. */
#ifndef TOOL_PROGRESS_H
#define TOOL_PROGRESS_H

/* Begin a task of @total steps; count a step as done.  The last step removes the line. */
void tool_progress_begin(unsigned total);
void tool_progress_step(void);

/* Removes the line.  Called before other text is written. */
void tool_progress_clear(void);

#endif /* TOOL_PROGRESS_H */
