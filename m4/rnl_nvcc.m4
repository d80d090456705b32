dnl SPDX-License-Identifier: MIT
dnl RNL_NVCC: the CUDA compiler, for .cu tests and examples (the library is C); sets have_NVCC,
dnl NVCC, NVCCFLAGS (the user's), RNL_NVCCFLAGS.  It needs a C++ compiler that it can work with.
AC_DEFUN([RNL_NVCC],
[AC_ARG_VAR([NVCC], [CUDA compiler command])
AC_ARG_VAR([NVCCFLAGS], [CUDA compiler flags])
have_NVCC=no
rnl_host="-Wall -Wextra"
AS_IF([test "x$enable_werror" = xyes], [rnl_host="$rnl_host -Werror"])
for rnl_flag in `AS_ECHO(["$sanitizer"]) | tr , ' '`; do
  rnl_host="$rnl_host -fsanitize=$rnl_flag"	# one by one: nvcc splits at commas
done
RNL_NVCCFLAGS="--default-stream per-thread -std=c++17"
for rnl_flag in $rnl_host; do RNL_NVCCFLAGS="$RNL_NVCCFLAGS -Xcompiler $rnl_flag"; done
AS_IF([test $have_CUDA = no], [nvcc_says=no],
  [AC_PATH_PROG([NVCC], [nvcc], [], [$cuda_dir/bin$PATH_SEPARATOR$PATH])
   AS_IF([test -z "$NVCC"], [nvcc_says="no: found no nvcc, so .cu tests and examples are left out"],
     [: ${NVCCFLAGS="-O2 -g -gencode arch=compute_80,code=sm_80 -gencode arch=compute_90,code=sm_90 -gencode arch=compute_90,code=compute_90"}
      AC_MSG_CHECKING([whether $NVCC works])
      AS_ECHO(['__global__ void k(int *p) { *p = 1; }']) > conftest.cu
      AS_IF([AC_TRY_COMMAND([$NVCC $RNL_NVCCFLAGS $NVCCFLAGS -c -o conftest.o conftest.cu >&AS_MESSAGE_LOG_FD 2>&1])],
        [have_NVCC=yes; nvcc_says="yes: $NVCC"],
        [nvcc_says="no: $NVCC fails here (see config.log), so .cu tests and examples are left out"])
      rm -f conftest.*
      AC_MSG_RESULT([$have_NVCC])])])
AC_SUBST([have_NVCC]) AC_SUBST([RNL_NVCCFLAGS])])
