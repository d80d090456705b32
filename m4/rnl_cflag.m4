dnl SPDX-License-Identifier: MIT
dnl RNL_ACCEPTS(FLAG, IF-YES, [IF-NO]): whether the compiler takes FLAG, without a warning.
AC_DEFUN([RNL_ACCEPTS],
[AS_VAR_PUSHDEF([cv], [rnl_cv_cflag_$1])dnl
AC_CACHE_CHECK([whether $CC accepts $1], [cv],
  [rnl_save=$CFLAGS; CFLAGS="$CFLAGS -Werror $1"
   AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <string.h>]])], [AS_VAR_SET([cv], [yes])], [AS_VAR_SET([cv], [no])])
   CFLAGS=$rnl_save])
AS_VAR_IF([cv], [yes], [$2], [$3])
AS_VAR_POPDEF([cv])])
dnl RNL_CFLAG(FLAG): append FLAG to RNL_CFLAGS if the compiler accepts it.
AC_DEFUN([RNL_CFLAG], [RNL_ACCEPTS([$1], [RNL_CFLAGS="$RNL_CFLAGS $1"])])
