dnl SPDX-License-Identifier: MIT
dnl RNL_PKG(VAR, MODULE, [IF-MISSING]): have_VAR, VAR_CFLAGS, VAR_LIBS from pkg-config.
AC_DEFUN([RNL_PKG],
[AC_REQUIRE([RNL_PKG_CONFIG])dnl
AC_MSG_CHECKING([for $2])
AS_IF([test -n "$PKG_CONFIG" && $PKG_CONFIG --exists '$2'],
  [$1_CFLAGS=`$PKG_CONFIG --cflags '$2'`; $1_LIBS=`$PKG_CONFIG --libs '$2'`
   have_$1=yes; AC_MSG_RESULT([yes])],
  [have_$1=no; AC_MSG_RESULT([no])
   $3])
AC_SUBST([$1_CFLAGS]) AC_SUBST([$1_LIBS])])
AC_DEFUN([RNL_PKG_CONFIG],
[AC_ARG_VAR([PKG_CONFIG], [pkg-config command, which names the libraries])
AC_CHECK_TOOL([PKG_CONFIG], [pkg-config])
AS_IF([test -z "$PKG_CONFIG"], [AC_MSG_ERROR([pkg-config is missing, which says where liburcu is.
  `make deps` installs it; by hand: the package pkg-config, or pkgconf])])
AS_IF([$PKG_CONFIG --version >/dev/null 2>&1], [], [AC_MSG_ERROR([PKG_CONFIG=$PKG_CONFIG does not run])])])
