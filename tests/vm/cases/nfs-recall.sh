#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The server calls its client: one, over RDMA, has a delegation; another, over TCP from a network of its own,
# writes the file; ganesha recalls, on the RDMA connection (RFC 8167). And ACLs, and with 4.2 extended attributes
# (RFC 8276), short ones and such as take a Position-Zero Read chunk and a Reply chunk. With Ceph below ganesha,
# since FSAL_VFS has none of these. nfs-recall.sh [VERSION...] [ganesha|knfsd] [rdma|tcp]
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
GANESHA_FSAL=CEPH
nfs_arguments "$@"
[ $# != 0 ] || versions='4.1 4.2'
nfs_server

# other SCRIPT: by the other client, with the export at $OTHER
OTHER=/media
ip netns add other && ip link add to_other type veth peer name eth0 netns other &&
	ip addr add 10.9.3.1/24 dev to_other && ip link set to_other up &&
	ip -n other addr add 10.9.3.2/24 dev eth0 && ip -n other link set eth0 up ||
	die "no second network"
trap 'nfs_down; ip netns del other; cleanup' EXIT
other() {
	ip netns exec other unshare -u -m sh -c 'hostname other; mount -t nfs -o "$1" "10.9.3.1:$2" '$OTHER' &&
		sh -c "$3"; rc=$?; umount '$OTHER'; exit $rc' - "vers=$version,proto=tcp" "$(nfs_path $version)" "$1"
}
traced=/sys/kernel/tracing
backward() { grep -c 'xprtrdma_cb_call' $traced/trace; }

attributes() { # VERSION
	local n
	for n in 1 200; do files acl acl system.nfs4_acl $n; done
	[ "$1" != 4.2 ] || for n in 10 3000 8000; do files xattr xattr $n; done
}

recall() { # VERSION
	version=$1
	other "echo first >$OTHER/shared.$version" >"$W/other" 2>&1 || bad "the other client: $(cat "$W/other")"
	nfs_mount $version $proto
	: >$traced/trace
	checks=$((checks + 4))
	# a server asks first whether it can call back
	for ((i = 0; i < 3; i++)); do cat $MNT/shared.$version >/dev/null; sleep 1; done
	background "$W/hold" "$FILES" hold $MNT/shared.$version "$W/ready" "$W/go"
	for ((i = 0; i < 300; i++)); do [ ! -e "$W/ready" ] || break; sleep 0.1; done
	other "echo the second >$OTHER/shared.$version" >"$W/other" 2>&1 ||
		bad "the other client: $(cat "$W/other")"
	: >"$W/go"
	wait $pid || bad "the first client: $(cat "$W/hold")"
	rm -f "$W/ready" "$W/go"
	[ -z "${V:-}" ] || echo "$version: $(ops DELEGRETURN) delegations returned, $(backward) calls backward"
	[ "$(ops DELEGRETURN)" -ge 1 ] || bad "$version: no delegation was returned"
	[ $proto = tcp ] || [ "$(backward)" -ge 1 ] || bad "$version: no call backward"
	attributes $version
	[ $proto = tcp ] || counted "$version: long ones by chunks" 'nomsg >= 1 && replies >= 1'
	nfs_umount
}

echo 1 >$traced/events/rpcrdma/xprtrdma_cb_call/enable || skip "the kernel does not trace"
for v in $versions; do recall $v; done
[ $server.$proto != ganesha.rdma ] || judge ganesha server \
	'c["verbs"] >= 1 and m["reverse_calls_sent"] >= 1 and m["long_calls_received"] >= 1 and m["reply_chunks_sent"] >= 1'
echo 0 >$traced/events/rpcrdma/xprtrdma_cb_call/enable
nfs_finish
