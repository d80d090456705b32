dnl SPDX-License-Identifier: MIT
dnl RNL_HARDEN: what Debian hardens its packages with, where the user gave no CFLAGS or LDFLAGS:
dnl stack protector, fortified calls, all relocations read-only before main().  Not with a
dnl sanitizer, which looks at more, and does not see fortified calls.
AC_DEFUN([RNL_HARDEN],
[AS_IF([test -z "$sanitizer"],
  [AS_IF([test -z "$rnl_user_cflags"],
    [m4_foreach_w([rnl_flag], [-fstack-protector-strong -D_FORTIFY_SOURCE=2],
      [RNL_ACCEPTS(m4_defn([rnl_flag]), [CFLAGS="$CFLAGS ]m4_defn([rnl_flag])["])])])
   AS_IF([test -z "$rnl_user_ldflags"],
    [m4_foreach_w([rnl_flag], [-Wl,-z,relro -Wl,-z,now],
      [RNL_ACCEPTS(m4_defn([rnl_flag]), [LDFLAGS="${LDFLAGS:+$LDFLAGS }]m4_defn([rnl_flag])["])])])])])
