#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two programs on two hosts that know each other by rpcbind only: the server under rdmarpc-run --register, the client
# under --resolve. They meet by RDMA CM, without an offer; and when the server is killed it is found no longer. A
# server of IPv4 and of IPv6 on one port is there by both; one that may not use the device, by neither.
. "$(dirname "$0")/../lib.sh"
need rpcbind rpcinfo
[ -x "$BUILD/tests/tools/rpcreg" ] || skip "built without libtirpc"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up
listening 111 || background "$W/rpcbind.out" rpcbind -f -w
run() { # HOST ARGUMENT...: rdmarpc-run, which itself knows nothing of the library
	local host=$1
	shift
	as_host "$host" env -u LD_PRELOAD "$BUILD/rdmarpc-run" "$@"
}
registered() { # WANT [PROGRAM]
	local got
	for ((i = 0; i < 200; i++)); do
		got=$(rpcinfo 2>/dev/null | awk -v p="${2:-536891972}" '$1 == p { print $3 }' | sort | tr '\n' ' ')
		[ "$got" != "$1" ] || return
		sleep 0.1
	done
	die "registered is '$got', not '$1'"
}
export LAB_ADDRESS=10.9.0.1
background "$W/server.out" run server --register labsvc register 20801
registered "rdma tcp "
found() { run client --resolve 10.9.0.1 "$@"; }
NATIVE='c["verbs"] == 1 and c["tcp"] == c["shm"] == 0 and u["offers_sent"] == 0 and e["lost"] == 0'
AS=found CLIENT=$NATIVE lab found 'null ok 20' null 20
AS=found CLIENT=$NATIVE lab sum 'sum 100000 ok' sum 100000
AS=found CLIENT=$NATIVE lab big 'big 100000 ok' big 100000
kill -9 "$(lab_server_pid)"
registered "tcp "
rpcinfo -d 536891972 1

checks=$((checks + 3))
background "$W/both.out" run server --register "$BUILD/tests/tools/rpcreg" port 20802 tcp 300001 tcp6 300001 serve
registered "rdma rdma6 tcp tcp6 " 300001
chmod 600 /dev/infiniband/*
background "$W/barred.out" run server --register setpriv --reuid 65534 --clear-groups \
	"$BUILD/tests/tools/rpcreg" port 20803 tcp 300002 serve
barred='300002 version 1 rdma 0.0.0.0.81.67: no RDMA device, or no permission to use it'
for ((i = 0; i < 600; i++)); do ! contains "$W/server.run.log" "warn: rpcbind: $barred" || break; sleep 0.1; done
contains "$W/server.run.log" "warn: rpcbind: $barred" || die "not said: $barred"
registered "tcp " 300002
chmod 666 /dev/infiniband/*
kill $(pgrep -x rpcreg)
registered "tcp tcp6 " 300001
rpcinfo -d 300001 1
rpcinfo -d 300002 1
lab_finish
