/* SPDX-License-Identifier: MIT */
/* The Python package's own C code; binding.py builds a module of it and the library's headers. */
#include <pthread.h>
#include <stdlib.h>

#include <runnel.h>
#include <runnel/class.h>
#include <runnel/device.h>
#include <runnel/guard.h>
#include <runnel/hold.h>
#include <runnel/kernel.h>
#include <runnel/map.h>
#include <runnel/memory.h>
#include <runnel/more.h>
#include <runnel/stats.h>
#include <runnel/trace.h>

/* cffi generates these functions: each takes the interpreter's lock, and calls Python code. */
extern int py_run(struct rnl_job *job);		/* a job's function */
extern void py_done(struct rnl_job *job, int result);	/* a job is done */
extern int py_chunk(const struct rnl_chunk *chunk);
extern void py_kernel(void *handle);	/* a kernel, in a host stream */
extern void py_log(void *arg, enum rnl_log_level level, const char *msg);
extern void py_forget(void *owner);		/* an exported tensor is not used any more */

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
int py_submit(struct rnl_pool *pool, struct rnl_job *job, int prepared, void *user,
	      struct rnl_cq *cq, int keyed, uint64_t key);
int py_map_start(struct rnl_pool *pool, struct rnl_map *map, struct rnl_barrier *barrier);
int py_launch(void *handle);
void py_begin(void);
/* to here */

static void delete_tensor(struct py_tensor *tensor)
{
	py_forget(tensor->owner);
	free(tensor);
}

/* Returns NULL if out of memory. */
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

/* A capsule's destructor, called by Python.  A consumer of the tensor has renamed the capsule. */
void py_capsule_end(void *capsule)
{
	PyObject *type, *value, *traceback;
	struct py_tensor *t;

	if (!PyCapsule_IsValid(capsule, "dltensor"))
		return;
	t = PyCapsule_GetPointer(capsule, "dltensor");
	PyErr_Fetch(&type, &value, &traceback);		/* keeps a consumer's error */
	t->deleter(t);
	PyErr_Restore(type, value, traceback);
}

/*
 * Held by the worker that waits for the interpreter's lock.  If several workers waited for that
 * lock, each job's end would wake all of them.  A thread that has the lock never takes the gate.
 */
static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

/* Calls a function of Python on a worker. */
#define CALL_PYTHON(call)							\
	do {									\
		PyGILState_STATE state;						\
										\
		/* The first call makes cffi keep the thread's state. */	\
		if (!PyGILState_GetThisThreadState()) {				\
			call;							\
			break;							\
		}								\
		pthread_mutex_lock(&gate);					\
		state = PyGILState_Ensure();					\
		pthread_mutex_unlock(&gate);					\
		call;								\
		PyGILState_Release(state);					\
	} while (0)

static int run_job(struct rnl_job *job)
{
	int ret;

	CALL_PYTHON(ret = py_run(job));
	return ret;
}

static void job_done(struct rnl_job *job)
{
	const int result = job->result;

	CALL_PYTHON(py_done(job, result));
}

static int run_chunk(const struct rnl_chunk *chunk)
{
	int ret;

	CALL_PYTHON(ret = py_chunk(chunk));
	return ret;
}

static void run_kernel(struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	(void)grid;
	(void)block;
	CALL_PYTHON(py_kernel(*(void *const *)args));
}

RNL_HOST_KERNEL(python_kernel, run_kernel, void *);

/*
 * Initialises a job in one call, which releases the interpreter's lock only once.  @cq: NULL:
 * py_done() is called when the job is done.
 */
int py_prepare(struct rnl_job *job, int runs, void *user, struct rnl_cq *cq)
{
	int ret = rnl_job_init(job, runs ? run_job : NULL);

	if (ret)
		return ret;
	job->user = user;
	return cq ? rnl_job_set_cq(job, cq) : rnl_job_set_on_done(job, job_done);
}

/* Submits a job with a function; @prepared: py_prepare() has initialised the job. */
int py_submit(struct rnl_pool *pool, struct rnl_job *job, int prepared, void *user,
	      struct rnl_cq *cq, int keyed, uint64_t key)
{
	int ret = prepared ? 0 : py_prepare(job, 1, user, cq);

	if (ret)
		return ret;
	ret = keyed ? rnl_job_set_key(job, key) : 0;
	return ret ? ret : rnl_submit(pool, job);
}

int py_map_start(struct rnl_pool *pool, struct rnl_map *map, struct rnl_barrier *barrier)
{
	map->size = sizeof(*map);
	map->fn = run_chunk;
	return rnl_map_start(pool, map, barrier);
}

/* Calls py_kernel() with the handle, in the order of the host stream. */
int py_launch(void *handle)
{
	const struct rnl_dim one = { 1, 1, 1 };

	return rnl_launch(&python_kernel, one, one, &handle);
}

static void open_gate(void)
{
	gate = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;
}

/* Called at the import.  In a forked child, no other thread could open a closed gate. */
void py_begin(void)
{
	rnl_set_log(py_log, NULL);
	(void)pthread_atfork(NULL, NULL, open_gate);
}
