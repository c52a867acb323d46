#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Clients that know TCP only (libnfs's tools, a program with 128 calls outstanding, one that gets called), with
# the library, against the kernel's NFS/RDMA server; both sides' counters say by what the NFS calls went. MOUNT
# and the portmapper are TCP. nfs-libnfs.sh [VERSION...] [tcp]
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
APPS_HERE=$(cd "$(dirname "$0")/../../apps" && pwd)
need nfs-ls nfs-cat nfs-cp
nfs_arguments "$@" knfsd
[ "$versions" != "3 4.0 4.1 4.2" ] || versions="3 4 4.1"
if [ $proto = rdma ]; then
	export RDMARPC_RULES='role=client port=2049 native=20049 mode=require'
	by=client
else
	by="env"
fi
nfs_server
head -c 3000000 /dev/urandom >"$W/up"
head -c 1000 /dev/urandom >"$W/small"
mkdir -m 777 /export/files	# NFSv4 has the export for its root, and libnfs wants a directory in that
echo hello >/export/files/hello

received() { cat /proc/sys/sunrpc/svc_rdma/rdma_stat_recv; }

# run NAME REGEX COMMAND...: answers so, and the server has had calls by RDMA for it
run() {
	local name=$1 want=$2 before start=${EPOCHREALTIME/./}
	shift 2
	checks=$((checks + 2))
	before=$(received)
	rm -rf "$W"/client.run*
	if ! $by timeout 60 "$@" >"$W/out" 2>"$W/err" || ! grep -qE "$want" "$W/out"; then
		bad "$name: not '$want': $(cat "$W/out" "$W/err")"
	fi
	before=$(($(received) - before))
	[ -z "${V:-}" ] || echo "$name: $before calls, $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
	[ $proto = rdma ] || return
	((before > ${LEAST:-3})) || bad "$name: $before calls reached the server by RDMA"
	judge "$name" client 'c["verbs"] >= 1 and e["lost"] == 0'
}
same() { checks=$((checks + 1)); cmp "$1" "$2" || bad "$1 and $2 differ"; }

export LAB_ADDRESS=10.9.0.1
for v in $versions; do
	url=nfs://10.9.0.1$(nfs_path $v | sed 's,/$,,') o="version=$v&nfsport=2049&mountport=20048"
	case $v in 4.1)	# libnfs knows 4.0 only; and here the server calls the client
		run io41 'nfs41 1600000 bytes same' python3 "$APPS_HERE/nfs41.py" 2049 files
		run recall41 'delegation recalled' python3 "$APPS_HERE/nfs41.py" 2049 files recall
		continue ;;
	esac
	run ls$v hello nfs-ls "$url/files/?$o"
	[ $failures = 0 ] || nfs_finish
	run names$v f01999 nfs-ls "$url/dir/?$o"
	checks=$((checks + 1))
	[ "$(grep -c 'f0[01][0-9]*$' "$W/out")" = 2000 ] || bad "names$v: $(grep -c 'f0[01][0-9]*$' "$W/out")"
	run cat$v hello nfs-cat "$url/files/hello?$o"
	run small$v 'copied 1000 bytes' nfs-cp "$W/small" "$url/files/small$v?$o"
	same "$W/small" /export/files/small$v
	if [ $v = 3 ]; then	# libnfs 4.0.0 cannot encode longer WRITEs of NFSv4
		run up$v 'copied 3000000' nfs-cp "$W/up" "$url/files/up?$o"
		same "$W/up" /export/files/up
		run aio$v 'nfsaio reads 128 bad 0' nfsaio "$url/files/aio?$o" 128 65536
		run large$v 'nfsaio reads 16 bad 0' nfsaio "$url/files/large?$o" 16 1048576
	fi
	run down$v 'copied 3000000' nfs-cp "$url/files/up?$o" "$W/down$v"
	same "$W/up" "$W/down$v"
	LEAST=128 run aio-read$v 'nfsaio reads 128 bad 0' nfsaio "$url/files/aio?$o" 128 65536 read
	run large-read$v 'nfsaio reads 16 bad 0' nfsaio "$url/files/large?$o" 16 1048576 read
done
nfs_finish
