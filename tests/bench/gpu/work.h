/* SPDX-License-Identifier: MIT */
/*
 * Many concurrent jobs: by threads of hand-written code, by runnel's pool, and by a typical mutex
 * pool.
 *
 *	hand.c	a thread, its stream, marks by event and by flag
 *	graphs.c	graphs of kernels
 *	groups.c	an expert's work for such a thread: graphs, batched copies, slabs
 *	resident.c	a resident kernel that answers requests
 *	copies.c	copies both ways
 *	producers.c	producers, which submit requests to a pool
 *	pool.c		runnel
 *	mutex.c		a mutex, a condition variable, a sync for each job
 */
#ifndef GPU_WORK_H
#define GPU_WORK_H

#include <pthread.h>
#include <stdatomic.h>

#include "gpu/gpu.h"

#define GPU_DEPTH_MAX 256

/* ---- hand.c ---------------------------------------------------------- */

/* Makes streams in two green contexts: one stream on @nr_sms SMs, the others on the rest. */
void gpu_green_streams(int ordinal, unsigned nr_sms, cudaStream_t *kept, cudaStream_t *rest,
		       unsigned nr_rest);

/* Threads, each with its own stream, that all do some work between a begin and an end. */
struct gpu_crew {
	int ordinal;
	enum rnl_stream_kind kind;
	void (*work)(void *arg, unsigned index, cudaStream_t stream);
	void *arg;
	pthread_barrier_t start, end;
	atomic_uint next;		/* index */
};

void gpu_crew_start(struct gpu_crew *crew, int ordinal, enum rnl_stream_kind kind, unsigned nr,
		    void (*work)(void *arg, unsigned index, cudaStream_t stream), void *arg);
void gpu_crew_begin(struct gpu_crew *crew);
void gpu_crew_end(struct gpu_crew *crew);	/* waits until all have done the work */

enum gpu_mark {
	GPU_SYNC,		/* a sync of the stream for each job */
	GPU_EVENT,		/* an event, which is queried */
	GPU_EVENT_SYNC,		/* an event, in cudaEventSynchronize() */
	GPU_FLAG		/* a word that the stream writes */
};

struct gpu_hand_variant {
	enum gpu_mark mark;
	unsigned jobs;		/* jobs that one mark covers */
	unsigned depth;		/* jobs in flight; a multiple of `jobs` */
	unsigned spare;		/* slots beyond `depth`, so that a place in flight gets other slots */
};

/* Writes a name like "event/8 d64". */
void gpu_hand_name(const struct gpu_hand_variant *variant, char *text, size_t bytes);

/* Polls until the stream has written @value, or a later one, to the word. */
void gpu_await_word(const uint32_t *word, uint32_t value);

struct gpu_team;

/*
 * Starts threads, each with its own stream; they sleep until there is work. @check: the work has an
 * output to check, like J.
 */
struct gpu_team *gpu_team_start(int ordinal, enum rnl_stream_kind kind, unsigned nr_threads,
				gpu_issue_fn *issue, bool check);

/* Sets other work, or another J, for an idle team. */
void gpu_team_issue(struct gpu_team *team, gpu_issue_fn *issue, bool check);
/* @depth: limit of the variants' depth from now on; the memory is for @depth J of each thread. */
void gpu_team_shape(struct gpu_team *team, const struct gpu_shape *shape, unsigned depth,
		    uint32_t *pinned, uint32_t *dev);
/* Sets the kernel of all its slots, whose next J is the first. */
void gpu_team_kernel(struct gpu_team *team, uint32_t kernel);
/* Sets the streams of its threads; NULL: each thread's own. */
void gpu_team_streams(struct gpu_team *team, const cudaStream_t *streams);

void gpu_team_begin(struct gpu_team *team, const struct gpu_hand_variant *variant);

/* Returns the jobs per second since the begin. */
double gpu_team_end(struct gpu_team *team);
double gpu_team_rate(struct gpu_team *team, const struct gpu_hand_variant *variant, unsigned ms);

/* Of several teams, one for each GPU, at the same time. */
double gpu_teams_rate(struct gpu_team *const *teams, unsigned nr,
		      const struct gpu_hand_variant *variant, unsigned ms);

/* ---- graphs.c -------------------------------------------------------- */

#define GPU_GRAPH_NODES 64

struct gpu_graph {			/* zeroed: not made yet */
	CUgraph graph;
	CUgraphExec exec;
	CUgraphNode nodes[GPU_GRAPH_NODES];
};

/*
 * Sets a node before a launch; before the first launch it adds the node.  @args: the kernel's struct.
 * @after, @nr_after: the adjacent nodes, added earlier, that it comes after; they stay the same.
 */
void gpu_graph_set(struct gpu_graph *graph, unsigned node, const struct rnl_kernel *kernel,
		   unsigned blocks, unsigned threads, void *args, unsigned after, unsigned nr_after);
void gpu_graph_launch(struct gpu_graph *graph, cudaStream_t stream);

/* ---- groups.c -------------------------------------------------------- */

#define GPU_GROUP_JOBS 32

/* Issue J in groups: the last J of GPU_GROUP_JOBS issues the group. */
gpu_issue_fn gpu_issue_graphs;	/* a graph of kernels between movers */
gpu_issue_fn gpu_issue_batches;	/* launches between batched copies */
/* One J: a graph of movers and its kernel; or, as kernel GPU_ROUND, on page-locked memory. */
gpu_issue_fn gpu_issue_graph, gpu_issue_reach;
/* The variant for groups: a mark covers GPU_GROUP_JOBS jobs. */
extern const struct gpu_hand_variant gpu_groups;
/* The same, but each node of a graph gets the same J in each launch, which takes the driver less time. */
extern const struct gpu_hand_variant gpu_groups_same;

#define GPU_SLAB_MAX 1024	/* requests of a slab */
#define GPU_SLAB_TEAM 4		/* threads */

/* Starts a team for slabs of requests of 4 KB, on the current GPU. */
struct gpu_team *gpu_slabs_start(int ordinal);

/* @nr: requests of a slab. @reach: no copies, the kernel accesses page-locked memory. */
double gpu_slabs_rate(struct gpu_team *const *teams, unsigned nr_teams, unsigned nr, bool reach,
		      unsigned ms);

/* ---- resident.c ------------------------------------------------------ */

struct gpu_resident {
	struct gpu_mailbox box;
	int ordinal;
	cudaStream_t stream;
	uint32_t seq;			/* of the last request */
	/* With leases: */
	uint32_t *first;		/* page-locked: number of the next request */
	uint32_t launched;
	atomic_bool over;
	pthread_t keeper;
};

/* @bytes: of a request, and of its answer. */
void gpu_resident_open(struct gpu_resident *resident, int ordinal, size_t bytes);

/* Starts the kernel. @lease_ns: time of a lease; 0: one kernel until the end. */
void gpu_resident_begin(struct gpu_resident *resident, uint64_t lease_ns);

/* Does one request. @words, @answer: of whole pieces. */
void gpu_resident_ask(struct gpu_resident *resident, const uint32_t *words, uint32_t *answer);
void gpu_resident_end(struct gpu_resident *resident);

/* ---- copies.c -------------------------------------------------------- */

struct gpu_copies {
	void *in, *out;			/* page-locked chunks */
	size_t bytes;			/* size of a chunk */
	unsigned nr_chunks;		/* allocated chunks */
	unsigned nr;			/* chunks that a GPU copies each way */
	unsigned nr_gpus;
	void *dev[BENCH_GPUS_MAX];	/* two chunks of each GPU */
	struct gpu_crew crews[BENCH_GPUS_MAX];
};

/* Starts the threads; allocates chunks, unless the fields before nr_gpus are set. */
void gpu_copies_start(struct gpu_copies *copies, const struct bench_options *opt, unsigned nr_gpus);

/* Copies by the first GPUs.  Returns GB per second, both ways together. */
double gpu_copies_rate(struct gpu_copies *copies, unsigned nr_gpus);

/* ---- producers.c ---------------------------------------------------------- */

/* Begins on a cache line, like a server's request. */
struct gpu_request {
	struct rnl_job job;
	struct gpu_slot slot;
	struct rnl_pool *pool;		/* pool.c: not the feed's; NULL: it is */
	void *const *devs;		/* pool.c: start of each device's memory; NULL: one */
	unsigned place;			/* a device of the pool, from 1; 0: any */
	struct gpu_request *next;	/* mutex.c */
	struct gpu_producer *producer;
	bool done;
} __attribute__((aligned(64)));

struct gpu_producer {
	pthread_t thread;
	struct gpu_feed *feed;
	struct gpu_request *requests;
	unsigned nr;
	uint64_t done, began, ended;
	struct rnl_cq *cq;		/* pool.c */
	pthread_mutex_t lock;		/* mutex.c: guards its requests' `done` */
	pthread_cond_t some_done;
} __attribute__((aligned(64)));

enum gpu_done {
	GPU_WAIT,		/* rnl_job_wait() for the oldest request */
	GPU_CQ,			/* a completion queue for each producer */
	GPU_CQ_MANY,		/* ... and rnl_submit_many() of the reaped jobs */
	GPU_CQ_COPY,		/* like GPU_CQ, but J is rnl_copy() and rnl_launch() */
	GPU_CQ_REACH,		/* like GPU_CQ, but J is gpu_issue_reach() */
	GPU_CQ_GATHER,		/* like GPU_CQ_COPY, by jobs that gather */
	GPU_CQ_RECORD,		/* like GPU_CQ, but gpu_nr_kernels kernels, or J, are recorded */
	GPU_CQ_REPLAY		/* like GPU_CQ_RECORD, by jobs that also gather */
};

/* Returns true if the results are checked. */
static inline bool gpu_looks(enum gpu_done done)
{
	return done < GPU_CQ_RECORD;
}

/* Submits requests until the feed stops, and waits for all of them. */
typedef void gpu_produce_fn(struct gpu_producer *producer);

struct gpu_feed {
	gpu_produce_fn *produce;
	void *arg;			/* the pool */
	enum gpu_done done;		/* pool.c */
	struct gpu_request *requests;
	unsigned nr_requests;
	pthread_barrier_t start;
	atomic_bool stop;
	/* With gpu_produce_ring(): */
	void (*submit)(struct gpu_producer *producer, struct gpu_request *request);
	void (*wait)(struct gpu_producer *producer, struct gpu_request *request);
};

struct gpu_request *gpu_requests(unsigned nr);

/* Waits for the oldest request, checks it, and submits it again. */
gpu_produce_fn gpu_produce_ring;

/* Returns jobs per second. */
double gpu_feed(struct gpu_feed *feed, unsigned nr_producers, unsigned ms);

static inline bool gpu_feed_stops(struct gpu_feed *feed)
{
	/* relaxed: publishes no data */
	return atomic_load_explicit(&feed->stop, memory_order_relaxed);
}

/* ---- pool.c ---------------------------------------------------------- */

extern unsigned gpu_nr_kernels;		/* kernels of a replayed job; 1: J */
extern const struct gpu_request *gpu_worker_requests; /* by worker: whose slot it records */

double gpu_pool_rate(struct rnl_pool *pool, struct gpu_request *requests, unsigned nr_requests,
		     enum gpu_done done, unsigned nr_producers, unsigned ms);

/* Jobs' functions: J, or gpu_issue_reach(), for the request that contains the job. */
int gpu_run_j(struct rnl_job *job);
int gpu_run_reach(struct rnl_job *job);

/* ---- mutex.c --------------------------------------------------------- */

struct gpu_mutex;

struct gpu_mutex *gpu_mutex_start(int ordinal, enum rnl_stream_kind kind, unsigned nr_threads);
double gpu_mutex_rate(struct gpu_mutex *pool, struct gpu_request *requests, unsigned nr_requests,
		      unsigned nr_producers, unsigned ms);

/* Does one J, from the submit to the wait's return. */
void gpu_mutex_one(struct gpu_mutex *pool, struct gpu_producer *producer,
		   struct gpu_request *request);
void gpu_mutex_producer(struct gpu_producer *producer);

#endif
