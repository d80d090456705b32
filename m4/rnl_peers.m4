dnl SPDX-License-Identifier: MIT
dnl RNL_PEERS: what make bench measures beside runnel, each of which may be missing; sets
dnl peers_says, and have_X, X_CFLAGS, X_LIBS of GLIB, OPENMP and TBB (LIBUV is there already).
dnl TBB is C++: RNL_CXXFLAGS are ours for its one file, CXXFLAGS the user's, and $CC links it.
dnl OpenMP and TBB are left out with ThreadSanitizer, which cannot see how they hand work over.
AC_DEFUN([RNL_PEERS],
[AC_ARG_VAR([CXXFLAGS], [C++ compiler flags])
: ${CXXFLAGS="-O2 -g"}
RNL_PKG([GLIB], [glib-2.0 >= 2.36])	dnl its headers are not ours to warn of
GLIB_CFLAGS=`AS_ECHO([" $GLIB_CFLAGS"]) | sed 's/ -I/ -isystem /g'`
AC_MSG_CHECKING([whether $CC knows OpenMP])
rnl_save=$CFLAGS; CFLAGS="$CFLAGS -fopenmp"
AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <omp.h>]], [[return omp_get_num_threads() - 1;]])],
  [have_OPENMP=yes OPENMP_CFLAGS=-fopenmp OPENMP_LIBS=-fopenmp], [have_OPENMP=no])
CFLAGS=$rnl_save
AS_CASE([$sanitizer], [*thread*], [have_OPENMP=no])
AC_MSG_RESULT([$have_OPENMP])
RNL_CXXFLAGS="-std=c++17 -pthread -fPIC -Wall -Wextra"
AS_IF([test "x$enable_werror" = xyes], [RNL_CXXFLAGS="$RNL_CXXFLAGS -Werror"])
AS_IF([test -n "$sanitizer"], [RNL_CXXFLAGS="$RNL_CXXFLAGS -fsanitize=$sanitizer \
-fno-sanitize-recover=all -fno-omit-frame-pointer"])
RNL_PKG([TBB], [tbb >= 2021.1])
AS_CASE([$sanitizer], [*thread*], [have_TBB=no])
AS_IF([test $have_TBB = yes],
  [AC_MSG_CHECKING([whether $CXX compiles oneTBB for $CC])
   have_TBB=no TBB_LIBS="$TBB_LIBS -lstdc++"
   rnl_kind=`echo __clang__ | $CC -E -P - 2>/dev/null`
   rnl_cxx_kind=`echo __clang__ | $CXX -E -P - 2>/dev/null`
   AS_ECHO(['#include <oneapi/tbb/task_group.h>']) > conftest.cpp
   AS_ECHO(['int main() { tbb::task_group g; g.run([[]] {}); return g.wait() - tbb::complete; }']) \
     >> conftest.cpp
   rnl_compile="$CXX $TBB_CFLAGS $RNL_CXXFLAGS $CXXFLAGS"
   rnl_link="$CC $CFLAGS $RNL_LDFLAGS $LDFLAGS"
   dnl A sanitizer's runtime is its compiler's, and there can be but one.
   AS_IF([test -n "$CXX" && test "x${sanitizer:+$rnl_cxx_kind}" = "x${sanitizer:+$rnl_kind}" &&
     AC_TRY_COMMAND([$rnl_compile -c -o conftest.o conftest.cpp >&AS_MESSAGE_LOG_FD 2>&1]) &&
     AC_TRY_COMMAND([$rnl_link -o conftest conftest.o $TBB_LIBS >&AS_MESSAGE_LOG_FD 2>&1])],
     [have_TBB=yes])
   rm -f conftest.* conftest
   AC_MSG_RESULT([$have_TBB])])
peers_says=
AS_IF([test $have_GLIB = yes], [peers_says="$peers_says GLib,"])
AS_IF([test $have_LIBUV = yes], [peers_says="$peers_says libuv,"])
AS_IF([test $have_TBB = yes], [peers_says="$peers_says oneTBB,"])
AS_IF([test $have_OPENMP = yes], [peers_says="$peers_says OpenMP,"])
peers_says="make bench, beside:$peers_says a mutex's, a bare queue"
AC_SUBST([RNL_CXXFLAGS]) AC_SUBST([have_GLIB]) AC_SUBST([have_TBB]) AC_SUBST([have_JANSSON])
AC_SUBST([have_OPENMP]) AC_SUBST([OPENMP_CFLAGS]) AC_SUBST([OPENMP_LIBS])])
