/* SPDX-License-Identifier: MIT */
/*
 * The jobs of api/replay.c on a GPU, recorded by stream capture. Their functions launch with
 * <<<...>>>.
 */
#include <runnel.h>
#include <runnel/kernel.h>
#include <runnel/replay.h>

#include "apply.h"

#define APPLY_ON_GPU 1
#define APPLY_RAW 1
#define HOW RNL_REPLAY_CAPTURE

/* replay.cu */
extern const struct rnl_kernel apply;
int raw_apply(const struct apply *args);

#include "../api/replay.c"
