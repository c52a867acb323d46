#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The RDMA device goes while the kernel's client writes to ganesha over it. Ganesha lives and serves TCP; when its
# address is another device's, the same ganesha is reached there: what was being written is right in the end, though
# nothing was said to the client, and a new mount works. nfs-device.sh [VERSION...] [ganesha|knfsd]
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
. "$(dirname "$0")/../loss.sh"
nfs_arguments "$@"
[ "$versions" != "3 4.0 4.1 4.2" ] || versions=4.1
need nfs-cp rdma
head -c 100000 /dev/urandom >"$W/up"

by_tcp() { # NAME
	checks=$((checks + 1))
	timeout 60 nfs-cp "$W/up" "nfs://10.9.0.1/export/dir/$1?version=3&nfsport=2049&mountport=20048" >"$W/out" 2>&1 &&
		cmp "$W/up" "/export/dir/$1" || bad "$1: by TCP: $(cat "$W/out")"
}
writes() { # until some of it is there
	background "$W/io" sh -c "cd $MNT && exec $FILES io big 100m 256k"
	io=$pid
	for ((i = 0; i < 300; i++)); do
		[ "$(stat -c %s /export/big 2>/dev/null || echo 0)" -lt 4000000 ] || return
		sleep 0.1
	done
	die "nothing is written: $(cat "$W/io")"
}
for v in $versions; do
	nfs_server
	nfs_mount $v rdma rsize=1048576,wsize=1048576
	writes
	device_away
	sleep 2
	kill -0 $io 2>/dev/null || bad "$v: it was written before the device went: $(cat "$W/io")"
	checks=$((checks + 3))
	[ $server = knfsd ] || kill -0 "$(pgrep -x ganesha.nfsd)" || bad "$v: ganesha has died"
	by_tcp device-gone
	device_elsewhere
	start=$SECONDS
	for ((i = 0; i < 1500; i++)); do kill -0 $io 2>/dev/null || break; sleep 0.1; done
	wait $io || bad "$v: what was being written: $(cat "$W/io")"
	echo "$v: it goes on, and is over after $((SECONDS - start)) s"
	counted "$v: connected again" 'connects >= 2'
	by_tcp device-elsewhere
	nfs_umount
	nfs_mount $v rdma
	files io f10 4m 1m
	nfs_umount
	[ $server = knfsd ] || judge $v server 'c["verbs"] >= 2'
	nfs_down
	trap cleanup EXIT
	device_home
done
dmesg -c | grep -vE 'rpcrdma:|not responding|RPC:' | tail -5
nfs_finish
