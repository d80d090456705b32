#!/bin/sh
# SPDX-License-Identifier: MIT
# examples/http_server from outside: check_http.py in a few seconds, without load by wrk.
#
# env: HTTP_SERVER  the program (examples/http_server/http_server; on the double of the CUDA
#                   runtime tests/doubles/http)
#      RNL_TEST_DEVICE  where it works (host)
#
# devices: host fake cuda
HTTP_SERVER=${HTTP_SERVER:-$([ "${RNL_TEST_FAKE:-}" ] && echo tests/doubles/http || echo examples/http_server/http_server)}
export HTTP_SERVER PYTHONDONTWRITEBYTECODE=1
# For the slots of the sync handler, which are device memory, too; and the worst of a failed device.
[ -z "${RNL_TEST_FAKE:-}" ] || export FAKE_CUDART="${FAKE_CUDART:+$FAKE_CUDART,}memory=2G,stay"
if [ "${have_HTTP:-yes}" != yes ]; then
	echo 'SKIP: examples/http_server is not built: configure says what is missing'
	exit 77
fi
command -v python3 >/dev/null || { echo 'SKIP: there is no python3'; exit 77; }
[ -x "$HTTP_SERVER" ] || { echo "there is no $HTTP_SERVER"; exit 1; }
python3 "$(dirname "$0")/../http/check_http.py" --short
