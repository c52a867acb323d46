#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Devices that cannot what their kernel driver says (tests/vm/mask.c): two shims, a native client of a native server, the
# kernel's NFS client in front of ganesha, libnfs in front of the kernel's NFS server; the right answers, by the device,
# and nothing hangs; rdmarpc-conform judges either end. Faults: such as run out of objects or whose queues break; calls are
# right or end as those of TCP do.
# masked.sh [PART...] [PROFILE...]: PART is between_ours, natively, of_ganesha, of_knfsd, conform or faults.
# At most 7200 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
. "$(dirname "$0")/../conform.sh"
[ -f "$BUILD/tests/vm/mask.so" ] || skip "built without rdma-core's headers"
device_up
parts='' masks=''
for w; do
	case $w in
	between_ours | natively | of_* | conform | faults) parts="$parts $w" ;;
	*) masks="$masks $w" ;;
	esac
done
faulty='few-regs few-pairs fails-posts'
[ "$parts" != ' faults' ] || masks=${masks:-$faulty}
if [ $DEVICE = rxe ]; then
	parts=${parts:-between_ours natively of_ganesha of_knfsd conform}
	masks=${masks:-bnxt_re irdma irdma-x722 cxgb4 hns ocrdma mlx4 mlx5 refuses-bind fails-bind few-windows least}
else	# what is iWARP, and what is not TCP there
	parts=${parts:-natively of_ganesha of_knfsd conform} masks=${masks:-irdma cxgb4}
fi
case $parts in *of_*)
	need rpcbind mount.nfs mkfs.ext4 nfs-cp ganesha.nfsd
	nfs_modules
	mkdir -p /export
	server=knfsd
	trap 'nfs_down; cleanup' EXIT ;;
esac
head -c 3000000 /dev/urandom >"$W/up"
clean() { rm -rf "$W"/server.run* "$W"/client.run*; }

between_ours() {
	lab_server epoll
	lab "$MASK null" 'null ok 20' null 20
	lab "$MASK sum" 'sum 100000 ok' sum 100000
	lab "$MASK big" 'big 3000000 ok' big 3000000
	lab "$MASK threads" 'threads 4 calls 800 bad 0' threads 4
	lab_server_kill
	clean
}
clean_client() { rm -rf "$W"/client.run*; }

native_server() { RDMARPC_RULES='role=server port=20801 native=20901' server env RDMARPC_VERBS=off "$@"; }
native_client() { RDMARPC_RULES='role=client port=20801 native=20901 mode=require' client env RDMARPC_VERBS=off "$@"; }
natively() {
	lab_server epoll native_server
	AS=native_client lab "$MASK native-null" 'null ok 20' null 20
	AS=native_client lab "$MASK native-sum" 'sum 100000 ok' sum 100000
	AS=native_client lab "$MASK native-big" 'big 200000 ok' big 200000
	lab_server_kill
	clean
}

of_ganesha() {
	nfs_export
	server=ganesha proto=rdma
	local connects=1
	[ "$MASK" != fails-bind ] || connects=2		# of a process the first connection is lost
	ganesha_up
	for v in 3 4.1; do
		nfs_mount $v rdma
		files io f$v 10m 1m
		files names dir 2000
		counted "by RDMA, and nothing wrong" \
			"recvs > 20 && sends >= recvs && connects <= $connects && bad_xids + bad_reply == 0"
		connects=1
		nfs_umount
	done
	unset RDMARPC_RULES
	nfs_down
	clean
}

conform() {
	conform_shim v1
	clean
}

# knfsd_has FILE: as what was sent
knfsd_has() { checks=$((checks + 1)); cmp "$W/up" "$1" || bad "$MASK: $1 is not what was sent"; }
of_knfsd() {
	local by='role=client port=2049 native=20049 mode=require' url=nfs://10.9.0.1/export/files o='version=3&nfsport=2049&mountport=20048'
	nfs_export
	server=knfsd
	knfsd_up
	mkdir -m 777 /export/files
	rm -f "$W/down"		# nfs-cp makes it
	checks=$((checks + 2))
	if [ "$MASK" = fails-bind ]; then	# each process's first connection is lost, and libnfs tries no other
		RDMARPC_RULES=$by client timeout 60 nfs-cp "$W/up" "$url/up?$o" >"$W/out" 2>&1
		[ $? != 124 ] || bad "$MASK up: hangs"
		judge "$MASK up" client 'c["verbs"] == 1 and e["lost"] == 1'
		nfs_down
		clean
		return
	fi
	RDMARPC_RULES=$by client timeout 60 nfs-cp "$W/up" "$url/up?$o" >"$W/out" 2>&1 || bad "$MASK up: $(cat "$W/out")"
	knfsd_has /export/files/up
	clean_client
	RDMARPC_RULES=$by client timeout 60 nfs-cp "$url/up?$o" "$W/down" >"$W/out" 2>&1 || bad "$MASK down: $(cat "$W/out")"
	knfsd_has "$W/down"
	judge "$MASK down" client 'c["verbs"] >= 1 and e["lost"] == 0'
	nfs_down
	clean
}

# may_end NAME COMMAND...: the right answer, or the end of a connection (what may not be TCP is refused), and that soon
ENDS='RPC: \(Unable to \(send\|receive\)\|Remote system error - Connection refused\)'
may_end() {
	local rc
	checks=$((checks + 1))
	clean_client
	$AS timeout 60 labcli $LAB_HOST 20801 "${@:2}" >"$W/out" 2>"$W/err"
	rc=$?
	case $rc in
	0) right=$((right + 1)) ;;
	124) bad "$MASK $*: hangs" ;;
	*) grep -q "$ENDS" "$W/err" && ended=$((ended + 1)) || bad "$MASK $*: $rc: $(cat "$W/out" "$W/err")" ;;
	esac
	[ -z "${V:-}" ] || at "$MASK $*: $rc"
}
# The client's device has the fault, then the server's; and who comes next, without one, is served.
faults() {
	local s c right=0 ended=0
	for AS in client native_client; do
		for s in '' "$MASK"; do
			[ "$s" ] && c='' || c=$MASK
			MASK=$s lab_server epoll ${AS/client/server}
			MASK=$c may_end "$AS $s null" null 50
			MASK=$c may_end "$AS $s sum" sum 100000
			MASK=$c may_end "$AS $s threads" threads 4
			MASK=$c may_end "$AS $s conns" conns 4
			what="$MASK afterwards"
			[ "$s" ] || MASK='' CLIENT=True lab "$what" 'sum 100000 ok' sum 100000
			checks=$((checks + 1))
			[ "$(lab_server_pid)" ] || bad "$MASK: $AS: the server has died"
			lab_server_kill
			clean
		done
	done
	unset AS
	echo "$MASK: $right right, $ended ended"
}

for mask in $masks; do
	start=$SECONDS before=$failures
	masked "$mask"
	for part in $parts; do
		case $mask:$part in fails-bind:of_*) ;; fails-bind:*) continue ;; esac
		opened=$(grep -c opened "$MASK_LOG")
		$part
		checks=$((checks + 1))
		[ "$(grep -c opened "$MASK_LOG")" -gt "$opened" ] || bad "$mask $part: nobody has opened such a device"
		[ -z "${V:-}" ] || echo "$mask $part: $((SECONDS - start)) s"
	done
	echo "$mask: $((failures - before)) failures, $((SECONDS - start)) s; $(sort "$MASK_LOG" | uniq -c | xargs)"
done
nfs_finish
