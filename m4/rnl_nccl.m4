dnl SPDX-License-Identifier: MIT
dnl RNL_NCCL: collectives between GPUs, for examples/buckets; sets have_NCCL, NCCL_CFLAGS, NCCL_LIBS,
dnl and adds to cluster_says.  It is looked for beside the CUDA toolkit, where NVIDIA's wheels put it,
dnl and where a distribution does.  Its programs have kernels, so it is of no use without nvcc.
AC_DEFUN([RNL_NCCL],
[AC_ARG_WITH([nccl], [AS_HELP_STRING([--with-nccl@<:@=DIR@:>@], [collectives between GPUs, with NCCL in
  DIR (default: auto; it needs nvcc)])], [], [with_nccl=auto])
have_NCCL=no NCCL_CFLAGS= NCCL_LIBS= nccl_says="no NCCL"
AS_CASE([$have_NVCC,$with_nccl],
  [*,no], [nccl_says="no NCCL: --without-nccl"],
  [no,*], [nccl_says="no NCCL: it needs nvcc"],
  [AS_CASE([$with_nccl], [yes|auto], [rnl_dirs="$NCCL_HOME $cuda_dir /usr/local /usr"], [rnl_dirs=$with_nccl])
   AC_MSG_CHECKING([for NCCL])
   for rnl_dir in $rnl_dirs; do
     test -r "$rnl_dir/include/nccl.h" || continue
     for rnl_lib in "$rnl_dir"/lib64 "$rnl_dir"/lib "$rnl_dir"/lib/*-linux-gnu; do
       test -r "$rnl_lib/libnccl.so" || continue
       AS_CASE([$rnl_dir], [/usr], [NCCL_LIBS=-lnccl],
         [NCCL_CFLAGS="-isystem $rnl_dir/include" NCCL_LIBS="-L$rnl_lib -Wl,-rpath,$rnl_lib -lnccl"])
       rnl_save=$CFLAGS rnl_save_libs=$LIBS
       CFLAGS="$CFLAGS $NCCL_CFLAGS $CUDA_CFLAGS" LIBS="$LIBS $NCCL_LIBS"
       AC_LINK_IFELSE([AC_LANG_PROGRAM([[#include <nccl.h>]],
           [[ncclComm_t comm = 0; return ncclGetLastError(comm) != 0;]])],
         [have_NCCL=yes; nccl_says="NCCL: $rnl_dir"])
       CFLAGS=$rnl_save LIBS=$rnl_save_libs
       break 2
     done
   done
   AC_MSG_RESULT([$have_NCCL])])
AS_IF([test $have_NCCL = no], [NCCL_CFLAGS= NCCL_LIBS=
  AS_CASE([$with_nccl], [no|auto], [],
    [AC_MSG_ERROR([--with-nccl=$with_nccl, but: $nccl_says])])])
cluster_says="$cluster_says; $nccl_says"
AC_SUBST([have_NCCL]) AC_SUBST([NCCL_CFLAGS]) AC_SUBST([NCCL_LIBS])])
