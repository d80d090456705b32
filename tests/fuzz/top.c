/* SPDX-License-Identifier: MIT */
/*
 * Untrusted texts from a socket: how runnel top reads them.
 *
 * DESIGN
 * Accepted text has no control characters, and ends like a complete text.
 */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "src/tool/text.h"
#include "src/tool/top.h"

#include "tests/fuzz/fuzz.h"

static void check_text(const char *text)
{
	while (*text) {
		uint32_t point;
		const unsigned nr = tool_character(text, &point);

		must(nr && !tool_is_obeyed(point));
		text += nr;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
	static struct top_figures figures;
	char *text = malloc(bytes + 1);

	must(text != NULL);
	memcpy(text, data, bytes);
	text[bytes] = '\0';
	if (top_parse(&figures, text)) {
		must(strstr(text, "# EOF\n") != NULL);
		check_text(figures.pool);
		for (unsigned i = 0; i <= TOP_TIMER; i++)
			check_text(figures.of[i].device);
		for (unsigned i = 0; i < TOP_TIMES; i++)
			must(figures.times[i].nr <= TOP_BUCKETS);
	}
	free(text);
	return 0;
}
