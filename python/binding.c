/* SPDX-License-Identifier: MIT */
/* The Python package's own C code; binding.py builds a module of it and the library's headers. */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <runnel.h>
#include <runnel/batch.h>
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

/*
 * cffi releases the interpreter's lock around each call.  Functions whose names begin with quick_ keep
 * it, and do not wait.
 */
#define IS_QUICK(function) (!strncmp(function, "_cffi_f_quick_", 14))
#undef Py_BEGIN_ALLOW_THREADS
#undef Py_END_ALLOW_THREADS
#define Py_BEGIN_ALLOW_THREADS \
	{ PyThreadState *const lock = IS_QUICK(__func__) ? NULL : PyEval_SaveThread();
#define Py_END_ALLOW_THREADS if (lock) PyEval_RestoreThread(lock); }

/* cffi generates these functions: each takes the interpreter's lock, and calls Python code. */
extern void py_enter(void);		/* does nothing */
extern int py_batch(const struct rnl_batch *batch);
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
int quick_prepare(struct rnl_job *job, int runs, uintptr_t user, uint64_t key);
int py_submit(struct rnl_pool *pool, struct rnl_job *job, uintptr_t user, uint64_t key);
int quick_submit(struct rnl_pool *pool, struct rnl_job *job, uintptr_t user, uint64_t key);
int py_map_start(struct rnl_pool *pool, struct rnl_map *map, struct rnl_barrier *barrier);
int py_run_batch(const struct rnl_batch *batch);
int py_request(struct rnl_batcher *batcher, struct rnl_request *request, uintptr_t user,
	       const void *in, size_t bytes, int64_t timeout_ns);
int py_launch(void *handle);
void quick_begin(void);
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

/* Takes the interpreter's lock on a worker. */
static PyGILState_STATE enter(void)
{
	PyGILState_STATE state;

	if (!PyGILState_GetThisThreadState())
		py_enter();		/* makes cffi keep the thread's state */
#ifdef Py_GIL_DISABLED
	state = PyGILState_Ensure();
#else
	pthread_mutex_lock(&gate);
	state = PyGILState_Ensure();
	pthread_mutex_unlock(&gate);
#endif
	return state;
}

static PyObject *run_name, *done_name;	/* of methods of runnel.Job */

/* runnel.job keeps the object until its _done(). */
static int run_job(struct rnl_job *job)
{
	const PyGILState_STATE state = enter();
	PyObject *object = job->user;
	PyObject *ret = PyObject_CallMethodObjArgs(object, run_name, NULL);
	int result = -EIO;

	if (ret)
		result = (int)PyLong_AsLong(ret);
	else
		PyErr_WriteUnraisable(object);
	Py_XDECREF(ret);
	PyGILState_Release(state);
	return result;
}

static void job_done(struct rnl_job *job)
{
	const PyGILState_STATE state = enter();
	PyObject *object = job->user;
	PyObject *result = PyLong_FromLong(job->result);
	PyObject *ret;

	Py_INCREF(object);		/* its end frees the job */
	ret = result ? PyObject_CallMethodObjArgs(object, done_name, result, NULL) : NULL;
	if (!ret)
		PyErr_WriteUnraisable(object);	/* SystemExit of a callback, say */
	Py_XDECREF(ret);
	Py_XDECREF(result);
	Py_DECREF(object);
	PyGILState_Release(state);
}

/* Calls a function that cffi generated, on a worker. */
#define CALL_PYTHON(call)						\
	do {								\
		const PyGILState_STATE state = enter();			\
		call;							\
		PyGILState_Release(state);				\
	} while (0)

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

int py_run_batch(const struct rnl_batch *batch)
{
	int ret;

	CALL_PYTHON(ret = py_batch(batch));
	return ret;
}

/* Initialises the library's job of a runnel.Job, @user. */
int quick_prepare(struct rnl_job *job, int runs, uintptr_t user, uint64_t key)
{
	int ret = rnl_job_init(job, runs ? run_job : NULL);

	if (ret)
		return ret;
	job->user = (void *)user;
	ret = rnl_job_set_on_done(job, job_done);
	return ret || key == RNL_KEY_NONE ? ret : rnl_job_set_key(job, key);
}

/* Initialises and submits a job without further settings. */
int py_submit(struct rnl_pool *pool, struct rnl_job *job, uintptr_t user, uint64_t key)
{
	const int ret = quick_prepare(job, 1, user, key);

	return ret ? ret : rnl_submit(pool, job);
}

int quick_submit(struct rnl_pool *pool, struct rnl_job *job, uintptr_t user, uint64_t key)
{
	return py_submit(pool, job, user, key);
}

/* Makes a request of @bytes at @in, and commits it; @user: 0: it is waited for. */
int py_request(struct rnl_batcher *batcher, struct rnl_request *request, uintptr_t user,
	       const void *in, size_t bytes, int64_t timeout_ns)
{
	int ret = user ? quick_prepare(&request->job, 0, user, RNL_KEY_NONE) :
			 rnl_job_init(&request->job, NULL);

	if (!ret)
		ret = rnl_batcher_reserve(batcher, request, bytes, timeout_ns);
	if (ret)
		return ret;
	memcpy(request->in, in, bytes);
	ret = rnl_request_commit(request);
	if (ret)
		(void)rnl_request_release(request);
	return ret;
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
void quick_begin(void)
{
	run_name = PyUnicode_InternFromString("_run");
	done_name = PyUnicode_InternFromString("_done");
	rnl_set_log(py_log, NULL);
	(void)pthread_atfork(NULL, NULL, open_gate);
}
