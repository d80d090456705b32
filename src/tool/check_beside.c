/* SPDX-License-Identifier: MIT */
/*
 * Tests whether copies overlap another worker's kernel, and whether pinned memory is page-locked.
 *
 * DESIGN
 * One worker's kernel reports that it runs, and waits until the host releases it.  Then another
 * worker copies, and the host releases the kernel when that copy is done.  If the kernel was still
 * waiting, the copy overlapped it; if the kernel had reached its time limit, the copy had waited
 * for it.  The test needs no clock, so a busy machine does not change the answer.
 *
 * Pinned memory: a copy is issued after a waiting kernel on the same stream.  With page-locked
 * memory the call returns immediately, while the kernel runs; with other memory CUDA blocks the
 * caller.  In addition runnel must not count any byte as copied by a CPU.
 */
#include "check.h"

#include <stdio.h>

#include <runnel/kernel.h>
#include <runnel/memory.h>

#define COPY_BYTES (16u << 20)
#define START_NS 2000000000u	/* limit for the start of a kernel, the first on its stream */

struct trial {
	const struct check_machine *m;
	struct check_party party;
	uint32_t *words;		/* enum tool_hold_word */
	void *to;
	const void *from;
	uint32_t issued;
	uint64_t issue_ns;
	struct rnl_job holder, copier;
};

static const struct rnl_dim one = { 1, 1, 1 };

static int launch_hold(struct trial *trial)
{
	const struct tool_hold_args args = { trial->words, trial->m->patience_ns };

	return rnl_launch(&tool_hold, one, one, &args);
}

static int beside_hold(struct rnl_job *job)
{
	struct trial *trial = rnl_container_of(job, struct trial, holder);
	const int ret = check_party(&trial->party);

	return ret ? ret : launch_hold(trial);
}

static int beside_copy(struct rnl_job *job)
{
	struct trial *trial = rnl_container_of(job, struct trial, copier);
	const int ret = check_party(&trial->party);

	(void)check_await(&trial->words[TOOL_HOLD_RUNS], START_NS);
	return ret ? ret : rnl_copy(trial->to, trial->from, COPY_BYTES);
}

static int hold_and_copy(struct rnl_job *job)
{
	struct trial *trial = rnl_container_of(job, struct trial, holder);
	int ret = launch_hold(trial);
	const uint64_t start = tool_now();

	if (!ret)
		ret = rnl_copy(trial->to, trial->from, COPY_BYTES);
	trial->issue_ns = tool_now() - start;
	check_set(&trial->issued, 1);
	return ret;
}

static void beside_begin(struct trial *trial)
{
	for (unsigned i = 0; i < TOOL_HOLD_WORDS; i++)
		trial->words[i] = 0;
	trial->party = (struct check_party){ 0, 2 };
	trial->issued = 0;
}

/* Releases the kernel.  Returns true if it was still waiting. */
static bool let_go(struct trial *trial)
{
	check_set(&trial->words[TOOL_HOLD_LET_GO], 1);
	tool_wait(&trial->holder, "a kernel that is held");
	return trial->words[TOOL_HOLD_ENDED] == TOOL_WAS_LET_GO;
}

static bool copy_passes(struct trial *trial)
{
	beside_begin(trial);
	check_submit(trial->m->pool, &trial->holder, beside_hold);
	check_submit(trial->m->pool, &trial->copier, beside_copy);
	tool_wait(&trial->copier, "a copy during a kernel");
	return let_go(trial);
}

static bool call_returns(struct trial *trial)
{
	beside_begin(trial);
	check_submit(trial->m->pool, &trial->holder, hold_and_copy);
	(void)check_await(&trial->issued, TOOL_WAIT_NS);
	return let_go(trial);
}

/* Repeats an experiment until one answer has the majority.  Returns the yeses; @nrp: the runs. */
static unsigned vote(struct trial *trial, bool (*try_it)(struct trial *trial), unsigned *nrp)
{
	unsigned yes = 0, no = 0;

	while (yes < CHECK_MAJORITY && no < CHECK_MAJORITY) {
		if (try_it(trial))
			yes++;
		else
			no++;
	}
	*nrp = yes + no;
	return yes;
}

static void try_copies(struct trial *trial, struct check *check, void *to, const void *from,
		       const char *what)
{
	const struct check_machine *m = trial->m;
	unsigned yes, nr;

	trial->to = to;
	trial->from = from;
	yes = vote(trial, copy_passes, &nr);
	if (yes >= CHECK_MAJORITY) {
		check_says(check, CHECK_YES,
			   "%s were done while another worker's kernel ran (%u of %u times)", what,
			   yes, nr);
		return;
	}
	check_says(check, CHECK_NO, "%s waited for another worker's kernel (%u of %u times)", what,
		   nr - yes, nr);
	check_blame(check, m, 2, m->info.cuda && !m->info.nr_copy_engines ?
		    "this GPU has no copy engine" : "a debugger or a profiler that serialises, or "
		    "another process that keeps the device busy");
}

static void try_pinned(struct trial *trial, struct check *check, void *device, void *host,
		       double lock_ms)
{
	const int locked = trial->m->info.cuda ? tool_page_locked(host) : 1;
	const uint64_t before = tool_stats(trial->m->pool).staged_bytes;
	unsigned yes, nr;
	uint64_t by_cpu;

	trial->to = device;
	trial->from = host;
	yes = vote(trial, call_returns, &nr);
	by_cpu = tool_stats(trial->m->pool).staged_bytes - before;
	check_figure(check, "page_lock_ms_per_mb", lock_ms / (COPY_BYTES >> 20));
	check_figure(check, "issue_us", (double)trial->issue_ns / 1e3);
	if (locked < 0) {
		check_says(check, CHECK_UNKNOWN, "CUDA does not report the type of the memory");
	} else if (locked && !by_cpu && yes >= CHECK_MAJORITY) {
		check_says(check, CHECK_YES, "a copy after a running kernel was issued in %.0f us%s",
			   (double)trial->issue_ns / 1e3, trial->m->info.cuda ?
			   ", and CUDA knows the memory as page-locked" :
			   "; plain memory on the host device");
	} else {
		check_says(check, CHECK_NO, "%s; a CPU copied %.1f MB; of %u copies, %u blocked "
			   "their worker", locked ? "the memory is page-locked" :
			   "CUDA does not know the memory as page-locked", (double)by_cpu / 1e6, nr,
			   nr - yes);
		check_blame(check, trial->m, 1, "the driver does not page-lock memory: check the "
			    "system's free memory, and the limits of the container");
	}
}

void check_beside(const struct check_machine *m, struct check *in, struct check *out,
		  struct check *pinned)
{
	static struct trial trial;
	void *device = tool_device_memory(m->pool, 0, COPY_BYTES), *host;
	uint64_t start = tool_now();
	double lock_ms;

	host = tool_pinned(m->pool, COPY_BYTES);
	lock_ms = (double)(tool_now() - start) / 1e6;
	trial.m = m;
	trial.words = tool_pinned(m->pool, sizeof(uint32_t) * TOOL_HOLD_WORDS);
	trial.to = device;
	trial.from = host;
	(void)copy_passes(&trial);	/* CUDA loads a kernel at its first launch */
	try_copies(&trial, in, device, host, "copies to the device");
	try_copies(&trial, out, host, device, "copies from the device");
	try_pinned(&trial, pinned, device, host, lock_ms);
	rnl_memory_put(m->pool, trial.words);
	rnl_memory_put(m->pool, host);
	rnl_memory_put(m->pool, device);
}
