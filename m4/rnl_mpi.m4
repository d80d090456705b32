dnl SPDX-License-Identifier: MIT
dnl RNL_MPI: what programs over many machines need; sets have_MPI, MPI_CFLAGS, MPI_LIBS, MPIRUN,
dnl cluster_says.  mpicc names the flags: it is of the same MPI as the mpirun beside it, and
dnl Open MPI, MPICH and those made of it know -show.  MPI is left out with ThreadSanitizer, which
dnl does not see how it hands over.
AC_DEFUN([RNL_MPI],
[AC_ARG_WITH([mpi], [AS_HELP_STRING([--without-mpi], [no programs over many machines])], [],
  [with_mpi=auto])
AC_ARG_VAR([MPICC], [MPI compiler command, which names MPI's flags])
AC_ARG_VAR([MPIRUN], [command that starts the ranks of a program])
have_MPI=no MPI_CFLAGS= MPI_LIBS= cluster_says="no MPI (sh deps.sh many installs it)"
AS_CASE([$sanitizer,$with_mpi],
  [*,no], [cluster_says="no MPI: --without-mpi"],
  [*thread*], [cluster_says="no MPI: ThreadSanitizer cannot see into it"],
  [AC_CHECK_PROGS([MPICC], [mpicc])
   AC_CHECK_PROGS([MPIRUN], [mpirun mpiexec])
   for rnl_word in `test -z "$MPICC" || $MPICC -show 2>/dev/null`; do
     AS_CASE([$rnl_word],
       [-I*|-D*], [MPI_CFLAGS="$MPI_CFLAGS $rnl_word"],
       [-L*|-l*|-Wl,-rpath*|-Wl,--enable-new-dtags], [MPI_LIBS="$MPI_LIBS $rnl_word"])
   done
   dnl Its headers are not ours to warn of.
   MPI_CFLAGS=`AS_ECHO(["$MPI_CFLAGS"]) | sed 's/ -I/ -isystem /g'`
   AC_MSG_CHECKING([whether $CC links with MPI])
   rnl_save=$CFLAGS rnl_save_libs=$LIBS
   CFLAGS="$CFLAGS $MPI_CFLAGS" LIBS="$LIBS $MPI_LIBS"
   AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <mpi.h>]],
       [[return MPI_Fetch_and_op(0, 0, MPI_UINT64_T, 0, 0, MPI_SUM, MPI_WIN_NULL);]])],
     [have_MPI=yes; cluster_says="MPI: ${MPICC}, ${MPIRUN:-no mpirun}"])
   CFLAGS=$rnl_save LIBS=$rnl_save_libs
   AC_MSG_RESULT([$have_MPI])])
AS_IF([test "$with_mpi,$have_MPI" = yes,no], [AC_MSG_ERROR([--with-mpi, but: $cluster_says])])
AC_SUBST([have_MPI]) AC_SUBST([MPI_CFLAGS]) AC_SUBST([MPI_LIBS])])
