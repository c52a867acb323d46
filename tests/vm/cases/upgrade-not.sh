#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Where verbs is not what carries: shared memory comes first on one host; who may not use the device stays on
# TCP, and so does who has no plugin; a client of a server that is killed hears of it soon.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
rxe_up

same_host() { env RDMARPC_VERBS=on LD_PRELOAD="$BUILD/librpcrdma_shim.so" RDMARPC_RUN_DIR="$W/client.run" "$@"; }
mkdir -p "$W/client.run"
lab_server svcrun same_host
AS=same_host CLIENT='c["shm"] == 1 and c["verbs"] == c["tcp"] == 0' lab one-host 'null ok 5' null 5
lab_server_kill

lab_server svcrun
lab two-hosts 'null ok 5' null 5

by_nobody() { client setpriv --reuid 65534 --clear-groups "$@"; }
chmod 711 "$W"; chmod 600 /dev/infiniband/rdma_cm
AS=by_nobody CLIENT='c["tcp"] == 1 and c["verbs"] == c["shm"] == 0' lab no-permission 'null ok 5' null 5

mkdir "$W/bare" && cp "$BUILD/librpcrdma_shim.so" "$W/bare/"
without_plugin() { client env LD_PRELOAD="$W/bare/librpcrdma_shim.so" "$@"; }
AS=without_plugin CLIENT='c["tcp"] == 1 and c["verbs"] == c["shm"] == 0' lab no-plugin 'null ok 5' null 5

rm -rf "$W"/client.run*
checks=$((checks + 1))
background "$W/long" client timeout 60 labcli 10.9.0.1 20801 null 10000000
sleep 3
lab_server_kill
start=$SECONDS
wait $pid
[ $? != 124 ] && [ $((SECONDS - start)) -lt 50 ] || { echo "FAIL killed: the client does not notice"; failures=$((failures + 1)); }
judge killed client 'c["verbs"] == 1'
lab_finish
