/* SPDX-License-Identifier: MIT */
/* The kernel of replay.cu; replay_calls.c has the tests. */
#include "replay.cu"
