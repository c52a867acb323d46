#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Servers of every shape over verbs: their own loops around poll, select and epoll, a child per connection, a
# daemon, one that changes its identity, with librdmacm loaded before us, too; and calls that nobody answers.
# upgrade-shapes.sh [SHAPE...]
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up
[ $# != 0 ] || set -- tli poll select epoll daemon fork fsuid fsuid-own
for mode; do
	lab_server $mode
	lab $mode-null 'null ok 20' null 20
	lab $mode-sum 'sum 100000 ok' sum 100000
	lab $mode-threads 'threads 3 calls 600 bad 0' threads 3
	lab_server_kill
	rm -rf "$W"/server.run*
done
lab_server svcrun
lab batch 'batch 3000 ok' batch 3000
lab_finish
