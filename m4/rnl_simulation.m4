dnl SPDX-License-Identifier: MIT
dnl RNL_SIMULATION: --enable-simulation; sets simulation, extends RNL_CFLAGS.  docs/simulation.md
AC_DEFUN([RNL_SIMULATION],
[AC_ARG_ENABLE([simulation],
  [AS_HELP_STRING([--enable-simulation], [tests run on a simulated machine: docs/simulation.md])])
simulation=
AS_CASE([$enable_simulation], [no|''], [], [yes],
  [AS_IF([test -n "$sanitizer"], [AC_MSG_ERROR([--enable-simulation takes ThreadSanitizer's place: not with --enable-sanitizer])])
   AS_CASE(["`$CC --version`"], [*clang*], [AC_MSG_ERROR([--enable-simulation needs gcc: CC=gcc])])
   simulation=yes
   dnl Each atomic access calls a function of tests/sim.
   RNL_CFLAGS="$RNL_CFLAGS -fsanitize=thread --param tsan-instrument-func-entry-exit=0 -Wno-tsan -U__SANITIZE_THREAD__ -D_LGPL_SOURCE -DRNL__SIMULATION"],
  [AC_MSG_ERROR([--enable-simulation takes no value])])
AC_SUBST([simulation])])
