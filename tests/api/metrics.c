/* SPDX-License-Identifier: MIT */
/* The statistics as text, parsed like Prometheus does, and compared with rnl_pool_read_stats(). */
#include <ctype.h>

#include <runnel/stats.h>

#include "classed.h"
#include "pool.h"

/* ---- a reader of the format ---------------------------------------------- */

enum { MAX_SAMPLES = 2000, MAX_FAMILIES = 100, MAX_LABELS = 4 };

struct label {
	char name[32], value[300];
};

struct sample {
	char name[100];
	struct label labels[MAX_LABELS];
	unsigned nr_labels;
	bool counts;		/* not a gauge: it never falls */
	double value;
};

struct page {
	char families[MAX_FAMILIES][100];
	char types[MAX_FAMILIES][16];
	unsigned nr_families;
	struct sample samples[MAX_SAMPLES];
	unsigned nr;
};

/* Takes a name from the front of the text. */
static const char *read_name(const char *at, char *name, size_t bytes, bool colons)
{
	size_t nr = 0;

	ck_assert_msg(isalpha((unsigned char)*at) || *at == '_', "no name: %.40s", at);
	while (isalnum((unsigned char)*at) || *at == '_' || (colons && *at == ':')) {
		ck_assert_uint_lt(nr + 1, bytes);
		name[nr++] = *at++;
	}
	name[nr] = '\0';
	return at;
}

/* Takes a quoted label value from the front of the text, and undoes its escapes. */
static const char *read_value(const char *at, char *value, size_t bytes)
{
	size_t nr = 0;

	ck_assert_int_eq(*at++, '"');
	for (; *at != '"'; at++) {
		ck_assert_msg(*at && *at != '\n', "a value without an end");
		ck_assert_uint_lt(nr + 1, bytes);
		if (*at == '\\') {
			at++;
			ck_assert_msg(*at == '\\' || *at == '"' || *at == 'n', "\\%c", *at);
			value[nr++] = *at == 'n' ? '\n' : *at;
		} else {
			value[nr++] = *at;
		}
	}
	value[nr] = '\0';
	return at + 1;
}

/* Takes a line "# HELP name text", then "# TYPE name type"; each once. */
static const char *read_comment(struct page *page, const char *at)
{
	bool help = !strncmp(at, "# HELP ", 7);
	unsigned nr = page->nr_families;
	char *type = nr ? page->types[nr - 1] : NULL, name[100];
	size_t length;

	ck_assert_msg(help || !strncmp(at, "# TYPE ", 7), "%.60s", at);
	at = read_name(at + 7, name, sizeof(name), true);
	ck_assert_int_eq(*at++, ' ');
	length = strcspn(at, "\n");
	ck_assert_uint_gt(length, 0);
	if (help) {
		ck_assert_msg(!type || *type, "no TYPE before the HELP of %s", name);
		for (unsigned i = 0; i < nr; i++)
			ck_assert_str_ne(page->families[i], name);
		ck_assert_uint_lt(nr, MAX_FAMILIES);
		strcpy(page->families[page->nr_families++], name);
	} else {
		ck_assert_msg(type && !*type, "no HELP before the TYPE of %s", name);
		ck_assert_str_eq(page->families[nr - 1], name);
		ck_assert_uint_lt(length, sizeof(page->types[0]));
		memcpy(type, at, length);
		ck_assert_msg(!strcmp(type, "counter") || !strcmp(type, "gauge") ||
			      !strcmp(type, "histogram"), "%s", type);
	}
	return at + length;
}

/* Returns true if a sample belongs to the current family. */
static bool belongs(const struct page *page, const char *name)
{
	const char *family = page->families[page->nr_families - 1];
	const char *type = page->types[page->nr_families - 1];
	size_t length = strlen(family);

	if (strncmp(name, family, length))
		return false;
	name += length;
	if (strcmp(type, "histogram"))
		return !*name;
	return !strcmp(name, "_bucket") || !strcmp(name, "_sum") || !strcmp(name, "_count");
}

static bool same(const struct sample *a, const struct sample *b)
{
	bool is = !strcmp(a->name, b->name) && a->nr_labels == b->nr_labels;

	for (unsigned i = 0; is && i < a->nr_labels; i++)
		is = !strcmp(a->labels[i].name, b->labels[i].name) &&
		     !strcmp(a->labels[i].value, b->labels[i].value);
	return is;
}

static const char *read_sample(struct page *page, const char *at)
{
	struct sample *s = &page->samples[page->nr];
	char *end;

	ck_assert_uint_lt(page->nr, MAX_SAMPLES);
	ck_assert_uint_gt(page->nr_families, 0);
	at = read_name(at, s->name, sizeof(s->name), true);
	ck_assert_msg(belongs(page, s->name), "%s after the TYPE of %s", s->name,
		      page->families[page->nr_families - 1]);
	ck_assert_int_eq(*at, '{');
	do {
		struct label *label = &s->labels[s->nr_labels++];

		ck_assert_uint_le(s->nr_labels, MAX_LABELS);
		at = read_name(at + 1, label->name, sizeof(label->name), false);
		ck_assert_int_eq(*at, '=');
		at = read_value(at + 1, label->value, sizeof(label->value));
	} while (*at == ',');
	ck_assert_int_eq(*at++, '}');
	ck_assert_int_eq(*at++, ' ');
	ck_assert_msg(isdigit((unsigned char)*at), "no number: %.20s", at);
	s->counts = strcmp(page->types[page->nr_families - 1], "gauge");
	s->value = strtod(at, &end);
	for (unsigned i = 0; i < page->nr; i++)
		ck_assert_msg(!same(s, &page->samples[i]), "%s is there twice", s->name);
	page->nr++;
	return end;
}

static struct page *read_page(const char *text)
{
	struct page *page = calloc(1, sizeof(*page));

	while (*text) {
		text = *text == '#' ? read_comment(page, text) : read_sample(page, text);
		ck_assert_int_eq(*text++, '\n');
	}
	ck_assert_uint_gt(page->nr, 0);
	return page;
}

static const char *label_of(const struct sample *s, const char *name)
{
	for (unsigned i = 0; i < s->nr_labels; i++) {
		if (!strcmp(s->labels[i].name, name))
			return s->labels[i].value;
	}
	return "";
}

/* Returns the value of the only sample with that name and label; "": without a label. */
static double value_of(const struct page *page, const char *name, const char *label,
		       const char *value)
{
	double found = -1;

	for (unsigned i = 0; i < page->nr; i++) {
		const struct sample *s = &page->samples[i];

		if (strcmp(s->name, name) || strcmp(label_of(s, label), value))
			continue;
		ck_assert_msg(found < 0, "several of %s", name);
		found = s->value;
	}
	ck_assert_msg(found >= 0, "no %s with %s \"%s\"", name, label, value);
	return found;
}

/* ---- pools with figures -------------------------------------------------- */

static char *text_of(struct rnl_pool *pool, const char *name)
{
	for (;;) {	/* the counts may grow between the calls */
		int bytes = rnl_pool_stats_text(pool, name, NULL, 0);
		char *text;

		ck_assert_int_gt(bytes, 0);
		text = malloc((size_t)bytes + 1);
		if (rnl_pool_stats_text(pool, name, text, (size_t)bytes + 1) <= bytes)
			return text;
		free(text);
	}
}

static struct page *page_of(struct rnl_pool *pool, const char *name)
{
	char *text = text_of(pool, name);
	struct page *page = read_page(text);

	free(text);
	return page;
}

/* Returns a pool whose jobs ended in every way, and one of whose workers has left. */
static struct rnl_pool *busy_pool(void)
{
	enum { NR = 60 };
	struct gate gate = GATE_INIT;
	struct rnl_job held[3], jobs[NR];
	struct rnl_pool *pool = pool_of(3, .nr_class_workers = 1, .time_every = 1, .spin_us = -1);

	(void)own_class(pool, 1);
	hold_workers(pool, &gate, held, 3);
	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], result_fn, (void *)(intptr_t)(i % 7 ? 0 : -EPROTO));
		must(rnl_job_set_deadline(&jobs[i], i % 10 == 9 ? 0 : RNL_FOREVER));
		ck_assert_int_eq(i % 2 ? rnl_submit(pool, &jobs[i]) :
					 submit_by_key(pool, &jobs[i], (uint64_t)i), 0);
	}
	for (int i = 0; i < NR; i += 5)
		must(rnl_job_cancel(&jobs[i]));
	gate_open(&gate);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	must(rnl_pool_resize(pool, 2));
	return pool;
}

/* ---- the tests ----------------------------------------------------------- */

/* Checks that each sample has the pool's name. */
static void check_name(struct rnl_pool *pool, const char *asked, const char *expected)
{
	struct page *page = page_of(pool, asked);

	ck_assert_uint_gt(page->nr_families, 5);
	for (unsigned i = 0; i < page->nr; i++)
		ck_assert_str_eq(label_of(&page->samples[i], "pool"), expected);
	free(page);
}

TEST(prometheus_can_read_the_text_which_names_its_pool)
{
	static const char long_name[] = "a-rather-long-name-of-a-pool";
	struct rnl_pool *pool = pool_of(2), *named = pool_of(1, .name = long_name);

	check_name(pool, NULL, "rnl-worker");
	check_name(named, NULL, long_name);
	check_name(pool, "mine", "mine");
	check_name(named, "mine", "mine");
	rnl_pool_destroy(pool);
	rnl_pool_destroy(named);
}

TEST(names_of_any_characters_are_read_back_as_they_were)
{
	static const char *const names[] = {
		"", "\"", "\\", "\n", "\\n", "a\"b\\c\nd", "}", "{pool=\"x\"} 1", "# HELP x y",
		"\xc3\xa4", "\\\\\\",
		"a name that is longer than the sixty-four bytes of somebody's buffer",
	};
	struct rnl_pool *pool = pool_of(1);

	for (unsigned i = 0; i < COUNT(names); i++)
		check_name(pool, names[i], names[i]);
	rnl_pool_destroy(pool);
}

/* Reads the text into a buffer of @room bytes, and again if a figure changed meanwhile. */
static char *ask(struct rnl_pool *pool, char *buf, size_t room, int *ret)
{
	char *before = text_of(pool, NULL), *after;

	for (;; before = after) {
		*ret = rnl_pool_stats_text(pool, NULL, buf, room);
		after = text_of(pool, NULL);
		if (!strcmp(before, after))
			break;
		free(before);
	}
	free(after);
	return before;
}

TEST(the_text_is_written_in_full_or_not_at_all)
{
	enum { MORE = 9 };
	struct rnl_pool *pool = pool_of(2);
	char *text = text_of(pool, NULL), *buf = malloc(strlen(text) + 1000);
	size_t full = strlen(text), step, behind;
	int ret;

	ck_assert_uint_gt(full, 500);
	for (size_t room = 0; room <= full + MORE; room += step) {
		memset(buf, 0xee, full + 1000);
		free(text);
		text = ask(pool, room ? buf : NULL, room, &ret);
		ck_assert_uint_eq((size_t)ret, strlen(text));
		if (room > (size_t)ret) {
			ck_assert_str_eq(buf, text);
			behind = (size_t)ret + 1;
		} else {
			ck_assert_int_eq(room ? buf[0] : 0, '\0');
			behind = room ? 1 : 0;
		}
		ck_assert_bytes((unsigned char *)buf + behind, full + 1000 - behind, 0xee);
		step = room && room + 200 < full ? 97 : 1;
	}
	ck_assert_int_eq(rnl_pool_stats_text(pool, NULL, NULL, 1), -EINVAL);
	ck_assert_int_eq(rnl_pool_stats_text(NULL, NULL, buf, 10), -EINVAL);
	ck_assert_int_eq(rnl_pool_stats_text(NULL, NULL, NULL, 0), -EINVAL);
	free(buf);
	free(text);
	rnl_pool_destroy(pool);
}

/* The figures of a worker. */
static const struct {
	const char *name;
	size_t offset;
} figures[] = {
	{ "rnl_jobs_done_total", offsetof(struct rnl_pool_stats, done) },
	{ "rnl_jobs_failed_total", offsetof(struct rnl_pool_stats, failed) },
	{ "rnl_jobs_cancelled_total", offsetof(struct rnl_pool_stats, cancelled) },
	{ "rnl_jobs_timed_out_total", offsetof(struct rnl_pool_stats, timed_out) },
	{ "rnl_jobs_stolen_total", offsetof(struct rnl_pool_stats, stolen) },
	{ "rnl_jobs_gathered_total", offsetof(struct rnl_pool_stats, gathered) },
	{ "rnl_graphs_total", offsetof(struct rnl_pool_stats, graphs) },
	{ "rnl_jobs_replayed_total", offsetof(struct rnl_pool_stats, replayed) },
	{ "rnl_jobs_queued", offsetof(struct rnl_pool_stats, queued) },
	{ "rnl_jobs_in_flight", offsetof(struct rnl_pool_stats, in_flight) },
};

/* Returns the sum of a figure over the workers and the timer thread. */
static double sum_of(const struct page *page, const char *name)
{
	double sum = 0;

	for (unsigned i = 0; i < page->nr; i++)
		sum += strcmp(page->samples[i].name, name) ? 0 : page->samples[i].value;
	return sum;
}

static double figure_in(const struct rnl_pool_stats *stats, unsigned i)
{
	return (double)*(const uint64_t *)(const void *)((const char *)stats + figures[i].offset);
}

TEST(the_figures_of_an_idle_pool_are_those_of_its_stats)
{
	struct rnl_pool *pool = busy_pool();
	struct rnl_pool_stats all = figures_of(pool), one = RNL_POOL_STATS_INIT;
	char worker[12];
	struct page *page = page_of(pool, NULL);

	ck_assert_uint_eq(all.accepted, 63);
	ck_assert_uint_gt(all.timed_out, 0);
	ck_assert_uint_eq(all.cancelled, 12);
	ck_assert_double_eq(value_of(page, "rnl_jobs_unfinished", "", ""), 0);
	ck_assert_double_eq(value_of(page, "rnl_workers", "", ""), 3);
	ck_assert_double_eq(value_of(page, "rnl_health", "", ""), RNL_HEALTH_OK);
	for (unsigned i = 0; !rnl_pool_read_stats(pool, i, &one); i++) {
		snprintf(worker, sizeof(worker), "%u", i);
		ck_assert_uint_le(i, 3);
		for (unsigned f = 0; f < COUNT(figures); f++)
			ck_assert_double_eq(value_of(page, figures[f].name, "worker", worker),
					    figure_in(&one, f));
	}
	/* The timer thread completes cancelled and expired jobs that no worker reaches first. */
	for (unsigned f = 0; f < COUNT(figures); f++)
		ck_assert_msg(sum_of(page, figures[f].name) == figure_in(&all, f), "%s",
			      figures[f].name);
	free(page);
	rnl_pool_destroy(pool);
}

/* Checks that buckets do not fall, that +Inf is the count, and that there is a sum. */
static void check_histogram(const struct page *page, const char *name, const struct rnl_latency *l)
{
	char bucket[100], full[100];
	double le = 0, nr = 0, last = -1;

	snprintf(bucket, sizeof(bucket), "%s_bucket", name);
	for (unsigned i = 0; i < page->nr; i++) {
		const struct sample *s = &page->samples[i];
		char *end;

		if (strcmp(s->name, bucket))
			continue;
		ck_assert_double_lt(last, 0);	/* +Inf is the last */
		ck_assert_double_ge(s->value, nr);
		nr = s->value;
		if (!strcmp(label_of(s, "le"), "+Inf")) {
			last = nr;
			continue;
		}
		ck_assert_double_gt(strtod(label_of(s, "le"), &end), le);
		ck_assert_int_eq(*end, '\0');
		le = strtod(label_of(s, "le"), NULL);
		/* A bucket that counts all times has a bound that no time exceeds. */
		if (nr >= (double)l->nr && l->nr)
			ck_assert_double_ge(le * 1e9 * 17 / 16, (double)l->max_ns);
	}
	ck_assert_double_eq(last, (double)l->nr);
	snprintf(full, sizeof(full), "%s_count", name);
	ck_assert_double_eq(value_of(page, full, "", ""), (double)l->nr);
	snprintf(full, sizeof(full), "%s_sum", name);
	ck_assert_double_eq_tol(value_of(page, full, "", ""), (double)l->sum_ns * 1e-9, 1e-9);
}

TEST(histograms_are_cumulative_and_end_with_all)
{
	struct rnl_pool *pool = busy_pool();
	struct page *page = page_of(pool, NULL);
	struct rnl_pool_stats stats = figures_of(pool);

	ck_assert_uint_gt(stats.host.nr, 30);
	check_histogram(page, "rnl_queue_wait_seconds", &stats.queue_wait);
	check_histogram(page, "rnl_host_seconds", &stats.host);
	check_histogram(page, "rnl_device_seconds", &stats.device);
	free(page);
	rnl_pool_destroy(pool);
}

/* ---- classes ----------------------------------------------------------------- */

/* Returns the sample of that name and class. */
static double of_class(const struct page *page, const char *name, const char *class,
		       const char *index)
{
	for (unsigned i = 0; i < page->nr; i++) {
		const struct sample *s = &page->samples[i];

		if (!strcmp(s->name, name) && !strcmp(label_of(s, "class"), class) &&
		    !strcmp(label_of(s, "index"), index) && !*label_of(s, "le"))
			return s->value;
	}
	ck_abort_msg("no %s of class %s, %s", name, class, index);
	return -1;
}

/* Returns the number of samples of classes. */
static unsigned nr_of_classes(const struct page *page)
{
	unsigned nr = 0;

	for (unsigned i = 0; i < page->nr; i++)
		nr += !!*label_of(&page->samples[i], "index");
	return nr;
}

TEST(a_class_has_the_figures_of_its_stats_and_classes_may_share_a_name)
{
	enum { FULL = 3 };
	static const char odd[] = "a\"b\\c\nd}";
	struct rnl_pool *pool = pool_of(1, .time_every = 1);
	struct page *page = page_of(pool, NULL);
	struct rnl_class *cls[2];
	struct rnl_job jobs[FULL], more, own;
	struct gate gate = GATE_INIT;
	struct rnl_class_stats stats;

	ck_assert_uint_eq(nr_of_classes(page), 0);
	free(page);
	for (int i = 0; i < 2; i++)
		cls[i] = class_of(pool, .name = odd, .max_queued = FULL);
	submit_classed(pool, &jobs[0], cls[1], gated_fn, &gate);
	gate_await(&gate, 1);
	for (int i = 1; i < FULL; i++)
		submit_classed(pool, &jobs[i], cls[1], noop_fn, NULL);
	classed_of(&more, cls[1], noop_fn, NULL);
	must(rnl_job_set_deadline(&more, 0));
	must(rnl_submit(pool, &more));
	ck_assert_int_eq(result_of(&more), -ETIMEDOUT);
	page = page_of(pool, NULL);
	ck_assert_double_eq(of_class(page, "rnl_class_jobs_queued", odd, "2"), FULL - 1);
	ck_assert_double_eq(of_class(page, "rnl_class_jobs_started", odd, "2"), 1);
	ck_assert_double_eq(of_class(page, "rnl_class_jobs_expired_total", odd, "2"), 1);
	ck_assert_double_eq(of_class(page, "rnl_class_jobs_accepted_total", odd, "1"), 0);
	free(page);
	gate_open(&gate);
	submit_job(pool, &own, noop_fn, NULL);
	must(rnl_pool_drain(pool, RNL_FOREVER));
	stats = stats_of(cls[1]);
	page = page_of(pool, "mine");
	ck_assert_double_eq(of_class(page, "rnl_class_jobs_run_total", odd, "2"), FULL);
	ck_assert_double_eq(of_class(page, "rnl_class_jobs_run_total", "pool", "0"), 1);
	ck_assert_double_eq(of_class(page, "rnl_class_jobs_accepted_total", odd, "2"),
			    (double)stats.accepted);
	ck_assert_double_eq(of_class(page, "rnl_class_queue_wait_seconds_count", odd, "2"),
			    (double)stats.queue_timed);
	ck_assert_double_eq_tol(of_class(page, "rnl_class_device_seconds_total", odd, "2") +
				of_class(page, "rnl_class_device_seconds_total", "pool", "0"),
				(double)stats.all_device_ns * 1e-9, 1e-8);
	for (unsigned i = 0; i < page->nr; i++)
		ck_assert_str_eq(label_of(&page->samples[i], "pool"), "mine");
	free(page);
	for (int i = 0; i < 2; i++)
		rnl_class_destroy(cls[i]);
	page = page_of(pool, NULL);
	ck_assert_uint_eq(nr_of_classes(page), 0);
	free(page);
	rnl_pool_destroy(pool);
}

/* ---- while jobs run ---------------------------------------------------------- */

static _Atomic bool ended;

static void again(struct rnl_job *job)
{
	if (!ended)
		(void)rnl_submit(job->user, job);
}

TEST(counters_never_fall_while_jobs_run)
{
	enum { NR = 64 };
	struct rnl_pool *pool = pool_of(2);
	struct page *page, *before = NULL;
	struct rnl_job jobs[NR];

	for (int i = 0; i < NR; i++) {
		job_of(&jobs[i], noop_fn, pool);
		must(rnl_job_set_on_done(&jobs[i], again));
		must(rnl_submit(pool, &jobs[i]));
	}
	for (int round = 0; round < 30; round++, before = page) {
		page = page_of(pool, NULL);
		/* The same samples in the same order. */
		ck_assert(!before || before->nr == page->nr);
		for (unsigned i = 0; before && i < page->nr; i++) {
			ck_assert(same(&page->samples[i], &before->samples[i]));
			if (page->samples[i].counts)
				ck_assert_double_ge(page->samples[i].value,
						    before->samples[i].value);
		}
		free(before);
	}
	free(before);
	ended = true;
	rnl_pool_destroy(pool);
}
