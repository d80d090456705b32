/* SPDX-License-Identifier: MIT */
/*
 * Failing calls of the double of CUDA, lost devices, and checks for leaks in the double.
 *
 * DESIGN
 * A lost device stays lost in its process. So an input that may lose it runs in a child of a
 * nursery, a process that was forked before the first call of CUDA. The child's coverage goes to
 * libFuzzer's counters in the parent through shared memory. On a simulated machine (tests/sim) a
 * process has one input.
 */
#include "config.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <sanitizer/common_interface_defs.h>

#include "tests/fuzz/calls.h"

#if FUZZ_DOUBLE

#define INPUT_MAX 8192
#define CHILD_S 25

enum { MEMORY_ALLOCATION = 2, LAUNCH_FAILURE = 719 };	/* cudaError_t */

/* Calls that may fail.  Calls that free are not listed: they would leak. */
static const char *const functions[] = {
	"any", "cuGraphLaunch", "cuStreamWriteValue32", "cudaEventCreateWithFlags",
	"cudaEventRecord", "cudaHostAlloc", "cudaLaunchKernel", "cudaMallocFromPoolAsync",
	"cudaMemcpyAsync", "cudaMemcpyBatchAsync", "cudaStreamCreateWithFlags",
	"cudaStreamCreateWithPriority", "cudaStreamWaitEvent",
};

#pragma weak __sanitizer_print_stack_trace
__attribute__((weak)) void sim_begin(void);

/* libFuzzer's counters: a byte for each edge. */
extern uint8_t __start___sancov_cntrs[] __attribute__((weak, visibility("hidden")));
extern uint8_t __stop___sancov_cntrs[] __attribute__((weak, visibility("hidden")));

static int nursery;			/* the socket */
static uint8_t *covered;		/* coverage of the child */
static bool apart;

bool faults_apart(void)
{
	return apart;
}

static size_t nr_counters(void)
{
	return (size_t)(__stop___sancov_cntrs - __start___sancov_cntrs);
}

static void say_where(int signal)
{
	__sanitizer_print_stack_trace();
	_exit(signal);
}

static _Noreturn void be_child(const uint8_t *data, size_t bytes)
{
	apart = true;
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	signal(SIGABRT, say_where);
	signal(SIGALRM, say_where);
	alarm(CHILD_S);
	LLVMFuzzerTestOneInput(data, bytes);
	memcpy(covered, __start___sancov_cntrs, nr_counters());
	_exit(0);
}

static _Noreturn void be_nursery(int parent)
{
	static uint8_t data[INPUT_MAX];
	ssize_t bytes;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while ((bytes = recv(parent, data, sizeof(data), 0)) > 0) {
		int status = -1;
		const pid_t child = fork();

		if (!child)
			be_child(data, (size_t)bytes);
		waitpid(child, &status, 0);
		must(send(parent, &status, sizeof(status), 0) == sizeof(status));
	}
	_exit(0);
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	int pair[2];

	(void)argc;
	(void)argv;
	must(!fake_plan("devices=3,junk,misuse=abort"));
	if (sim_begin)
		return 0;
	covered = mmap(NULL, nr_counters() + 1, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		       -1, 0);
	must(covered != MAP_FAILED && !socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair));
	nursery = pair[0];
	if (!fork()) {
		close(pair[0]);
		be_nursery(pair[1]);
	}
	close(pair[1]);
	return 0;
}

void faults_run_apart(const uint8_t *data, size_t bytes)
{
	int status = -1;

	if (sim_begin) {
		apart = true;
		LLVMFuzzerTestOneInput(data, bytes);
		return;
	}
	bytes = bytes < INPUT_MAX ? bytes : INPUT_MAX;
	must(TEMP_FAILURE_RETRY(send(nursery, data, bytes, 0)) == (ssize_t)bytes);
	/* libFuzzer's alarm interrupts recv(). */
	must(TEMP_FAILURE_RETRY(recv(nursery, &status, sizeof(status), 0)) == sizeof(status));
	if (status)
		fprintf(stderr, "the child's status is %#x\n", (unsigned)status);
	must(!status);
	for (size_t i = 0; i < nr_counters(); i++)
		if (covered[i] > __start___sancov_cntrs[i])
			__start___sancov_cntrs[i] = covered[i];
}

void faults_begin(bool slow)
{
	must(!slow || !fake_plan("delay_ops=200"));
}

void faults_plan(unsigned how)
{
	const unsigned function = how % (sizeof(functions) / sizeof(*functions));

	/* A failure of "any" function may hit a call that frees. */
	if (!function && !apart)
		return;
	s.lost |= apart;
	s.faulty |= !apart;
	/* In most cases the next call fails. */
	(void)fake_fail(functions[function], 1 + (how >> 4 & how >> 7 & 7),
			apart ? LAUNCH_FAILURE : MEMORY_ALLOCATION, apart);
}

void faults_end(bool last)
{
	struct fake_alive now;

	must(!fake_plan("nofail,delay_ops=0"));
	if (!last || apart)
		return;
	fake_alive(&now);
	must(!now.device_bytes && !now.pinned_bytes && !now.events && !now.graphs);
	/* The process keeps these objects for each device. */
	must(now.streams <= DEVICES && now.pools <= DEVICES);
}

#else

bool faults_apart(void)
{
	return false;
}

void faults_run_apart(const uint8_t *data, size_t bytes)
{
	(void)data;
	(void)bytes;
}

void faults_begin(bool slow)
{
	(void)slow;
}

void faults_plan(unsigned how)
{
	(void)how;
}

void faults_end(bool last)
{
	(void)last;
}

#endif
