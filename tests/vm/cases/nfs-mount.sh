#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The kernel's client mounts ganesha, which knows TCP only, over RDMA, and does what clients do; its own
# counters and the library's agree that it was RDMA, with the chunks that RFC 8267 gives.
# nfs-mount.sh [VERSION...] [ganesha|knfsd] [rdma|tcp] [full] [mounts=N]: the kernel's own server, and TCP, judge this
# script itself; full: more operations, for real processors, and time for those of others; mounts: so many at once, of
# version 3, which takes each address for another server (4.1 would find that it is one), and nothing else.
# At most 1800 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
nfs_arguments "$@"
need fio
ops=800 seq=16m
[ -z "$full" ] || ops=20000 seq=64m

# fio writes blocks of 4 KiB in any order, each with a checksum, reads them back in turn and at the end.
fio_verifies() { # OPTION...
	checks=$((checks + 1))
	(cd $MNT && TMPDIR=$W timeout $TMO fio --name=fio --filename=fio --size=1m --rw=randwrite --bs=4k \
		--verify=crc32c --verify_fatal=1 --verify_backlog=64 --thread --output="$W/fio" "$@") >"$W/out" 2>&1 &&
		grep -q 'issued rwts: total=256,256' "$W/fio" || bad "fio $*: $(cat "$W/out" "$W/fio")"
}

everything() { # VERSION
	files io f10 10m 64k
	files io f10 10m 10m
	files io seq $seq 1m
	files io direct 4m 1m direct
	files odd odd
	files random random 2m $ops
	files random random 2m $ops direct
	fio_verifies --direct=1
	fio_verifies --fsync=32
	files mmap mmap 2m
	files names dir 2000
	files links .
	files rename .
}

attributes() { # VERSION
	case $server.$1 in	# Debian's ganesha has neither on FSAL_VFS; nfs-recall.sh has both
	ganesha.3) refused 'Input/output error' acl acl system.posix_acl_access 100 ;;
	ganesha.4*) refused 'Operation not supported' acl acl system.nfs4_acl 100 ;;
	*.3) files acl acl system.posix_acl_access 100 ;;
	*) files acl acl system.nfs4_acl 100 ;;
	esac
	case $server.$1 in
	ganesha.4.2) refused 'Operation not supported' xattr xattr 10 ;;
	*.4.2) for n in 10 3000 30000; do files xattr xattr $n; done ;;
	esac
}

of() { awk -v n="$1:" '$1 == n { print $2 }' "/proc/$(pgrep -x ganesha.nfsd)/status"; }	# kB
addresses() { # N add|del
	local i
	for ((i = 1; i <= $1; i++)); do echo "addr $2 10.9.$((100 + i / 200)).$((1 + i % 200))/32 dev roce0"; done | ip -batch -
}
many() { # N
	local i before start=$SECONDS
	before=$(of VmPin)
	addresses "$1" add || die "no addresses"
	for ((i = 1; i <= $1; i++)); do
		MNT=/media/$i NFS_HOST=10.9.$((100 + i / 200)).$((1 + i % 200))
		mkdir -p $MNT
		nfs_mount 3 $proto
		files io f$i 64k 16k
	done
	echo "$1 mounts after $((SECONDS - start)) s; pinned by the server for them: $(($(of VmPin) - before)) kB;" \
		"the guest has $(awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo) kB left"
	for ((i = 1; i <= $1; i++)); do
		MNT=/media/$i
		files io f$i 64k 64k
	done
	judge ganesha server "c['verbs'] == $1 and not e['err_chunk_sent']"
	for ((i = 1; i <= $1; i++)); do
		MNT=/media/$i
		nfs_umount
	done
	addresses "$1" del
	echo "all gone after $((SECONDS - start)) s; pinned still: $(($(of VmPin) - before)) kB"
}

nfs_server
[ -z "$mounts" ] || { many "$mounts"; nfs_finish; }
for v in $versions; do
	nfs_mount $v $proto rsize=1048576,wsize=1048576
	everything $v
	[ $proto != rdma ] || {
		counted "by RDMA, and nothing wrong" \
			'recvs > 100 && sends >= recvs && connects == 1 && bad_xids + bad_reply == 0'
		counted "data in chunks" 'reads > 20 && writes > 20 && replies > 2'
	}
	attributes $v
	nfs_umount
done
chunks='m["read_chunks_received"] > 20 and m["write_chunks_sent"] > 20 and m["reply_chunks_sent"] > 2'
chunks="$chunks and m['invalidations_sent'] > 20"	# the client has said that it takes them
[ $server.$proto != ganesha.rdma ] || judge ganesha server "c['verbs'] >= 1 and $chunks and not e['err_chunk_sent']"
nfs_finish
