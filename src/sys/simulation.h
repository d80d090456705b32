/* SPDX-License-Identifier: MIT */
/* Operations that take time on a simulated machine (docs/simulation.md); see tests/sim. */
#ifndef RNL_SYS_SIMULATION_H
#define RNL_SYS_SIMULATION_H

#ifdef RNL__SIMULATION
#include <stddef.h>

/* A thread spins once. */
void rnl__sim_pause(void);

/* A stream copies or fills; @to, @from: the devices that own the memory, -1 for the host. */
void rnl__sim_copy(int to, int from, size_t bytes);

/* A stream starts a kernel, and the kernel's function takes steps of its own. */
void rnl__sim_kernel(void);
#else
#define rnl__sim_copy(to, from, bytes) ((void)0)
#define rnl__sim_kernel() ((void)0)
#endif

#endif
