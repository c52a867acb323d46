#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Programs find each other by rpcbind and talk natively: a server under --register, a client under --resolve. With
# the library of tests/native, so that it takes no device.
. "$(dirname "$0")/lib-rpcbind" "$@"
PATH=$BUILD/apps:$PATH
mkdir "$T/tree"
cp "$BUILD/rdmarpc-run" "$BUILD/tests/native/librpcrdma_shim.so" "$T/tree" || exit 1
run=$T/tree/rdmarpc-run
export LAB_ADDRESS=0.0.0.0 RDMARPC_UPGRADE_TIMEOUT_MS=50000
stat_of() { RDMARPC_RUN_DIR=$T/$1 "$BUILD/rdmarpc-stat" --json; }
# how connections came to RDMA: "OFFERS:UPGRADED"
way() { stat_of "$1" | jq -r '[.processes[].upgrade] | "\(map(.offers_sent) | add):\(map(.upgraded) | add)"'; }
until_there() { # NETID...: what rpcbind has for the laboratory program
	local i got
	for ((i = 0; i < 900; i++)); do
		got=$(rpcinfo 2>/dev/null | awk '$1 == 536891972 { print $3 }' | sort | tr '\n' ' ')
		[ "$got" != "$*" ] || return
		sleep 0.1
	done
	is "registered" "$got" "$*"
}
listens() {
	local i
	for ((i = 0; i < 900; i++)); do
		has_listener "$1" && return
		sleep 0.1
	done
	is "listens on $1" no yes
}
# client NAME ARGUMENT...: labcli, which asks rpcbind itself for the TCP port; its connections are in $T/NAME
client() {
	local name=$1 rc
	shift
	mkdir -m 1777 "$T/$name"
	out=$(RDMARPC_RUN_DIR=$T/$name timeout 150 "$run" "$@" 2>"$T/err")
	rc=$?
	is "$name: status; $(cat "$T/err")" $rc 0
}

# rpcbind has a native rule of its own (RFC 8166 §5).
mkdir -m 1777 "$T/rpcbind" "$T/server"
RDMARPC_RUN_DIR=$T/rpcbind RDMARPC_RULES="role=server port=111 native=111" "$run" rpcbind -f >/dev/null 2>&1 &
listens 111
RDMARPC_RUN_DIR=$T/server "$run" --register labsvc register 20815 >/dev/null &
server=$!
until_there "rdma tcp "

client plain labcli 127.0.0.1 20815 null 5
is "without rules: by an offer" "$out:$(way plain)" "null ok 5:1:1"
client found --resolve 127.0.0.1 labcli 127.0.0.1 20815 null 5
is "found: natively" "$out:$(way found)" "null ok 5:0:1"
# No TCP leads there, but the provider of this test, which goes by the port whatever the address.
client late --resolve 192.0.2.1 labcli 192.0.2.1 20815 null 5
is "asked, and found: natively" "$out:$(way late)" "null ok 5:0:2"
is "calls came to the server" "$(stat_of server | jq '[.processes[].rpcs.calls_received] | add')" 15
is "a call came to rpcbind" "$(stat_of rpcbind | jq '[.processes[].rpcs.calls_received] | add > 0')" true
is "nothing is said" "$(grep -v '^calls' "$T/err")" ""

# A server that has ended is no longer found.
kill -9 $server
wait $server 2>/dev/null
until_there "tcp "
client gone --resolve 127.0.0.1 true
has "no longer found" "$(cat "$T/err")" "127.0.0.1: nothing is registered for RDMA"
finish
