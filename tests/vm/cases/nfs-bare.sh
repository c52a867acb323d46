#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server of NFSv3 whose READ replies have no attributes, as RFC 1813 allows. The kernel's client misplaces the data
# then, if it comes by a Write chunk (decision 6): so the library sends it inline where it fits, and otherwise the
# reader gets an error, and never another file's bytes. By TCP, and with attributes, nothing of that. nfs-bare.sh [tcp]
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
nfs_arguments "$@"
need mount.nfs
device_up	# first, for native-loss in the same boot: DEVICES.md, "rdma link delete"
nfs_modules
rpcbind_up
export LAB_ADDRESS=10.9.0.1 RDMARPC_RULES='role=server port=2049 native=20049'
background "$W/bare.out" server /usr/bin/python3 "$(dirname "$0")/../bare_nfs.py" 2049 20048
wait_port 2049
wait_port 20048
bare=$(ss -Hltnp 'sport = :2049' | sed 's/.*pid=\([0-9]*\).*/\1/')
trap 'umount -f -l $MNT 2>/dev/null; kill -9 $bare; cleanup' EXIT
nfs_path() { echo /; }

cat >"$W/reads.py" <<'X'
import mmap, os, sys
name = sys.argv[1]
size = int(name.split("-")[1])
want = (bytes((i * 7 + (i >> 8)) & 255 for i in range(1 << 16)) * (size // 65536 + 1))[:size]
for flags in 0, os.O_DIRECT:
    fd = os.open("/mnt/" + name, os.O_RDONLY | flags)
    buf = mmap.mmap(-1, (size + 8191) & ~4095)
    at = 0
    while at < size:
        n = os.preadv(fd, [memoryview(buf)[at:]], at)
        assert n > 0, f"read of {n} at {at}"
        at += n
    if buf[:size] != want:
        bad = next(i for i in range(size) if buf[i] != want[i])
        sys.exit(f"{name}, flags {flags:#x}: byte {bad} is {buf[bad]:02x}, not {want[bad]:02x}; there: {buf[bad:bad + 96].hex()}")
X
# reads NAME [ERROR]: each byte is the one that belongs there; or that error
reads() {
	checks=$((checks + 1))
	timeout 60 python3 "$W/reads.py" "$1" >"$W/out" 2>&1
	case $?.${2:-} in
	0.) ;;
	0.*) bad "$1: no error" ;;
	*.) bad "$1: $(tail -n 1 "$W/out")" ;;
	*) grep -q "$2" "$W/out" || bad "$1: not '$2': $(tail -n 1 "$W/out")" ;;
	esac
}

options=rsize=1048576,wsize=1048576
[ $proto = rdma ] || options=$options,port=2049	# nobody has told rpcbind
nfs_mount 3 $proto $options
for n in 100 3000 5000 1048577; do
	reads with-$n
	if [ $proto = rdma ] && [ $n -gt 3900 ]; then reads without-$n 'Input/output error'; else reads without-$n; fi
done
nfs_umount
[ $proto = tcp ] || judge bare server 'c["verbs"] >= 1 and m["write_chunks_sent"] > 4 and e["err_chunk_sent"] >= 2'
nfs_finish
