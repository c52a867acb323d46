#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The network fails under the kernel's client while it writes 64 KiB and syncs, so many times, and reads all of it back; with
# ganesha and the library, and with the kernel's own server, in turn. The data are right and each has its end; how long it took, and
# how long nothing was written when the failure was over, is shown and not judged. short: nothing gets through for a second, twice,
# which the connection can survive. long: for twelve seconds, which it need not. moved: its address goes to another link and
# another device.
# nfs-flaps.sh [n=TIMES] [short] [long] [moved]
# At most 1800 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
. "$(dirname "$0")/../loss.sh"
nfs_arguments 4.1
need tc rdma
n=160 parts='' dropped=0
for w; do
	case $w in n=*) n=${w#n=} ;; *) parts="$parts $w" ;; esac
done
NFS_HOST=10.9.1.1
home=$LAB_HOST

netem() { local d; for d in v0 v1; do tc qdisc replace dev $d root netem "$@" || die "no netem"; done; }
dark() { # SECONDS; so many packets more were dropped: $dropped
	local before
	before=$(drops)
	netem loss 100%
	sleep "$1"
	dropped=$((dropped + $(drops) - before))
	netem loss 0%
}
drops() { tc -s qdisc | awk '/netem/ { on = /dev v[01]/ } /dropped/ && on { sub(/,/, "", $7); n += $7; on = 0 } END { print n + 0 }'; }
# happened: the network has failed, else nothing was tried
happened() {
	checks=$((checks + 1))
	[ "$dropped" -gt 0 ] || bad "$server: no packet was lost"
	dropped=0
}
# writes NAME: the writer has written some of it when this returns; its pid is in $writer
writes() {
	local i
	start=${EPOCHREALTIME/./}
	background "$W/writer" sh -c "cd $MNT && exec $FILES io $1 $((n * 65536)) 64k synced"
	writer=$pid
	for ((i = 0; i < 600 && $(stat -c %s /export/"$1" 2>/dev/null || echo 0) < 262144; i++)); do sleep 0.1; done
	kill -0 $writer 2>/dev/null || bad "$server, $1: the writer has ended too soon: $(cat "$W/writer")"
}
is_written() { # NAME TEXT
	local i size=0 had now grew=${EPOCHREALTIME/./} pause=0
	checks=$((checks + 1))
	for ((i = 0; i < 3000; i++)); do
		had=$size size=$(stat -c %s /export/"$1") now=${EPOCHREALTIME/./}
		[ "$size" = "$had" ] || grew=$now
		[ "$size" = $((n * 65536)) ] || pause=$((now - grew > pause ? now - grew : pause))
		kill -0 $writer 2>/dev/null || break
		sleep 0.1
	done
	[ $i != 3000 ] && wait $writer || bad "$server, $1: $(cat "$W/writer")"
	found="${found:+$found; }$server, $1: $(((${EPOCHREALTIME/./} - start) / 1000)) ms, $2$(xprt | sed -n 's/^connects=//p') connections, \
paused for $((pause / 1000)) ms at most"
}
short() {
	writes short
	dark 1
	sleep 1
	dark 1
	is_written short ''
	happened
	[ $server = knfsd ] || counted "$server: it does not connect for each" 'connects <= 2'
}
long() {
	writes long
	dark 12
	is_written long ''
	happened
}
moved() {
	local n=$((n * 2))	# it is not over before the address has moved
	writes moved
	device_elsewhere
	is_written moved ''
	counted "$server: another connection by the other device" 'connects >= 2'
}
device_back() {
	rdma link delete ${DEVICE}1
	ip link del roce1
	ip addr add 10.9.0.1/24 dev roce0 || die "no address again"
}

wire_up
modprobe sch_netem || skip "no netem in the kernel"
netem loss 0%
for server in ganesha knfsd; do
	for part in ${parts:-short long moved}; do
		[ $part != moved ] && NFS_HOST=10.9.1.1 || NFS_HOST=$home
		nfs_server
		nfs_mount 4.1 rdma
		$part
		nfs_umount
		[ $server = knfsd ] || judge "ganesha, $part" server 'c["verbs"] >= 1'
		nfs_down
		trap cleanup EXIT
		rm -rf "$W"/server.run*
		[ $part != moved ] || device_back
	done
done
for d in v0 v1; do tc qdisc del dev $d root; done
dmesg -c | grep -vE 'rpcrdma:|svcrdma:|not responding|RPC:|nfs: server' | tail -5
nfs_finish
