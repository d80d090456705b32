/* SPDX-License-Identifier: MIT */
/* The registry: devices by name. */
#ifndef RNL_DEVICES_H
#define RNL_DEVICES_H

#include "device/device.h"

/* Devices of one kind; each occurs once. */
struct rnl__devices {
	unsigned nr;
	struct rnl__device *list[RNL_DEVICES_MAX];
};

/*
 * Finds devices by name; they live as long as the process.
 * @why: receives the reason of an error; on success, why "auto" is the host device, or "".
 * Returns 0, -EINVAL (bad name, or a device twice), -ENODEV (no such device) or a device's error.
 */
int rnl__devices_open(const char *name, struct rnl__devices *devices, char why[RNL__WHY_BYTES]);

/* Returns the bytes of the host's memory; 0: unknown. */
uint64_t rnl__devices_host_memory(void);

#endif
