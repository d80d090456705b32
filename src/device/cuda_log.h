/* SPDX-License-Identifier: MIT */
/*
 * The driver's reasons for failed calls.
 *
 * DESIGN
 *	The driver passes its reason for a failed call to registered functions, then
 *	"Returning CODE (NAME) from CALL".  It calls them in the thread that made the call, with locks
 *	held: other threads' calls wait meanwhile (seen on an H200, driver 580, CUDA 13.0).  So ours
 *	must not call the driver or a log.  It keeps the thread's last reason, which
 *	rnl__device_reason() returns for the line about the failure.  The thread logs that line when
 *	the call has returned.
 *	The driver calls all registered functions, so those of the program are not disturbed.  Ours is
 *	registered while a thread is attached to a stream.
 *	The lock is held only to copy a text, and nobody waits for it: at worst a reason is lost.
 *	A job may handle its error: that reason stays until the thread's next one.  A failure without
 *	a reason, which only the runtime finds, would get it if both have the same code.
 */
#ifndef RNL_DEVICE_CUDA_LOG_H
#define RNL_DEVICE_CUDA_LOG_H

#include "device/device.h"

/* Finds the driver's functions; one thread at a time, before any use. */
void rnl__cuda_log_init(void);

/* Called before a thread attaches, and after it has detached, or could not attach. */
void rnl__cuda_log_begin(void);
void rnl__cuda_log_end(void);

/* The device's reason operation. */
void rnl__cuda_log_reason(int code, char text[RNL__WHY_BYTES]);

#endif
