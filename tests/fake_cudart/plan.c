/* SPDX-License-Identifier: MIT */
/*
 * The plan: which calls fail, and how long calls and operations are delayed.
 *
 * DESIGN
 *	A plan is text in the format of fake_cudart.h. The rest of a plan can be printed, and read
 *	again. A failure counts down the calls of its function.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "internal.h"

#define FAILS_MAX 16

#define FAKE_NAME(name) #name,
const char *const fake__names[FAKE_NR_FUNCTIONS] = { FAKE_FUNCTIONS(FAKE_NAME) };

struct fake_settings fake__settings = {
	.memory_bytes = 256u << 20,
	.pinned_bytes = UINT64_C(4) << 30,
	.nr_devices = 1,
	.nr_sms = 20,
};

struct failure {
	int function;		/* FAKE_NR_FUNCTIONS: any */
	unsigned left;		/* calls until one fails, including that call; 0: unused */
	cudaError_t code;
	bool sticky;
};
static struct failure failures[FAILS_MAX];
static uint64_t calls[FAKE_NR_FUNCTIONS];

/* ---- reading a plan ---------------------------------------------------------- */

static int function_of(const char *name)
{
	int i;

	if (!name || !strcmp(name, "any"))
		return FAKE_NR_FUNCTIONS;
	for (i = 0; i < FAKE_NR_FUNCTIONS; i++) {
		if (!strcmp(name, fake__names[i]))
			return i;
	}
	return -1;
}

static int add_failure(const char *name, unsigned nth, int code, bool sticky)
{
	int function = function_of(name);

	for (unsigned i = 0; function >= 0 && nth && i < FAILS_MAX; i++) {
		if (failures[i].left)
			continue;
		failures[i] = (struct failure){ function, nth, (cudaError_t)code, sticky };
		return 0;
	}
	return -1;
}

/* FUNCTION:N:CODE[:sticky] */
static int read_failure(char *text)
{
	char *rest = NULL, *name = strtok_r(text, ":", &rest), *nth = strtok_r(NULL, ":", &rest);
	char *code = strtok_r(NULL, ":", &rest), *how = strtok_r(NULL, ":", &rest);

	if (!name || !nth || !code || atoi(nth) < 1 || atoi(code) < 1 ||
	    (how && strcmp(how, "sticky")))
		return -1;
	return add_failure(name, (unsigned)atoi(nth), atoi(code), how != NULL);
}

static int read_number(const char *text, uint64_t *number)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;

	*number = strtoull(text, &end, 10);
	if (end == text)
		return -1;
	if (!*end)
		return 0;
	unit = strchr(units, *end);
	if (!unit || end[1])
		return -1;
	*number <<= 10 * (unit - units + 1);
	return 0;
}

static int read_field(char *field)
{
	struct fake_settings *s = &fake__settings;
	char *value = strchr(field, '=');
	uint64_t number;

	if (!strcmp(field, "nofail")) {
		memset(failures, 0, sizeof(failures));
		return 0;
	}
	if (!strcmp(field, "logs") || !strcmp(field, "nologs")) {
		s->logs = *field == 'l';
		return 0;
	}
	if (!strcmp(field, "nowrite")) {
		s->no_writes = true;
		return 0;
	}
	if (!strcmp(field, "mps")) {
		s->mps = true;
		return 0;
	}
	if (!strcmp(field, "mig")) {
		s->mig = true;
		return 0;
	}
	if (!strcmp(field, "nogreen")) {
		s->no_greens = true;
		return 0;
	}
	if (!strcmp(field, "strangers")) {
		s->strangers = true;
		return 0;
	}
	if (!strcmp(field, "junk")) {
		s->junk = true;
		return 0;
	}
	if (!strcmp(field, "stay")) {
		s->stay = true;
		return 0;
	}
	if (!strcmp(field, "misuse=abort")) {
		s->abort_on_misuse = true;
		return 0;
	}
	if (!value)
		return -1;
	*value++ = 0;
	if (!strcmp(field, "fail"))
		return read_failure(value);
	if (read_number(value, &number))
		return -1;
	if (!strcmp(field, "seed"))
		s->seed = number ? number : fake__now() | 1;
	else if (!strcmp(field, "absent"))
		s->absent = (int)number;
	else if (!strcmp(field, "delay_calls"))
		s->delay_calls_us = (unsigned)number;
	else if (!strcmp(field, "delay_ops"))
		s->delay_ops_us = (unsigned)number;
	else if (!strcmp(field, "slice"))
		s->slice_us = (unsigned)number;
	else if (!strcmp(field, "mode") && number <= cudaComputeModeExclusiveProcess)
		s->compute_mode = (int)number;
	else if (!strcmp(field, "memory"))
		s->memory_bytes = number;
	else if (!strcmp(field, "pinned"))
		s->pinned_bytes = number;
	else if (!strcmp(field, "devices") && number && number <= FAKE_DEVICES_MAX)
		s->nr_devices = (int)number;
	else if (!strcmp(field, "sms") && number && number <= 1024)
		s->nr_sms = (unsigned)number;
	else if (!strcmp(field, "queues") && number <= FAKE_QUEUES_MAX)
		s->nr_queues = number;
	else
		return -1;
	if (!strcmp(field, "seed") && !number)
		fprintf(stderr, "fake_cudart: seed=%llu\n", (unsigned long long)s->seed);
	return 0;
}

int fake_plan(const char *text)
{
	char *copy = strdup(text), *rest = NULL, *field;
	int ret = copy ? 0 : -1;

	fake__lock();
	field = copy ? strtok_r(copy, ",", &rest) : NULL;
	while (field && !ret) {
		ret = read_field(field);
		field = strtok_r(NULL, ",", &rest);
	}
	fake__unlock();
	free(copy);
	return ret;
}

int fake_fail(const char *function, unsigned nth, int code, bool sticky)
{
	int ret;

	fake__lock();
	ret = add_failure(function, nth, code, sticky);
	fake__unlock();
	return ret;
}

void fake__plan_init(void)
{
	const char *text = getenv(FAKE_ENV);

	if (text && fake_plan(text))
		fprintf(stderr, "fake_cudart: cannot read %s=%s\n", FAKE_ENV, text);
}

void fake_plan_print(FILE *to)
{
	const struct fake_settings *s = &fake__settings;

	fake__lock();
	fprintf(to, "seed=%llu,delay_calls=%u,delay_ops=%u,slice=%u,mode=%d,memory=%llu,pinned=%llu,queues=%llu,sms=%u%s%s%s%s%s%s%s%s%s",
		(unsigned long long)s->seed, s->delay_calls_us, s->delay_ops_us, s->slice_us, s->compute_mode,
		(unsigned long long)s->memory_bytes, (unsigned long long)s->pinned_bytes,
		(unsigned long long)s->nr_queues, s->nr_sms,
		s->no_writes ? ",nowrite" : "", s->no_greens ? ",nogreen" : "",
		s->mps ? ",mps" : "", s->mig ? ",mig" : "", s->logs ? ",logs" : "", s->junk ? ",junk" : "",
		s->stay ? ",stay" : "", s->strangers ? ",strangers" : "",
		s->abort_on_misuse ? ",misuse=abort" : "");
	for (unsigned i = 0; i < FAILS_MAX; i++) {
		const struct failure *f = &failures[i];

		if (f->left)
			fprintf(to, ",fail=%s:%u:%d%s",
				f->function == FAKE_NR_FUNCTIONS ? "any" : fake__names[f->function],
				f->left, (int)f->code, f->sticky ? ":sticky" : "");
	}
	fprintf(to, "\n");
	fake__unlock();
}

/* ---- following a plan -------------------------------------------------------- */

cudaError_t fake__planned(enum fake_function function, bool *sticky)
{
	cudaError_t code = cudaSuccess;

	calls[function]++;
	for (unsigned i = 0; i < FAILS_MAX; i++) {
		struct failure *f = &failures[i];

		if (!f->left || (f->function != FAKE_NR_FUNCTIONS && f->function != (int)function))
			continue;
		if (--f->left || code != cudaSuccess)
			continue;
		code = f->code;
		*sticky = f->sticky;
	}
	return code;
}

const char *fake_function(unsigned i)
{
	return i < FAKE_NR_FUNCTIONS ? fake__names[i] : NULL;
}

uint64_t fake_calls(const char *function)
{
	int which = function_of(function);
	uint64_t nr = 0;

	fake__lock();
	for (int i = 0; i < FAKE_NR_FUNCTIONS; i++)
		nr += which == FAKE_NR_FUNCTIONS || which == i ? calls[i] : 0;
	fake__unlock();
	return nr;
}

/* Delays one call in four: the order only changes if some calls are late, not all. */
void fake__delay(unsigned up_to_us)
{
	static _Atomic uint64_t nr_threads;
	static _Thread_local uint64_t random;
	struct timespec ts = { 0 };
	uint64_t us;

	if (!up_to_us)
		return;
	if (!random)
		random = (fake__settings.seed + 1) * 0x9e3779b97f4a7c15u + nr_threads++;
	random = random * 6364136223846793005u + 1442695040888963407u;
	if (random >> 62)
		return;
	us = (random >> 20) % up_to_us + 1;
	ts.tv_sec = (time_t)(us / 1000000);
	ts.tv_nsec = (long)(us % 1000000 * 1000);
	nanosleep(&ts, NULL);
}

/* Uses the thread's CPU time, which does not depend on the machine's other work. */
void fake__slice(void)
{
	const uint64_t ns = UINT64_C(1000) * fake__settings.slice_us;
	struct timespec begin, now;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
	do
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
	while ((uint64_t)(now.tv_sec - begin.tv_sec) * 1000000000u + (uint64_t)now.tv_nsec -
	       (uint64_t)begin.tv_nsec < ns);
}
