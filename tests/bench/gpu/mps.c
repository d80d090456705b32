/* SPDX-License-Identifier: MIT */
/*
 * MPS's control daemon, for as long as a row needs it.
 *
 * DESIGN
 *	A shell has the daemon and its folder. It stops both when its input ends, and that ends with
 *	the process that holds the other end of the pipe, however it ends. The shell is in a session
 *	of its own, so an interrupt from the terminal does not reach it.
 */
#include "gpu/gpu.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Prints "in FOLDER" when the daemon answers, or why it does not. */
static const char script[] =
"PATH=$PATH:/usr/local/nvidia/bin\n"
"command -v nvidia-cuda-mps-control >/dev/null || { echo 'there is no nvidia-cuda-mps-control'; exit; }\n"
"dir=$(mktemp -d /tmp/bench-mps.XXXXXX) || { echo 'there is no temporary folder'; exit; }\n"
"trap 'rm -rf \"$dir\"' EXIT\n"
"trap '' PIPE\n"		/* the row may end before the daemon answers */
"export CUDA_MPS_PIPE_DIRECTORY=$dir CUDA_MPS_LOG_DIRECTORY=$dir\n"
"unset CUDA_VISIBLE_DEVICES\n"	/* clients choose: the daemon would number devices anew */
"control() { echo $1 | timeout 10 nvidia-cuda-mps-control 2>/dev/null; }\n"
"nvidia-cuda-mps-control -f </dev/null >\"$dir/output\" 2>&1 &\n"
"daemon=$! tries=100\n"
"until control get_default_active_thread_percentage | grep -q '^[0-9]'; do\n"
"	tries=$((tries - 1))\n"
"	if [ $tries = 0 ] || ! kill -0 $daemon 2>/dev/null; then\n"
"		why=$(head -n 1 \"$dir/output\")\n"
"		echo \"${why:-it does not answer}\"\n"
"		kill -9 $daemon 2>/dev/null\n"
"		exit\n"
"	fi\n"
"	sleep 0.1\n"
"done\n"
"echo \"in $dir\" 2>/dev/null\n"
"cat >/dev/null\n"
"control quit >/dev/null\n"
"tries=100\n"
"while kill -0 $daemon 2>/dev/null; do\n"
"	tries=$((tries - 1))\n"
"	[ $tries != 0 ] || kill -9 $daemon\n"
"	sleep 0.1\n"
"done\n";

static _Noreturn void run_script(int in, int out)
{
	setsid();
	if (dup2(in, STDIN_FILENO) < 0 || dup2(out, STDOUT_FILENO) < 0)
		_exit(EXIT_FAILURE);
	/* Also the pipe to the parent, which waits until it is closed. */
	for (int fd = STDERR_FILENO + 1; fd < 256; fd++)
		close(fd);
	execl("/bin/sh", "sh", "-c", script, (char *)NULL);
	_exit(EXIT_FAILURE);
}

bool gpu_mps_start(struct gpu_mps *mps, char *why, size_t bytes)
{
	int hold[2], answer[2];
	char line[128];
	FILE *from;

	bench_must(!pipe(hold) && !pipe(answer), "pipe");
	mps->shell = fork();
	bench_must(mps->shell >= 0, "fork");
	if (!mps->shell)
		run_script(hold[0], answer[1]);
	close(hold[0]);
	close(answer[1]);
	mps->hold = hold[1];
	from = fdopen(answer[0], "r");
	bench_must(from != NULL, "fdopen");
	if (!fgets(line, sizeof(line), from))
		snprintf(line, sizeof(line), "no shell");
	fclose(from);
	line[strcspn(line, "\n")] = '\0';
	if (!strncmp(line, "in ", 3)) {
		snprintf(mps->directory, sizeof(mps->directory), "%s", line + 3);
		return true;
	}
	snprintf(why, bytes, "%s", line);
	gpu_mps_stop(mps);
	return false;
}

void gpu_mps_stop(struct gpu_mps *mps)
{
	close(mps->hold);
	(void)waitpid(mps->shell, NULL, 0);
}
