/* SPDX-License-Identifier: MIT */
/* What the Python package needs beside the library's headers; binding.py makes a module of both. */
#include <stdlib.h>

#include <runnel.h>

/* These take the interpreter's lock: cffi makes them, and their bodies are Python. */
extern int py_run(struct rnl_job *job);		/* a job's function */
extern void py_done(struct rnl_job *job);	/* a job is done */
extern int py_chunk(const struct rnl_chunk *chunk);
extern void py_kernel(void *handle);	/* in a host stream */
extern void py_log(void *arg, enum rnl_log_level level, const char *msg);
extern void py_forget(void *owner);		/* a tensor that was handed out is not used any more */

/* A DLPack tensor: https://dmlc.github.io/dlpack/latest/c_api.html, of version 0. */
struct py_tensor {
	void *data;
	int32_t device_type, device_id;
	int32_t ndim;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape, *strides;	/* strides NULL: in the order of C */
	uint64_t byte_offset;
	void *owner;
	void (*deleter)(struct py_tensor *tensor);
	int64_t dims[32];
};

/* cffi reads from here */
struct py_tensor *py_tensor(void *data, int device_type, int device_id, int code, int bits,
			    int ndim, const int64_t *shape, void *owner);
void py_capsule_end(void *capsule);
int py_prepare(struct rnl_job *job, int runs, void *user, struct rnl_cq *cq);
int py_map_start(struct rnl_pool *pool, struct rnl_map *map, struct rnl_barrier *barrier);
int py_launch(void *handle);
void py_log_start(void);
/* to here */

static void delete_tensor(struct py_tensor *tensor)
{
	py_forget(tensor->owner);
	free(tensor);
}

/* NULL: no memory. */
struct py_tensor *py_tensor(void *data, int device_type, int device_id, int code, int bits,
			    int ndim, const int64_t *shape, void *owner)
{
	struct py_tensor *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	*t = (struct py_tensor){
		.data = data, .device_type = device_type, .device_id = device_id, .ndim = ndim,
		.code = (uint8_t)code, .bits = (uint8_t)bits, .lanes = 1,
		.owner = owner, .deleter = delete_tensor,
	};
	t->shape = t->dims;
	for (int i = 0; i < ndim; i++)
		t->dims[i] = shape[i];
	return t;
}

/* The destructor of a capsule, which Python calls: a consumer has renamed what it took. */
void py_capsule_end(void *capsule)
{
	struct py_tensor *t;

	if (!PyCapsule_IsValid(capsule, "dltensor"))
		return;
	t = PyCapsule_GetPointer(capsule, "dltensor");
	t->deleter(t);
}

/*
 * Makes a job in one call, which gives the interpreter's lock away once.  @cq: NULL: py_done() is
 * told of its end.
 */
int py_prepare(struct rnl_job *job, int runs, void *user, struct rnl_cq *cq)
{
	int ret = rnl_job_init(job, runs ? py_run : NULL);

	if (ret)
		return ret;
	job->user = user;
	return cq ? rnl_job_cq(job, cq) : rnl_job_on_done(job, py_done);
}

int py_map_start(struct rnl_pool *pool, struct rnl_map *map, struct rnl_barrier *barrier)
{
	map->size = sizeof(*map);
	map->fn = py_chunk;
	return rnl_map_start(pool, map, barrier);
}

static void call_kernel(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	py_kernel(*(void *const *)args);
}

RNL_HOST_KERNEL(python_kernel, call_kernel, void *);

/* Calls py_kernel() with the handle, in the order of the host stream. */
int py_launch(void *handle)
{
	const struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&python_kernel, one, one, &handle);
}

void py_log_start(void)
{
	rnl_set_log(py_log, NULL);
}
