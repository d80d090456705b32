/* SPDX-License-Identifier: MIT */
/* The registry: devices by a name. */
#ifndef RNL_DEVICES_H
#define RNL_DEVICES_H

#include "device/device.h"

/* Devices of one kind, each once. */
struct rnl__devices {
	unsigned nr;
	struct rnl__device *list[RNL_DEVICES_MAX];
};

/*
 * Finds devices by a name; they live as long as the process.
 * @why: receives what is wrong, for people; after 0: why "auto" is the host device, or "".
 * Return: 0; -EINVAL no such name, or a device is named twice; -ENODEV a device is not there.
 */
int rnl__devices_open(const char *name, struct rnl__devices *devices, char why[RNL__WHY_BYTES]);

/* Bytes of the host's memory; 0: the system does not say. */
uint64_t rnl__devices_host_memory(void);

#endif
