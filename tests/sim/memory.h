/* SPDX-License-Identifier: MIT */
/* Decides which values a load may return and which plain accesses race; memory.c has the design. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Known threads, by their slots: 0, 1, ... */
#define MEMORY_THREADS 8

/* False: memory is sequentially consistent, and the calls below do nothing. */
extern bool memory_weak;

/* Makes all memory new: each thread has seen all of it. */
void memory_forget_all(void);

/* Makes these bytes new: they were freed. */
void memory_forget(const volatile void *at, size_t size);

/* Looks for races in the first accesses to these bytes. */
void memory_watch(const volatile void *at, size_t size);

/* A thread begins in a slot, with its parent's knowledge. */
void memory_thread_begins(unsigned slot, unsigned parent);

/* A thread ends; threads that begin later get its knowledge. */
void memory_thread_ends(unsigned slot);

/*
 * Accesses of the calling thread, sim_slot(). @value: the value in memory, or the new value of a
 * store.  A load returns @value or an older value; a look sees only @value.
 */
uint64_t memory_load(const volatile void *at, unsigned size, uint64_t value, int order);
void memory_look(const volatile void *at, unsigned size, uint64_t value, int order);
void memory_store(const volatile void *at, unsigned size, uint64_t was, uint64_t value, int order);
void memory_modify(const volatile void *at, unsigned size, uint64_t was, uint64_t value, int order);
void memory_fence(int order);
void memory_plain(const volatile void *at, size_t size, bool write, const void *pc);

/* The caller meets other threads at a lock or another object: acquires and releases. */
void memory_meet(const volatile void *object);

#endif
