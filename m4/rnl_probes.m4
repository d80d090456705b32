dnl SPDX-License-Identifier: MIT
dnl RNL_PROBES: HAVE_SDT if <sys/sdt.h> is there, and the compiler takes its probes; sets
dnl probes_says.
AC_DEFUN([RNL_PROBES],
[AC_CACHE_CHECK([for probes by sys/sdt.h], [rnl_cv_sdt],
  [AC_COMPILE_IFELSE([AC_LANG_PROGRAM([[#include <sys/sdt.h>]],
     [[int it = 0; __asm__ __inline__ __volatile__(STAP_PROBE_ASM(a, b, 4@%[it]) : : [it] "m" (it));]])],
    [rnl_cv_sdt=yes], [rnl_cv_sdt=no])])
AS_IF([test $rnl_cv_sdt = yes], [AC_DEFINE([HAVE_SDT], [1])
   probes_says="yes: docs/probes.md"],
  [probes_says="no: sys/sdt.h is missing (sh deps.sh probes)"])])
