#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Library and plugin built with ASan and UBSan (BUILD-asan, made by tests/vm/run), unmodified programs over
# verbs: no report. asan.sh [CASE...]
# At most 600 s.
. "$(dirname "$0")/../lib.sh"
export BUILD=$BUILD-asan
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up
[ $# != 0 ] || set -- rpcbind lab-svcrun
TMO=90 CASE_TIMEOUT=300 "$(dirname "$0")/../../apps/run" -l verbs "$@"
