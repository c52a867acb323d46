#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Unmodified clients and servers (tests/apps) with an RDMA device between them, judged as ever by answers and
# counters. apps.sh [CASE...]
# At most 1500 s.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up
[ $# != 0 ] || set -- rpcbind lab-svcrun py-asyncio ganesha-vfs
env TMO=90 CASE_TIMEOUT=300 "$(dirname "$0")/../../apps/run" -l verbs "$@" | tee "$W/lines"
rc=${PIPESTATUS[0]}
calls=$(sed -n 's/.*, \([0-9]*\) calls carried.*/\1/p' "$W/lines" | paste -sd+)
echo "$(tail -n 1 "$W/lines"); $((${calls:-0})) calls by the device"
exit "$rc"
