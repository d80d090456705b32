/* SPDX-License-Identifier: MIT */
/*
 * Fails the n-th call that may fail, for n = 1, 2, ..., in every public operation.
 * countdown/countdown.h has the design.  CUDA's calls fail on its double, all other calls on both
 * devices.  COUNTDOWN=text in the environment selects the operations with that text in the name.
 *
 * devices: host fake
 */
#include <sys/mman.h>

#include "countdown/countdown.h"
#include "await.h"
#include "sanitizers.h"

/* The double's executors outlive a try; by default its exit would wait a second for them. */
SANITIZER_OPTIONS("atexit_sleep_ms=0");

static const struct operation *const tables[] = {
	pool_operations, job_operations, hold_operations, join_operations, work_operations,
	memory_operations, map_operations, batch_operations, trace_operations, place_operations,
	top_operations, class_operations,
};

#define OPERATIONS_MOST 200
static const struct operation *operations[OPERATIONS_MOST];
static int nr_operations;
static struct counts *counts;	/* shared, since each test is a process */

/* Puts the wanted operations in `operations`.  Returns their number. */
static int find_operations(void)
{
	const char *wanted = getenv("COUNTDOWN");

	nr_operations = 0;
	for (unsigned t = 0; t < COUNT(tables); t++) {
		for (const struct operation *o = tables[t]; o->name; o++) {
			if (!wanted || strstr(o->name, wanted))
				operations[nr_operations++] = o;
		}
	}
	return nr_operations;
}

TEST(a_failing_call_is_reported_and_leaves_nothing, .timeout_s = 120,
     .loops = find_operations(), .left_out = !find_operations())
{
	count_down(operations[_i], counts);
}

/* Returns true if @names contains the word; blanks and punctuation separate words. */
static bool has_word(const char *names, const char *word)
{
	const size_t length = strlen(word);

	for (const char *at = names; at && (at = strstr(at, word)) != NULL; at += length) {
		if ((at == names || at[-1] == ' ') && (!at[length] || strchr(" ,;", at[length])))
			return true;
	}
	return false;
}

TEST(every_function_that_is_exported_is_in_an_operation, .left_out = !!getenv("COUNTDOWN"))
{
	const char *srcdir = getenv("srcdir");
	char path[1000], line[100], name[100];
	unsigned nr = 0;
	FILE *map;

	snprintf(path, sizeof(path), "%s/src/runnel.map", srcdir ? srcdir : ".");
	map = fopen(path, "r");
	ck_assert_msg(map, "%s: %s; set srcdir", path, strerror(errno));
	while (fgets(line, sizeof(line), map)) {
		int i = 0;

		if (sscanf(line, " %99[a-z0-9_];", name) != 1 || strncmp(name, "rnl_", 4))
			continue;
		while (i < nr_operations && !has_word(operations[i]->name, name) &&
		       !has_word(operations[i]->functions, name))
			i++;
		ck_assert_msg(i < nr_operations, "%s is in no operation", name);
		nr++;
	}
	fclose(map);
	ck_assert_uint_ge(nr, 60);
}

int suite_begin(int argc, char **argv)
{
	(void)argc;
	(void)argv;
	counts = mmap(NULL, sizeof(*counts), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	if (counts == MAP_FAILED)
		return EXIT_FAILURE;
	counts->began_s = seconds_now();
	return SUITE_GOES_ON;
}

/* tests/lib/run shows this line */
void suite_end(int nr_failed)
{
	printf("# %u operations x %u failing calls "
	       "(%u of the C library, %u of CUDA once, %u for good)%s: %s\n", counts->operations,
	       counts->libc + counts->cuda + counts->sticky, counts->libc, counts->cuda,
	       counts->sticky, counts->in_steps ? " in steps" : "",
	       nr_failed ? "NOT as documented" : "all as documented");
}
