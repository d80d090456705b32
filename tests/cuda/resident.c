/* SPDX-License-Identifier: MIT */
/* The tests of api/resident.c on a GPU, whose resident kernel is resident.cu's. */
#define ANSWERING_ON_GPU 1

#include "../api/resident.c"
