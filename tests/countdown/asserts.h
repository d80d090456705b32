/* SPDX-License-Identifier: MIT */
/*
 * Assertions of the common headers, for a try.  Check's own assertions would report to the test of
 * another process, and would count as memory.
 */
#ifndef COUNTDOWN_ASSERTS_H
#define COUNTDOWN_ASSERTS_H

#include <check.h>

#include "countdown.h"

#undef ck_abort_msg
#undef ck_assert
#undef ck_assert_int_eq
#undef ck_assert_int_ge
#undef ck_assert_int_gt
#undef ck_assert_msg
#undef ck_assert_ptr_nonnull
#undef ck_assert_uint_eq
#undef ck_assert_uint_ge
#undef ck_assert_uint_gt
#undef ck_assert_uint_le

#define ck_abort_msg(...)	unexpected(__VA_ARGS__)
#define ck_assert(is)		expect(is)
#define ck_assert_int_eq(a, b)	expect((a) == (b))
#define ck_assert_int_ge(a, b)	expect((a) >= (b))
#define ck_assert_int_gt(a, b)	expect((a) > (b))
#define ck_assert_msg		expect_msg
#define ck_assert_ptr_nonnull(p) expect((p) != NULL)
#define ck_assert_uint_eq(a, b)	expect((uint64_t)(a) == (uint64_t)(b))
#define ck_assert_uint_ge(a, b)	expect((uint64_t)(a) >= (uint64_t)(b))
#define ck_assert_uint_gt(a, b)	expect((uint64_t)(a) > (uint64_t)(b))
#define ck_assert_uint_le(a, b)	expect((uint64_t)(a) <= (uint64_t)(b))

#endif
