dnl SPDX-License-Identifier: MIT
dnl RNL_SRCDIR: make knows no names with blanks.  If the path to the sources has one, the link
dnl `sources` in the build directory stands for it.
AC_DEFUN([RNL_SRCDIR],
[AS_CASE(["$srcdir"], [*@<:@[[:space:]]@:>@*],
  [rm -f sources
   ln -s "$srcdir" sources || AC_MSG_ERROR([the path to the sources has a blank, and the link
  to them, sources, cannot be made here])
   srcdir=sources])])
dnl RNL_64BIT: a job's state and its links are words of 64 bits that change at once.
AC_DEFUN([RNL_64BIT],
[AC_MSG_CHECKING([whether pointers have 64 bits])
AC_COMPILE_IFELSE([AC_LANG_PROGRAM([], [[int wide[sizeof(void *) >= 8 ? 1 : -1]; (void)wide;]])],
  [AC_MSG_RESULT([yes])],
  [AC_MSG_RESULT([no])
   AC_MSG_ERROR([runnel needs a 64-bit system, and $CC $CFLAGS compiles for another one])])])
