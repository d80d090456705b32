/* SPDX-License-Identifier: MIT */
/* Makes the kernel refuse system calls, like a sandbox: seccomp(2). */
#ifndef REFUSE_H
#define REFUSE_H

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "await.h"

#define REFUSED_MOST 4

/*
 * From now on these system calls return @err to the calling thread, and to threads and processes
 * that it starts; a number of -1 ends the list.  This is permanent: call it in a child.  Returns
 * false if the system has no such filters.
 */
static inline bool refuse(int err, const long numbers[REFUSED_MOST])
{
	struct sock_filter filter[2 * REFUSED_MOST + 2];
	unsigned short nr = 0;

	filter[nr++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
						    offsetof(struct seccomp_data, nr));
	for (unsigned i = 0; i < REFUSED_MOST && numbers[i] >= 0; i++) {
		filter[nr++] = (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K,
							    (unsigned)numbers[i], 0, 1);
		filter[nr++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K,
							    SECCOMP_RET_ERRNO | (unsigned)err);
	}
	filter[nr++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
	return !prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) &&
	       !prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &(struct sock_fprog){ nr, filter });
}

#define NO_FILTER 77

/*
 * Calls a function in a child, where these system calls return @err.  Returns the exit status, or
 * NO_FILTER if the system has no such filters.
 */
static inline int status_refused(int err, const long numbers[REFUSED_MOST], int (*fn)(void))
{
	int status = 0;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (!pid)
		_exit(refuse(err, numbers) ? fn() : NO_FILTER);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_msg(WIFEXITED(status), "the child died of signal %d", WTERMSIG(status));
	return WEXITSTATUS(status);
}

/* Runs a test function by status_refused(): it returns 0 or an error's line.  May skip. */
#define ck_refused(err, fn, ...) \
	do { \
		int status_ = status_refused(err, (const long[REFUSED_MOST]){ __VA_ARGS__ }, fn); \
		if (status_ == NO_FILTER) \
			test_skip("no seccomp filters here"); \
		ck_assert_msg(!status_, #fn "() with %s: line %d", strerror(err), status_); \
	} while (0)

#endif /* REFUSE_H */
