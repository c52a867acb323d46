#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# req: rfc8166 5 #1
# The verbs provider by itself with native peers: pairs that know nothing of each other, librdmacm alone, and
# the kernel's NFS server and client. verbs-native.sh [CYCLES]: so many connections (200) leave nothing.
# On two processors.
. "$(dirname "$0")/../lib.sh"
[ -x "$BUILD/tests/vm/verbs_native" ] || skip "built without rdma-core's headers"
need rpcbind rpc.nfsd
device_up

run() { # PROGRAM
	CYCLES=$cycles timeout 140 "$BUILD/tests/vm/$1" native 10.9.0.1 >"$W/out" 2>&1 ||
		{ cat "$W/out"; dmesg | tail -20; die "$1: see above"; }
	echo "$1: $(tail -n 1 "$W/out")"
}
cycles=${1:-200}
run verbs_pair

modprobe -a nfsd rpcrdma nfs nfsv4 || skip "the kernel has no NFS over RDMA"
mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd || die "no nfsd"
background "$W/rpcbind" rpcbind -f
for ((i = 0; i < 100; i++)); do rpcinfo -p >"$W/rpcinfo" 2>&1 && break; sleep 0.1; done
rpc.nfsd --rdma=20049 4 || die "knfsd does not listen"
run verbs_native
rpc.nfsd 0
umount /proc/fs/nfsd
