#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Native mode over the device, without NFS: a native listener and a native client, which know of each other
# nothing but the RDMA port; plain TCP beside them; and nobody there, which is TCP. Servers that give up their
# privileges when they listen, rpcbind at its own port among them, or when they have connections.
# At most 900 s.
. "$(dirname "$0")/../lib.sh"
need rpcbind rpcinfo
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up

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
	lab $mode-longest 'sum 2000000 ok' sum 2000000
	lab $mode-conns 'conns 3 bad 0' conns 3
	AS=plain_client CLIENT=$BY_TCP lab $mode-tcp 'null ok 5' null 5
	judge $mode server 'c["verbs"] == 6 and c["tcp"] == 1 and e["lost"] == 0'
	lab_server_kill
	rm -rf "$W"/server.run*
done
lab_server fork native_server
lab fork-null 'null ok 20' null 20
lab fork-sum 'sum 100000 ok' sum 100000
lab_server_kill
rm -rf "$W"/server.run*

# channels PID: of the CM, one of the listener and one of each connection
channels() { find "/proc/$1/fd" -lname /dev/infiniband/rdma_cm | wc -l; }
for mode in drop drop-late; do
	lab_server $mode native_server
	lab $mode-null 'null ok 20' null 20
	lab $mode-conns 'conns 3 bad 0' conns 3
	judge $mode server 'c["verbs"] == 4 and c["tcp"] == e["lost"] == 0'
	p=$(lab_server_pid)
	grep -q '^Uid:.65534.65534' "/proc/$p/status" || bad "$mode: is who it was"
	for ((i = 0; i < 50; i++)); do [ "$(channels $p)" != 1 ] || break; sleep 0.1; done
	[ "$(channels $p)" = 1 ] || bad "$mode: $(channels $p) channels: it does not know that its clients have left"
	lab_server_kill
	rm -rf "$W"/server.run*
done
port=111	# iWARP's ports are TCP's, and that one has a listener
[ $DEVICE = rxe ] || port=112
for how in '-f -w' -w; do	# the second: daemon(), between listen() and setuid()
	RDMARPC_RULES='role=server port=111 native='$port server env RDMARPC_VERBS=off rpcbind $how >"$W/rpcbind.out" 2>&1 &
	for ((i = 0; i < 100; i++)); do ! rpcinfo -p $LAB_HOST >/dev/null 2>&1 || break; sleep 0.1; done
	p=$(pgrep -x rpcbind)
	pids="$pids $p"
	checks=$((checks + 1))
	[ "$(ps -o user= $p)" = _rpc ] || bad "rpcbind $how has kept its privileges: $(ps -o user= $p)"
	rm -rf "$W"/client.run*
	RDMARPC_RULES='role=client port=111 native='$port' mode=require' client env RDMARPC_VERBS=off \
		rpcinfo -p $LAB_HOST >"$W/out" 2>&1 &&
		grep -q ' 100000 .* 111 .*portmapper' "$W/out" || bad "rpcbind $how by RDMA: $(cat "$W/out")"
	judge "rpcbind $how" client "$CLIENT"
	kill $p
	for ((i = 0; i < 300; i++)); do kill -0 $p 2>/dev/null || break; sleep 0.1; done
	[ $failures = 0 ] || cat "$W"/server.run.log
	rm -rf "$W"/server.run*
done
lab_server svcrun
AS=either_client CLIENT=$BY_TCP lab nobody 'null ok 5' null 5
lab_finish
