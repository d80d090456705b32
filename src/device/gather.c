/* SPDX-License-Identifier: MIT */
/* Operations that are noted now and issued together later; gather.h has the design. */
#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>

#include "device/gather.h"
#include "device/units.h"
#include "sys/sizes.h"

#define NOTED_MAX 256u
#define ARGS_MAX (64u << 10)	/* bytes of the launches' arguments; one kernel has fewer */
#define ARGS_ALIGNMENT 16u

int rnl__gather_init(struct rnl__gather *g, rnl__gather_failed_fn *failed,
		     rnl__gather_left_out_fn *left_out)
{
	*g = (struct rnl__gather){
		.noted = malloc(NOTED_MAX * sizeof(*g->noted)), .args = malloc(ARGS_MAX),
		.failed = failed, .left_out = left_out,
	};
	if (g->noted && g->args)
		return 0;
	rnl__gather_fini(g);
	return -ENOMEM;
}

void rnl__gather_fini(struct rnl__gather *g)
{
	free(g->noted);
	free(g->args);
	*g = (struct rnl__gather){ 0 };
}

void rnl__gather_begin(struct rnl__gather *g)
{
	g->on = true;
	g->first = g->nr;
	g->step = 0;
	g->error = 0;
}

/* ---- issue --------------------------------------------------------------- */

static const struct rnl__device_ops *own_ops(void)
{
	return rnl__thread.stream->device->ops;
}

static int issue_one(const struct rnl__gather *g, const struct rnl__noted *noted)
{
	const struct rnl__device_ops *ops = own_ops();

	switch (noted->kind) {
	case RNL__NOTED_COPY:
		return ops->copy(&noted->copy);
	case RNL__NOTED_FILL:
		return ops->fill(noted->fill.dst, noted->fill.value, noted->fill.bytes);
	default:
		return ops->launch(noted->launch.kernel, noted->launch.grid, noted->launch.block,
				   g->args + noted->launch.args);
	}
}

/* Issues all copies of a step in one call.  Returns false if the caller must issue each one. */
static bool issue_copies(const struct rnl__gather *g, unsigned step)
{
	const struct rnl__copy *copies[NOTED_MAX];
	unsigned nr = 0;

	for (unsigned i = 0; i < g->nr; i++) {
		if (g->noted[i].step == step && g->noted[i].kind == RNL__NOTED_COPY)
			copies[nr++] = &g->noted[i].copy;
	}
	return nr > 1 && own_ops()->copy_all(copies, nr);
}

/* Fails an operation's job, and leaves out the job's operations that are not issued yet. */
static void gather_drop(struct rnl__gather *g, const struct rnl__noted *failed, int error)
{
	struct rnl_job *job = failed->job;

	for (unsigned i = 0; i < g->nr; i++) {
		struct rnl__noted *noted = &g->noted[i];

		if (noted->job != job || (noted->step <= failed->step && noted < failed))
			continue;
		if (noted->kind == RNL__NOTED_COPY)
			g->left_out(&noted->copy);
		noted->kind = RNL__NOTED_NONE;
	}
	if (job == rnl__thread.job)
		g->error = error;
	g->failed(job, error);
}

/* Issues the copies of a step, or all its other operations, one by one. */
static void issue_each(struct rnl__gather *g, unsigned step, bool copies)
{
	struct rnl_job *running = rnl__thread.job;

	for (unsigned i = 0; i < g->nr; i++) {
		const struct rnl__noted *noted = &g->noted[i];
		int ret;

		if (noted->step != step || noted->kind == RNL__NOTED_NONE ||
		    (noted->kind == RNL__NOTED_COPY) != copies)
			continue;
		/* The device stores its code in the job that made the call. */
		rnl__thread.job = noted->job;
		ret = issue_one(g, noted);
		rnl__thread.job = running;
		if (!ret)
			continue;
		/* Clear the unit's runtime error, else another job would be blamed for it. */
		if (rnl__thread.stream->device->info.cuda)
			(void)rnl__units_error();
		gather_drop(g, noted, ret);
	}
}

void rnl__gather_issue(struct rnl__gather *g)
{
	struct rnl__stream *stream = rnl__thread.stream;
	const uint64_t issued = stream->issued;

	for (unsigned step = 0; step <= g->last_step;) {
		const unsigned next = own_ops()->replay ? own_ops()->replay(g, step) : step;

		if (next != step) {
			rnl__figure_add(&g->nr_graphs, 1);
			step = next;
			continue;
		}
		issue_each(g, step, false);
		if (!(step & 1) && !issue_copies(g, step))
			issue_each(g, step, true);
		step++;
	}
	stream->issued = issued;	/* the operations were counted when they were noted */
	g->nr = g->args_bytes = g->first = 0;
	g->step = g->last_step = 0;
}

/* ---- note ---------------------------------------------------------------- */

static size_t gather_writes(const struct rnl__noted *n, const void **dst)
{
	const bool copies = n->kind == RNL__NOTED_COPY;

	*dst = copies ? n->copy.dst : n->fill.dst;
	return copies ? rnl__copy_extent(n->copy.dst_pitch, &n->copy) : n->fill.bytes;
}

static bool gather_reads(const struct rnl__noted *n, const void *mem, size_t bytes)
{
	return n->kind == RNL__NOTED_COPY &&
	       rnl__overlaps(n->copy.src, rnl__copy_extent(n->copy.src_pitch, &n->copy), mem,
			     bytes);
}

/* Returns true if one of the two writes memory that the other one touches. */
static bool clash(const struct rnl__noted *a, const struct rnl__noted *b)
{
	const void *a_dst, *b_dst;
	const size_t a_bytes = gather_writes(a, &a_dst), b_bytes = gather_writes(b, &b_dst);

	return rnl__overlaps(a_dst, a_bytes, b_dst, b_bytes) || gather_reads(a, b_dst, b_bytes) ||
	       gather_reads(b, a_dst, a_bytes);
}

/* Returns the step of the running job's next operation. */
static unsigned gather_step_of(const struct rnl__gather *g, const struct rnl__noted *noted)
{
	const bool launch = noted->kind == RNL__NOTED_LAUNCH;
	const unsigned step = g->step + ((g->step & 1) != launch);

	for (unsigned i = g->first; i < g->nr && !launch; i++) {
		if (g->noted[i].step == step && clash(&g->noted[i], noted))
			return step + 2;
	}
	return step;
}

/* Returns the gather of the running job's calls, with room for one more; NULL: none. */
static struct rnl__gather *own_gather(uint32_t args_bytes)
{
	struct rnl__gather *g = rnl__thread.stream->gather;

	if (!g || !g->on)
		return NULL;
	if (g->nr == NOTED_MAX || g->args_bytes + args_bytes > ARGS_MAX)
		rnl__gather_issue(g);
	return g;
}

/* Returns a place for the running job's next operation: gather_add() adds it. */
static struct rnl__noted *gather_place(const struct rnl__gather *g, enum rnl__noted_kind kind)
{
	struct rnl__noted *noted = &g->noted[g->nr];

	noted->job = rnl__thread.job;
	noted->kind = (uint16_t)kind;
	return noted;
}

static void gather_add(struct rnl__gather *g, struct rnl__noted *noted)
{
	noted->step = (uint16_t)gather_step_of(g, noted);
	g->step = noted->step;
	if (g->last_step < g->step)
		g->last_step = g->step;
	g->nr++;
	rnl__thread.stream->issued++;
}

/* Returns true if an operation, which was issued with result @ret, must be added to the notes. */
static bool joins_notes(int ret)
{
	return !ret && rnl__thread.stream->notes;
}

int rnl__gather_copy(const struct rnl__copy *copy)
{
	struct rnl__gather *g = own_gather(0);
	struct rnl__noted *noted;
	int ret;

	if (g && g->error)
		return g->error;
	if (g) {
		noted = gather_place(g, RNL__NOTED_COPY);
		noted->copy = *copy;
		gather_add(g, noted);
		return 0;
	}
	ret = own_ops()->copy(copy);
	if (joins_notes(ret))
		rnl__notes_add(&(struct rnl__noted){ .kind = RNL__NOTED_COPY, .copy = *copy }, NULL);
	return ret;
}

int rnl__gather_fill(void *dst, uint8_t value, size_t bytes)
{
	const struct rnl__noted fill = {
		.kind = RNL__NOTED_FILL, .fill = { .dst = dst, .value = value, .bytes = bytes },
	};
	struct rnl__gather *g = own_gather(0);
	struct rnl__noted *noted;
	int ret;

	if (g && g->error)
		return g->error;
	if (g) {
		noted = gather_place(g, RNL__NOTED_FILL);
		noted->fill = fill.fill;
		gather_add(g, noted);
		return 0;
	}
	ret = own_ops()->fill(dst, value, bytes);
	if (joins_notes(ret))
		rnl__notes_add(&fill, NULL);
	return ret;
}

/* Notes a launch. */
static int gather_launch(struct rnl__gather *g, const struct rnl_kernel *kernel,
			 struct rnl_dim grid, struct rnl_dim block, const void *args)
{
	struct rnl__noted *noted;

	if (g->error)
		return g->error;
	if (rnl__thread.stream->device->info.cuda ? !kernel->cuda : !kernel->host)
		return -ENOTSUP;
	noted = gather_place(g, RNL__NOTED_LAUNCH);
	noted->launch.kernel = kernel;
	noted->launch.grid = grid;
	noted->launch.block = block;
	noted->launch.args = g->args_bytes;
	if (kernel->args_bytes)
		memcpy(g->args + g->args_bytes, args, kernel->args_bytes);
	g->args_bytes += (uint32_t)rnl__round_up(kernel->args_bytes, ARGS_ALIGNMENT);
	gather_add(g, noted);
	return 0;
}

int rnl__gather_launch(const struct rnl_kernel *kernel, struct rnl_dim grid, struct rnl_dim block,
		       const void *args)
{
	struct rnl__gather *g =
		own_gather((uint32_t)rnl__round_up(kernel->args_bytes, ARGS_ALIGNMENT));
	int ret;

	if (g)
		return gather_launch(g, kernel, grid, block, args);
	ret = own_ops()->launch(kernel, grid, block, args);
	if (joins_notes(ret))
		rnl__notes_add(&(struct rnl__noted){
			.kind = RNL__NOTED_LAUNCH,
			.launch = { .kernel = kernel, .grid = grid, .block = block },
		}, args);
	return ret;
}
