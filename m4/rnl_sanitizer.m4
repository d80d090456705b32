dnl SPDX-License-Identifier: MIT
dnl RNL_SANITIZER: --enable-sanitizer=LIST; sets sanitizer, extends RNL_CFLAGS and RNL_LDFLAGS.
AC_DEFUN([RNL_SANITIZER],
[AC_ARG_ENABLE([sanitizer],
  [AS_HELP_STRING([--enable-sanitizer=LIST], [e.g. address,undefined or thread])],
  [AS_CASE([$enableval], [no], [sanitizer=],
     [yes], [AC_MSG_ERROR([--enable-sanitizer needs a list, such as address,undefined])],
     [sanitizer=$enableval])])
AS_IF([test -n "$sanitizer"],
  [RNL_LDFLAGS="$RNL_LDFLAGS -fsanitize=$sanitizer"
   RNL_CFLAGS="$RNL_CFLAGS -fsanitize=$sanitizer -fno-sanitize-recover=all -fno-omit-frame-pointer"
   AC_MSG_CHECKING([whether $CC links with -fsanitize=$sanitizer])
   rnl_save=$CFLAGS; CFLAGS="$CFLAGS -fsanitize=$sanitizer"
   AC_LINK_IFELSE([AC_LANG_PROGRAM()], [AC_MSG_RESULT([yes])],
     [AC_MSG_RESULT([no])
      AC_MSG_ERROR([$CC cannot link with -fsanitize=$sanitizer: not a list of sanitizers that go
  together, or, for clang, the package libclang-rt-dev is missing])])
   CFLAGS=$rnl_save])
AC_SUBST([sanitizer])])
