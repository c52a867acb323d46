#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What packets that get lost cost the kernel's client, of ganesha with the library and of the kernel's own server, in turn: it
# writes 64 KiB and syncs, so many times, and reads what it wrote, over a wire between two devices. The data are right, and each
# has its end; how long it took is shown and not judged. nfs-loss.sh [n=TIMES] [PERCENT...]
# At most 3600 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
nfs_arguments 4.1
need tc
n=160 percents=
for w; do
	case $w in n=*) n=${w#n=} ;; *) percents="$percents $w" ;; esac
done
NFS_HOST=10.9.1.1
TMO=900

netem() { local d; for d in v0 v1; do tc qdisc replace dev $d root netem "$@" || die "no netem"; done; }
retries() { cat /sys/class/infiniband/rxw[01]/ports/1/hw_counters/{completer_retry_err,rcvd_seq_err,sent_rnr_err,retry_exceeded_err} 2>/dev/null | awk '{ n += $1 } END { print n + 0 }'; }
lossy() { # PERCENT
	local start before
	netem loss "$1%"
	before=$(retries)
	start=${EPOCHREALTIME/./}
	files io "lossy.$1" $((n * 65536)) 64k synced
	found="${found:+$found; }$server, $1 %: $(((${EPOCHREALTIME/./} - start) / 1000)) ms, $(($(retries) - before)) retries"
	netem loss 0%
}

wire_up
modprobe sch_netem || skip "no netem in the kernel"
nfs_server
trap 'tc qdisc del dev v0 root; tc qdisc del dev v1 root; nfs_down; cleanup' EXIT
measured() {
	local percent
	nfs_mount 4.1 rdma
	for percent in ${percents:-0 1}; do lossy $percent; done
	nfs_umount
}
measured
judge ganesha server 'c["verbs"] >= 1'
nfs_down
server=knfsd
nfs_export
knfsd_up
measured
dmesg -c | grep -E 'rpcrdma:|svcrdma:|not responding' | tail -n 5	# of a connection that was made anew
nfs_finish
