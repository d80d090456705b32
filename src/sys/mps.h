/* SPDX-License-Identifier: MIT */
/*
 * MPS, by which several processes use a GPU at the same time, seen before CUDA starts.
 *
 * DESIGN
 *	CUDA becomes a client of MPS if it can connect to the control daemon's socket when it starts.
 *	This looks whether a process has that socket open: it connects a datagram socket to it.  The
 *	kernel refuses, because the types differ, with EPROTOTYPE; or with ECONNREFUSED if the daemon
 *	has ended without removing its socket.  So the daemon notices nothing, and the call does not
 *	block.  The daemon's pid file is no help in a container, which may have its own pids.
 */
#ifndef RNL_MPS_H
#define RNL_MPS_H

/* Returns the directory in which MPS's control daemon listens, or NULL if none does. */
const char *rnl__mps_directory(void);

#endif
