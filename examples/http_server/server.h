/* SPDX-License-Identifier: MIT */
/*
 * http_server: counts words and finds edges for HTTP clients, on the workers of a runnel pool.
 *
 *	main.c		starts the server, waits for a signal, ends it
 *	supervise.c	the parent: it keeps the sockets, and a process for each place on the board
 *	board.c		what the processes tell each other; posted.c: a text of theirs
 *	options.c	the command line
 *	listener.c	sockets that accept connections
 *	loop.c		an event loop: a thread, its libevent, its completion queue
 *	connection.c	a client's requests and answers, and their limits
 *	head.c		the head of a request; chunks.c: a body in chunks
 *	routes.c	paths, and their answers
 *	page.html	the page of GET /, with its style and script; page.c: hands it out
 *	live.c		the figures of that page: GET /live
 *	spans.c		what the workers did in the last seconds
 *	form.c		bodies that a browser's form sends
 *	metrics.c	the figures of GET /metrics
 *	handler.c	a request's work on the workers; or in the loop's own thread
 *	slot.c		the memory of requests
 *	bound.c		the most memory that the server takes
 *	tasks.c		the work itself
 *	small.c		small pictures, many at once
 *	image.c		PNG and PNM; ../pipeline/png_read.c reads PNGs
 *	sift.c		what of a PNG reaches libpng
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
#include <runnel/trace.h>

#include "common/program.h"
#include "posted.h"

struct json_t;

/* ---- options.c ----------------------------------------------------------- */

struct options {
	struct sockaddr_storage addr;
	socklen_t addr_len;
	const char *device;
	enum rnl_stream_kind stream;
	unsigned loops;
	unsigned workers;		/* 0: the library's choice */
	unsigned slots;			/* requests at a time, in all loops together */
	unsigned max_batch;		/* small pictures at once; 0: each alone */
	unsigned queue;			/* queued jobs at most; 0: the library's bound */
	size_t max_body;		/* bytes */
	size_t max_pixels;		/* of an image */
	unsigned connections;		/* clients at a time, in all loops together */
	size_t memory;			/* bytes of bodies and answers under way */
	unsigned head_s, request_s, idle_s;	/* the most time: see connection.c */
	unsigned deadline_ms;		/* 0: none */
	unsigned grace_s;
	unsigned linger_ms;
	enum handler { ASYNC, SYNC, THREAD } handler;
	bool exit_on_failure;		/* of the device */
	unsigned processes;		/* of a parent, which implies exit_on_failure; 0: none */
	const char *gpus;		/* a process for each; NULL: --processes says how many */
	unsigned stuck_s;		/* then a process is replaced; 0: never */
	bool allow_crash;
};

#define LOOPS_MAX 64
#define PROCESSES_MAX 16

void options_parse(struct options *opt, int argc, char **argv);

/* ---- main.c, loop.c ------------------------------------------------------ */

/* Exit status: the device has failed, and all requests are answered. */
#define EXIT_DEVICE_FAILED 75		/* EX_TEMPFAIL of sysexits.h */

enum { ROUTE_WC, ROUTE_SOBEL, ROUTE_METRICS, ROUTE_HEALTHZ, ROUTE_PAGE, ROUTE_LIVE,
       ROUTE_CRASH, ROUTE_HANG, ROUTE_OTHER, NR_ROUTES };

#define ANSWER_CODES 14
#define METRICS_TIMES 41	/* buckets of a histogram */

/* Of one loop: its thread writes them, and the loop that answers GET /metrics reads them. */
struct metrics {
	atomic_ullong answers[NR_ROUTES][ANSWER_CODES];
	atomic_ullong took[NR_ROUTES][METRICS_TIMES]; /* answers of tasks */
	atomic_ullong took_ns[NR_ROUTES];
	atomic_uint nr_open;		/* requests whose answer is not sent in full */
	atomic_uint nr_slots_used;
};

enum span_kind { SPAN_NONE, SPAN_WORDS, SPAN_EDGES, SPAN_PNG, NR_SPAN_KINDS };

#define SPAN_COLUMNS 300
#define SPANS_LATEST 1024

/* Of one loop: its thread writes them, and the loop that answers GET /live reads them. */
struct spans {
	atomic_ullong columns[PROGRAM_WORKERS_MAX][SPAN_COLUMNS];
	atomic_ullong latest[SPANS_LATEST];
	atomic_ullong nr;			/* spans that there ever were */
	int64_t ended_ns[PROGRAM_WORKERS_MAX];	/* the loop's own */
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
	struct evconnlistener *taken[PROCESSES_MAX]; /* of processes that do not serve */
	bool paused;			/* it does not accept */
	LIST_HEAD(, connection) connections;
	struct event *beat;
	bool told;			/* of the first loop: that the process serves */
	struct event *answered;		/* slots that threads are done with; NULL: there are no threads */
	int answered_fds[2];		/* a pipe of pointers to slots */
	struct endpoint endpoints[NR_ROUTES];

	struct rnl_cq *cq;
	struct event *finished;		/* on the queue's descriptor: jobs are done */
	struct event *stop;		/* on stop_fd: the server ends */
	struct event *tick;		/* while it ends: is all answered? */
	int stop_fd;			/* an eventfd: makes the loop answer what is open, and end */
	struct event *resume;		/* while it is paused: can it accept again? */
	uint64_t stop_ns;		/* when it began to end; 0: it goes on */
	uint64_t received;		/* grows with each connection, and with what clients send */
	uint64_t received_before;	/* the last tick */

	struct slot *slots;
	struct slot *free_slots, **free_tail;
	struct metrics metrics;
	struct spans spans;
};

struct server {
	struct options opt;
	/* Of process p's loop l: listeners[p * loops + l]. */
	int listeners[PROCESSES_MAX * LOOPS_MAX];
	bool listeners_passed;		/* by a parent that keeps them, not by supervise.c */
	unsigned process, nr_processes;
	struct place *board;		/* of each process; NULL: there is no parent */
	int leave_fd;			/* an eventfd: the parent orders this process to leave */
	struct rnl_pool *pool;
	struct rnl_batcher *batcher;	/* of small pictures; NULL: there is none */
	atomic_llong batch_noted[PROGRAM_WORKERS_MAX]; /* begin of a worker's last batch with a span */
	struct loop loops[LOOPS_MAX];
	int64_t began_ns;
	atomic_uint nr_connections;
	atomic_size_t bytes_under_way;	/* of bodies and answers, up to opt.memory */
	atomic_bool has_refused;	/* a connection, without a descriptor for it */
	atomic_ullong grace_ns;		/* when the loops are told to stop */
	int ended_fd;			/* an eventfd: loops that have ended */
	int failed_fd;			/* an eventfd: the device has failed */
	atomic_bool leaves_listeners;	/* to other processes, with waiting connections */
};

/* Creates a loop that owns a listening socket.  Dies on an error. */
void loop_create(struct loop *loop, struct server *server, int listener);
/* Starts its thread, which accepts connections.  Dies on an error. */
void loop_start(struct loop *loop);
void loop_free(struct loop *loop);
/* A connection of the loop has ended. */
void loop_left(struct loop *loop);

/* ---- listener.c ---------------------------------------------------------- */

/*
 * Opens @nr sockets that listen at one address, and share its connections.
 * @addr: receives the port if it was 0.
 * Return: 0 or a negative errno.
 */
int listener_open(struct sockaddr *addr, socklen_t addr_len, int *fds, unsigned nr);

/*
 * Takes the sockets that a parent passes by LISTEN_FDS; @nr loops share them.  Dies on an error.
 * Return: false if it passes none.
 */
bool listener_take(int *fds, unsigned nr);

void listener_deafen(int fd);		/* no connection begins; those begun are still accepted */
void listener_hear(int fd);		/* undoes that, for the next process with the socket */
bool listener_pending(int fd);		/* whether a connection waits to be accepted */

/* ---- bound.c ------------------------------------------------------------- */

/* @cuda: the device is a GPU. */
void bound_print(const struct server *server, bool cuda);

/* ---- supervise.c --------------------------------------------------------- */

/*
 * Starts the processes, and another one whenever one is lost, until a signal; then exits.
 * Context: before threads, and any call of CUDA.
 */
_Noreturn void supervise(struct server *server, char **argv);

/*
 * In a process that a parent started: takes the sockets and the board from it.
 * Return: false: no parent started this process.
 */
bool supervise_join(struct server *server);

/* ---- board.c ------------------------------------------------------------- */

enum { PLACE_EMPTY, PLACE_SERVES };

/* Of one process. */
struct place {
	atomic_int pid, state;
	_Atomic uint64_t beat_ns[LOOPS_MAX];	/* when each loop was last alive */
	_Atomic uint64_t watched_ns;		/* when someone asked for GET /live last */
	struct posted metrics, health, live;
};

/* Return: a descriptor of shared memory for @nr places; -1: errno. */
int board_make(unsigned nr);
struct place *board_map(int fd, unsigned nr);	/* NULL: errno */

struct place *board_own(const struct server *server);
static inline bool board_serves(const struct place *place)
{
	return atomic_load(&place->state) == PLACE_SERVES;
}

/* Posts this process's figures and health. */
void board_post(const struct server *server);

/* Appends the figures of all processes.  Return: 0; -1: no memory. */
int board_metrics(const struct server *server, struct evbuffer *out);

/* Return: of each process that serves what it is and does, as a list. */
struct json_t *board_live(const struct server *server);

/* @json: receives the health of all.  Return: whether any of them is well. */
bool board_health(const struct server *server, struct json_t **json);

/* ---- head.c -------------------------------------------------------------- */

#define HEAD_MAX 16384		/* bytes */
#define HEAD_FIELDS_MAX 64

struct head {
	unsigned method;		/* enum evhttp_cmd_type; 0: any other */
	const char *path;		/* without the query */
	bool old;			/* HTTP/1.0 */
	bool keeps;			/* the client would send more requests */
	bool expects;			/* 100 Continue before it sends the body */
	bool chunked;
	uint64_t body_bytes;		/* if it is not chunked */
	const char *wrong;		/* if it is refused: why */
	struct {
		const char *name, *value;
	} fields[HEAD_FIELDS_MAX];
	unsigned nr_fields;
};

/*
 * Parses a head.
 * @text: ends with an empty line, and then a NUL; is changed, and has to live as long as @head.
 * Return: 0, or the code of the answer that refuses it.
 */
int head_parse(char *text, struct head *head);

/* Return: a header's value; NULL: there is none. */
const char *head_find(const struct head *head, const char *name);

/* Whether the body has a Content-Encoding, such as gzip. */
bool head_encoded(const struct head *head);

/* Return: the method that a text begins with, which may be half a head: as head.method. */
unsigned head_method(const char *text);

/* Whether a header's name may have the character. */
bool head_is_token(char c);

/* ---- chunks.c ------------------------------------------------------------ */

struct chunks {
	int state;
	uint64_t room;			/* bytes that the body may have from here on */
	uint64_t left;			/* bytes of the chunk that are to come */
	unsigned passed_over;		/* characters since the last chunk */
	bool end;			/* of the body: nothing more is read */
};

/*
 * Reads the next part of a body in chunks.
 * @chunks: zero at first, but for its room.
 * @framing: receives the bytes at the beginning of @text that are not the body's.
 * @data: receives the bytes behind them that are.
 * Return: 0; -EBADMSG it is broken; -EFBIG it has more bytes than it may have.
 */
int chunks_read(struct chunks *chunks, const char *text, size_t bytes, size_t *framing,
		size_t *data);

/* ---- connection.c -------------------------------------------------------- */

/* A client's request, and its answer.  It lives until the answer is sent or the client is gone. */
struct request {
	const struct endpoint *endpoint;
	struct head head;
	unsigned char *body;
	size_t bytes;			/* of the body */
	size_t space;			/* of its memory */
	size_t counted;			/* in the server's bytes under way */
	struct slot *slot;		/* that works on it */
	struct evbuffer *headers;	/* more headers of the answer */
	struct evbuffer *out;		/* the answer's body */
};

#define FIGURES_BYTES (1u << 20)	/* of answers without a task, beyond opt.memory */

extern const struct answer_code {
	int code;
	const char *phrase;
} answer_codes[ANSWER_CODES];

/* @fd: is closed with the connection.  Return: false: no memory. */
bool connection_begin(struct loop *loop, int fd);
/* Whether one has a request at work, or an answer to send. */
bool connections_wait(const struct loop *loop);
/*
 * Closes the one that has been idle for longest, if that is --linger, and asks for nothing by now.
 * Return: whether it did.
 */
bool connections_make_space(struct loop *loop);
void connections_stop(struct loop *loop);	/* the loop's stop_ns is set */
void connections_close(struct loop *loop);

void request_drop_body(struct request *req);
/* Counts the answer's body.  Return: false: there are too many bytes under way. */
bool request_count_answer(struct request *req);
void request_header(struct request *req, const char *name, const char *value);
void request_answer(struct request *req, int code, const char *type);

/* ---- slot.c -------------------------------------------------------------- */

/* One request's job and memory.  Without a free slot a request is answered 503. */
struct slot {
	union {
		struct rnl_job job;
		struct rnl_request request;	/* in STEP_BATCH; begins with its job */
	};
	struct slot *next;		/* while it is free */
	const struct endpoint *endpoint;
	struct request *req;		/* NULL: it is answered, or its client is gone */
	int result;			/* of the task's last step */
	enum step { STEP_ISSUE, STEP_BATCH, STEP_FINISH } step;
	bool small;			/* the next step is STEP_BATCH */
	size_t bytes;			/* of the body */
	int64_t came_ns;		/* the request */
	int64_t began_ns;		/* the job's function; 0: not called */
	unsigned worker;		/* that called it */

	/* Each has space for any task: see slot.c. */
	unsigned char *in;		/* pinned: at first the body */
	unsigned char *out;		/* pinned: in the end the answer */
	unsigned char *device_in;	/* scratch of the job; without jobs memory of the slot */
	unsigned char *device_out;

	struct {
		uint32_t width, height;
		size_t png_bytes;
	} image;
};

/* Bytes of each of a slot's buffers. */
size_t slot_buffer_bytes(const struct options *opt);

int slots_create(struct loop *loop);
void slots_destroy(struct loop *loop);

/* Return: a slot; NULL if all are in use. */
struct slot *slot_get(struct loop *loop);
void slot_put(struct loop *loop, struct slot *slot);

/* The slot whose job that is; NULL: none. */
const struct slot *slot_find(const struct server *server, const struct rnl_job *job);

/* ---- tasks.c ------------------------------------------------------------- */

/*
 * Steps return 0; -EBADMSG the body is broken; -EFBIG it is more than this server takes; or
 * another negative errno, for which the server is to blame.
 */
struct task {
	enum span_kind kind;		/* of issue() */
	/* Issues the device work; a worker calls it, or what the handler has instead. */
	int (*issue)(struct slot *slot);
	/* CPU work after the device work, called as issue() is; may be NULL. */
	int (*finish)(struct slot *slot);
	/* Writes the answer; the loop calls it.  Return: its Content-Type, or NULL: no memory. */
	const char *(*write)(struct slot *slot, struct evbuffer *out);
};

extern const struct task wc_task, edges_task, crash_task, hang_task;

size_t wc_buffer_bytes(const struct options *opt);
size_t edges_buffer_bytes(const struct options *opt);

/* ---- small.c ------------------------------------------------------------- */

/* Creates the server's batcher, if it is to have one. */
int small_create(struct server *server);
/* Bytes that it page-locks. */
size_t small_pinned_bytes(const struct options *opt);

bool small_takes(const struct server *server, uint32_t width, uint32_t height);

/* Computes the edges of the slot's decoded picture in a batch.  The loop calls it. */
int small_begin(struct slot *slot);
/* Takes the edges from the batch.  Return: the result. */
int small_end(struct slot *slot);

/* ---- image.c ------------------------------------------------------------- */

#define IMAGE_SIDE_MAX 16384	/* pixels in a row, and rows */

/*
 * Decodes a PNG of any kind, or a PGM or PPM with 8 bits a sample, to grey pixels: a byte
 * each, row after row.
 * @file: is changed.  @pixels: space for @max_pixels.
 * Return: 0; -EBADMSG the file is broken or of another kind; -EFBIG it has more pixels, or a
 *	side longer than IMAGE_SIDE_MAX.
 */
int image_decode(unsigned char *file, size_t bytes, unsigned char *pixels, size_t max_pixels,
		 uint32_t *width, uint32_t *height);

/* Return: 0; -EBADMSG it has no pixels; -EFBIG it has too many. */
int image_check_size(uint32_t width, uint32_t height, size_t max_pixels);

/* Return: the most bytes that a PNG of @pixels pixels has. */
size_t image_png_bytes_max(size_t pixels);

/* @bytes: space at @png; receives its length.  Return: 0; -ENOMEM. */
int image_encode(const unsigned char *pixels, uint32_t width, uint32_t height, unsigned char *png,
		 size_t *bytes);

/* ---- sift.c -------------------------------------------------------------- */

/*
 * Drops all chunks of a PNG that its picture does not need.
 * @file: begins with a PNG's signature; is changed.  @bytes: receives what is left.
 * Return: 0; -EBADMSG the file is broken, or its data inflates to more than its pixels need;
 *	-EFBIG as image_decode(); -ENOMEM.
 */
int png_sift(unsigned char *file, size_t *bytes, size_t max_pixels);

/* ---- handler.c ----------------------------------------------------------- */

/* Does the slot's task, then calls slot_answer(); the loop calls it. */
void async_start(struct slot *slot);
void sync_start(struct slot *slot);
void thread_start(struct slot *slot);

/* Reads the slots that threads are done with. */
void threads_reap(evutil_socket_t fd, short what, void *arg);

/* Goes on with a job that the completion queue gave back. */
void async_reaped(struct rnl_job *job);

/* ---- routes.c ------------------------------------------------------------ */

struct route {
	const char *path;		/* NULL: any other */
	unsigned methods;		/* enum evhttp_cmd_type */
	const char *allow;		/* the methods, as a header */
	void (*handle)(const struct endpoint *endpoint, struct request *req);
	const struct task *task;
};

extern const struct route routes[NR_ROUTES];

void routes_set(struct loop *loop);
const struct endpoint *routes_find(const struct loop *loop, const char *path);

/* Whether there is such a path, it has that method, and the body is not encoded. */
bool routes_take(const struct endpoint *endpoint, const struct head *head);
/* Handles a request that is whole, or that is not taken. */
void routes_handle(struct request *req);
/* Answers with an error. */
void request_refuse(struct request *req, int code, const char *wrong);
/* The request's time is over: answers it, and no longer waits for its work. */
void request_late(struct request *req);
/* Its client is gone. */
void request_left(struct request *req);

/* Appends this process's health, as JSON.  Return: 1 it is well, 0 it is not, or -1: no memory. */
int health_write_own(const struct server *server, struct evbuffer *out);

/* Answers the slot's request, with an error if @result is one, and frees the slot. */
void slot_answer(struct slot *slot, int result);

/* Appends a JSON object, and frees it.  Return: as task.write. */
const char *answer_json(struct json_t *json, struct evbuffer *out);

/* The name of a state of the pool: enum rnl_health_state. */
const char *health_name(unsigned state);

/* ---- page.c -------------------------------------------------------------- */

#define PAGE_POLICY_BYTES 256

/*
 * Appends the page.
 * @policy: receives the Content-Security-Policy of this copy.
 * Return: 0 or a negative errno.
 */
int page_write(struct evbuffer *out, char policy[PAGE_POLICY_BYTES]);

/* ---- form.c -------------------------------------------------------------- */

/*
 * Takes the one field of a form out of its body.  A body that is no form stays as it is.
 * @type: the request's Content-Type; may be NULL.
 * @body: receives the field's content; may be NULL if it is empty.
 * @bytes: the length of the body; receives that of the content.
 * Return: NULL; or what is wrong with the form.
 */
const char *form_unwrap(const char *type, unsigned char *body, size_t *bytes);

/* ---- live.c, spans.c ----------------------------------------------------- */

/* Return: the figures of GET /live; NULL: no memory. */
struct json_t *live_json(const struct server *server);	/* of all processes */
struct json_t *live_own(const struct server *server);

/* Notes that a worker had a job; the loop calls it. */
void spans_note(struct spans *spans, unsigned worker, enum span_kind kind, int64_t begin_ns,
		int64_t end_ns);

/* Return: the columns of @nr_workers, as JSON; NULL: no memory. */
struct json_t *spans_json(const struct server *server, unsigned nr_workers, int64_t now_ns);

/* How much of the latest jobs overlapped. */
struct spans_overlap {
	uint64_t nr_jobs, busy_ns, sum_ns;	/* busy: with at least one job */
};

/* Adds to @overlap, which is 0.  Returns 0 or -ENOMEM. */
int spans_overlap(const struct server *server, int64_t now_ns, struct spans_overlap *overlap);

/* ---- metrics.c ----------------------------------------------------------- */

unsigned metrics_nr_open(const struct server *server);	/* in all loops */
void metrics_count_answer(struct metrics *metrics, int route, int code);
void metrics_count_time(struct metrics *metrics, int route, int64_t took_ns);

/* Counts of all loops.  @code, @bucket: indices. */
unsigned long long metrics_answers(const struct server *server, int route, int code);
unsigned long long metrics_took(const struct server *server, int route, int bucket);
/* The longest time in a bucket; the last bucket has none. */
uint64_t metrics_bound_us(int bucket);
unsigned metrics_nr_slots_used(const struct server *server);

/* Appends the figures of the server and of the pool, in Prometheus' text format. */
int metrics_write_own(const struct server *server, struct evbuffer *out);
/* The same, of all processes. */
int metrics_write(const struct server *server, struct evbuffer *out);

#endif /* HTTP_SERVER_H */
