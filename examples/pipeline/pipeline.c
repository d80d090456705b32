/* SPDX-License-Identifier: MIT */
/*
 * pipeline: images go through three stages on different workers: textures, relevance, tokens.
 *
 * DESIGN
 * The first run warms up, and writes the output images.  Then the program measures by the device's
 * clock, and alternates between two kinds of runs: a serial run, in which each stage has the device
 * to itself, and the requested run.  The serial run gives the times of the stages.  The limit is
 * the longest stage's total time, as if its worker did nothing else.  On the host device the stages
 * share the CPUs, so the limit is at least the time of all stages divided by the number of CPUs.
 */
#include "config.h"

#include "common/options.h"
#include "common/program.h"
#include "common/progress.h"
#include "common/timeline.h"
#include "pipeline.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <runnel/device.h>
#include <runnel/memory.h>

#define REPEAT_MAX 99
#define TIMES 3			/* default: images of a run per input image */

const char *const stage_names[NR_STAGES] = { "textures", "relevance", "tokens" };

/* ---- options ------------------------------------------------------------- */

static const char doc[] =
	"Takes images, each FILE a PNG or a directory of them, through three stages on different "
	"workers: textures, relevance, tokens.  While an image is in one stage, the next images "
	"are in earlier stages.  Without a FILE, images of several sizes are generated."
	"\vTextures are 13 channels: red, green, blue; L*, a*, b* in tenths; Sobel's gradient of L* "
	"across and down, its length, its eighth of the circle; the place across and down from the "
	"centre, and the distance from it, in thousandths of half a side.  The relevance of a patch "
	"of 64 x 64 pixels is the entropy of L*, or its salience (steep, of a rare colour, near the "
	"centre), or the means of its channels weighted by --query, or the mean of these three.  "
	"It determines the patch's budget of 64 to 400 tokens within the image's total.  A token "
	"is the mean colour of a cell of the patch.\n\n"
	"Every result of every run is compared with a serial reference on the CPU.";

static const char *parse_query(void *to, const char *arg)
{
	int32_t weights[NR_CHANNELS];

	for (unsigned i = 0; i < NR_CHANNELS; i++) {
		char *end;
		const long weight = strtol(arg, &end, 10);

		if (end == arg || *end != (i == NR_CHANNELS - 1 ? '\0' : ',') || labs(weight) > 100)
			return "give 13 numbers from -100 to 100, separated by commas";
		weights[i] = (int32_t)weight;
		arg = end + 1;
	}
	memcpy(to, weights, sizeof(weights));
	return NULL;
}

static void parse_options(struct pipeline *p, struct program_operands *files, int argc, char **argv)
{
	const struct program_option table[] = {
		{ "serial", 0, NULL, "one stage after another, one image at a time, on one worker",
		  OPTION_FLAG(&p->serial) },
		{ "stages", 0, "N", "concurrent stages, 1 to 3, and workers; 3",
		  OPTION_NUMBER(&p->stages, 1, NR_STAGES) },
		{ "images", 0, "N", "images per run; the FILEs are reused; three times all",
		  OPTION_NUMBER(&p->nr, 1, 1 << 20) },
		{ "depth", 0, "N", "images in flight, to 64; 12", OPTION_NUMBER(&p->depth, 1, 64) },
		{ "tokens", 0, "N", "tokens per image; 144 for each of its patches",
		  OPTION_NUMBER(&p->tokens, TOKENS_MIN, 1u << 30) },
		{ "relevance", 0, "R", "determines budgets: entropy, salience, query, or balanced",
		  OPTION_CHOICE(&p->tables.relevance, "entropy|salience|query|balanced") },
		{ "query", 0, "W,...", "13 weights of the channels; 0,0,0,0,4,4,0,0,1,0,0,0,-1: warm "
		  "colours and edges near the centre", OPTION_PARSED(p->tables.query, parse_query) },
		{ "stream", 0, "S", "the workers' streams: per-thread, or private (the default)",
		  OPTION_CHOICE(&p->stream, "per-thread|private") },
		OPTION_DEVICE(&p->device),
		{ "seed", 0, "N", "seed of the generated images; 1",
		  OPTION_NUMBER(&p->seed, 0, UINT32_MAX) },
		{ "scale", 0, "N", "factor, 1 to 8, of the sizes 256 x 192 to 768 x 512 pixels; 2",
		  OPTION_NUMBER(&p->scale, 1, 8) },
		{ "repeat", 0, "N", "timed runs; the median is shown; 3",
		  OPTION_NUMBER(&p->repeat, 1, REPEAT_MAX) },
		{ "out", 0, "DIR", "for each image, write a map of its relevance, and its patches "
		  "redrawn from their tokens", OPTION_TEXT(&p->out) },
		{ "svg", 0, "FILE", "write the stages' timeline to FILE", OPTION_TEXT(&p->svg) },
		{ .name = NULL }
	};

	*p = (struct pipeline){
		.device = "auto",
		.info = RNL_DEVICE_INFO_INIT,
		.stream = RNL_STREAM_PRIVATE,
		.stages = NR_STAGES,
		.depth = 12,
		.seed = 1,
		.scale = 2,
		.repeat = 3,
		.tables = {
			.query = {
				[GREEN_RED] = 4, [BLUE_YELLOW] = 4,
				[STEEPNESS] = 1, [ECCENTRICITY] = -1,
			},
			.relevance = BALANCED,
		},
	};
	program_options(argc, argv, doc, table, files);
	program_device(p->device, &p->info);
	if (p->out && mkdir(p->out, 0777) && errno != EEXIST)
		program_die("%s: %s", p->out, strerror(errno));
}

static void fill_tables(struct tables *t)
{
	for (int i = 0; i < 256; i++) {
		const double v = i / 255.0;

		t->linear[i] = (uint16_t)lrint(65535 * (v <= 0.04045 ? v / 12.92 :
							pow((v + 0.055) / 1.055, 2.4)));
	}
	for (int i = 0; i < 4096; i++) {
		const double v = i / 4095.0;

		t->root[i] = (uint16_t)lrint(32768 * (v > 216.0 / 24389 ? cbrt(v) :
						      (v * 24389 / 27 + 16) / 116));
	}
	for (int i = 1; i <= PATCH_PIXELS; i++)
		t->entropy[i] = (uint32_t)lrint(1024 * i * log2(i));
}

/* ---- runs ---------------------------------------------------------------- */

struct run {
	struct span (*spans)[NR_STAGES];	/* per image; pinned */
	uint64_t begin, end;
	double ms, stages[NR_STAGES];	/* total times of the stages */
};

static void run_once(struct pipeline *p, int serial, struct run *run, int write)
{
	void *mem;

	program_must(rnl_memory_get(p->pool, RNL_PINNED, p->nr * sizeof(*run->spans), &mem, 0),
		     "memory for times");
	*run = (struct run){ .spans = mem, .begin = UINT64_MAX };
	stages_run(p, serial, run->spans, write);
	for (unsigned n = 0; n < p->nr; n++)
		for (unsigned i = 0; i < NR_STAGES; i++) {
			const struct span *span = &run->spans[n][i];

			run->begin = span->begin < run->begin ? span->begin : run->begin;
			run->end = span->end > run->end ? span->end : run->end;
			run->stages[i] += (double)(span->end - span->begin) / 1e6;
		}
	run->ms = (double)(run->end - run->begin) / 1e6;
}

/* Returns the run with the median time. */
static const struct run *median_of(const struct pipeline *p, const struct run *runs)
{
	double ms[REPEAT_MAX], median;
	const struct run *found = runs;

	for (unsigned i = 0; i < p->repeat; i++)
		ms[i] = runs[i].ms;
	median = program_median(ms, p->repeat);
	while (found->ms != median)
		found++;
	return found;
}

/* ---- the picture --------------------------------------------------------- */

/* Returns the image with its own colour, which shows its way through the stages. */
static unsigned followed(const struct pipeline *p)
{
	return p->nr / 2;
}

static void add_panel(const struct pipeline *p, const struct run *run, unsigned row,
		      struct timeline_bar *bars)
{
	for (unsigned n = 0; n < p->nr; n++)
		for (unsigned i = 0; i < NR_STAGES; i++, bars++) {
			*bars = (struct timeline_bar){
				.row = row + i,
				.colour = n == followed(p),
				.begin = run->spans[n][i].begin - run->begin,
				.end = run->spans[n][i].end - run->begin,
			};
			snprintf(bars->title, sizeof(bars->title), "%s, image %u", stage_names[i],
				 n + 1);
		}
}

static void draw(const struct pipeline *p, const struct run *serial, const struct run *run,
		 const char *means, const char *verdict)
{
	char one[32];
	const struct timeline_colour colours[] = { { "#2f6fb7", "an image" }, { "#e08e2b", one } };
	struct timeline_row rows[2 * NR_STAGES];
	struct timeline_bar *bars = calloc(2 * NR_STAGES * (size_t)p->nr, sizeof(*bars));
	const unsigned panels = run == serial ? 1 : 2;
	char title[128], figures[2][32];
	const struct timeline timeline = {
		title, verdict, colours, rows, bars, 2, panels * NR_STAGES,
		panels * NR_STAGES * (size_t)p->nr
	};

	if (!bars)
		program_die("out of memory");
	snprintf(one, sizeof(one), "image %u", followed(p) + 1);
	for (unsigned i = 0; i < 2 * NR_STAGES; i++)
		rows[i] = (struct timeline_row){ .name = stage_names[i % NR_STAGES] };
	rows[0].heading = "serial";
	rows[0].means = "one stage after another, one image at a time";
	rows[0].figure = figures[0];
	rows[NR_STAGES].heading = "pipeline";
	rows[NR_STAGES].means = means;
	rows[NR_STAGES].figure = figures[1];
	snprintf(figures[0], sizeof(figures[0]), "%.1f ms", serial->ms);
	snprintf(figures[1], sizeof(figures[1]), "%.1f ms", run->ms);
	snprintf(title, sizeof(title), "%u images through three stages, on %.64s", p->nr,
		 program_device_name(&p->info));
	add_panel(p, serial, 0, bars);
	add_panel(p, run, NR_STAGES, bars + NR_STAGES * (size_t)p->nr);
	program_must(timeline_write(p->svg, &timeline), p->svg);
	printf("The timeline is in %s.\n", p->svg);
	free(bars);
}

/* ---- the report ---------------------------------------------------------- */

static void print_input(const struct pipeline *p)
{
	uint64_t pixels = 0, patches = 0, tokens = 0;

	for (unsigned n = 0; n < p->nr; n++) {
		const struct view *view = &p->images[n % p->nr_images].view;
		const struct patch *last = &view->patches[view->nr - 1];

		pixels += (uint64_t)view->width * view->height;
		patches += view->nr;
		tokens += last->first + last->rows * last->columns;
	}
	printf("device:  %s, %u worker%s, %s streams\n", program_device_name(&p->info), p->stages,
	       p->stages == 1 ? "" : "s", p->stream == RNL_STREAM_PRIVATE ? "private" : "per-thread");
	printf("images:  %u, %u different: %.1f million pixels, %llu patches, %llu tokens\n", p->nr,
	       p->nr_images, (double)pixels / 1e6, (unsigned long long)patches,
	       (unsigned long long)tokens);
	printf("times:   the device's own, medians of %u run%s, every result checked\n", p->repeat,
	       p->repeat == 1 ? "" : "s");
	program_flush();
}

static void report(const struct pipeline *p, const struct run *serial, const struct run *run)
{
	char means[64], verdict[256];
	double sum = 0, limit = 0;
	const char *why = "the longest stage";

	for (unsigned i = 0; i < NR_STAGES; i++) {
		sum += serial->stages[i];
		limit = serial->stages[i] > limit ? serial->stages[i] : limit;
	}
	if (!p->info.cuda && sum / p->info.nr_multiprocessors > limit) {
		limit = sum / p->info.nr_multiprocessors;
		why = "the CPUs share the stages";
	}
	snprintf(means, sizeof(means), "%u stage%s at the same time", p->stages,
		 p->stages == 1 ? "" : "s");
	snprintf(verdict, sizeof(verdict), "stages %.2f, %.2f, %.2f ms; limit %.2f ms (%s); "
		 "this run %.2f ms: %.0f %% of the limit", serial->stages[0], serial->stages[1],
		 serial->stages[2], limit, why, run->ms, 100 * limit / run->ms);
	if (run != serial)
		printf("serial:  %.2f ms; %s %.2f ms, %.2f times as fast\n", serial->ms, means,
		       run->ms, serial->ms / run->ms);
	puts(verdict);
	if (p->svg)
		draw(p, serial, run, means, verdict);
}

/* ---- the program --------------------------------------------------------- */

int main(int argc, char **argv)
{
	static struct run serial[REPEAT_MAX + 1], wanted[REPEAT_MAX + 1];
	struct rnl_pool_attr attr = RNL_POOL_ATTR_INIT;
	struct program_operands files = { 0 };
	struct pipeline p;

	program_begin();
	parse_options(&p, &files, argc, argv);
	fill_tables(&p.tables);
	attr.device = p.device;
	attr.stream = p.stream;
	attr.nr_workers = p.stages = p.serial ? 1 : p.stages;
	p.pool = program_pool(&attr);
	images_load(&p, files.names, files.nr);
	p.nr = p.nr ? p.nr : TIMES * p.nr_images;
	stages_begin(&p);

	run_once(&p, p.serial, &wanted[p.repeat], p.out != NULL);
	print_input(&p);
	progress_begin("measuring", p.repeat, 1, "runs");
	for (unsigned i = 0; i < p.repeat; i++) {
		run_once(&p, 1, &serial[i], 0);
		if (!p.serial)
			run_once(&p, 0, &wanted[i], 0);
		progress_show(i + 1);
	}
	report(&p, median_of(&p, serial), median_of(&p, p.serial ? serial : wanted));

	stages_end();
	images_free(&p);
	rnl_pool_destroy(p.pool);
	return EXIT_SUCCESS;
}
