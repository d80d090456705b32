dnl SPDX-License-Identifier: MIT
dnl RNL_HTTP: what examples/http_server needs; sets have_HTTP, HTTP_CFLAGS, HTTP_LIBS, http_says,
dnl and what RNL_PKG does for LIBEVENT, JANSSON, LIBPNG, ZLIB.  examples/pipeline needs LIBPNG alone:
dnl pipeline_says.
AC_DEFUN([RNL_HTTP],
[rnl_missing=
RNL_PKG([LIBEVENT], [libevent >= 2.1.9], [rnl_missing="$rnl_missing libevent,"])
RNL_PKG([JANSSON], [jansson >= 2.10], [rnl_missing="$rnl_missing libjansson,"])
RNL_PKG([LIBPNG], [libpng >= 1.6], [rnl_missing="$rnl_missing libpng,"])
RNL_PKG([ZLIB], [zlib], [rnl_missing="$rnl_missing zlib,"])
AS_IF([test -z "$rnl_missing"],
  [have_HTTP=yes; http_says="yes: make check-http"],
  [have_HTTP=no; rnl_missing=${rnl_missing%,}
   AS_CASE([$rnl_missing],
     [*,*], [http_says="no:$rnl_missing are missing (make deps serve installs them)"],
     [http_says="no:$rnl_missing is missing (make deps serve installs it)"])])
HTTP_CFLAGS="$LIBEVENT_CFLAGS $JANSSON_CFLAGS $LIBPNG_CFLAGS $ZLIB_CFLAGS"
HTTP_LIBS="$LIBEVENT_LIBS $JANSSON_LIBS $LIBPNG_LIBS $ZLIB_LIBS"
AS_IF([test $have_LIBPNG = yes], [pipeline_says=yes],
  [pipeline_says="no: libpng is missing (sh deps.sh http installs it)"])
AC_SUBST([have_LIBPNG])
AC_SUBST([have_HTTP]) AC_SUBST([HTTP_CFLAGS]) AC_SUBST([HTTP_LIBS])])
