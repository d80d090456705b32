/* SPDX-License-Identifier: MIT */
/* The functions that the compiler calls with -fsanitize=thread; sim.h has the design. */
#include <stddef.h>
#include <string.h>

#include "sim/memory.h"
#include "sim/sim.h"

/* Only the compiler calls these functions. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define HERE __builtin_return_address(0)

/* One thread runs at a time, in its program's order, so plain accesses are no steps. */
#define PLAIN(size) \
	void __tsan_read##size(void *at) { memory_plain(at, size, false, HERE); } \
	void __tsan_write##size(void *at) { memory_plain(at, size, true, HERE); } \
	void __tsan_unaligned_read##size(void *at) { memory_plain(at, size, false, HERE); } \
	void __tsan_unaligned_write##size(void *at) { memory_plain(at, size, true, HERE); }
PLAIN(1) PLAIN(2) PLAIN(4) PLAIN(8) PLAIN(16)

void __tsan_init(void) {}
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void) {}
void __tsan_read_range(void *at, size_t size) { memory_plain(at, size, false, HERE); }
void __tsan_write_range(void *at, size_t size) { memory_plain(at, size, true, HERE); }

/* Called by newer compilers. */
void *__tsan_memmove(void *to, const void *from, size_t size)
{
	memory_plain(from, size, false, HERE);
	memory_plain(to, size, true, HERE);
	return memmove(to, from, size);
}

void *__tsan_memcpy(void *to, const void *from, size_t size)
{
	return __tsan_memmove(to, from, size);
}

void *__tsan_memset(void *to, int value, size_t size)
{
	memory_plain(to, size, true, HERE);
	return memset(to, value, size);
}

/* Really atomic, because a forked child's threads do not run one at a time. */
#define ATOMIC(bits, type) \
	type __tsan_atomic##bits##_load(const volatile type *at, int order) \
	{ \
		sim_step(SIM_LOAD, at, HERE); \
		return (type)memory_load(at, bits / 8, __atomic_load_n(at, __ATOMIC_SEQ_CST), order); \
	} \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order) \
	{ \
		type was; \
		sim_step(SIM_STORE, at, HERE); \
		was = __atomic_exchange_n(at, value, __ATOMIC_SEQ_CST); \
		memory_store(at, bits / 8, was, value, order); \
	} \
	static bool compare##bits(volatile type *at, type *old, type value, int order, int other, \
				  const void *pc) \
	{ \
		bool done; \
		sim_step(SIM_MODIFY, at, pc); \
		done = __atomic_compare_exchange_n(at, old, value, 0, __ATOMIC_SEQ_CST, \
						   __ATOMIC_SEQ_CST); \
		if (done) \
			memory_modify(at, bits / 8, *old, value, order); \
		else \
			memory_look(at, bits / 8, *old, other); \
		return done; \
	} \
	int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *old, \
							  type value, int order, int other) \
	{ \
		return compare##bits(at, old, value, order, other, HERE); \
	} \
	__attribute__((alias("__tsan_atomic" #bits "_compare_exchange_strong"))) \
	int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *old, \
							type value, int order, int other); \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type old, \
							type value, int order, int other) \
	{ \
		(void)compare##bits(at, &old, value, order, other, HERE); \
		return old; \
	} \
	MODIFY(bits, type, exchange, exchange_n, operand) \
	MODIFY(bits, type, fetch_add, fetch_add, was + operand) \
	MODIFY(bits, type, fetch_sub, fetch_sub, was - operand) \
	MODIFY(bits, type, fetch_or, fetch_or, was | operand) \
	MODIFY(bits, type, fetch_xor, fetch_xor, was ^ operand) \
	MODIFY(bits, type, fetch_and, fetch_and, was & operand)
#define MODIFY(bits, type, name, builtin, result) \
	type __tsan_atomic##bits##_##name(volatile type *at, type operand, int order) \
	{ \
		type was; \
		sim_step(SIM_MODIFY, at, HERE); \
		was = __atomic_##builtin(at, operand, __ATOMIC_SEQ_CST); \
		memory_modify(at, bits / 8, was, (type)(result), order); \
		return was; \
	}
ATOMIC(8, uint8_t) ATOMIC(16, uint16_t) ATOMIC(32, uint32_t) ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order)
{
	sim_step(SIM_FENCE, NULL, HERE);
	memory_fence(order);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}
