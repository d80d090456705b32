/* SPDX-License-Identifier: MIT */
/*
 * http_server: counts words and finds edges for HTTP clients, on the workers of a runnel pool.
 *
 *	main.c		starts the server, waits for a signal, ends it
 *	supervise.c	the parent: keeps sockets open, and runs one process per place on the board
 *	board.c		the board: memory that the processes share; posted.c: a text on the board
 *	options.c	the command line
 *	listener.c	sockets that accept connections
 *	loop.c		an event loop: a thread, its libevent, its completion queue
 *	connection.c	a client's requests and answers, and their limits
 *	head.c		the head of a request; chunks.c: a chunked body
 *	traceparent.c	the header that names a request's trace
 *	routes.c	paths, and their answers
 *	page.html	the page of GET /, with its style and script; page.c: sends it
 *	docs.awk	makes the page of GET /docs from README.md
 *	live.c		the data of that page: GET /live
 *	spans.c		the workers' activity in the last seconds
 *	form.c		bodies that a browser's form sends
 *	metrics.c	the metrics of GET /metrics
 *	handler.c	runs a request's work, on the workers or in the loop's own thread
 *	classes.c	classes of requests, and their limits
 *	slot.c		the memory of requests
 *	bound.c		an upper bound on the server's memory
 *	tasks.c		the work itself
 *	small.c		batches of small pictures
 *	image.c		PNG and PNM; ../pipeline/png_read.c reads PNGs
 *	sift.c		removes the chunks of a PNG that libpng does not need
 *	device.cu	the kernels; device.c: without nvcc
 */
#ifndef HTTP_SERVER_H
#define HTTP_SERVER_H

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include <event2/event.h>
#include <event2/http.h>

#include <runnel.h>
#include <runnel/batch.h>
#include <runnel/class.h>
#include <runnel/more.h>
#include <runnel/trace.h>

#include "common/program.h"
#include "posted.h"

struct json_t;
struct route;

/* ---- options.c ----------------------------------------------------------- */

#define CLASSES_MAX 16		/* given by --class; "other" may come in addition */
#define CLASS_NAME_BYTES 32

struct class_option {
	char name[CLASS_NAME_BYTES];
	bool given;			/* by --class */
	int priority;
	unsigned weight;
	unsigned limit;			/* requests; until classes_share() 0: an equal part */
	unsigned max_jobs, per_second;	/* 0: no limit */
};

struct options {
	struct sockaddr_storage addr;
	socklen_t addr_len;
	const char *device;
	enum rnl_stream_kind stream;
	unsigned loops;
	unsigned workers;		/* 0: the library's choice */
	unsigned slots;			/* concurrent requests, over all loops */
	unsigned max_batch;		/* small pictures in a batch; 0: no batches */
	unsigned queue;			/* queued jobs at most; 0: the library's default */
	size_t max_body;		/* bytes */
	size_t max_pixels;		/* of an image */
	unsigned connections;		/* concurrent clients, over all loops */
	size_t memory;			/* bytes of all bodies and answers in memory */
	struct class_option classes[CLASSES_MAX + 1]; /* the first one is "other" */
	unsigned nr_classes;		/* 0: without --class */
	unsigned head_s, request_s, idle_s;	/* time limits: see connection.c */
	unsigned deadline_ms;		/* 0: no deadline */
	unsigned grace_s;
	unsigned linger_ms;
	enum handler { ASYNC, SYNC, THREAD } handler;
	bool exit_on_failure;		/* exit when the device has failed */
	unsigned processes;		/* of a parent (implies exit_on_failure); 0: no parent */
	const char *gpus;		/* one process for each; NULL: use `processes` */
	unsigned stuck_s;		/* a process stuck for this time is replaced; 0: never */
	const char *trace;		/* file; NULL: none */
	bool allow_crash;
};

#define LOOPS_MAX 64
#define PROCESSES_MAX 16

void options_parse(struct options *opt, int argc, char **argv);

/* ---- main.c, loop.c ------------------------------------------------------ */

/* Exit status: the device has failed; all requests were answered. */
#define EXIT_DEVICE_FAILED 75		/* EX_TEMPFAIL of sysexits.h */

enum { ROUTE_WC, ROUTE_SOBEL, ROUTE_METRICS, ROUTE_HEALTHZ, ROUTE_PAGE, ROUTE_DOCS, ROUTE_LIVE,
       ROUTE_CRASH, ROUTE_HANG, ROUTE_OTHER, NR_ROUTES };

#define ANSWER_CODES 14
#define METRICS_TIMES 41	/* buckets of a histogram */

/* Counters of one loop: its thread writes them; the loop that answers GET /metrics reads them. */
struct metrics {
	atomic_ullong answers[NR_ROUTES][ANSWER_CODES];
	atomic_ullong took[NR_ROUTES][METRICS_TIMES]; /* times of tasks' answers */
	atomic_ullong took_ns[NR_ROUTES];
	atomic_uint nr_open;		/* requests whose answer is not sent completely */
	atomic_uint nr_slots_used;
};

enum span_kind { SPAN_NONE, SPAN_WORDS, SPAN_EDGES, SPAN_PNG, NR_SPAN_KINDS };

#define SPAN_COLUMNS 300
#define SPANS_LATEST 1024

/* Spans of one loop: its thread writes them; the loop that answers GET /live reads them. */
struct spans {
	atomic_ullong columns[PROGRAM_WORKERS_MAX][SPAN_COLUMNS];
	atomic_ullong latest[SPANS_LATEST];
	atomic_ullong nr;			/* spans since the start */
	int64_t ended_ns[PROGRAM_WORKERS_MAX];	/* only for the loop's thread */
};

/* A route in one loop. */
struct endpoint {
	struct loop *loop;
	const struct route *route;
};

struct loop {
	struct server *server;
	pthread_t thread;
	struct event_base *base;
	struct evconnlistener *listener;	/* NULL: closed */
	struct evconnlistener *taken[PROCESSES_MAX]; /* accept for processes that do not serve */
	bool paused;			/* it does not accept connections */
	LIST_HEAD(, connection) connections;
	struct event *beat;
	bool told;			/* the first loop has set PLACE_SERVES */
	struct event *answered;		/* slots from request threads; NULL: no such threads */
	int answered_fds[2];		/* a pipe that carries pointers to slots */
	struct endpoint endpoints[NR_ROUTES];

	struct rnl_cq *cq;
	struct event *finished;		/* on the queue's descriptor: jobs are done */
	struct event *stop;		/* on stop_fd: the server ends */
	struct event *tick;		/* timer while it ends: checks for open requests */
	int stop_fd;			/* an eventfd: the loop answers open requests, and ends */
	struct event *resume;		/* timer while it is paused: checks if it can accept */
	uint64_t stop_ns;		/* when it began to end; 0: it is not ending */
	uint64_t received;		/* grows with each connection and each read */
	uint64_t received_before;	/* `received` at the last tick */

	struct slot *slots;
	struct slot *free_slots, **free_tail;
	struct metrics metrics;
	struct spans spans;
};

/* A class of requests; without --class the first one has all requests. */
struct request_class {
	const char *name;
	struct rnl_class *cls;		/* NULL: without --class */
	unsigned limit;
	size_t memory;			/* its part of opt.memory */
	uint64_t deadline_ns;		/* from a complete request to its answer */
	atomic_uint nr;			/* its requests that have slots */
	atomic_ullong refused;
	atomic_size_t bytes;		/* of its bodies and answers, up to `memory` */
};

struct server {
	struct options opt;
	/* listeners[p * loops + l]: the socket of process p's loop l */
	int listeners[PROCESSES_MAX * LOOPS_MAX];
	bool listeners_passed;		/* in LISTEN_FDS, by a parent that keeps them open */
	unsigned process, nr_processes;
	struct place *board;		/* one place per process; NULL: no parent */
	int leave_fd;			/* an eventfd: the parent orders this process to end */
	struct rnl_pool *pool;
	struct rnl_class *finishing;	/* of finish(): they go first; with --class unused */
	struct request_class classes[CLASSES_MAX + 1];
	struct rnl_batcher *batcher;	/* of small pictures; NULL: no batches */
	atomic_llong batch_noted[PROGRAM_WORKERS_MAX]; /* start of the worker's last batch span */
	struct loop loops[LOOPS_MAX];
	int64_t began_ns;
	atomic_uint nr_connections;
	atomic_bool has_refused;	/* an accept() has failed */
	atomic_ullong grace_ns;		/* time limit for the loops to stop */
	int ended_fd;			/* an eventfd: counts ended loops */
	int failed_fd;			/* an eventfd: the device has failed */
	atomic_bool leaves_listeners;	/* waiting connections are left to other processes */
};

/* Creates a loop that owns a listening socket.  Dies on an error. */
void loop_create(struct loop *loop, struct server *server, int listener);
/* Starts its thread, which accepts connections.  Dies on an error. */
void loop_start(struct loop *loop);
void loop_free(struct loop *loop);
/* Called after a connection of the loop has ended. */
void loop_left(struct loop *loop);

/* ---- listener.c ---------------------------------------------------------- */

/*
 * Opens @nr sockets that listen at one address; the kernel distributes connections to them.
 * @addr: receives the port if it was 0.
 * Returns 0 or a negative errno.
 */
int listener_open(struct sockaddr *addr, socklen_t addr_len, int *fds, unsigned nr);

/*
 * Takes the sockets that a parent passes by LISTEN_FDS, and shares them between @nr loops.  Dies on
 * an error.  Returns false if no socket was passed.
 */
bool listener_take(int *fds, unsigned nr);

void listener_deafen(int fd);		/* rejects new connections; begun ones are still accepted */
void listener_hear(int fd);		/* undoes listener_deafen(), for the next process */
bool listener_pending(int fd);		/* returns true if a connection waits to be accepted */

/* ---- bound.c ------------------------------------------------------------- */

/* Prints the bound.  @cuda: the device is a GPU. */
void bound_print(const struct server *server, bool cuda);

/* ---- supervise.c --------------------------------------------------------- */

/*
 * Starts the processes, replaces lost ones until a signal arrives, and exits.
 * Context: before threads are created, and before any CUDA call.
 */
_Noreturn void supervise(struct server *server, char **argv);

/*
 * Takes the sockets and the board from the parent, in a process that the parent started.
 * Returns false if this process was not started by a parent.
 */
bool supervise_join(struct server *server);

/* ---- board.c ------------------------------------------------------------- */

enum { PLACE_EMPTY, PLACE_SERVES };

/* The shared memory of one process. */
struct place {
	atomic_int pid, state;
	_Atomic uint64_t beat_ns[LOOPS_MAX];	/* time of each loop's last beat */
	_Atomic uint64_t watched_ns;		/* time of the last GET /live, from any process */
	struct posted metrics, health, live;
};

/* Returns a descriptor of shared memory for @nr places, or -1 and errno. */
int board_make(unsigned nr);
struct place *board_map(int fd, unsigned nr);	/* NULL on an error: errno */

struct place *board_own(const struct server *server);
static inline bool board_serves(const struct place *place)
{
	return atomic_load(&place->state) == PLACE_SERVES;
}

/* Posts this process's metrics and health. */
void board_post(const struct server *server);

/* Appends the metrics of all processes.  Returns 0, or -1 if out of memory. */
int board_metrics(const struct server *server, struct evbuffer *out);

/* Returns a list with the /live data of each process that serves. */
struct json_t *board_live(const struct server *server);

/* @json: receives the health of all processes.  Returns true if at least one is well. */
bool board_health(const struct server *server, struct json_t **json);

/* ---- head.c -------------------------------------------------------------- */

#define HEAD_MAX 16384		/* bytes */
#define HEAD_FIELDS_MAX 64

struct head {
	unsigned method;		/* enum evhttp_cmd_type; 0: another method */
	const char *path;		/* without the query */
	bool old;			/* HTTP/1.0 */
	bool keeps;			/* the client wants to keep the connection */
	bool expects;			/* the client waits for 100 Continue */
	bool chunked;
	uint64_t body_bytes;		/* if the body is not chunked */
	const char *wrong;		/* the reason if the head is refused */
	struct {
		const char *name, *value;
	} fields[HEAD_FIELDS_MAX];
	unsigned nr_fields;
};

/*
 * Parses a head.
 * @text: ends with an empty line and a NUL; is modified, and must live as long as @head.
 * Returns 0, or the status code of the answer that refuses it.
 */
int head_parse(char *text, struct head *head);

/* Returns a header's value, or NULL if the header is missing. */
const char *head_find(const struct head *head, const char *name);

/* Returns the value of a header that is given once, or NULL. */
const char *head_find_only(const struct head *head, const char *name);

/* Returns true if the body has a Content-Encoding, such as gzip. */
bool head_encoded(const struct head *head);

/* Returns the method, like head.method, of a text that may be an incomplete head. */
unsigned head_method(const char *text);

/* Returns true if the character is allowed in a header's name. */
bool head_is_token(char c);

/* ---- chunks.c ------------------------------------------------------------ */

struct chunks {
	int state;
	uint64_t room;			/* bytes that the body may still have */
	uint64_t left;			/* remaining bytes of the chunk */
	unsigned passed_over;		/* characters between chunks, since the last chunk */
	bool end;			/* the body is complete */
};

/*
 * Reads the next part of a chunked body.
 * @chunks: zero at first, except its room.
 * @framing: receives the number of bytes at the start of @text that do not belong to the body.
 * @data: receives the number of the body's bytes that follow the framing.
 * Returns 0; -EBADMSG if the framing is broken; -EFBIG if the body is too long.
 */
int chunks_read(struct chunks *chunks, const char *text, size_t bytes, size_t *framing,
		size_t *data);

/* ---- traceparent.c ------------------------------------------------------- */

#define TRACE_BYTES 16
#define TRACEPARENT_BYTES 56

/*
 * Continues the trace that a request's head names, or begins one.
 * @text: receives the header of the answer.
 * Returns false, and clears @trace_id, if the system has no random numbers.
 */
bool traceparent_follow(const struct head *head, unsigned char trace_id[TRACE_BYTES],
			char text[TRACEPARENT_BYTES]);

/* ---- connection.c -------------------------------------------------------- */

/* A client's request and its answer: lives until the answer is sent, or the client has left. */
struct request {
	const struct endpoint *endpoint;
	struct head head;
	unsigned char *body;
	size_t bytes;			/* of the body */
	size_t space;			/* allocated for the body */
	struct request_class *class;
	size_t counted;			/* its share of the bytes of its class */
	struct slot *slot;		/* the slot that works on it; or NULL */
	unsigned char trace_id[TRACE_BYTES];
	struct evbuffer *headers;	/* additional headers of the answer */
	struct evbuffer *out;		/* the answer's body */
};

#define FIGURES_BYTES (1u << 20)	/* for answers without a task, in addition to opt.memory */

extern const struct answer_code {
	int code;
	const char *phrase;
} answer_codes[ANSWER_CODES];

/* @fd: is closed with the connection.  Returns false if out of memory. */
bool connection_begin(struct loop *loop, int fd);
/* Returns true if a connection has a request in work, or an answer to send. */
bool connections_wait(const struct loop *loop);
/*
 * Closes the connection that was idle for longest, if it was idle for --linger and no data from its
 * client are waiting.  Returns true if it closed one.
 */
bool connections_make_space(struct loop *loop);
void connections_stop(struct loop *loop);	/* called when the loop's stop_ns is set */
void connections_close(struct loop *loop);

void request_drop_body(struct request *req);
/* Counts the answer's body.  Returns false if the class has used its part of --memory. */
bool request_count_answer(struct request *req);
void request_header(struct request *req, const char *name, const char *value);
void request_answer(struct request *req, int code, const char *type);

/* ---- slot.c -------------------------------------------------------------- */

/* One request's job and memory.  If no slot is free, the answer is 503. */
struct slot {
	union {
		struct rnl_job job;
		struct rnl_request request;	/* in STEP_BATCH; begins with a job */
	};
	struct rnl_job_more more;	/* of the jobs: the request's trace id */
	struct slot *next;		/* while it is free */
	const struct endpoint *endpoint;
	struct request *req;		/* NULL: it is answered, or its client has left */
	struct request_class *class;	/* of the request */
	int result;			/* of the task's last step */
	enum step { STEP_ISSUE, STEP_BATCH, STEP_FINISH } step;
	bool small;			/* the next step is STEP_BATCH */
	size_t bytes;			/* of the body */
	int64_t came_ns;		/* arrival of the request */
	int64_t began_ns;		/* start of the job's function; 0: not called */
	unsigned worker;		/* the worker that called it */

	/* Each buffer is large enough for any task: see slot.c. */
	unsigned char *in;		/* pinned: first the body */
	unsigned char *out;		/* pinned: finally the answer */
	unsigned char *device_in;	/* the job's scratch; without jobs, the slot's memory */
	unsigned char *device_out;

	struct {
		uint32_t width, height;
		size_t png_bytes;
	} image;
};

/* Returns the size of each of a slot's buffers. */
size_t slot_buffer_bytes(const struct options *opt);

int slots_create(struct loop *loop);
void slots_destroy(struct loop *loop);

/* Returns a slot, or NULL if all are in use. */
struct slot *slot_get(struct loop *loop);
void slot_put(struct loop *loop, struct slot *slot);

/* Returns the slot of a job, or NULL. */
const struct slot *slot_find(const struct server *server, const struct rnl_job *job);

/* ---- tasks.c ------------------------------------------------------------- */

/*
 * Steps return 0; -EBADMSG if the body is broken; -EFBIG if it exceeds the server's limits; or
 * another negative errno for a failure of the server.
 */
struct task {
	enum span_kind kind;		/* the kind of issue()'s span */
	/* Issues the device work.  Called by a worker, or by the handler's own thread. */
	int (*issue)(struct slot *slot);
	/* Does CPU work after the device work.  Called like issue(); may be NULL. */
	int (*finish)(struct slot *slot);
	/* Writes the answer.  Called by the loop.  Returns the Content-Type; NULL: no memory. */
	const char *(*write)(struct slot *slot, struct evbuffer *out);
};

extern const struct task wc_task, edges_task, crash_task, hang_task;

size_t wc_buffer_bytes(const struct options *opt);
size_t edges_buffer_bytes(const struct options *opt);

/* ---- classes.c ----------------------------------------------------------- */

/* Reads an argument of --class.  @to: the options.  Returns an error text, or NULL. */
const char *classes_parse(void *to, const char *arg);
/* Gives classes without a limit equal parts of the slots that the others leave. */
void classes_share(struct options *opt);

/* Creates the classes in the pool, too.  Returns 0 or a negative errno. */
int classes_create(struct server *server);

/* Sets the request's class by its head.  Returns 0, or the status code of the answer that refuses it. */
int class_choose(struct server *server, const struct route *route, struct request *req);

/*
 * Lets a request in.
 * Returns 0, and class_leave() must be called; -EAGAIN the class is full; -ETIME its job would wait
 * beyond the deadline.
 */
int class_enter(struct request_class *class);
void class_leave(struct request_class *class);

/* Returns the time after which a refused client should try again, in seconds, at least 1. */
unsigned class_retry_s(struct request_class *class);

/* Sets the class of the slot's job, which has one in the pool, and the job's deadline. */
int class_set_job(struct slot *slot);

size_t classes_bytes(const struct server *server);	/* of all bodies and answers */
/* Appends the classes' metrics.  Returns a negative number if out of memory. */
int classes_write(const struct server *server, struct evbuffer *out);

/* ---- small.c ------------------------------------------------------------- */

/* Creates the server's batcher, if small pictures are batched. */
int small_create(struct server *server);
/* Returns the bytes that the batcher page-locks. */
size_t small_pinned_bytes(const struct options *opt);

bool small_takes(const struct server *server, uint32_t width, uint32_t height);

/* Adds the slot's decoded picture to a batch.  Called by the loop. */
int small_begin(struct slot *slot);
/* Takes the edges from the batch.  Returns the request's result. */
int small_end(struct slot *slot);

/* ---- image.c ------------------------------------------------------------- */

#define IMAGE_SIDE_MAX 16384	/* pixels in a row, and rows */

/*
 * Decodes a PNG of any kind, or a PGM or PPM with 8 bits per sample, to grey pixels: one byte per
 * pixel, row by row.
 * @file: is modified.  @pixels: has space for @max_pixels.
 * Returns 0; -EBADMSG if the file is broken or of another kind; -EFBIG if it has more than
 *	@max_pixels, or a side longer than IMAGE_SIDE_MAX.
 */
int image_decode(unsigned char *file, size_t bytes, unsigned char *pixels, size_t max_pixels,
		 uint32_t *width, uint32_t *height);

/* Returns 0; -EBADMSG if the image has no pixels; -EFBIG if it has too many. */
int image_check_size(uint32_t width, uint32_t height, size_t max_pixels);

/* Returns the largest size of a PNG with @pixels pixels. */
size_t image_png_bytes_max(size_t pixels);

/* @bytes: space at @png; receives the PNG's length.  Returns 0 or -ENOMEM. */
int image_encode(const unsigned char *pixels, uint32_t width, uint32_t height, unsigned char *png,
		 size_t *bytes);

/* ---- sift.c -------------------------------------------------------------- */

/*
 * Removes all chunks of a PNG that its picture does not need.
 * @file: begins with a PNG's signature; is modified.  @bytes: receives the new length.
 * Returns 0; -EBADMSG if the file is broken, or its data inflates to more than its pixels need;
 *	-EFBIG like image_decode(); -ENOMEM.
 */
int png_sift(unsigned char *file, size_t *bytes, size_t max_pixels);

/* ---- handler.c ----------------------------------------------------------- */

/* Each does the slot's task, then calls slot_answer().  Called by the loop. */
void async_start(struct slot *slot);
void sync_start(struct slot *slot);
void thread_start(struct slot *slot);

/* Reads the slots that request threads have finished. */
void threads_reap(evutil_socket_t fd, short what, void *arg);

/* Continues with a reaped job: starts its next step, or answers. */
void async_reaped(struct rnl_job *job);

/* ---- routes.c ------------------------------------------------------------ */

struct route {
	const char *path;		/* NULL: all other paths */
	unsigned methods;		/* enum evhttp_cmd_type */
	const char *allow;		/* the methods, as a header */
	void (*handle)(const struct endpoint *endpoint, struct request *req);
	const struct task *task;
};

extern const struct route routes[NR_ROUTES];

void routes_set(struct loop *loop);
const struct endpoint *routes_find(const struct loop *loop, const char *path);

/* Returns true if the path exists and has the method, and the body is not encoded. */
bool routes_take(const struct endpoint *endpoint, const struct head *head);
/* Handles a complete request, or one that routes_take() rejects. */
void routes_handle(struct request *req);
/* Answers with an error. */
void request_refuse(struct request *req, int code, const char *wrong);
/* Answers a request that is past its deadline, and abandons its work. */
void request_late(struct request *req);
/* Abandons a request's work because the client has left. */
void request_left(struct request *req);

/* Appends this process's health as JSON.  Returns 1 if well, 0 if not, -1 if out of memory. */
int health_write_own(const struct server *server, struct evbuffer *out);

/* Answers the slot's request, with an error if @result is negative, and frees the slot. */
void slot_answer(struct slot *slot, int result);

/* Appends a JSON object, and frees it.  Returns like task.write. */
const char *answer_json(struct json_t *json, struct evbuffer *out);

/* Returns the name of a pool's state: enum rnl_health_state. */
const char *health_name(unsigned state);

/* ---- page.c -------------------------------------------------------------- */

#define PAGE_POLICY_BYTES 256

/*
 * Appends the page of GET /, or of GET /docs if @is_docs.
 * @policy: receives the Content-Security-Policy for this copy.
 * Returns 0 or a negative errno.
 */
int page_write(struct evbuffer *out, bool is_docs, char policy[PAGE_POLICY_BYTES]);

/* ---- form.c -------------------------------------------------------------- */

/*
 * Extracts the only field of a form from the body.  A body that is not a form stays unchanged.
 * @type: the request's Content-Type; may be NULL.
 * @body: receives the field's content; may be NULL if it is empty.
 * @bytes: the length of the body; receives the length of the content.
 * Returns NULL, or an error text.
 */
const char *form_unwrap(const char *type, unsigned char *body, size_t *bytes);

/* ---- live.c, spans.c ----------------------------------------------------- */

/* Return the data of GET /live; NULL: out of memory. */
struct json_t *live_json(const struct server *server);	/* all processes */
struct json_t *live_own(const struct server *server);

/* Records a worker's job.  Called by the loop. */
void spans_note(struct spans *spans, unsigned worker, enum span_kind kind, int64_t begin_ns,
		int64_t end_ns);

/* Returns the columns of @nr_workers as JSON; NULL: out of memory. */
struct json_t *spans_json(const struct server *server, unsigned nr_workers, int64_t now_ns);

/* The overlap of the latest jobs. */
struct spans_overlap {
	uint64_t nr_jobs, busy_ns, sum_ns;	/* busy: time with at least one job */
};

/* Fills @overlap, which must be zero.  Returns 0 or -ENOMEM. */
int spans_overlap(const struct server *server, int64_t now_ns, struct spans_overlap *overlap);

/* ---- metrics.c ----------------------------------------------------------- */

unsigned metrics_nr_open(const struct server *server);	/* in all loops */
void metrics_count_answer(struct metrics *metrics, int route, int code);
void metrics_count_time(struct metrics *metrics, int route, int64_t took_ns);

/* Return the sums over all loops.  @code, @bucket: indices. */
unsigned long long metrics_answers(const struct server *server, int route, int code);
unsigned long long metrics_took(const struct server *server, int route, int bucket);
/* Returns the upper bound of a bucket; the last bucket has none. */
uint64_t metrics_bound_us(int bucket);
unsigned metrics_nr_slots_used(const struct server *server);

/* Appends the metrics of the server and the pool, in Prometheus' text format. */
int metrics_write_own(const struct server *server, struct evbuffer *out);
/* Like metrics_write_own(), for all processes. */
int metrics_write(const struct server *server, struct evbuffer *out);

#endif /* HTTP_SERVER_H */
