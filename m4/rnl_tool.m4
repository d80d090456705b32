dnl SPDX-License-Identifier: MIT
dnl RNL_TOOL: what commands of the tool need, each of which may be missing; sets tool_says, and
dnl what RNL_PKG does for LIBELF (JANSSON is RNL_HTTP's).
AC_DEFUN([RNL_TOOL],
[RNL_PKG([LIBELF], [libelf >= 0.170])
rnl_missing=
AS_IF([test $have_JANSSON = no], [rnl_missing="$rnl_missing report (jansson is missing),"])
AS_IF([test $have_LIBELF = no], [rnl_missing="$rnl_missing lint (libelf is missing),"])
AS_IF([test -z "$rnl_missing"], [tool_says=yes],
  [tool_says="without${rnl_missing%,}: make deps all completes it"])
AC_SUBST([have_LIBELF])])
