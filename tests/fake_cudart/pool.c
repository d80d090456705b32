/* SPDX-License-Identifier: MIT */
/*
 * Device memory, from memory pools, in the order of streams.
 *
 * DESIGN
 *	The memory of all devices is one mapping, covered by a list of blocks: allocated ones, and
 *	free ones, which a pool may keep. The stream that freed a block can allocate it again
 *	immediately. Another stream can allocate it once the first stream has reached the free, or
 *	waits for the free if the pool may add such a wait. A trim gives back a pool's free blocks;
 *	each synchronisation gives back those above the pool's threshold.
 *	An allocation is one block; a GPU allocates in larger units.
 */
#include <stdlib.h>
#include <sys/mman.h>

#include "internal.h"

#define GRAIN 512u

struct fake_pool {
	struct fake_pool *next;
	uint64_t threshold;
	int device;
	unsigned reached_by;		/* bit mask of other devices */
	bool adds_waits;
};

/* A piece of the device's memory. Blocks follow each other without a gap. */
struct block {
	struct block *next;
	char *begin;
	size_t bytes;
	struct fake_pool *pool;		/* NULL: none */
	int device;			/* of its last allocation */
	bool live;
	uint64_t serial;		/* serial of its allocation */
	struct fake_point since;	/* its alloc or free; no stream: reached */
};

static struct fake_pool *pools;
static char *memory;
static struct block *blocks;

static size_t all_bytes(void)
{
	return (size_t)fake__settings.nr_devices * fake__settings.memory_bytes;
}

bool fake__is_device(const void *address)
{
	const char *at = address;

	return memory && at >= memory && at < memory + all_bytes();
}

int fake__owner(const void *address)
{
	const struct fake_thing *thing = fake__find(address);

	return thing && thing->kind == FAKE_DEVICE ? ((struct block *)thing->what)->device : -1;
}

bool fake__reaches(int device, const void *address)
{
	const struct fake_thing *thing = fake__find(address);
	const struct block *block;

	if (!thing || thing->kind != FAKE_DEVICE)
		return true;
	block = thing->what;
	return block->device == device || (block->pool && block->pool->reached_by >> device & 1);
}

/* ---- blocks ----------------------------------------------------------------- */

/* Notes that the stream's last operation allocated or freed the block; NULL: it is reached. */
static void set_since(struct block *b, struct fake_stream *stream)
{
	if (stream)
		fake__stream_get(stream);
	if (b->since.stream)
		fake__stream_put(b->since.stream);
	b->since = (struct fake_point){ stream, stream ? stream->issued : 0 };
}

/* Returns true if the stream has reached the block's alloc or free. */
static bool passed(struct block *b)
{
	if (b->since.stream && fake__reached(&b->since))
		set_since(b, NULL);
	return !b->since.stream;
}

static int init_memory(void)
{
	struct block *whole;
	void *mapping;

	if (memory)
		return 0;
	whole = calloc(1, sizeof(*whole));
	if (!whole)
		return -1;
	mapping = mmap(NULL, all_bytes(), PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (mapping == MAP_FAILED) {
		free(whole);
		return -1;
	}
	whole->begin = mapping;
	whole->bytes = all_bytes();
	memory = mapping;
	blocks = whole;
	return 0;
}

/* Joins free neighbours. */
static void merge(void)
{
	for (struct block *b = blocks; b && b->next;) {
		struct block *n = b->next;

		if (b->live || n->live || b->pool != n->pool || !passed(b) || !passed(n)) {
			b = n;
			continue;
		}
		b->bytes += n->bytes;
		b->next = n->next;
		free(n);
	}
}

/* Splits a block if it is too large; both parts keep its state. */
static int cut(struct block *b, size_t bytes)
{
	struct block *rest;

	if (b->bytes == bytes)
		return 0;
	rest = malloc(sizeof(*rest));
	if (!rest)
		return -1;
	*rest = *b;
	rest->begin += bytes;
	rest->bytes -= bytes;
	if (rest->since.stream)
		fake__stream_get(rest->since.stream);
	b->next = rest;
	b->bytes = bytes;
	return 0;
}

static struct block *block_at(const void *begin)
{
	struct block *b = blocks;

	while (b && b->begin != begin)
		b = b->next;
	return b;
}

static struct block *find_free(size_t bytes, struct fake_pool *owner, struct fake_pool *pool,
			       struct fake_stream *stream)
{
	for (struct block *b = blocks; b; b = b->next) {
		if (b->live || b->pool != owner || b->bytes < bytes)
			continue;
		if (passed(b) || b->since.stream == stream || (owner && pool->adds_waits))
			return b;
	}
	return NULL;
}

void fake__check_use(struct fake_area area, uint64_t serial)
{
	if (!area.bytes || !fake__is_device(area.begin))
		return;
	for (struct block *b = blocks; b; b = b->next) {
		if (area.begin < b->begin || area.begin >= b->begin + b->bytes)
			continue;
		/* An operation issued before the block's alloc used an earlier allocation of it. */
		if (b->live && serial > b->serial && !passed(b))
			fake__misuse("device memory at %p was used before its allocation",
				     (const void *)area.begin);
		return;
	}
}

/* ---- allocating, freeing ------------------------------------------------------ */

static cudaError_t pool_alloc(void **memp, size_t bytes, cudaMemPool_t handle, cudaStream_t of)
{
	struct fake_op op = { .kind = FAKE_OP_ALLOC };
	size_t whole = (bytes + GRAIN - 1) / GRAIN * GRAIN;
	struct fake_stream *stream;
	struct fake_pool *pool;
	struct block *b;
	cudaError_t code;

	code = fake__stream_of(of, &stream);
	if (code != cudaSuccess)
		return code;
	pool = fake__handle(handle, FAKE_POOL);
	if (!pool || !memp)
		return cudaErrorInvalidValue;
	*memp = NULL;
	if (!bytes)
		return cudaSuccess;
	if (whole < bytes || whole > fake__settings.memory_bytes || init_memory())
		return cudaErrorMemoryAllocation;
	merge();
	b = find_free(whole, pool, pool, stream);
	if (!b)
		b = find_free(whole, NULL, pool, stream);
	if (!b || cut(b, whole) || fake__enter(b->begin, bytes, FAKE_DEVICE, b))
		return cudaErrorMemoryAllocation;
	if (!passed(b) && b->since.stream != stream) {
		op.points = malloc(sizeof(*op.points));
		op.nr_points = op.points != NULL;
		if (op.points) {
			*op.points = b->since;
			fake__stream_get(b->since.stream);
		}
	}
	code = fake__issue(stream, &op);
	if (code != cudaSuccess) {
		fake__remove(b->begin);
		return code;
	}
	set_since(b, stream);
	b->serial = fake__last_serial();
	b->live = true;
	b->pool = pool;
	b->device = pool->device;
	*memp = b->begin;
	return cudaSuccess;
}

cudaError_t cudaMallocFromPoolAsync(void **memp, size_t bytes, cudaMemPool_t pool,
				    cudaStream_t stream)
{
	CALL(cudaMallocFromPoolAsync);
	SAID(pool_alloc(memp, bytes, pool, stream));
}

static cudaError_t free_async(void *mem, cudaStream_t of)
{
	struct fake_op op = { .kind = FAKE_OP_FREE };
	struct fake_stream *stream;
	struct block *b;
	cudaError_t code;

	code = fake__stream_of(of, &stream);
	if (code != cudaSuccess || !mem)
		return code;
	if (!fake__handle(mem, FAKE_DEVICE))
		return cudaErrorInvalidValue;
	b = block_at(mem);
	op.freed = (struct fake_area){ b->begin, b->bytes };
	code = fake__issue(stream, &op);
	if (code != cudaSuccess)
		return code;
	set_since(b, stream);
	fake__remove(mem);
	b->live = false;
	return cudaSuccess;
}

cudaError_t cudaFreeAsync(void *mem, cudaStream_t stream)
{
	CALL(cudaFreeAsync);
	SAID(free_async(mem, stream));
}

/* ---- cudaMalloc(), cudaFree() ---------------------------------------------------------------- */

static cudaError_t alloc(void **memp, size_t bytes)
{
	static struct fake_pool *own;
	struct fake_stream *stream;
	cudaError_t code = fake__capture_unsafe();

	if (code != cudaSuccess)
		return code;
	if (!own)
		own = calloc(1, sizeof(*own));
	if (!own || (!fake__find(own) && fake__enter(own, sizeof(*own), FAKE_POOL, own)))
		return cudaErrorMemoryAllocation;
	code = fake__stream_of(cudaStreamPerThread, &stream);
	if (code == cudaSuccess)
		code = pool_alloc(memp, bytes, (cudaMemPool_t)own, cudaStreamPerThread);
	return code == cudaSuccess ? fake__sync(stream) : code;
}

cudaError_t cudaMalloc(void **memp, size_t bytes)
{
	CALL(cudaMalloc);
	SAID(alloc(memp, bytes));
}

/* Waits for all operations on the device, like cudaFree(). */
static cudaError_t free_now(void *mem)
{
	cudaError_t code = fake__capture_unsafe();

	if (code == cudaSuccess && mem)
		code = fake__sync_all();
	return code == cudaSuccess ? free_async(mem, cudaStreamPerThread) : code;
}

cudaError_t cudaFree(void *mem)
{
	CALL(cudaFree);
	SAID(free_now(mem));
}

/* ---- pools -------------------------------------------------------------------- */

/* Returns the pool's bytes: in use and kept. */
static uint64_t reserved_by(const struct fake_pool *pool)
{
	uint64_t bytes = 0;

	for (const struct block *b = blocks; b; b = b->next)
		bytes += b->pool == pool ? b->bytes : 0;
	return bytes;
}

static void trim(const struct fake_pool *pool, uint64_t keep)
{
	uint64_t reserved = reserved_by(pool);

	for (struct block *b = blocks; b && reserved > keep; b = b->next) {
		if (b->live || b->pool != pool || !passed(b))
			continue;
		reserved -= b->bytes;
		b->pool = NULL;
	}
	merge();
}

void fake__pools_release(void)
{
	for (struct fake_pool *p = pools; p; p = p->next) {
		if (p->threshold != UINT64_MAX)
			trim(p, p->threshold);
	}
}

uint64_t fake__kept_bytes(void)
{
	uint64_t bytes = 0;

	for (const struct block *b = blocks; b; b = b->next)
		bytes += b->pool && !b->live ? b->bytes : 0;
	return bytes;
}

static cudaError_t create(cudaMemPool_t *handle, const struct cudaMemPoolProps *props)
{
	struct fake_pool *pool;

	if (!handle || !props || props->allocType != cudaMemAllocationTypePinned ||
	    props->location.type != cudaMemLocationTypeDevice || props->location.id < 0 ||
	    props->location.id >= fake__settings.nr_devices)
		return cudaErrorInvalidValue;
	pool = calloc(1, sizeof(*pool));
	if (!pool || fake__enter(pool, sizeof(*pool), FAKE_POOL, pool)) {
		free(pool);
		return cudaErrorMemoryAllocation;
	}
	pool->device = props->location.id;
	pool->adds_waits = true;
	pool->next = pools;
	pools = pool;
	*handle = (cudaMemPool_t)pool;
	return cudaSuccess;
}

cudaError_t cudaMemPoolCreate(cudaMemPool_t *handle, const struct cudaMemPoolProps *props)
{
	CALL(cudaMemPoolCreate);
	SAID(create(handle, props));
}

/* The pool's allocations remain, without a pool. */
static cudaError_t destroy(cudaMemPool_t handle)
{
	struct fake_pool *pool = fake__handle(handle, FAKE_POOL), **at = &pools;

	if (!pool)
		return cudaErrorInvalidValue;
	for (struct block *b = blocks; b; b = b->next)
		b->pool = b->pool == pool ? NULL : b->pool;
	while (*at != pool)
		at = &(*at)->next;
	*at = pool->next;
	fake__remove(pool);
	free(pool);
	return cudaSuccess;
}

cudaError_t cudaMemPoolDestroy(cudaMemPool_t handle)
{
	CALL(cudaMemPoolDestroy);
	SAID(destroy(handle));
}

static cudaError_t set_attribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute, void *value)
{
	struct fake_pool *pool = fake__handle(handle, FAKE_POOL);

	if (!pool || !value)
		return cudaErrorInvalidValue;
	switch (attribute) {
	case cudaMemPoolAttrReleaseThreshold:
		pool->threshold = *(cuuint64_t *)value;
		return cudaSuccess;
	case cudaMemPoolReuseAllowInternalDependencies:
		pool->adds_waits = *(int *)value;
		return cudaSuccess;
	case cudaMemPoolReuseAllowOpportunistic:
	case cudaMemPoolReuseFollowEventDependencies:
		return cudaSuccess;
	default:
		return cudaErrorInvalidValue;
	}
}

cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t handle, enum cudaMemPoolAttr attribute,
				    void *value)
{
	CALL(cudaMemPoolSetAttribute);
	SAID(set_attribute(handle, attribute, value));
}

static cudaError_t set_access(cudaMemPool_t handle, const struct cudaMemAccessDesc *list, size_t nr)
{
	struct fake_pool *pool = fake__handle(handle, FAKE_POOL);

	if (!pool || !list || !nr)
		return cudaErrorInvalidValue;
	for (size_t i = 0; i < nr; i++) {
		if (list[i].location.type != cudaMemLocationTypeDevice || list[i].location.id < 0 ||
		    list[i].location.id >= fake__settings.nr_devices ||
		    list[i].flags != cudaMemAccessFlagsProtReadWrite)
			return cudaErrorInvalidValue;
		if (fake__settings.strangers && list[i].location.id != pool->device)
			return cudaErrorPeerAccessUnsupported;
		pool->reached_by |= 1u << list[i].location.id;
	}
	return cudaSuccess;
}

cudaError_t cudaMemPoolSetAccess(cudaMemPool_t handle, const struct cudaMemAccessDesc *list,
				 size_t nr)
{
	CALL(cudaMemPoolSetAccess);
	SAID(set_access(handle, list, nr));
}

static cudaError_t trim_to(cudaMemPool_t handle, size_t keep)
{
	struct fake_pool *pool = fake__handle(handle, FAKE_POOL);

	if (!pool)
		return cudaErrorInvalidValue;
	trim(pool, keep);
	return cudaSuccess;
}

cudaError_t cudaMemPoolTrimTo(cudaMemPool_t handle, size_t keep)
{
	CALL(cudaMemPoolTrimTo);
	SAID(trim_to(handle, keep));
}
