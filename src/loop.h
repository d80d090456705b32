/* SPDX-License-Identifier: MIT */
/* A worker's thread. */
#ifndef RNL_LOOP_H
#define RNL_LOOP_H

/* Its function; @arg is its worker.  It ends by the order RNL__END. */
void *rnl__loop_main(void *arg);

#endif
