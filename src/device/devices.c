/* SPDX-License-Identifier: MIT */
/* The registry: devices by name.  It is above the backends because it calls them. */
#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/device.h>

#include "sys/abi.h"
#include "sys/log.h"
#include "sys/thread.h"
#include "device/backends.h"
#include "device/devices.h"

#define NAMES "auto, cuda, cuda:N, cuda:N,N,..., cuda:all, host or host:N"

/* Writes the reason of an error to @why; evaluates to @ret. */
#define because(why, ret, ...) (snprintf(why, RNL__WHY_BYTES, __VA_ARGS__), (ret))

static int no_name(char *why)
{
	return because(why, -EINVAL, "no name of a device; it must be " NAMES);
}

/* Reads a number of up to six digits.  Returns the text after it, or NULL if there is no number. */
static const char *read_number(const char *text, unsigned *number)
{
	const char *end = text;

	*number = 0;
	while (*end >= '0' && *end <= '9' && end - text < 6)
		*number = 10 * *number + (unsigned)(*end++ - '0');
	return end > text ? end : NULL;
}

static int no_cuda_device(const char *wanted, char *why)
{
	const char *visible = getenv("CUDA_VISIBLE_DEVICES");
	char answer[RNL__WHY_BYTES], set[80] = "";

	(void)rnl__device_nr_cuda(answer);
	if (visible)
		snprintf(set, sizeof(set), "; CUDA_VISIBLE_DEVICES is \"%.40s\"", visible);
	return because(why, -ENODEV, "there is no %.16s: %.240s%s", wanted, answer, set);
}

/* Adds a CUDA device. */
static int add_cuda(struct rnl__devices *devices, unsigned ordinal, char *why)
{
	struct rnl__device *device;
	char wanted[32];
	int ret;

	snprintf(wanted, sizeof(wanted), "cuda:%u", ordinal);
	if (devices->nr == RNL_DEVICES_MAX)
		return because(why, -EINVAL, "more than %d devices are named", RNL_DEVICES_MAX);
	ret = rnl__device_cuda(ordinal, &device);
	if (ret == -ENODEV)
		return no_cuda_device(wanted, why);
	if (ret)
		return because(why, ret, "%s: %s", wanted, rnl_strerror(ret));
	for (unsigned i = 0; i < devices->nr; i++) {
		if (devices->list[i] == device)
			return because(why, -EINVAL, "%s is named twice", wanted);
	}
	devices->list[devices->nr++] = device;
	return 0;
}

/* Adds the devices of "cuda:all". */
static int add_all_cuda(struct rnl__devices *devices, char *why)
{
	const unsigned nr = rnl__device_nr_cuda(NULL);
	int ret = nr ? 0 : no_cuda_device("CUDA device", why);

	for (unsigned i = 0; !ret && i < nr; i++)
		ret = add_cuda(devices, i, why);
	return ret;
}

/* Returns 0 if the list has the form N,N,... */
static int check_list(const char *list, char *why)
{
	unsigned ordinal;

	for (;; list++) {
		const char *end = read_number(list, &ordinal);

		if (!end && (!strncmp(list, "host", 4) || !strncmp(list, "cuda", 4)))
			return because(why, -EINVAL, "devices of one kind, and the kind is named "
				       "once: cuda:N,N,...");
		if (!end || (*end && *end != ','))
			return no_name(why);
		if (!*end)
			return 0;
		list = end;
	}
}

/* Adds the devices of a list N,N,... */
static int add_listed_cuda(struct rnl__devices *devices, const char *list, char *why)
{
	unsigned ordinal;
	int ret = check_list(list, why);

	while (!ret && *list) {
		list = read_number(list, &ordinal);
		list += *list == ',';
		ret = add_cuda(devices, ordinal, why);
	}
	return ret;
}

static int add_host(struct rnl__devices *devices, const char *number, char *why)
{
	unsigned nr = 1;

	if (number) {
		const char *end = read_number(number, &nr);

		if (end && *end == ',')
			return because(why, -EINVAL, "devices of one kind: host:N has N devices");
		if (!end || *end)
			return no_name(why);
	}
	if (!nr || nr > RNL_DEVICES_MAX)
		return because(why, -EINVAL, "host:N has 1 to %d devices", RNL_DEVICES_MAX);
	while (devices->nr < nr) {
		devices->list[devices->nr] = rnl__device_host(devices->nr);
		devices->nr++;
	}
	return 0;
}

int rnl__devices_open(const char *name, struct rnl__devices *devices, char why[RNL__WHY_BYTES])
{
	int ret;

	devices->nr = 0;
	why[0] = '\0';
	if (!name || !strcmp(name, "auto")) {
		ret = add_cuda(devices, 0, why);
		return ret == -ENODEV ? add_host(devices, NULL, why) : ret;
	}
	if (!strcmp(name, "host"))
		return add_host(devices, NULL, why);
	if (!strncmp(name, "host:", 5))
		return add_host(devices, name + 5, why);
	if (!strcmp(name, "cuda"))
		return add_cuda(devices, 0, why);
	if (!strcmp(name, "cuda:all"))
		return add_all_cuda(devices, why);
	if (!strncmp(name, "cuda:", 5))
		return add_listed_cuda(devices, name + 5, why);
	return no_name(why);
}

uint64_t rnl__devices_host_memory(void)
{
	return rnl__device_host(0)->info.memory_bytes;
}
