/* SPDX-License-Identifier: MIT */
/*
 * The stages' jobs, and the ring of images in flight.
 *
 * DESIGN
 * A stage is a job with its worker's key, and waits for the previous stage by a barrier: its stream
 * waits on the device, and no thread waits.  So image n is in one stage while n - 1 and n - 2 are
 * in later ones.  An image has a slot of the ring: device memory, two barriers, three jobs.  The
 * last job is done only when the jobs before it are done, so its end is the end of the image.  The
 * main thread waits for the last job, submits the next image to a spare slot, and only then checks
 * the result, so the device does not wait for the check.
 *
 * A kernel before a stage's work and one after it write the device's time to pinned memory.
 */
#include "config.h"

#include "common/clock.h"
#include "common/program.h"
#include "steps.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>
#include <runnel/thread.h>

struct slot {
	struct stage {
		struct rnl_job job;
		struct slot *slot;
		unsigned number;
		struct span *span;
	} stages[NR_STAGES];
	struct rnl_barrier between[NR_STAGES - 1];
	struct view view;		/* device memory */
	const struct image *image;
	struct view out;		/* pinned: results that the last stage copies back */
};

static struct tables *tables;		/* on the device */
static struct slot *slots;
static struct rnl_pool *pool;
static unsigned depth;			/* images in flight; there is one slot more */

/* ---- the host's kernels -------------------------------------------------- */

#define RUN_STEP(step, blocks) \
	void step##_on_host(struct rnl_dim grid, struct rnl_dim block, const void *args) \
	{ \
		struct block memory; \
		\
		(void)block; \
		for (uint32_t i = 0; i < grid.x; i++) { \
			const struct at at = { &memory, i, 0, 1 }; \
			\
			step(args, &at); \
		} \
	}
STEPS(RUN_STEP)

void stages_reference(struct image *image)
{
	const struct view *view = &image->view;
	const struct rnl_dim one = { 1, 1, 1 };

#define CALL_STEP(step, blocks) step##_on_host((struct rnl_dim){ blocks, 1, 1 }, one, view);
	STEPS(CALL_STEP)
}

/* ---- the jobs ------------------------------------------------------------ */

static int launch(const struct rnl_kernel *kernel, const struct view *view, uint32_t blocks)
{
	const struct rnl_dim grid = { blocks, 1, 1 }, block = { THREADS, 1, 1 };

	return rnl_launch(kernel, grid, block, view);
}

static int run_textures(const struct slot *slot)
{
	const struct view *view = &slot->view;
	const size_t bytes = (size_t)view->width * view->height * 3;
	int ret = rnl_copy((void *)view->rgb, slot->image->rgb, bytes);

	ret = ret ? ret : launch(&colours_kernel, view, view->nr);
	return ret ? ret : launch(&edges_kernel, view, view->nr);
}

static int run_relevance(const struct slot *slot)
{
	const struct view *view = &slot->view;
	const int ret = launch(&sums_kernel, view, view->nr);

	return ret ? ret : launch(&relevances_kernel, view, 1);
}

static int run_tokens(const struct slot *slot)
{
	const struct view *view = &slot->view, *out = &slot->out;
	int ret = launch(&budgets_kernel, view, 1);

	ret = ret ? ret : launch(&cells_kernel, view, view->nr);
	ret = ret ? ret : rnl_copy(out->patches, view->patches, view->nr * sizeof(*out->patches));
	return ret ? ret : rnl_copy(out->tokens, view->tokens, view->total * sizeof(*out->tokens));
}

/* A job function. */
static int run_stage(struct rnl_job *job)
{
	static int (*const run[NR_STAGES])(const struct slot *) = {
		run_textures, run_relevance, run_tokens
	};
	const struct stage *stage = rnl_container_of(job, struct stage, job);
	int ret = clock_write(&stage->span->begin);

	ret = ret ? ret : run[stage->number](stage->slot);
	return ret ? ret : clock_write(&stage->span->end);
}

/* ---- the ring ------------------------------------------------------------ */

#define LOWER "memory for images in flight (try a lower --depth)"

static void get_device(void **memp, size_t bytes)
{
	program_must(rnl_memory_get(pool, 0, bytes, memp, 0), LOWER);
}

static void get_pinned(void **memp, size_t bytes)
{
	program_must(rnl_memory_get(pool, RNL_PINNED, bytes, memp, 0), LOWER);
}

static void slot_begin(struct slot *slot, const struct view *largest)
{
	const size_t pixels = (size_t)largest->nr * PATCH_PIXELS;

	get_device((void **)&slot->view.rgb, pixels * 3);
	get_device((void **)&slot->view.textures, textures_bytes(largest->nr));
	get_device((void **)&slot->view.patches, largest->nr * sizeof(struct patch));
	get_device((void **)&slot->view.tokens, largest->total * sizeof(struct token));
	get_pinned((void **)&slot->out.patches, largest->nr * sizeof(struct patch));
	get_pinned((void **)&slot->out.tokens, largest->total * sizeof(struct token));
	for (unsigned i = 0; i < NR_STAGES; i++) {
		struct stage *stage = &slot->stages[i];

		stage->slot = slot;
		stage->number = i;
		program_must(rnl_job_init(&stage->job, run_stage), "a job");
		if (i < NR_STAGES - 1) {
			program_must(rnl_barrier_init(&slot->between[i], pool), "a barrier");
			program_must(rnl_barrier_add(&slot->between[i], &stage->job),
				     "a barrier's job");
		}
		if (i)
			program_must(rnl_job_set_after(&stage->job, &slot->between[i - 1]),
				     "a job after");
	}
}

void stages_begin(struct pipeline *p)
{
	struct view largest = { 0 };

	pool = p->pool;
	depth = p->depth < p->nr ? p->depth : p->nr;
	slots = calloc(depth + 1, sizeof(*slots));
	if (!slots)
		program_die("out of memory");
	get_device((void **)&tables, sizeof(*tables));
	program_must(rnl_thread_attach(pool), "a stream for this thread");
	program_must(rnl_copy(tables, &p->tables, sizeof(*tables)), "copying the tables");
	program_must(rnl_stream_wait(RNL_FOREVER), "copying the tables");
	rnl_thread_attach(NULL);
	for (unsigned i = 0; i < p->nr_images; i++) {
		const struct view *view = &p->images[i].view;

		largest.nr = view->nr > largest.nr ? view->nr : largest.nr;
		largest.total = view->total > largest.total ? view->total : largest.total;
	}
	for (unsigned i = 0; i <= depth; i++)
		slot_begin(&slots[i], &largest);
}

void stages_end(void)
{
	for (unsigned i = 0; i <= depth; i++) {
		rnl_memory_put(pool, (void *)slots[i].view.rgb);
		rnl_memory_put(pool, slots[i].view.textures);
		rnl_memory_put(pool, slots[i].view.patches);
		rnl_memory_put(pool, slots[i].view.tokens);
		rnl_memory_put(pool, slots[i].out.patches);
		rnl_memory_put(pool, slots[i].out.tokens);
	}
	rnl_memory_put(pool, tables);
	free(slots);
}

static void slot_fill(struct slot *slot, const struct image *image)
{
	const struct view memory = slot->view, out = slot->out;

	slot->image = image;
	slot->view = slot->out = image->view;	/* the sizes */
	slot->view.tables = tables;
	slot->view.rgb = memory.rgb;
	slot->view.textures = memory.textures;
	slot->view.patches = memory.patches;
	slot->view.tokens = memory.tokens;
	slot->out.patches = out.patches;
	slot->out.tokens = out.tokens;
}

static void wait_for(struct slot *slot, unsigned stage)
{
	char what[128];

	program_must(rnl_job_wait(&slot->stages[stage].job, RNL_FOREVER), "waiting for a stage");
	for (unsigned i = 0; i <= stage; i++) {		/* earlier stages are done, too */
		snprintf(what, sizeof(what), "%s: %s", slot->image->name, stage_names[i]);
		program_must(slot->stages[i].job.result, what);
	}
}

/* Dies unless the output equals the serial reference and obeys the budgets. */
static void check(const struct slot *slot)
{
	const struct view *want = &slot->image->view, *have = &slot->out;
	uint32_t sum = 0;

	for (uint32_t i = 0; i < have->nr; i++) {
		const uint32_t tokens = have->patches[i].columns * have->patches[i].rows;

		if (tokens < TOKENS_MIN || tokens > TOKENS_MAX || have->patches[i].first != sum)
			program_die("%s: patch %u has %u tokens", slot->image->name, i, tokens);
		sum += tokens;
	}
	if (sum > have->total)
		program_die("%s: %u tokens are more than %u", slot->image->name, sum, have->total);
	if (memcmp(want->patches, have->patches, have->nr * sizeof(struct patch)) ||
	    memcmp(want->tokens, have->tokens, sum * sizeof(struct token)))
		program_die("%s: the result differs from the serial reference", slot->image->name);
}

static struct slot *slot_of(unsigned n)
{
	return &slots[n % (depth + 1)];
}

static void submit(const struct pipeline *p, int serial, unsigned n, struct span *spans)
{
	struct slot *slot = slot_of(n);

	slot_fill(slot, &p->images[n % p->nr_images]);
	for (unsigned i = 0; i < NR_STAGES; i++) {
		const unsigned worker = serial ? 0 : i * p->stages / NR_STAGES;

		slot->stages[i].span = &spans[i];
		program_must(rnl_job_set_key(&slot->stages[i].job, RNL_KEY_WORKER(worker)),
			     "a stage's key");
		program_must(rnl_submit_wait(pool, &slot->stages[i].job, RNL_FOREVER),
			     "submitting a stage");
		if (serial)
			wait_for(slot, i);
	}
}

void stages_run(const struct pipeline *p, int serial, struct span (*spans)[NR_STAGES], int write)
{
	for (unsigned n = 0; n < p->nr + depth; n++) {
		struct slot *slot = n < depth ? NULL : slot_of(n - depth);

		if (slot)
			wait_for(slot, NR_STAGES - 1);
		if (n < p->nr)
			submit(p, serial, n, spans[n]);
		if (slot)
			check(slot);
		if (slot && write && n - depth < p->nr_images)
			image_write(p, slot->image, &slot->out);
	}
}
