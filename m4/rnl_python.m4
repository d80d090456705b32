dnl SPDX-License-Identifier: MIT
dnl RNL_PYTHON: what python/ needs; sets have_PYTHON, PYTHON, PYTHON_CFLAGS, python_says.  PYTHON
dnl names an interpreter; otherwise it is the first one that has cffi, numpy and its header.
AC_DEFUN([RNL_PYTHON],
[AC_ARG_VAR([PYTHON], [the interpreter that the Python package is built for])
AC_MSG_CHECKING([for Python with cffi, numpy and Python.h])
have_PYTHON=no
for rnl_python in ${PYTHON:-python3 /usr/bin/python3}; do
  rnl_incdir=`"$rnl_python" -c 'import sys, sysconfig, cffi, numpy
assert sys.version_info >= (3, 9)
print(sysconfig.get_paths()@<:@"include"@:>@)' 2>/dev/null` || continue
  test -r "$rnl_incdir/Python.h" || continue
  have_PYTHON=yes PYTHON=$rnl_python PYTHON_CFLAGS="-isystem $rnl_incdir"
  break
done
AS_IF([test $have_PYTHON = yes], [AC_MSG_RESULT([$PYTHON]); python_says="yes: $PYTHON, make wheel"],
  [AC_MSG_RESULT([no])
   python_says="no: no Python has cffi, numpy and Python.h (make deps python installs them)"])
AC_SUBST([have_PYTHON]) AC_SUBST([PYTHON_CFLAGS])])
