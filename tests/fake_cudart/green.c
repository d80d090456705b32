/* SPDX-License-Identifier: MIT */
/*
 * A device's multiprocessors (SMs) in sets, and green contexts.
 *
 * DESIGN
 *	A set is a first SM and a number. A CUdevResource has its set in the driver's own bytes. A
 *	descriptor is an entry of a table, since no call frees descriptors. A green context is a
 *	set, and counts its streams. Nothing of the double runs on an SM: tests ask for a stream's
 *	set by fake_stream_sms().
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#define SETS_MAX 256u

struct set {
	int device;
	bool divided;			/* by a split, so a context may have it */
	bool rounded;			/* has more SMs than the split asked for */
	struct fake_sms sms;
};

struct fake_green {
	struct set set;
	unsigned nr_streams;
};

static struct set sets[SETS_MAX];	/* a CUdevResourceDesc is the address of an element */
static unsigned nr_sets;

/* ---- sets ---------------------------------------------------------------- */

static void fill_in(CUdevResource *resource, struct set set)
{
	_Static_assert(sizeof(set) <= sizeof(resource->_internal_padding), "a set fits");

	*resource = (CUdevResource){ .type = CU_DEV_RESOURCE_TYPE_SM };
	resource->sm.smCount = set.sms.nr;
	memcpy(resource->_internal_padding, &set, sizeof(set));
}

static struct set set_of(const CUdevResource *resource)
{
	struct set set;

	memcpy(&set, resource->_internal_padding, sizeof(set));
	return set;
}

static CUresult all_of(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	if (device < 0 || device >= fake__settings.nr_devices)
		return CUDA_ERROR_INVALID_DEVICE;
	if (type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_RESOURCE_TYPE;
	fill_in(resource, (struct set){ .device = device, .sms.nr = fake__settings.nr_sms });
	return CUDA_SUCCESS;
}

/* Makes one set of at least @wanted SMs, in whole groups, or none; the rest is what remains. */
static CUresult split(CUdevResource *result, unsigned *nr, const CUdevResource *from,
		      CUdevResource *rest, unsigned flags, unsigned wanted)
{
	struct set all, set;

	if (!result || !nr || *nr != 1 || flags || from->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_VALUE;
	all = set = set_of(from);
	if (all.divided)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	if (wanted > all.sms.nr)
		return CUDA_ERROR_INVALID_VALUE;
	all.divided = set.divided = true;
	set.sms.nr = (wanted + !wanted + FAKE_SM_GROUP - 1) / FAKE_SM_GROUP * FAKE_SM_GROUP;
	set.rounded = set.sms.nr != wanted;
	if (set.sms.nr > all.sms.nr)
		set.sms.nr = 0;
	*nr = set.sms.nr != 0;
	all.sms.first += set.sms.nr;
	all.sms.nr -= set.sms.nr;
	fill_in(result, set);
	if (rest)
		fill_in(rest, all);
	return CUDA_SUCCESS;
}

static bool same(const struct set *a, const struct set *b)
{
	return a->device == b->device && a->divided == b->divided && a->rounded == b->rounded &&
	       a->sms.first == b->sms.first && a->sms.nr == b->sms.nr;
}

static CUresult describe(CUdevResourceDesc *description, const CUdevResource *resources, unsigned nr)
{
	struct set set;
	unsigned i = 0;

	if (!resources || nr != 1 || resources->type != CU_DEV_RESOURCE_TYPE_SM)
		return CUDA_ERROR_INVALID_VALUE;
	set = set_of(resources);
	if (!set.sms.nr)
		return CUDA_ERROR_INVALID_RESOURCE_CONFIGURATION;
	while (i < nr_sets && !same(&sets[i], &set))
		i++;
	if (i == SETS_MAX)
		return CUDA_ERROR_OUT_OF_MEMORY;
	sets[i] = set;
	nr_sets += i == nr_sets;
	*description = (CUdevResourceDesc)(void *)&sets[i];
	return CUDA_SUCCESS;
}

/* ---- contexts ------------------------------------------------------------ */

static CUresult create(CUgreenCtx *handle, CUdevResourceDesc description, CUdevice device,
		       unsigned flags)
{
	const struct set *set = (const struct set *)(const void *)description;
	struct fake_green *green;

	if (flags != CU_GREEN_CTX_DEFAULT_STREAM || !set || set->device != device)
		return CUDA_ERROR_INVALID_VALUE;
	if (!set->divided || set->rounded)
		fake__misuse("cuGreenCtxCreate: %u SMs are no set that was asked for", set->sms.nr);
	if (!fake_has_context(device))
		fake__misuse("cuGreenCtxCreate: the primary context is not active");
	green = calloc(1, sizeof(*green));
	if (!green || fake__enter(green, sizeof(*green), FAKE_GREEN, green)) {
		free(green);
		return CUDA_ERROR_OUT_OF_MEMORY;
	}
	green->set = *set;
	*handle = (CUgreenCtx)(void *)green;
	return CUDA_SUCCESS;
}

static CUresult destroy(CUgreenCtx handle)
{
	struct fake_green *green = fake__handle(handle, FAKE_GREEN);

	if (!green)
		return CUDA_ERROR_INVALID_CONTEXT;
	if (green->nr_streams)
		fake__misuse("cuGreenCtxDestroy: %u of its streams are alive", green->nr_streams);
	fake__remove(green);
	free(green);
	return CUDA_SUCCESS;
}

static CUresult create_stream(CUstream *stream, CUgreenCtx handle, unsigned flags, int priority)
{
	struct fake_green *green = fake__handle(handle, FAKE_GREEN);
	cudaError_t code;

	if (!green || flags != CU_STREAM_NON_BLOCKING)
		return CUDA_ERROR_INVALID_VALUE;
	code = fake__stream_create(stream, green->set.device, priority, green, green->set.sms);
	green->nr_streams += code == cudaSuccess;
	return (CUresult)code;
}

void fake__green_stream_gone(struct fake_green *green)
{
	if (fake__is_kind(green, FAKE_GREEN))
		green->nr_streams--;
}

/* ---- calls --------------------------------------------------------------- */

static CUresult get_resource(CUdevice device, CUdevResource *resource, CUdevResourceType type)
{
	FAKE_DRIVER(cuDeviceGetDevResource, all_of(device, resource, type));
}

static CUresult split_by_count(CUdevResource *result, unsigned *nr, const CUdevResource *from,
			       CUdevResource *rest, unsigned flags, unsigned wanted)
{
	FAKE_DRIVER(cuDevSmResourceSplitByCount, split(result, nr, from, rest, flags, wanted));
}

static CUresult generate(CUdevResourceDesc *description, CUdevResource *resources, unsigned nr)
{
	FAKE_DRIVER(cuDevResourceGenerateDesc, describe(description, resources, nr));
}

static CUresult green_create(CUgreenCtx *green, CUdevResourceDesc description, CUdevice device,
			     unsigned flags)
{
	FAKE_DRIVER(cuGreenCtxCreate, create(green, description, device, flags));
}

static CUresult green_destroy(CUgreenCtx green)
{
	FAKE_DRIVER(cuGreenCtxDestroy, destroy(green));
}

static CUresult stream_create(CUstream *stream, CUgreenCtx green, unsigned flags, int priority)
{
	FAKE_DRIVER(cuGreenCtxStreamCreate, create_stream(stream, green, flags, priority));
}

void *fake__green_function(const char *name)
{
	if (fake__settings.no_greens)
		return NULL;
	return !strcmp(name, "cuDeviceGetDevResource") ? (void *)get_resource :
	       !strcmp(name, "cuDevSmResourceSplitByCount") ? (void *)split_by_count :
	       !strcmp(name, "cuDevResourceGenerateDesc") ? (void *)generate :
	       !strcmp(name, "cuGreenCtxCreate") ? (void *)green_create :
	       !strcmp(name, "cuGreenCtxDestroy") ? (void *)green_destroy :
	       !strcmp(name, "cuGreenCtxStreamCreate") ? (void *)stream_create : NULL;
}
