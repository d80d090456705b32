/* SPDX-License-Identifier: MIT */
/* The jobs of api/replay.c on a GPU, recorded by their calls of the library. */
#include <runnel.h>
#include <runnel/kernel.h>

#include "apply.h"

#define APPLY_ON_GPU 1

extern const struct rnl_kernel apply;	/* replay_calls.cu */

#include "../api/replay.c"
