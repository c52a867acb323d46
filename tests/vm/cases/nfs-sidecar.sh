#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# NFSv4.1 whose calls go over RDMA and whose callbacks come by a TCP connection that BIND_CONN_TO_SESSION has put
# beside it, as clients without RFC 8167 have it: a client that knows TCP only, with the library, and the kernel's
# server. (nfs-ganesha 4.3 takes BIND_CONN_TO_SESSION, but never calls by that connection.) nfs-sidecar.sh [tcp]
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
nfs_arguments "$@" knfsd
nfs_server
exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check '*:/export'	# the root of NFSv4
export LAB_ADDRESS=10.9.0.1
port=20049 by=client
[ $proto = rdma ] || port=2049 by=env
export RDMARPC_RULES='role=client port=20049 native=20049 mode=require; mode=tcp'
received() { cat /proc/sys/sunrpc/svc_rdma/rdma_stat_recv; }

before=$(received)
checks=$((checks + 1))
$by timeout 100 /usr/bin/python3 "$(dirname "$0")/../../apps/nfs41.py" $port / recall 2049 >"$W/out" 2>"$W/err" &&
	grep -q 'delegation recalled' "$W/out" || bad "$(cat "$W/out" "$W/err")"
if [ $proto = rdma ]; then
	checks=$((checks + 2))
	calls=$(sed -n 's/^calls //p' "$W/err")
	[ $(($(received) - before)) = "${calls:-none}" ] || bad "$(($(received) - before)) calls reached the server by RDMA, not $calls"
	judge sidecar client 'c["verbs"] == 1 and c["tcp"] == 2 and e["lost"] == 0'
fi
nfs_finish
