/* SPDX-License-Identifier: MIT */
/*
 * The jobs of api/gather.c on a GPU, where movers and copy engines copy. Areas are too large for a
 * mover.
 */
#include <runnel.h>
#include <runnel/kernel.h>

#define CHANGE_ON_GPU 1
#define BYTES 40960u

extern const struct rnl_kernel change, flip;	/* gather.cu */

#include "../api/gather.c"
