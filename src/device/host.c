/* SPDX-License-Identifier: MIT */
/*
 * The host device: CUDA's semantics without a GPU.  Programs are developed on it, sanitizers run on
 * it, and it is the reference for cuda.c.
 */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#include <runnel/device.h>
#include <runnel/kernel.h>

#include "device/backends.h"
#include "device/host_memory.h"
#include "device/host_stream.h"
#include "sys/array.h"
#include "sys/thread_state.h"

struct host_stream {
	struct rnl__stream base;
	struct rnl__host_stream *queue;

	/* Under guard: operations that guard_end issues or discards. */
	struct rnl__host_op *kept;
	size_t nr_kept, space_kept;
};

static struct host_stream *host_own_stream(void)
{
	return (struct host_stream *)rnl__thread.stream;
}

/* Issues an operation, or keeps it under guard. */
static int host_issue(const struct rnl__host_op *op)
{
	struct host_stream *stream = host_own_stream();
	struct rnl__host_op *kept;

	if (!rnl__thread.guard) {
		rnl__host_stream_issue(stream->queue, op);
		stream->base.issued++;
		return 0;
	}
	kept = rnl__array_extend(stream->kept, stream->nr_kept, &stream->space_kept, sizeof(*kept));
	if (!kept)
		return -ENOMEM;
	stream->kept = kept;
	kept[stream->nr_kept++] = *op;
	return 0;
}

static int host_attach(struct rnl__device *device, const struct rnl__stream_wish *wish,
		       struct rnl__stream **streamp)
{
	struct host_stream *stream;
	int ret;

	/* There are no priorities, no sets of SMs, and no legacy stream, so both kinds are the same. */
	(void)wish;
	stream = calloc(1, sizeof(*stream));
	if (!stream)
		return -ENOMEM;
	ret = rnl__host_stream_create(&stream->queue);
	if (ret) {
		free(stream);
		return ret;
	}
	stream->base.device = device;
	*streamp = &stream->base;
	return 0;
}

static void host_detach(struct rnl__stream *base)
{
	struct host_stream *stream = (struct host_stream *)base;

	rnl__host_stream_destroy(stream->queue);
	free(stream->kept);
	free(stream);
}

static int host_copy(const struct rnl__copy *copy)
{
	return host_issue(&(struct rnl__host_op){ .kind = RNL__HOST_COPY, .copy = *copy });
}

/* Issues the last copy first, so that code that relies on an order fails here, too. */
static bool host_copy_all(const struct rnl__copy *const *copies, unsigned nr)
{
	while (nr--) {
		if (host_copy(copies[nr]))
			return false;
	}
	return true;
}

static int host_fill(void *dst, uint8_t value, size_t bytes)
{
	/* Like CUDA's memset, which refuses pageable memory. */
	if (rnl__host_memory_kind(dst) == RNL__PAGEABLE)
		return -EINVAL;
	return host_issue(&(struct rnl__host_op){
		.kind = RNL__HOST_FILL,
		.fill = { .dst = dst, .value = value, .bytes = bytes },
	});
}

static int host_launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
		       const void *args)
{
	struct rnl__host_op op = {
		.kind = RNL__HOST_LAUNCH,
		.launch = { .kernel = kernel, .grid = grid, .block = block },
	};
	int ret;

	if (!kernel->host)
		return -ENOTSUP;
	/* The limits of all GPUs that CUDA 13 supports, so that a program meets them here, too. */
	if (block.x > 1024 || block.y > 1024 || block.z > 64 ||
	    block.x * block.y * block.z > 1024 || grid.x > INT32_MAX || grid.y > 65535 ||
	    grid.z > 65535)
		return -EINVAL;
	op.launch.args = malloc(kernel->args_bytes ? kernel->args_bytes : 1);
	if (!op.launch.args)
		return -ENOMEM;
	if (kernel->args_bytes)
		memcpy(op.launch.args, args, kernel->args_bytes);
	ret = host_issue(&op);
	if (ret)
		free(op.launch.args);
	return ret;
}

static int host_write(uint32_t *word, uint32_t value)
{
	return host_issue(&(struct rnl__host_op){
		.kind = RNL__HOST_WRITE,
		.write = { .word = (_Atomic uint32_t *)word, .value = value },
	});
}

static int host_event_create(struct rnl__device *device, bool timed, struct rnl__event **eventp)
{
	(void)device;
	(void)timed;	/* every event is timed */
	return rnl__host_event_create(eventp);
}

static int host_event_record(struct rnl__event *event)
{
	return host_issue(&(struct rnl__host_op){
		.kind = RNL__HOST_RECORD,
		.event = { .event = event, .record = rnl__host_event_use(event, true) },
	});
}

static int host_event_wait(struct rnl__event *event)
{
	return host_issue(&(struct rnl__host_op){
		.kind = RNL__HOST_WAIT,
		.event = { .event = event, .record = rnl__host_event_use(event, false) },
	});
}

static int host_event_elapsed(struct rnl__event *from, struct rnl__event *to, int64_t *ns)
{
	*ns = (int64_t)(rnl__host_event_time(to) - (from ? rnl__host_event_time(from) : 0));
	return 0;
}

static int host_idle(void)
{
	return rnl__host_stream_idle(host_own_stream()->queue);
}

static int host_wait(uint64_t deadline)
{
	return rnl__host_stream_wait(host_own_stream()->queue, deadline);
}

static int host_alloc(struct rnl__device *device, enum rnl__memory kind, size_t bytes, void **memp)
{
	if (kind == RNL__PRELOAD)
		return -ENOTSUP;
	/* A GPU refuses more than it has; the kernel would overcommit. */
	if (device->info.memory_bytes && bytes > device->info.memory_bytes)
		return -ENOMEM;
	return rnl__host_memory_alloc(kind, device->info.ordinal, bytes, memp);
}

static void host_free(struct rnl__device *device, enum rnl__memory kind, void *mem)
{
	(void)device;
	rnl__host_memory_forget(mem);
	if (kind == RNL__SCRATCH)
		(void)host_issue(&(struct rnl__host_op){ .kind = RNL__HOST_FREE, .mem = mem });
	else
		rnl__host_memory_free(mem);
}

static enum rnl__memory host_kind_of(struct rnl__device *device, const void *mem)
{
	(void)device;
	return rnl__host_memory_kind(mem);
}

static bool host_owns(struct rnl__device *device, const void *mem)
{
	return rnl__host_memory_owner(mem) == device->info.ordinal;
}

static void host_meet(struct rnl__device *const *devices, unsigned nr)
{
	(void)devices;	/* they share one memory */
	(void)nr;
}

static void host_trim(struct rnl__device *device)
{
	(void)device;	/* it keeps no memory */
}

static int host_guard_begin(struct rnl__guarded *guarded)
{
	(void)guarded;
	host_own_stream()->nr_kept = 0;
	return 0;
}

static int host_guard_end(struct rnl__guarded *guarded)
{
	struct host_stream *stream = host_own_stream();
	const bool go = !guarded->again && !(guarded->strict && guarded->found);

	for (size_t i = 0; i < stream->nr_kept; i++) {
		if (go)
			(void)host_issue(&stream->kept[i]);
		else if (stream->kept[i].kind == RNL__HOST_LAUNCH)
			free(stream->kept[i].launch.args);
	}
	return go;
}

static void host_write_args(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	const struct rnl__args *a = args;

	(void)grid;
	(void)block;
	memcpy((void *)(uintptr_t)a->dst, a->data, a->bytes);
}

static const struct rnl_kernel *host_args(void)
{
	static const struct rnl_kernel kernel = {
		"rnl_args", sizeof(struct rnl__args), host_write_args, NULL, NULL,
	};

	return &kernel;
}

static int host_errno_of(struct rnl__device *device, int code)
{
	(void)device;
	return code ? -EIO : 0;
}

static const struct rnl__device_ops ops = {
	.attach = host_attach,
	.detach = host_detach,
	.copy = host_copy,
	.copy_all = host_copy_all,
	.fill = host_fill,
	.launch = host_launch,
	.write = host_write,
	.event_create = host_event_create,
	.event_destroy = rnl__host_event_destroy,
	.event_record = host_event_record,
	.event_wait = host_event_wait,
	.event_reached = rnl__host_event_reached,
	.event_elapsed = host_event_elapsed,
	.idle = host_idle,
	.wait = host_wait,
	.alloc = host_alloc,
	.free = host_free,
	.kind_of = host_kind_of,
	.owns = host_owns,
	.meet = host_meet,
	.trim = host_trim,
	.guard_begin = host_guard_begin,
	.guard_end = host_guard_end,
	.args = host_args,
	.errno_of = host_errno_of,
};

static _Atomic int never_fails;
static struct rnl__device devices[RNL_DEVICES_MAX];

static uint64_t sysconf_or_0(int name)
{
	long n = sysconf(name);

	return n > 0 ? (uint64_t)n : 0;
}

/* Initialises independent devices; each has the whole machine. */
static void host_init(void)
{
	const uint64_t nr_cpus = sysconf_or_0(_SC_NPROCESSORS_ONLN);
	struct sysinfo memory;
	uint64_t bytes = 0;

	/* Not sysconf(), which does not check whether sysinfo() fails. */
	if (!sysinfo(&memory))
		bytes = (uint64_t)memory.totalram * memory.mem_unit;

	for (unsigned i = 0; i < RNL_DEVICES_MAX; i++)
		devices[i] = (struct rnl__device){
			.ops = &ops,
			.info = {
				.size = sizeof(struct rnl_device_info),
				.ordinal = (int32_t)i,
				.nr_multiprocessors = (uint32_t)nr_cpus,
				.stream_writes = 1,
				.memory_bytes = bytes,
				.name = "host",
			},
			.counts = true,
			.failed = &never_fails,
		};
}

struct rnl__device *rnl__device_host(unsigned ordinal)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, host_init);
	return &devices[ordinal];
}
