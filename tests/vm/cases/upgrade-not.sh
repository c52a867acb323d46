#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Where verbs is not what carries: shared memory comes first on one host; where there is no device, no plugin or
# no permission, at either end, it is TCP, and rdmarpc-stat says why, in one reason.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up

# tcp NAME REASON: one call, on TCP for that reason
tcp() {
	CLIENT="c['tcp'] == 1 and c['verbs'] == c['shm'] == 0 and p['tcp_reasons'] == {'$2': 1}" lab "$1" 'null ok 5' null 5
}
by_nobody() { client setpriv --reuid 65534 --clear-groups "$@"; }
locks_no_more() { client setpriv --bounding-set -ipc_lock prlimit --memlock="$LOCK" "$@"; }
without_plugin() { client env LD_PRELOAD="$W/bare/librpcrdma_shim.so" "$@"; }
same_host() { env RDMARPC_OFFER_AFTER=0 RDMARPC_VERBS=on LD_PRELOAD="$BUILD/librpcrdma_shim.so" RDMARPC_RUN_DIR="$W/client.run" "$@"; }
devices=/dev/infiniband
none="no RDMA device, or no permission to use it"

mkdir -p "$W/client.run"
lab_server svcrun same_host
AS=same_host CLIENT='c["shm"] == 1 and c["verbs"] == c["tcp"] == 0' lab one-host 'null ok 5' null 5
lab_server_kill

lab_server svcrun
lab two-hosts 'null ok 5' null 5
AS=locks_no_more LOCK=8388608 tcp too-little-memory "memory for RDMA cannot be locked (RLIMIT_MEMLOCK)"
AS=locks_no_more LOCK=67108864 lab memory-enough 'null ok 5' null 5
mkdir "$W/bare" && cp "$BUILD/librpcrdma_shim.so" "$W/bare/"
AS=without_plugin tcp no-plugin "$none"
chmod 600 $devices/rdma_cm
AS=by_nobody tcp no-permission "$none"
chmod 666 $devices/rdma_cm
chmod 600 $devices/uverbs*
AS=by_nobody tcp no-permission-for-the-device "provider cannot reach the peer"
mkdir "$W/none"
mount --bind "$W/none" $devices
tcp private-devices-client "$none"
umount $devices
lab_server_kill
rm -rf "$W"/server.run*

mount --bind "$W/none" $devices
lab_server svcrun
umount $devices
tcp private-devices-server "peer declined"
judge private-devices-server server "p['tcp_reasons'] == {'$none': 1}"
lab_server_kill
rm -rf "$W"/server.run*

chmod 600 $devices/*
lab_server drop
tcp server-without-privileges "peer declined"
judge server-without-privileges server "p['tcp_reasons'] == {'$none': 1}"
lab_server_kill
chmod 666 $devices/*

rdma link delete rxe0
lab_server svcrun
tcp no-device "$none"
lab_server_kill
rdma link add rxe0 type rxe netdev roce0
lab_finish
