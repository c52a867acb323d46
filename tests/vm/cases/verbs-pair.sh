#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# req: rfc8166 5 #1
# The verbs provider by itself over the device. verbs-pair.sh [CYCLES]: so many connections (1,000) leave nothing.
. "$(dirname "$0")/../lib.sh"
[ -x "$BUILD/tests/vm/verbs_pair" ] || skip "built without rdma-core's headers"
device_up
for keys in windows regions invite; do
	CYCLES=${1:-1000} timeout 140 "$BUILD/tests/vm/verbs_pair" $keys 10.9.0.1 >"$W/out" 2>&1 ||
		{ cat "$W/out"; dmesg | tail -20; die "$keys: see above"; }
	echo "$keys: $(tail -n 1 "$W/out")"
done
