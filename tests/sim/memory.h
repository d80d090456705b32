/* SPDX-License-Identifier: MIT */
/* What a load may return, and which plain accesses race; memory.c has the design. */
#ifndef SIM_MEMORY_H
#define SIM_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Threads that it knows, by their slots: 0, 1, ... */
#define MEMORY_THREADS 8

/* False: memory is sequentially consistent, and no call below does anything. */
extern bool memory_weak;

/* All memory is as if it were new.  Each thread has seen all of it. */
void memory_forget_all(void);

/* The same of these bytes: they were freed. */
void memory_forget(const volatile void *at, size_t size);

/* Races are looked for in these bytes, in the first accesses to them. */
void memory_watch(const volatile void *at, size_t size);

/* A thread begins in a slot: it knows what its parent knows. */
void memory_thread_begins(unsigned slot, unsigned parent);

/* A thread ends: those that begin later know what it knew. */
void memory_thread_ends(unsigned slot);

/*
 * Accesses of the calling thread, sim_slot().  @value: what is, or now will be, in memory.  A load
 * returns that or an older value.  @look: no older one.
 */
uint64_t memory_load(const volatile void *at, unsigned size, uint64_t value, int order);
void memory_look(const volatile void *at, unsigned size, uint64_t value, int order);
void memory_store(const volatile void *at, unsigned size, uint64_t was, uint64_t value, int order);
void memory_modify(const volatile void *at, unsigned size, uint64_t was, uint64_t value, int order);
void memory_fence(int order);
void memory_plain(const volatile void *at, size_t size, bool write, const void *pc);

/* A lock, or anything else of the system's that threads meet at: acquires and releases. */
void memory_meet(const volatile void *object);

#endif
