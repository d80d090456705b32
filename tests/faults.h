/* SPDX-License-Identifier: MIT */
/*
 * Makes calls of the C library fail, in a program that wraps them (-Wl,--wrap=...).
 * Check is linked statically, and wrapped as well: so nothing is counted but between
 * begin() and end(), where no assertion may stand.
 */
#ifndef FAULTS_H
#define FAULTS_H

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

static _Atomic bool counting;
static _Atomic long countdown;		/* to the call that fails; 0 and below: none does */
static _Atomic bool persistent;		/* and so do all after it */
static _Atomic long failed, living;

static bool fails(void)
{
	long left;

	if (!counting)
		return false;
	left = atomic_fetch_sub(&countdown, 1);
	if (left != 1 && !(left < 1 && persistent))
		return false;
	failed++;
	return true;
}

static void *counted(void *mem)
{
	living += counting && mem;
	return mem;
}

void *__real_malloc(size_t bytes);
void *__real_calloc(size_t nr, size_t bytes);
void *__real_aligned_alloc(size_t alignment, size_t bytes);
void *__real_realloc(void *mem, size_t bytes);
void __real_free(void *mem);
int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);
void *__wrap_malloc(size_t bytes);
void *__wrap_calloc(size_t nr, size_t bytes);
void *__wrap_aligned_alloc(size_t alignment, size_t bytes);
void *__wrap_realloc(void *mem, size_t bytes);
void __wrap_free(void *mem);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg);

void *__wrap_malloc(size_t bytes)
{
	return fails() ? NULL : counted(__real_malloc(bytes));
}

void *__wrap_calloc(size_t nr, size_t bytes)
{
	return fails() ? NULL : counted(__real_calloc(nr, bytes));
}

void *__wrap_aligned_alloc(size_t alignment, size_t bytes)
{
	return fails() ? NULL : counted(__real_aligned_alloc(alignment, bytes));
}

void *__wrap_realloc(void *mem, size_t bytes)
{
	void *larger = fails() ? NULL : __real_realloc(mem, bytes);

	living += counting && larger && !mem;
	return larger;
}

void __wrap_free(void *mem)
{
	living -= counting && mem;
	__real_free(mem);
}

int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*fn)(void *),
			  void *arg)
{
	return fails() ? EAGAIN : __real_pthread_create(thread, attr, fn, arg);
}

/* The @nth call from here on fails, 0: none, and, if so, all after it. */
static void begin(long nth, bool from_then_on)
{
	failed = 0;
	countdown = nth;
	persistent = from_then_on && nth;
	counting = true;
}

static void end(void)
{
	counting = false;
}

#endif /* FAULTS_H */
