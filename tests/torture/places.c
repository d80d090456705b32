/* SPDX-License-Identifier: MIT */
/*
 * Places: a round's pool has one device or several, and jobs are placed on them. Each function
 * checks that it runs where it was placed.
 *
 * DESIGN
 *	Half of the rounds have several devices, if there are several: host devices, up to four
 *	devices of the double, or GPUs. A job may be placed in a pool of one device, too. Jobs with
 *	a checked key have one place per key.
 */
#include "torture.h"

#include <stdio.h>
#include <string.h>

#include <runnel/device.h>

/* Returns the number of devices that a pool can have. */
static unsigned nr_there(void)
{
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	unsigned nr = 1;
	char name[16];

	if (!strcmp(options.device, "host"))
		return PLACES_MAX;
	/* The option names one device by its number. */
	if (strcmp(options.device, "cuda"))
		return 1;
	do
		snprintf(name, sizeof(name), "cuda:%u", nr);
	while (!rnl_device_describe(NULL, name, 0, &info) && ++nr < PLACES_MAX);
	return nr;
}

void places_name_all(char name[PLACES_NAME])
{
	const unsigned nr = nr_there();

	if (nr == 1)
		snprintf(name, PLACES_NAME, "%s", options.device);
	else if (on_host())
		snprintf(name, PLACES_NAME, "host:%u", nr);
	else
		snprintf(name, PLACES_NAME, "cuda:all");
}

/* Writes a name like "cuda:2,0,1": @nr of @all devices, each once, in any order. */
static void name_some(char *name, unsigned nr, unsigned all, uint64_t *random)
{
	unsigned ordinals[PLACES_MAX], at = (unsigned)snprintf(name, PLACES_NAME, "cuda:");

	for (unsigned i = 0; i < all; i++)
		ordinals[i] = i;
	for (unsigned i = 0; i < nr; i++) {
		const unsigned other = i + draw(random, all - i), ordinal = ordinals[other];

		ordinals[other] = ordinals[i];
		at += (unsigned)snprintf(name + at, PLACES_NAME - at, "%s%u", i ? "," : "", ordinal);
	}
}

void places_draw(struct round *r)
{
	const unsigned all = nr_there();
	const bool several = draw(&r->random, 2);

	r->nr_devices = several && all > 1 ? 2 + draw(&r->random, all - 1) : 1;
	if (all == 1 || (r->nr_devices == 1 && draw(&r->random, 2)))
		snprintf(r->device, sizeof(r->device), "%s", options.device);
	else if (on_host())
		snprintf(r->device, sizeof(r->device), "host:%u", r->nr_devices);
	else if (r->nr_devices == all && draw(&r->random, 2))
		snprintf(r->device, sizeof(r->device), "cuda:all");
	else
		name_some(r->device, r->nr_devices, all, &r->random);
}

int place_draw(const struct round *r, uint64_t *random)
{
	return draw(random, 2) ? -1 : (int)draw(random, r->nr_devices);
}

uint64_t places_draw_some(const struct round *r, uint64_t *random)
{
	return draw(random, 2) ? 0 : 1 + draw(random, (1u << r->nr_devices) - 1);
}

void place_set(struct rnl_job *job, int place)
{
	if (rnl_job_set_device(job, place))
		tally_wrong(UNDOCUMENTED, "a job that is done could not be placed");
}

void place_check(const struct round *r, int place, const char *what)
{
	const int device = rnl_worker().device;

	if (device < 0 || device >= (int)r->nr_devices || (place >= 0 && device != place))
		tally_wrong(MISPLACED, "%s ran on device %d of %u, and was placed on %d", what,
			    device, r->nr_devices, place);
}

void places_check(const struct round *r, uint64_t devices, const char *what)
{
	const int device = rnl_worker().device;

	if (device < 0 || device >= (int)r->nr_devices || (devices && !(devices >> device & 1)))
		tally_wrong(MISPLACED, "%s ran on device %d of %u, and has devices 0x%llx", what,
			    device, r->nr_devices, (unsigned long long)devices);
}
