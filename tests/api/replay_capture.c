/* SPDX-License-Identifier: MIT */
/* The jobs of api/replay.c, recorded by stream capture. */
#include <runnel.h>
#include <runnel/replay.h>

#define HOW RNL_REPLAY_CAPTURE

#include "replay.c"
