/* SPDX-License-Identifier: MIT */
/* Parts of the JSON that benches write. */
#ifdef HAVE_JANSSON
#include "bench_json.h"

#include <runnel.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

json_t *bench_json_machine(double load)
{
	struct utsname name;

	if (uname(&name))
		return NULL;
	return json_pack("{s:s, s:s, s:I, s:f}", "machine", name.machine, "kernel", name.release,
			 "cpus", (json_int_t)sysconf(_SC_NPROCESSORS_ONLN), "load", load);
}

json_t *bench_json_runnel(void)
{
	const uint32_t v = rnl_version();
	char text[16];

	snprintf(text, sizeof(text), "%u.%u.%u", v >> 16 & 255, v >> 8 & 255, v & 255);
	return json_string(text);
}

json_t *bench_json_values(const double *values, size_t nr)
{
	double *sorted = bench_alloc(nr * sizeof(*sorted));
	json_t *runs = json_array();
	struct bench_summary sum;

	memcpy(sorted, values, nr * sizeof(*sorted));
	sum = bench_summary(sorted, nr);
	free(sorted);
	for (size_t i = 0; i < nr; i++)
		json_array_append_new(runs, json_real(values[i]));
	return json_pack("{s:f, s:f, s:f, s:o}", "median", sum.median, "min", sum.min, "max",
			 sum.max, "rounds", runs);
}

bool bench_json_write(json_t *all, FILE *out)
{
	const bool good = all && !json_dumpf(all, out, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) &&
			  fputc('\n', out) != EOF;

	json_decref(all);
	return good;
}
#else
typedef int bench_json_is_empty;	/* ISO C wants something in a unit */
#endif
