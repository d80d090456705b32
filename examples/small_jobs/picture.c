/* SPDX-License-Identifier: MIT */
/*
 * small_jobs's bar chart: rates above latencies, a bar for each way.
 *
 * DESIGN
 * One narrow column with large letters, so a phone shows it without a zoom.  The colours follow the
 * reader's light or dark scheme.  All bars begin at 0, and the figure of each bar is above it.
 */
#include "config.h"

#include "common/output.h"
#include "common/program.h"
#include "small_jobs.h"

#include <stdio.h>

#define WIDTH 480.0
#define LEFT 20.0
#define LENGTH (WIDTH - 2 * LEFT)	/* of the longest bar */
#define HEAD 92.0
#define HEADING 38.0			/* height of a panel's heading */
#define ROW 44.0
#define GAP 28.0			/* below a panel */

static const char style[] =
	"<style>svg{color-scheme:light dark;font:16px system-ui,sans-serif;max-width:720px;height:auto}"
	"text{fill:#1b2028}.ground{fill:#fff}.head{font-size:20px;font-weight:600}"
	".panel{font-weight:600}.quiet{fill:#596273;font-size:14px}.figure{text-anchor:end}"
	".track{fill:#eef0f4}.rate,.p50{fill:#2563c9}.p99{fill:#9dbcf0}\n"
	"@media (prefers-color-scheme: dark){text{fill:#e8ebf0}.ground{fill:#12151a}"
	".quiet{fill:#a3adbb}.track{fill:#262d37}.rate,.p50{fill:#76a9ff}.p99{fill:#34558c}}"
	"</style>\n";

static void draw_text(FILE *to, const char *class, double x, double y, const char *text)
{
	fprintf(to, "<text class=\"%s\" x=\"%g\" y=\"%g\">", class, x, y);
	for (; *text; text++) {
		if (*text == '<' || *text == '&')	/* a device's name */
			fprintf(to, "&#%d;", *text);
		else
			fputc(*text, to);
	}
	fputs("</text>\n", to);
}

static void draw_bar(FILE *to, const char *class, double y, double length)
{
	fprintf(to, "<rect class=\"%s\" x=\"%g\" y=\"%g\" width=\"%.1f\" height=\"12\" rx=\"2\"/>\n",
		class, LEFT, y, length);
}

static void draw_row(FILE *to, const char *name, const char *figure, double y)
{
	draw_text(to, "name", LEFT, y + 16, name);
	draw_text(to, "figure", WIDTH - LEFT, y + 16, figure);
	draw_bar(to, "track", y + 23, LENGTH);
}

static void draw_rates(FILE *to, const struct small_figures *figures, unsigned nr, double y)
{
	const double most = small_most(figures, nr).per_s;
	char text[64];

	draw_text(to, "panel", LEFT, y, "Requests per second");
	draw_text(to, "quiet", LEFT, y + 20, "many under way; longer is better");
	for (unsigned i = 0; i < nr; i++) {
		y += i ? ROW : HEADING;
		snprintf(text, sizeof(text), "%.1f thousand/s", figures[i].per_s / 1e3);
		draw_row(to, figures[i].way->name, text, y);
		draw_bar(to, "rate", y + 23, LENGTH * figures[i].per_s / most);
	}
}

static void draw_latencies(FILE *to, const struct small_figures *figures, unsigned nr, double y)
{
	const double most = small_most(figures, nr).p99_us;
	char text[64];

	draw_text(to, "panel", LEFT, y, "Latency of a lone request");
	draw_text(to, "quiet", LEFT, y + 20, "p50, and pale up to p99; shorter is better");
	for (unsigned i = 0; i < nr; i++) {
		y += i ? ROW : HEADING;
		snprintf(text, sizeof(text), "%.1f, %.1f us", figures[i].p50_us, figures[i].p99_us);
		draw_row(to, figures[i].way->name, text, y);
		draw_bar(to, "p99", y + 23, LENGTH * figures[i].p99_us / most);
		draw_bar(to, "p50", y + 23, LENGTH * figures[i].p50_us / most);
	}
}

static void draw(FILE *to, const struct small *s, const struct small_figures *figures, unsigned nr)
{
	const double panel = HEADING + nr * ROW + GAP;
	char text[160];

	fprintf(to, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %g %g\" width=\"100%%\" "
		"role=\"img\">\n<title>Small requests by every way</title>\n%s"
		"<rect class=\"ground\" width=\"100%%\" height=\"100%%\"/>\n",
		WIDTH, HEAD + 2 * panel - LEFT, style);
	snprintf(text, sizeof(text), "Requests of %zu bytes, by every way", s->bytes);
	draw_text(to, "head", LEFT, 32, text);
	snprintf(text, sizeof(text), "%s, %u workers, %u producers", program_device_name(&s->info),
		 s->workers, s->producers);
	draw_text(to, "quiet", LEFT, 54, text);
	draw_rates(to, figures, nr, HEAD);
	draw_latencies(to, figures, nr, HEAD + panel);
	fputs("</svg>\n", to);
}

int small_picture(const struct small *s, const struct small_figures *figures, unsigned nr)
{
	struct output out;
	const int ret = output_begin(&out, s->picture);

	if (ret)
		return ret;
	draw(out.to, s, figures, nr);
	return output_end(&out, 0);
}
