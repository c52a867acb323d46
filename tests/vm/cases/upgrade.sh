#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two shims that have no memory in common find each other by TCP and carry by verbs: unmodified libtirpc
# programs, the right answers, and by both sides' own counters nothing on TCP and nothing lost.
# On two processors.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up
lab_server svcrun
lab null 'null ok 100' null 100
lab echo 'echo 1000 ok' echo 1000
lab sizes 'sizes ok' sizes
lab sum 'sum 100000 ok' sum 100000
lab big 'big 3000000 ok' big 3000000
lab threads 'threads 8 calls 1600 bad 0' threads 8
lab timeout 'timeout then echo ok' timeout
lab conns 'conns 20 bad 0' conns 20
lab pipeline 'pipeline 300 bad 0' pipeline 300
judge all server 'c["tcp"] == c["shm"] == 0 and e["lost"] == 0 and m["long_calls_received"] and m["reliable_replies_sent"]'
lab_finish
