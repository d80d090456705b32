/* SPDX-License-Identifier: MIT */
/*
 * The time of device operations, and faults; sim.h has the design.
 *
 * DESIGN
 *	The host device and the double of CUDA's runtime call these functions for each operation, in
 *	the stream's thread.  A device has a copy engine for each direction.  A copy waits until its
 *	engine is free, then keeps it busy for a latency and the time of its bytes.  Kernels of all
 *	streams run concurrently, and so do fills and copies within a device.
 *	A fault is drawn only if SIM_FAULTS has its name, so a new fault does not change other runs.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "sim/sim.h"
#include "sys/simulation.h"

#define HERE __builtin_return_address(0)
#define DEVICES_MAX 16

/* times of an H100 on PCIe 5; rates are bytes per ns */
#define COPY_NS 2000
#define KERNEL_NS 3000
#define HOST_RATE 54
#define PEER_RATE 250
#define OWN_RATE 1000

#define SLOWER 10		/* factor of a slow stream; one stream in 4 is slow */
#define STALL_NS 100000000	/* duration of a stalled operation: one in STALLS */
#define STALLS 512
#define LACKS 512		/* one allocation in LACKS fails */

enum { IN, OUT, NR_ENGINES };
static uint64_t busy_until[DEVICES_MAX][NR_ENGINES];

bool sim_fault(const char *name)
{
	const char *faults = getenv("SIM_FAULTS");

	return faults && strstr(faults, name);
}

bool rnl__sim_lacks(void)
{
	return sim_runs() && sim_fault("alloc") && !sim_any(LACKS);
}

bool rnl__sim_interrupts(void)
{
	if (!sim_runs() || !sim_spurious())
		return false;
	errno = EINTR;
	return true;
}

/* Does an operation of the calling thread's stream; @engine NULL: it needs no engine. */
static void operate(uint64_t *engine, uint64_t ns, const void *pc)
{
	uint64_t time = sim_now();

	if (sim_thread() % 4 == 0 && sim_fault("slow"))
		ns *= SLOWER;
	if (sim_fault("stall") && !sim_any(STALLS))
		ns = STALL_NS;
	if (engine && *engine > time)
		time = *engine;
	time += ns;
	if (engine)
		*engine = time;
	(void)sim_sleep(SIM_SLEEP, NULL, time, pc);
}

void rnl__sim_copy(int to, int from, size_t bytes)
{
	const uint64_t rate = to < 0 || from < 0 ? HOST_RATE : to != from ? PEER_RATE : OWN_RATE;
	uint64_t *engine = from >= 0 && to != from ? &busy_until[from % DEVICES_MAX][OUT] :
			   to >= 0 && to != from ? &busy_until[to % DEVICES_MAX][IN] : NULL;

	if (sim_runs())
		operate(engine, COPY_NS + bytes / rate, HERE);
}

void rnl__sim_kernel(void)
{
	if (sim_runs())
		operate(NULL, KERNEL_NS, HERE);
}
