/* SPDX-License-Identifier: MIT */
/* A worker's thread. */
#ifndef RNL_LOOP_H
#define RNL_LOOP_H

/* The thread's function; @arg: its worker.  The command RNL__END ends it. */
void *rnl__loop_main(void *arg);

#endif
