# SPDX-License-Identifier: MIT
"""
Checks http_server from outside; run by `make check-http`, and with --short by tests/cli/http.sh.

usage, where runnel was built: python3 check_http.py [--short] [NAME-PART ...]

A line for each check: "ok - NAME", "ok - NAME # SKIP WHY", or "not ok - NAME" with the reason
below; at the end "N passed, N failed, N skipped". env: HTTP_SERVER the program; HTTP_SECONDS the
duration of wrk's load (20); HTTP_SEED the seed of all random data; RNL_TEST_DEVICE the server's
device (host); CHROMIUM the browser, if it has an unusual name; sanitizer the one of configure: if
set, its reports are failures, and memory and speed are not checked.
"""
import os
import sys
import traceback

import http_answers                     # pylint: disable=unused-import
import http_bounds                      # pylint: disable=unused-import
import http_limits                      # pylint: disable=unused-import
import http_protocol                    # pylint: disable=unused-import
import http_classes                     # pylint: disable=unused-import
import http_balancer                    # pylint: disable=unused-import
import http_refusals                    # pylint: disable=unused-import
import http_trace                       # pylint: disable=unused-import
import http_page                        # pylint: disable=unused-import
import http_seen                        # pylint: disable=unused-import
import http_ends
import http_failure                     # pylint: disable=unused-import
import http_supervise                   # pylint: disable=unused-import
import http_processes                   # pylint: disable=unused-import
import http_sockets                     # pylint: disable=unused-import
from http_checks import BODIES, CHECKS, DEVICE, SEED, SHORT, Skip, real_bodies, server


def main():
    wanted = [part for part in sys.argv[1:] if not part.startswith('--')]
    passed = failed = skipped = 0
    try:
        with server() as running:
            running.stop()
    except RuntimeError as error:
        if 'no GPU answers' not in str(error):
            raise
        print('SKIP: http_server has no device %s here' % DEVICE)
        return 77
    if not SHORT:
        CHECKS.append(http_ends.under_the_load_of_wrk_all_is_right_and_memory_flat)
    print('# device %s, HTTP_SEED=%d' % (DEVICE, SEED), flush=True)
    BODIES.extend(real_bodies())
    for function in CHECKS:
        name = function.__name__.replace('_', ' ')
        if wanted and not any(part in function.__name__ for part in wanted):
            continue
        try:
            function()
            passed += 1
            print('ok - %s' % name, flush=True)
        except Skip as why:
            skipped += 1
            print('ok - %s # SKIP %s' % (name, why), flush=True)
        except Exception as error:          # pylint: disable=broad-except
            failed += 1
            print('not ok - %s\n# %s: %s' % (name, type(error).__name__, error))
            where = traceback.extract_tb(error.__traceback__)
            print('# in %s' % ', '.join('%s:%d' % (os.path.basename(f.filename), f.lineno)
                                        for f in where), flush=True)
    print('%d passed, %d failed, %d skipped' % (passed, failed, skipped))
    return failed != 0


sys.exit(main())
