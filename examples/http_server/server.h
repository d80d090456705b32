/* SPDX-License-Identifier: MIT */
/*
 * http_server: counts words and finds edges for HTTP clients, on the workers of
 * a runnel pool.  What its parts know of each other:
 *
 *	main.c		main(): starts it, waits for a signal, ends it
 *	supervise.c	the parent that starts a fresh one when one is lost
 *	options.c	the command line
 *	listener.c	sockets that accept connections
 *	loop.c		an event loop: a thread, its evhttp, its completion queue
 *	routes.c	which path does what, and answers
 *	metrics.c	what was answered, in numbers
 *	async.c		a request's work on the workers of the pool
 *	sync.c		the same in the loop's own thread: what this replaces
 *	slot.c		the memory of requests
 *	wc.c, edges.c	the two tasks
 *	crash.c		one for tests: it has the device fail
 *	image.c		PNG and PNM
 *	sobel.c		edges on the CPU; sobel_kernel.cu: on the GPU
 *	crash_kernel.cu	a write to an illegal address, there
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <event2/event.h>
#include <event2/http.h>

#include <runnel.h>

/* ---- options.c ----------------------------------------------------------- */

struct options {
	struct sockaddr_storage addr;
	socklen_t addr_len;
	const char *device;
	enum rnl_stream_kind stream;
	unsigned loops;
	unsigned workers;		/* 0: as many as the library thinks right */
	unsigned slots;			/* requests at a time, of all loops together */
	unsigned queue;			/* jobs queued at most; 0: the library's bound */
	size_t max_body;		/* bytes */
	size_t max_pixels;		/* of an image */
	unsigned deadline_ms;		/* 0: none */
	unsigned grace_s;
	unsigned linger_ms;
	bool sync;			/* the handler: sync.c instead of async.c */
	bool exit_on_failure;		/* of the device */
	bool supervise;			/* implies it */
	bool allow_crash;
};

/* Exits after --help, and when something is wrong. */
void options_parse(struct options *opt, int argc, char **argv);

/* ---- metrics.c ----------------------------------------------------------- */

enum {
	ROUTE_WC,
	ROUTE_SOBEL,
	ROUTE_METRICS,
	ROUTE_HEALTHZ,
	ROUTE_CRASH,
	ROUTE_OTHER,
	NR_ROUTES,
};

#define METRICS_CODES 8

/* One loop's: written by its thread, read by whichever answers GET /metrics. */
struct metrics {
	atomic_ullong answers[NR_ROUTES][METRICS_CODES];
	atomic_uint nr_open;		/* requests begun, and not all of their answer sent */
	atomic_uint nr_slots_used;
};

struct server;

void metrics_count_answer(struct metrics *metrics, int route, int code);

/* Appends the server's own figures, and the pool's, in Prometheus' text format. */
int metrics_write(const struct server *server, struct evbuffer *out);

/* ---- main.c, loop.c ------------------------------------------------------ */

/* Exit status: the device has failed, all is answered, and a fresh process may do better. */
#define EXIT_DEVICE_FAILED 75		/* EX_TEMPFAIL of sysexits.h */

struct server {
	struct options opt;
	int *listeners;			/* one for each loop */
	struct rnl_pool *pool;
	struct loop *loops;
	int ended_fd;			/* an eventfd: loops that have ended */
	int failed_fd;			/* an eventfd: the device has failed */
	int serving_fd;			/* an eventfd: tells the parent; -1: there is none */
	atomic_bool leaves_listeners;	/* to the next process, with all who wait in them */
};

struct route;

/* A route in one loop: what evhttp gives back with a request. */
struct endpoint {
	struct loop *loop;
	const struct route *route;
};

struct loop {
	struct server *server;
	pthread_t thread;
	struct event_base *base;
	struct evhttp *http;
	struct evhttp_bound_socket *listener;	/* NULL: closed */
	struct endpoint endpoints[NR_ROUTES];

	struct rnl_cq *cq;
	struct event *finished;		/* jobs have, says the queue's descriptor */
	struct event *stop;		/* the server shall, says stop_fd */
	struct event *tick;		/* while it stops: is all done? */
	int stop_fd;
	bool stopping;
	uint64_t received;		/* grows with each connection and each byte */
	uint64_t received_before;	/* the last tick */

	struct slot *slots;
	struct slot *free_slots, **free_tail;
	struct metrics metrics;
};

/*
 * Makes a loop that accepts from a listening socket, which is the loop's then.
 * Return: 0, or a negative errno; the loop is to be given to loop_fini() either way.
 */
int loop_init(struct loop *loop, struct server *server, int listener);
void loop_fini(struct loop *loop);

int loop_start(struct loop *loop);

/* Has the loop answer what is under way, and end; by any thread. */
void loop_stop(struct loop *loop);

/* ---- listener.c ---------------------------------------------------------- */

/*
 * Opens @nr sockets that listen at one address, and share its connections out.
 * @addr: its port, if that is 0, is replaced by the one that was found.
 * Return: 0, or a negative errno; then none is open.
 */
int listener_open(struct sockaddr *addr, socklen_t addr_len, int *fds, unsigned nr);

/* From now on no connection is begun; those that were are still to be accepted. */
void listener_deafen(int fd);

/* Undoes that: by who goes on with the socket of a process that is gone. */
void listener_hear(int fd);

/* Whether a connection waits to be accepted. */
bool listener_pending(int fd);

/* ---- supervise.c --------------------------------------------------------- */

/*
 * Starts a child, and another one whenever one is lost.  Returns in each child,
 * which is to serve; the parent stays in here, and exits.
 * Context: before any call of CUDA, which does not survive a fork; before threads;
 *	SIGTERM and SIGINT blocked.
 */
void supervise(struct server *server);

/* ---- slot.c -------------------------------------------------------------- */

/*
 * One request's job and memory.  All slots are there from the start: under load
 * nothing is page-locked, and memory stays as it is.  Who finds none left answers
 * 503.
 */
struct slot {
	struct rnl_job job;
	struct slot *next;		/* while it is free */
	const struct endpoint *endpoint;
	const struct task *task;
	struct evhttp_request *req;
	int result;			/* of the task's last step */
	bool finishing;			/* that was its finish() */
	size_t bytes;			/* of the body */

	/* Each has room for what any task puts there: see slot.c. */
	unsigned char *in;		/* pinned: the body, to begin with */
	unsigned char *out;		/* pinned: the answer, in the end */
	unsigned char *device_in;	/* scratch of the job that runs; with sync.c the slot's */
	unsigned char *device_out;

	struct {			/* edges.c */
		uint32_t width, height;
		size_t png_bytes;
	} image;
};

/* Bytes of each of a slot's buffers. */
size_t slot_buffer_bytes(const struct options *opt);

int slots_create(struct loop *loop, unsigned nr);
void slots_destroy(struct loop *loop);

/* Return: a slot; NULL if all are in use. */
struct slot *slot_get(struct loop *loop);
void slot_put(struct loop *loop, struct slot *slot);

/* Where a table that follows a text in the same buffer starts. */
static inline size_t slot_align(size_t bytes)
{
	return (bytes + 63) & ~(size_t)63;
}

/* ---- wc.c, edges.c, crash.c ---------------------------------------------- */

/*
 * What is done with a body.  Steps return 0, or
 * -EBADMSG  the body is not what it should be;
 * -EFBIG    it is more than this server takes;
 * or another negative errno, if the server is to blame.
 */
struct task {
	/* Issues the device work; by a worker, or, with sync.c, by the loop. */
	int (*issue)(struct slot *slot);
	/* What is to be done by a CPU after that work; the same; may be NULL. */
	int (*finish)(struct slot *slot);
	/* Writes the answer; by the loop.  Return: its Content-Type, or NULL: no memory. */
	const char *(*write)(struct slot *slot, struct evbuffer *out);
};

extern const struct task wc_task;
extern const struct task edges_task;
extern const struct task crash_task;

size_t wc_buffer_bytes(const struct options *opt);
size_t edges_buffer_bytes(const struct options *opt);

/* ---- async.c, sync.c ----------------------------------------------------- */

/* Does the slot's task, then calls slot_answer(); by the loop. */
void async_start(struct slot *slot);
void sync_start(struct slot *slot);

/* Goes on with a job that came back by the completion queue. */
void async_reaped(struct rnl_job *job);

/* ---- routes.c ------------------------------------------------------------ */

/* Tells evhttp what to do with the loop's requests. */
int routes_set(struct loop *loop);

/* Answers the slot's request, with an error if @result is one, and frees the slot. */
void slot_answer(struct slot *slot, int result);

struct json_t;

/* Appends a JSON object and lets go of it; return: as task.write. */
const char *answer_json(struct json_t *json, struct evbuffer *out);

#endif /* HTTP_SERVER_H */
