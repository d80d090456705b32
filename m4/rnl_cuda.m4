dnl SPDX-License-Identifier: MIT
dnl RNL_CUDA: --with-cuda[=DIR]|no, by default auto; sets have_CUDA, cuda_dir, cuda_libdir,
dnl CUDA_CFLAGS, CUDA_LIBS.  A toolkit is a directory with cuda_runtime_api.h and libcudart.so,
dnl of CUDA 12.5 or newer: cudaGetDriverEntryPointByVersion is from there.
AC_DEFUN([RNL_CUDA],
[AC_ARG_WITH([cuda], [AS_HELP_STRING([--with-cuda@<:@=DIR@:>@], [the CUDA device, with the toolkit
  in DIR (default: auto, and no with a sanitizer)])],
  [], [AS_IF([test -n "$sanitizer"], [with_cuda=no], [with_cuda=auto])])
have_CUDA=no
AS_CASE([$with_cuda],
  [no], [cuda_says="no"; rnl_dirs=],
  [yes|auto],
    [rnl_nvcc=`command -v "${NVCC:-nvcc}" 2>/dev/null` && rnl_nvcc=`readlink -f "$rnl_nvcc"`
     rnl_dirs="$CUDA_HOME /usr/local/cuda ${rnl_nvcc%/bin/*}"],
  [rnl_dirs=$with_cuda])
AS_IF([test "x$with_cuda" != xno],
  [AC_MSG_CHECKING([for the CUDA runtime])
   for rnl_dir in $rnl_dirs; do
     for rnl_inc in "$rnl_dir/include" "$rnl_dir"/targets/*/include; do
       test -r "$rnl_inc/cuda_runtime_api.h" || continue
       for rnl_lib in "$rnl_dir"/lib64 "${rnl_inc%/include}"/lib "$rnl_dir"/lib "$rnl_dir"/lib/*-linux-gnu; do
         test -r "$rnl_lib/libcudart.so" || continue
         have_CUDA=yes cuda_dir=$rnl_dir cuda_incdir=$rnl_inc cuda_libdir=$rnl_lib
         break 3
       done
     done
   done
   AC_MSG_RESULT([${cuda_dir:-no}])
   AS_IF([test "$have_CUDA$with_cuda" = noauto],
       [cuda_says="no: found no toolkit (--with-cuda=DIR names one)"],
     [test $have_CUDA = no], [AC_MSG_ERROR([--with-cuda=$with_cuda, but no CUDA toolkit is there:
  looked for include/cuda_runtime_api.h and libcudart.so in: $rnl_dirs])])])
AS_IF([test $have_CUDA = yes],
  [rnl_version=`sed -n 's/^#define CUDART_VERSION *\([0123456789]*\).*/\1/p' "$cuda_incdir/cuda_runtime_api.h"`
   AS_IF([test "${rnl_version:-0}" -lt 12050],
     [have_CUDA=no cuda_says="no: CUDA 12.5 or newer is needed, $cuda_dir has ${rnl_version:-none}"
      AS_IF([test "$with_cuda" != auto], [AC_MSG_ERROR([--with-cuda=$with_cuda: $cuda_says])])])])
AS_IF([test $have_CUDA = yes],
  [cuda_says="yes: $cuda_dir"
   AC_DEFINE([HAVE_CUDA], [1])
   AS_IF([test -r "$cuda_incdir/nvtx3/nvToolsExt.h"], [AC_DEFINE([HAVE_NVTX], [1])])
   AS_CASE([$cuda_incdir], [/usr/include], [], [CUDA_CFLAGS="-isystem $cuda_incdir"])
   AS_CASE([$cuda_libdir], [/usr/lib|/usr/lib64|/usr/lib/*-linux-gnu], [CUDA_LIBS=-lcudart],
     [CUDA_LIBS="-L$cuda_libdir -Wl,-rpath,$cuda_libdir -lcudart"])])
AC_SUBST([have_CUDA]) AC_SUBST([CUDA_CFLAGS]) AC_SUBST([CUDA_LIBS]) AC_SUBST([cuda_libdir])])
