/* SPDX-License-Identifier: MIT */
/*
 * gwc_mpi: gwc on many machines, with MPI.  `mpirun gwc --mpi` executes this program.
 *
 * DESIGN
 * Rank 0 gets the sizes of all files, and sends names and sizes to the other ranks.  An MPI window
 * in rank 0's memory has the number of the next shard; a rank that needs a shard increments that
 * number.  So a slow rank takes fewer shards, and no rank waits for another one.  A rank counts its
 * shards with a pool, like gwc counts files, and sends a report of each shard to rank 0.  Rank 0
 * prints the counts of the reports, in the order of the files.
 *
 * Producers take shards, the consumer sends reports, and rank 0's main thread receives them.  A
 * lock lets one thread call MPI at a time (MPI_THREAD_SERIALIZED).  No thread waits in MPI for a
 * rank that computes, because a waiting MPI keeps a CPU busy.  On networks without hardware
 * support the counter only works while rank 0 is in MPI, so rank 0's main thread polls often.
 *
 * Rank 0 reads the streams, before it takes other shards: only rank 0 has mpirun's standard input.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "common/ranks.h"
#include "shards.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <runnel/device.h>
#include <runnel/stats.h>

#define MIB (UINT64_C(1) << 20)
#define SHARDS_EACH 16		/* shards per rank, without --shard */
#define SHARD_MAX (256 * MIB)
#define BCAST_MAX (1 << 30)	/* MPI's counts are ints */
#define LOOK_NS 200000		/* between two polls for reports */

/* A rank's statistics, for --stats. */
struct figures {
	uint64_t shards, bytes, ns;
	uint32_t workers;
	char device[84];
};

struct rank {
	int number, nr_ranks;
	struct gwc_options opt;
	struct rnl_pool *pool;
	struct gwc_inputs inputs;
	struct shards shards;
	struct figures figures;

	pthread_mutex_t lock;		/* for calls of MPI, and for `reports` */
	MPI_Win window;
	unsigned stream;		/* rank 0: where the search for the next stream continues */
	struct shard_report report;	/* the consumer's report of its current shard */
	struct shard_report **reports;	/* rank 0: a report per shard, until it is printed */
	struct shard_report inbox;	/* rank 0: a received report */
};

/* ---- the inputs ---------------------------------------------------------- */

/* Rank 0's first broadcast. */
struct terms {
	uint64_t nr;			/* inputs */
	uint64_t name_bytes;		/* of all names, each with its NUL */
	uint64_t shard_bytes;
	uint64_t nonspace, stats;	/* options that must be equal in all ranks */
};

struct look {
	uint64_t size;
	uint64_t stream;
};

static void *must_have(void *mem)
{
	program_must(mem ? 0 : -ENOMEM, "the list of files");
	return mem;
}

static void tell(void *mem, uint64_t bytes)
{
	for (char *at = mem; bytes; ) {
		const int part = bytes < BCAST_MAX ? (int)bytes : BCAST_MAX;

		ranks_must(MPI_Bcast(at, part, MPI_BYTE, 0, MPI_COMM_WORLD), "MPI_Bcast");
		at += part;
		bytes -= (uint64_t)part;
	}
}

static uint64_t shard_bytes(const struct rank *r)
{
	uint64_t bytes = 0;

	if (r->opt.shard)
		return r->opt.shard;
	for (unsigned i = 0; i < r->inputs.nr; i++)
		bytes += r->inputs.list[i].size;
	bytes = (bytes / ((uint64_t)r->nr_ranks * SHARDS_EACH) + MIB) / MIB * MIB;
	return bytes < SHARD_MAX ? bytes : SHARD_MAX;
}

static const char *name_of(const struct gwc_input *in)
{
	return in->name ? in->name : "";	/* standard input: only rank 0 opens it */
}

/* Sends the inputs from rank 0 to the other ranks.  All ranks compute the same shards from them. */
static void share_inputs(struct rank *r)
{
	struct terms terms = { r->inputs.nr, 0, shard_bytes(r), r->opt.nonspace,
			       r->opt.stats };
	struct gwc_input *list = r->inputs.list;
	struct look *looks;
	char *names, *name;

	for (unsigned i = 0; i < r->inputs.nr; i++)
		terms.name_bytes += strlen(name_of(&list[i])) + 1;
	tell(&terms, sizeof(terms));
	looks = must_have(calloc(terms.nr + 1, sizeof(*looks)));
	name = names = must_have(malloc(terms.name_bytes + 1));
	for (unsigned i = 0; i < r->inputs.nr; i++) {
		looks[i] = (struct look){ list[i].size, list[i].stream };
		name = stpcpy(name, name_of(&list[i])) + 1;
	}
	tell(looks, terms.nr * sizeof(*looks));
	tell(names, terms.name_bytes);
	if (r->number) {
		list = must_have(calloc(terms.nr + 1, sizeof(*list)));
		name = names;
		for (unsigned i = 0; i < terms.nr; i++, name += strlen(name) + 1)
			list[i] = (struct gwc_input){ .name = must_have(strdup(name)),
						      .stream = looks[i].stream,
						      .size = looks[i].size };
		r->inputs = (struct gwc_inputs){ .list = list, .nr = (unsigned)terms.nr };
		r->opt.nonspace = terms.nonspace;
		r->opt.stats = terms.stats;
	}
	free(looks);
	free(names);
	shards_cut(&r->shards, &r->inputs, terms.shard_bytes);
}

/* ---- the counter --------------------------------------------------------- */

static void open_counter(struct rank *r)
{
	uint64_t *counter;

	ranks_must(MPI_Win_allocate(r->number ? 0 : sizeof(*counter), sizeof(*counter), MPI_INFO_NULL,
				    MPI_COMM_WORLD, &counter, &r->window), "MPI_Win_allocate");
	ranks_must(MPI_Win_set_errhandler(r->window, MPI_ERRORS_RETURN), "error handler");
	ranks_must(MPI_Win_lock_all(MPI_MODE_NOCHECK, r->window), "MPI_Win_lock_all");
	if (!r->number) {
		*counter = 0;
		ranks_must(MPI_Win_sync(r->window), "MPI_Win_sync");
	}
	ranks_must(MPI_Barrier(MPI_COMM_WORLD), "MPI_Barrier");
}

static void close_counter(struct rank *r)
{
	ranks_must(MPI_Win_unlock_all(r->window), "MPI_Win_unlock_all");
	ranks_must(MPI_Win_free(&r->window), "MPI_Win_free");
}

static uint64_t count_up(struct rank *r)
{
	const uint64_t one = 1;
	uint64_t before;

	pthread_mutex_lock(&r->lock);
	ranks_must(MPI_Fetch_and_op(&one, &before, MPI_UINT64_T, 0, 0, MPI_SUM, r->window),
		   "MPI_Fetch_and_op");
	ranks_must(MPI_Win_flush(0, r->window), "MPI_Win_flush");
	pthread_mutex_unlock(&r->lock);
	return before;
}

/* Returns rank 0's next stream.  If there is none, and on other ranks: the number of shards. */
static unsigned next_stream(struct rank *r)
{
	while (r->stream < r->shards.nr && (r->number || !r->shards.list[r->stream].stream))
		r->stream++;
	return r->stream < r->shards.nr ? r->stream++ : r->stream;
}

/* The inputs' more(): takes the next shard. */
static bool take_shard(struct gwc_inputs *inputs, void *arg)
{
	struct rank *r = arg;
	unsigned number = next_stream(r);

	if (number == r->shards.nr) {
		const uint64_t next = count_up(r);

		if (next >= r->shards.nr_shared)
			return false;
		number = r->shards.shared[next];
	}
	inputs->next = r->shards.list[number].from;
	inputs->end = r->shards.list[number].to;
	inputs->shard = number;
	r->figures.shards++;
	return true;
}

/* ---- reports ------------------------------------------------------------- */

/* Rank 0: keeps a report until it is printed.  Context: holds the lock. */
static void keep(struct rank *r, const struct shard_report *report)
{
	const size_t bytes = shard_report_bytes(report);

	r->reports[report->shard] = memcpy(must_have(malloc(bytes)), report, bytes);
}

/* The consumer: adds a part to its shard's report; sends the report after the last part. */
static void consume(void *arg, const struct gwc_part *part)
{
	struct rank *r = arg;

	r->figures.bytes += part->bytes;
	if (!shard_report_add(&r->report, &r->shards, &r->inputs, part))
		return;
	pthread_mutex_lock(&r->lock);
	if (r->number)
		ranks_must(MPI_Send(&r->report, (int)shard_report_bytes(&r->report), MPI_BYTE, 0, 0,
				    MPI_COMM_WORLD), "MPI_Send");
	else
		keep(r, &r->report);
	pthread_mutex_unlock(&r->lock);
	r->report.nr = 0;
}

static void *count(void *arg)
{
	struct rank *r = arg;
	const uint64_t since_ns = program_now_ns();

	gwc_count_all(r->pool, &r->inputs, &r->opt, consume, r);
	r->figures.ns = program_now_ns() - since_ns;
	return NULL;
}

/* Returns true if it received a report.  Context: holds the lock. */
static bool receive(struct rank *r)
{
	MPI_Status status;
	int there;

	ranks_must(MPI_Iprobe(MPI_ANY_SOURCE, 0, MPI_COMM_WORLD, &there, &status), "MPI_Iprobe");
	if (!there)
		return false;
	ranks_must(MPI_Recv(&r->inbox, sizeof(r->inbox), MPI_BYTE, status.MPI_SOURCE, 0,
			    MPI_COMM_WORLD, MPI_STATUS_IGNORE), "MPI_Recv");
	keep(r, &r->inbox);
	return true;
}

static void nap(void)
{
	nanosleep(&(struct timespec){ 0, LOOK_NS }, NULL);
}

/* Rank 0: prints the reports of all shards, in order, as they arrive. */
static void print_reports(struct rank *r, struct gwc_tally *tally)
{
	for (unsigned i = 0; i < r->shards.nr; ) {
		struct shard_report *report;
		bool received;

		pthread_mutex_lock(&r->lock);
		received = receive(r);
		report = r->reports[i];
		pthread_mutex_unlock(&r->lock);
		if (report) {
			shard_report_tally(report, &r->shards, &r->inputs, tally);
			free(report);
			i++;
		} else if (!received) {
			program_flush();
			nap();
		}
	}
}

/* ---- start and stop ------------------------------------------------------ */

/* Waits for all ranks.  Polls, because the other ranks need rank 0 to call MPI. */
static void meet(void)
{
	MPI_Request request;
	int met;

	ranks_must(MPI_Ibarrier(MPI_COMM_WORLD, &request), "MPI_Ibarrier");
	for (;;) {
		ranks_must(MPI_Test(&request, &met, MPI_STATUS_IGNORE), "MPI_Test");
		if (met)
			return;
		nap();
	}
}

static void print_stats(struct rank *r, const struct gwc_tally *tally, uint64_t ns)
{
	const double bytes = (double)tally->total.bytes;
	struct rnl_pool_stats stats = RNL_POOL_STATS_INIT;
	struct rnl_device_info info = RNL_DEVICE_INFO_INIT;
	struct figures *all = must_have(calloc((size_t)r->nr_ranks, sizeof(*all)));

	program_must(rnl_device_describe(r->pool, NULL, 0, &info), "the pool's device");
	program_must(rnl_pool_read_stats(r->pool, RNL_ALL_WORKERS, &stats), "the pool's figures");
	r->figures.workers = stats.nr_workers;
	snprintf(r->figures.device, sizeof(r->figures.device), info.cuda ? "%s, cuda:%d" : "%s",
		 program_device_name(&info), info.ordinal);
	ranks_must(MPI_Gather(&r->figures, sizeof(*all), MPI_BYTE, all, sizeof(*all), MPI_BYTE, 0,
			      MPI_COMM_WORLD), "MPI_Gather");
	if (!r->number) {
		program_flush();
		fprintf(stderr, "counted:  %.1f MB in %u files, %.3f s, %.0f MB/s\n", bytes / 1e6,
			r->inputs.nr, (double)ns / 1e9, bytes * 1e3 / (double)ns);
		for (int i = 0; i < r->nr_ranks; i++)
			fprintf(stderr, "rank %d:   %s, %u workers; %" PRIu64 " of %u shards, "
				"%.1f MB, %.3f s\n", i, all[i].device, all[i].workers, all[i].shards,
				r->shards.nr, (double)all[i].bytes / 1e6, (double)all[i].ns / 1e9);
	}
	free(all);
}

int main(int argc, char **argv)
{
	static struct rank r = { .lock = PTHREAD_MUTEX_INITIALIZER };
	struct program_operands files = { NULL, 0 };
	struct gwc_tally tally = { .opt = &r.opt };
	char device[16];
	pthread_t counting;
	uint64_t since_ns;

	program_begin();
	gwc_options_parse(&r.opt, &files, argc, argv);
	ranks_begin(MPI_THREAD_SERIALIZED, &r.number, &r.nr_ranks);
	r.opt.device = ranks_device(r.opt.device, device);
	r.pool = gwc_pool(&r.opt);
	if (!r.number)
		gwc_inputs_open(&r.inputs, &r.opt, files.names, files.nr);
	share_inputs(&r);
	open_counter(&r);

	since_ns = program_now_ns();
	r.inputs.next = r.inputs.end = (struct gwc_place){ 0, 0 };
	r.inputs.more = take_shard;
	r.inputs.more_arg = &r;
	if (!r.number)
		r.reports = must_have(calloc(r.shards.nr + 1, sizeof(struct shard_report *)));
	program_must(-pthread_create(&counting, NULL, count, &r), "a thread");
	if (!r.number) {
		gwc_tally_begin(&tally, &r.inputs);
		print_reports(&r, &tally);
		gwc_tally_end(&tally, &r.inputs);
		program_flush();	/* MPI_Finalize() would not report errors */
	}
	pthread_join(counting, NULL);
	meet();
	if (r.opt.stats)
		print_stats(&r, &tally, program_now_ns() - since_ns);
	close_counter(&r);
	rnl_pool_destroy(r.pool);
	shards_free(&r.shards);
	gwc_inputs_close(&r.inputs);
	free(r.reports);
	ranks_must(MPI_Finalize(), "MPI_Finalize");
	return tally.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
