dnl SPDX-License-Identifier: MIT
dnl RNL_FUZZ: FUZZ_CC, a clang with libFuzzer for make fuzz, or empty; fuzz_says.
AC_DEFUN([RNL_FUZZ],
[AC_CHECK_PROGS([FUZZ_CC], [clang])
AC_MSG_CHECKING([for libFuzzer])
rnl_cc=$CC rnl_cflags=$CFLAGS rnl_ldflags=$LDFLAGS
CC=${FUZZ_CC:-false} CFLAGS="-fsanitize=fuzzer,address,undefined" LDFLAGS=
AC_LINK_IFELSE([AC_LANG_SOURCE(
[[#include <stddef.h>
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t bytes)
{ return data && bytes && 0; }]])],
  [AC_MSG_RESULT([yes])], [FUZZ_CC=; AC_MSG_RESULT([no])])
CC=$rnl_cc CFLAGS=$rnl_cflags LDFLAGS=$rnl_ldflags
AS_IF([test "$FUZZ_CC"], [fuzz_says="yes: make fuzz"],
  [fuzz_says="no: clang and its libFuzzer are missing (make deps fuzz installs them)"])])
