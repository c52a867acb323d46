#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The kernel's client mounts ganesha over RDMA by RPCSEC_GSS. Its rpc.gssd makes contexts over TCP on port 2049,
# and they are used on port 20049 (RFC 8267 §8.2.2.1). Data goes in chunks of its own with krb5, and in none with
# krb5i and krb5p. nfs-krb5.sh [VERSION...] [ganesha] [tcp]
# With knfsd a client that knows TCP only (tests/apps/gssnfs.c), with the library, does the same with the kernel's server.
# At most 600 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
need rpc.gssd
nfs_arguments "$@"
[ $server = ganesha ] || need rpc.svcgssd
[ "$versions" != "3 4.0 4.1 4.2" ] || versions="3 4.1"
HOST=10.9.0.1
helper() { background "$W/helper.out" "$@"; }
waitport() { wait_port "$1"; }
modprobe -a auth_rpcgss rpcsec_gss_krb5 || skip "the kernel has no RPCSEC_GSS"

hostname server.lab
{ cat /etc/hosts; echo "$HOST server.lab"; } >"$W/hosts"
mount --bind "$W/hosts" /etc/hosts
device_up
. "$(dirname "$0")/../../apps/krb5-setup.sh"
krb5_service nfs/server.lab
krb5_service host/server.lab	# the client, as which its root acts
KRB5="Active_krb5 = true; PrincipalName = nfs; KeytabPath = $W/keytab; CCacheDir = $W;" SEC=sys,krb5,krb5i,krb5p
nfs_server
mkdir -p "$W/cc.d"
background "$W/gssd.out" rpc.gssd -f -p /var/lib/nfs/rpc_pipefs -k "$W/keytab" -d "$W/cc.d"
gssd=$pid
trap 'nfs_down; umount /etc/hosts; hostname guest; cleanup' EXIT

if [ $server = knfsd ]; then
	exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check,async,sec=sys:krb5:krb5i:krb5p '*:/export' || die "exportfs"
	background "$W/svcgssd.out" rpc.svcgssd -f -n
	krb5_login user
	export RDMARPC_RULES='role=client port=20049 native=20049 mode=require; mode=tcp'
	port=20049 by=client
	[ $proto = rdma ] || port=2049 by=env
	data='m["read_chunks_sent"] > 1 and m["write_chunks_received"] > 1'
	none='m["read_chunks_sent"] == m["write_chunks_received"] == 0 and m["long_calls_sent"] > 1 and m["reply_chunks_received"] > 1'
	for sec in sys krb5 krb5i; do	# krb5p: it does not decode libtirpc's calls, by TCP and without the library either
		checks=$((checks + 1))
		rm -rf "$W"/client.run* "/export/$sec"
		$by timeout 60 gssnfs $HOST 2049 $port 20048 /export $sec >"$W/out" 2>"$W/err" &&
			grep -q "gssnfs $sec 103201 bytes same" "$W/out" || bad "$sec: $(cat "$W/out" "$W/err" "$W/svcgssd.out")"
		case $sec in sys | krb5) rule=$data ;; *) rule=$none ;; esac
		[ $proto = tcp ] || judge $sec client "c['verbs'] == 1 and e['lost'] == 0 and $rule"
	done
	versions=''
fi
for v in $versions; do
	for sec in krb5 krb5i krb5p; do
		nfs_mount $v $proto sec=$sec,rsize=1048576,wsize=1048576
		checks=$((checks + 1))
		grep " $MNT " /proc/mounts | grep -q "proto=$proto,.*sec=$sec," || bad "not mounted so: $(grep " $MNT " /proc/mounts)"
		files io f10 4m 64k
		files io f10 4m 1m
		files odd odd
		files names dir 2000
		files links .
		if [ $proto = rdma ]; then
			counted "$v $sec: by RDMA, and nothing wrong" 'recvs > 50 && connects == 1 && bad_xids + bad_reply == 0'
			if [ $sec = krb5 ]; then
				counted "$v $sec: data in chunks" 'reads > 5 && writes > 5'
			else
				counted "$v $sec: nothing is reduced" 'writes == 0 && replies > 5 && nomsg > 5'
			fi
		fi
		nfs_umount
	done
done
kill -0 $gssd || bad "rpc.gssd has ended: $(cat "$W/gssd.out")"
nfs_finish
