#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# On the host.
# Two guests with a network between them, servers in one and unmodified clients in the other: rpcbind, the
# laboratory program, nfs-ganesha and libnfs. two-hosts.sh [SERVICE...]
cases=$(cd "$(dirname "$0")" && pwd)
port_of() { case $1 in rpcbind) echo 111 ;; lab) echo 20801 ;; ganesha) echo 20862 ;; esac; }

case ${ROLE:-} in
net)	# in the guest: the device, at 10.9.2.$2
	modprobe -a virtio_net rdma_rxe rdma_ucm ib_uverbs
	dev=$(basename "$(ls -d /sys/class/net/e*)")
	ip addr add "10.9.2.$1/24" dev "$dev" && ip link set "$dev" up && rdma link add rxe0 type rxe netdev "$dev"
	exit ;;
serve)	# in the first: a server, until it is killed
	export LEG=verbs VERBS_HOST=10.9.2.1
	. "$cases/../../apps/lib.sh"
	case $1 in
	rpcbind) server rpcbind -f -w ;;
	lab) server labsvc svcrun 20801 ;;
	ganesha) . "$HERE/ganesha-setup.sh" ;;
	esac
	while :; do snapshot $W/stat/server >$W/json; cp $W/json /tmp/served; sleep 0.3; done ;;
use)	# in the second: its clients
	export LEG=verbs VERBS_HOST=10.9.2.1 TMO=60
	. "$cases/../../apps/lib.sh"
	case $1 in
	rpcbind)
		check T 'program 100000 version 2 ready' rpcinfo -T tcp $HOST 100000 2
		check p '100000 +4 +tcp +111 +portmapper' rpcinfo -p $HOST ;;
	lab)
		check null 'null ok 20' labcli $HOST 20801 null 20
		check sum 'sum 100000 ok' labcli $HOST 20801 sum 100000
		check big 'big 1000000 ok' labcli $HOST 20801 big 1000000
		check threads 'threads 3 calls 600 bad 0' labcli $HOST 20801 threads 3 ;;
	ganesha)
		ALLOW=NO_SHIM,NEGATIVE_CACHE	# rpcbind
		url="nfs://$HOST/exp" ports="nfsport=20861&mountport=20862"
		head -c 2000000 /dev/urandom >$W/a
		check up 'copied 2000000' nfs-cp $W/a "$url/a?$ports"
		check down 'copied 2000000' nfs-cp "$url/a?version=4&$ports" $W/b
		local_check same cmp $W/a $W/b ;;
	esac
	# The server, of which finish would ask, is in the other guest.
	judge_clients
	conclude ;;
esac

. "$cases/../guest.sh"
[ $# != 0 ] || set -- rpcbind lab ganesha
dir=$(mktemp -d "$BUILD/vm/two.XXXXXX") || exit 1
trap 'guest_stop "$dir/1"; guest_stop "$dir/2"; rm -rf "$dir"' EXIT
net() { echo "-netdev stream,id=n0,addr.type=unix,addr.path=$dir/wire,server=$2 -device virtio-net-pci,netdev=n0,mac=52:54:00:09:02:0$1,host_mtu=9000,romfile="; }
in_guest() { guest_run "$dir/$1" "$2" "BUILD='$BUILD' ROLE=$3 bash '$cases/two-hosts.sh' $4"; }
start() { # NUMBER SERVER
	VM_CPUS=1 VM_MEMORY=1024 VM_QEMU=$(net "$1" "$2") guest_start "$dir/$1" "$BUILD/vm/kernel" "$BUILD/vm/initrd" &&
		in_guest "$1" 60 net "$1"
}
start 1 on && start 2 off || { echo "no two guests"; exit 1; }
failed=0
for service; do
	port=$(port_of "$service")
	guest_run "$dir/1" 60 "BUILD='$BUILD' ROLE=serve setsid bash '$cases/two-hosts.sh' $service >/tmp/serve 2>&1 </dev/null & echo \$! >/tmp/pid
		for i in \$(seq 300); do ss -Hltn 'sport = :$port' | grep -q . && sleep 1 && exit; sleep 0.1; done; cat /tmp/serve; exit 1" &&
		in_guest 2 150 use "$service" || { echo "FAIL $service"; failed=1; }
	guest_run "$dir/1" 20 "sleep 0.5; kill \$(cat /tmp/pid); tail -n 5 /tmp/serve; cat /tmp/served" >"$dir/served"
	python3 - "$dir/served" <<'X' || { cat "$dir/served"; failed=1; }
import json, re, sys
text = open(sys.argv[1]).read()
carried = sum(p["connections"]["verbs"] for p in json.loads(text[text.index("{"):])["processes"])
print(f"the server says: {carried} connections by verbs")
sys.exit(not carried)
X
done
[ $failed = 0 ] || { tail -n 20 "$dir"/*/console; exit 1; }
echo "$*: carried between two guests"
