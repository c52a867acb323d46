#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What people do with a file system, over the mount: any order of reads, writes, lengths and mappings, against a model; a
# compile, whose result is that of the same compile on a local file system; two clients (for a server two versions of
# NFSv4 are two) that lock a file in turn. nfs-suites.sh [VERSION...] [ganesha|knfsd] [rdma|tcp] [full]: full, 100,000
# operations.
# At most 3600 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
root=$(cd "$(dirname "$0")/../../.." && pwd)
OTHER=/media
nfs_arguments "$@"
[ "$versions" != "3 4.0 4.1 4.2" ] || versions='3 4.1'
ops=2000
[ -z "$full" ] || ops=100000 TMO=1800
need gcc make

tree() { # DIR: sources, and how they are compiled: where they lie is not seen of the result
	mkdir -p "$1/core" && cp -r "$root/core/base" "$root/core/wire" "$1/core/" && cat >"$1/Makefile" <<-'X'
		objects := $(patsubst %.c,%.o,$(wildcard core/*/*.c))
		all.a: $(objects); ar rcD $@ $^
		%.o: %.c; gcc -std=gnu11 -D_GNU_SOURCE -DRR_VERSION='"here"' -I. -O1 -c -o $@ $<
	X
}
compiled() {
	local start=${EPOCHREALTIME/./}
	checks=$((checks + 1))
	tree $MNT/tree && make -s -j2 -C $MNT/tree >"$W/out" 2>&1 && cmp $MNT/tree/all.a "$W/tree/all.a" >>"$W/out" 2>&1 &&
		rm -r $MNT/tree 2>>"$W/out" || bad "compile: $(tail -n 20 "$W/out")"
	[ -z "${V:-}" ] || echo "compile: $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
}
two_clients() { # VERSION
	local other=4.2
	[ "$1" != 4.2 ] || other=4.1
	MNT=$OTHER nfs_mount $other $proto
	files locks lock $OTHER/lock 200
	MNT=$OTHER nfs_umount
}

tree "$W/tree"
make -s -j2 -C "$W/tree" || die "the sources do not compile"
nfs_server
trap 'umount -f -l $OTHER 2>/dev/null; nfs_down; cleanup' EXIT
for v in $versions; do
	nfs_mount $v $proto
	for seed in 1 2; do files model model 1m $ops $seed; done
	compiled
	case $v in 4*) two_clients $v ;; esac
	[ $proto != rdma ] || counted "by RDMA, and nothing wrong" 'recvs > 100 && connects == 1 && bad_xids + bad_reply == 0'
	nfs_umount
done
[ $server.$proto != ganesha.rdma ] || judge ganesha server 'c["verbs"] >= 1 and not e["err_chunk_sent"]'
nfs_finish
