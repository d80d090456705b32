/* SPDX-License-Identifier: MIT */
/* What the compiler calls with -fsanitize=thread; sim.h has the design. */
#include <stddef.h>
#include <string.h>

#include "sim/sim.h"

/* Only the compiler calls these. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"

#define HERE __builtin_return_address(0)

/* One thread runs at a time, and in the order of its program: plain accesses are no steps. */
#define PLAIN(size) \
	void __tsan_read##size(void *at) { (void)at; } \
	void __tsan_write##size(void *at) { (void)at; } \
	void __tsan_unaligned_read##size(void *at) { (void)at; } \
	void __tsan_unaligned_write##size(void *at) { (void)at; }
PLAIN(1) PLAIN(2) PLAIN(4) PLAIN(8) PLAIN(16)

void __tsan_init(void) {}
void __tsan_func_entry(void *pc) { (void)pc; }
void __tsan_func_exit(void) {}
void __tsan_read_range(void *at, size_t size) { (void)at; (void)size; }
void __tsan_write_range(void *at, size_t size) { (void)at; (void)size; }
void __tsan_vptr_update(void **at, void *to) { (void)at; (void)to; }
void __tsan_vptr_read(void **at) { (void)at; }

/* Later compilers call these. */
void *__tsan_memcpy(void *to, const void *from, size_t size) { return memcpy(to, from, size); }
void *__tsan_memset(void *to, int value, size_t size) { return memset(to, value, size); }
void *__tsan_memmove(void *to, const void *from, size_t size) { return memmove(to, from, size); }

#define ATOMIC(bits, type) \
	type __tsan_atomic##bits##_load(const volatile type *at, int order) \
	{ \
		(void)order; \
		sim_step(SIM_LOAD, at, HERE); \
		return __atomic_load_n(at, __ATOMIC_SEQ_CST); \
	} \
	void __tsan_atomic##bits##_store(volatile type *at, type value, int order) \
	{ \
		(void)order; \
		sim_step(SIM_STORE, at, HERE); \
		__atomic_store_n(at, value, __ATOMIC_SEQ_CST); \
	} \
	int __tsan_atomic##bits##_compare_exchange_strong(volatile type *at, type *old, \
							  type value, int order, int other) \
	{ \
		(void)order; \
		(void)other; \
		sim_step(SIM_MODIFY, at, HERE); \
		return __atomic_compare_exchange_n(at, old, value, 0, __ATOMIC_SEQ_CST, \
						   __ATOMIC_SEQ_CST); \
	} \
	int __tsan_atomic##bits##_compare_exchange_weak(volatile type *at, type *old, \
							type value, int order, int other) \
	{ \
		(void)order; \
		(void)other; \
		sim_step(SIM_MODIFY, at, HERE); \
		return __atomic_compare_exchange_n(at, old, value, 0, __ATOMIC_SEQ_CST, \
						   __ATOMIC_SEQ_CST); \
	} \
	type __tsan_atomic##bits##_compare_exchange_val(volatile type *at, type old, \
							type value, int order, int other) \
	{ \
		(void)order; \
		(void)other; \
		sim_step(SIM_MODIFY, at, HERE); \
		(void)__atomic_compare_exchange_n(at, &old, value, 0, __ATOMIC_SEQ_CST, \
						  __ATOMIC_SEQ_CST); \
		return old; \
	} \
	MODIFY(bits, type, exchange, exchange_n) \
	MODIFY(bits, type, fetch_add, fetch_add) \
	MODIFY(bits, type, fetch_sub, fetch_sub) \
	MODIFY(bits, type, fetch_or, fetch_or) \
	MODIFY(bits, type, fetch_xor, fetch_xor) \
	MODIFY(bits, type, fetch_and, fetch_and)
#define MODIFY(bits, type, name, builtin) \
	type __tsan_atomic##bits##_##name(volatile type *at, type operand, int order) \
	{ \
		(void)order; \
		sim_step(SIM_MODIFY, at, HERE); \
		return __atomic_##builtin(at, operand, __ATOMIC_SEQ_CST); \
	}
ATOMIC(8, uint8_t) ATOMIC(16, uint16_t) ATOMIC(32, uint32_t) ATOMIC(64, uint64_t)

void __tsan_atomic_thread_fence(int order)
{
	(void)order;
	sim_step(SIM_FENCE, NULL, HERE);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
}

void __tsan_atomic_signal_fence(int order)
{
	(void)order;
}
