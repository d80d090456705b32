/* SPDX-License-Identifier: MIT */
/* The posts of a process of examples/http_server: other processes always read one whole text. */
#include "examples/http_server/posted.c"

#include "suite.h"

#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WRITERS = 100, READS = 50, LONGEST = 60000 };

static struct posted *shared(void)
{
	struct posted *posted = mmap(NULL, sizeof(*posted), PROT_READ | PROT_WRITE,
				     MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	ck_assert_ptr_ne(posted, MAP_FAILED);
	return posted;
}

/* Each text consists of one letter, and each letter has its own length. */
static size_t length_of(char letter)
{
	return (size_t)(letter - 'a' + 1) * (LONGEST / 26);
}

static void post_for_ever(struct posted *posted)
{
	static char text[LONGEST];

	for (unsigned i = 0;; i++) {
		const char letter = (char)('a' + i * 7 % 26);

		memset(text, letter, length_of(letter));
		posted_write(posted, text, length_of(letter));
	}
}

static void is_whole(const struct posted *posted)
{
	char *text = posted_read(posted);

	ck_assert_ptr_nonnull(text);
	ck_assert_uint_eq(strlen(text), length_of(text[0]));
	ck_assert_uint_eq(strspn(text, (char[]){ text[0], '\0' }), length_of(text[0]));
	free(text);
}

TEST(before_the_first_post_there_is_no_text)
{
	struct posted *posted = shared();
	char *text;

	ck_assert_ptr_null(posted_read(posted));
	posted_write(posted, "", 0);
	text = posted_read(posted);
	ck_assert_str_eq(text, "");
	free(text);
	munmap(posted, sizeof(*posted));
}

TEST(a_text_that_is_too_long_leaves_the_last_one)
{
	static char longest[POSTED_MAX + 1];
	struct posted *posted = shared();
	char *text;

	memset(longest, 'x', sizeof(longest));
	posted_write(posted, longest, POSTED_MAX);
	posted_write(posted, longest, POSTED_MAX + 1);
	text = posted_read(posted);
	ck_assert_uint_eq(strlen(text), POSTED_MAX);
	free(text);
	munmap(posted, sizeof(*posted));
}

static pid_t begin_writer(struct posted *posted)
{
	const pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		post_for_ever(posted);
	}
	return pid;
}

/* A writer is killed at any place, and another one replaces it. */
TEST(the_last_text_is_whole_though_writers_are_killed)
{
	struct posted *posted = shared();

	for (int i = 0; i < WRITERS; i++) {
		const pid_t pid = begin_writer(posted);
		int status;

		while (!atomic_load(&posted->nr))
			sched_yield();
		for (int j = 0; j < READS; j++)
			is_whole(posted);
		kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		is_whole(posted);
	}
	munmap(posted, sizeof(*posted));
}
