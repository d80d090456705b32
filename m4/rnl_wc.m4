dnl SPDX-License-Identifier: MIT
dnl RNL_WC: before coreutils 9.4, `wc -w` counts a word only if it has a printable character.
AC_DEFUN([RNL_WC],
[AC_CACHE_CHECK([whether wc wants a printable character in a word], [rnl_cv_wc_printable],
  [AS_CASE([`printf '\001' | LC_ALL=C wc -w`], [*0*], [rnl_cv_wc_printable=yes],
     [rnl_cv_wc_printable=no])])
AS_IF([test $rnl_cv_wc_printable = yes], [rnl_wc=1], [rnl_wc=0])
AC_DEFINE_UNQUOTED([RNL_WC_WORDS_PRINTABLE], [$rnl_wc])])
