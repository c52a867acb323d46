#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Native mode over the device, without NFS: a native listener and a native client, which know of each other
# nothing but the RDMA port; plain TCP beside them; and nobody there, which is TCP.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
rxe_up

# Between these two hosts there is no upgrade without option verbs.
native_server() { RDMARPC_RULES='role=server port=20801 native=20901' server env RDMARPC_VERBS=off "$@"; }
native_client() { RDMARPC_RULES='role=client port=20801 native=20901 mode=require' client env RDMARPC_VERBS=off "$@"; }
either_client() { RDMARPC_RULES='role=client port=20801 native=20901' client env RDMARPC_VERBS=off "$@"; }
plain_client() { client env RDMARPC_VERBS=off "$@"; }
BY_TCP='c["tcp"] == 1 and c["verbs"] == c["shm"] == 0'
AS=native_client
CLIENT=$BY_VERBS' and u["offers_sent"] == 0'
for mode in svcrun epoll; do
	lab_server $mode native_server
	lab $mode-null 'null ok 20' null 20
	lab $mode-sum 'sum 100000 ok' sum 100000
	lab $mode-conns 'conns 3 bad 0' conns 3
	AS=plain_client CLIENT=$BY_TCP lab $mode-tcp 'null ok 5' null 5
	judge $mode server 'c["verbs"] == 5 and c["tcp"] == 1 and e["lost"] == 0'
	lab_server_kill
	rm -rf "$W"/server.run*
done
lab_server fork native_server
lab fork-null 'null ok 20' null 20
lab fork-sum 'sum 100000 ok' sum 100000
lab_server_kill
lab_server svcrun
AS=either_client CLIENT=$BY_TCP lab nobody 'null ok 5' null 5
lab_finish
