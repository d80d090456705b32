#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/http_server from outside: check_http.py in a few seconds, without load by wrk.
#
# env: HTTP_SERVER  the program (examples/http_server/http_server; on the double of the CUDA
#                   runtime tests/doubles/http)
#      RNL_TEST_DEVICE  the device that the program uses (host)
#
# devices: host fake cuda
[ "${have_HTTP:-yes}" = yes ] || { echo 'SKIP: http_server is not built: configure says why'; exit 77; }
program=${HTTP_SERVER:-$([ "${RNL_TEST_FAKE:-}" ] && echo tests/doubles/http || echo examples/http_server/http_server)}
. "$(dirname "$0")/../lib/harness.sh"
command -v python3 >/dev/null || skip_all 'there is no python3'
# Handlers without jobs need device memory; "stay": threads with a stream never end after a failure.
[ -z "$fake" ] || export FAKE_CUDART="${FAKE_CUDART:+$FAKE_CUDART,}memory=2G,stay"
# If other threads run at the exit, ThreadSanitizer would sleep for a second.
[ "${sanitizer:-}" != thread ] || export TSAN_OPTIONS="${TSAN_OPTIONS:+$TSAN_OPTIONS:}atexit_sleep_ms=0"
HTTP_SERVER=$program PYTHONDONTWRITEBYTECODE=1 python3 "$(dirname "$0")/../http/check_http.py" --short
