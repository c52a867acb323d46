#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# How many connections a second come about, one after the other, with a call each: by TCP, between two of ours by the device,
# and natively; with an empty call each natively, to ours and to the kernel's NFS server; and without calls those of librdmacm's
# own programs. All are right; how many they are is shown and not judged.
# connect-rate.sh [CONNECTIONS]
# At most 1200 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need cmtime
device_up
n=${1:-100} port=20801
by_tcp() { "$@"; }
native_server() { RDMARPC_RULES='role=server port=20801 native=20901' server env RDMARPC_VERBS=off "$@"; }
native_client() { RDMARPC_RULES='role=client port=20801 native=20901 mode=require' client env RDMARPC_VERBS=off "$@"; }
empty_calls() { native_client env LAB_NULL=$((0x20005244)):1 "$@"; }
calls_knfsd() { RDMARPC_RULES='role=client port=2049 native=20049 mode=require' client env RDMARPC_VERBS=off LAB_NULL=100003:3 "$@"; }

mkfifo "$W/hold"
exec 9<>"$W/hold"	# a client waits there when it has had its connections
# cycle CLIENT CONNECTIONS: sets $took, in us
cycle() {
	local start i
	rm -f "$W/cycle"
	start=${EPOCHREALTIME/./}
	background "$W/cycle" "$1" sh -c 'exec labcli "$@" <"$0"' "$W/hold" $LAB_HOST $port cycle "$2"
	for ((i = 0; i < 6000; i++)); do
		! contains "$W/cycle" cycle || break
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.02
	done
	took=$((${EPOCHREALTIME/./} - start))
	contains "$W/cycle" "cycle $2 bad 0" || bad "$1: $(cat "$W/cycle")"
}
cycle_ends() {
	kill "$(pgrep -x labcli)"
	wait "$pid" 2>/dev/null
}
by_verbs="c['verbs'] == $n + 1 and c['tcp'] == c['shm'] == e['lost'] == 0"
# rate TEXT CLIENT [RULE]: what a client with one connection takes is not counted
rate() {
	local one
	checks=$((checks + 1))
	rm -rf "$W"/client.run*
	cycle "$2" 1
	one=$took
	cycle_ends
	rm -rf "$W"/client.run*
	cycle "$2" $((n + 1))
	[ -z "${3:-}" ] || judge "$1" client "$3"
	cycle_ends
	found="${found:+$found; }$1 $((n * 1000000 / (took - one)))/s"
}
# of_lab SERVER TEXT CLIENT [RULE]
of_lab() {
	rm -rf "$W"/server.run*
	lab_server svcrun "$1"
	shift
	rate "$@"
	lab_server_kill
}
of_lab by_tcp TCP by_tcp
of_lab server 'two of ours' client "$by_verbs"
of_lab native_server native native_client "$by_verbs"
of_lab native_server 'native, empty calls' empty_calls "$by_verbs"
nfs_arguments knfsd
nfs_server
port=2049
rate 'the same to knfsd' calls_knfsd "$by_verbs"
nfs_down
trap cleanup EXIT
checks=$((checks + 1))
background "$W/cmtime" cmtime -b $LAB_HOST -c "$n"
sleep 1
start=${EPOCHREALTIME/./}
# its status is 0 whatever becomes of its connections
timeout 100 cmtime -s $LAB_HOST -b $LAB_HOST -c "$n" >"$W/out" 2>&1 && grep -q '^destroy ' "$W/out" && ! grep -Eq 'error|fail' "$W/out" ||
	bad "cmtime: $(head -n 20 "$W/out")"
found="$found; librdmacm's own, all at once and without a call, $((n * 1000000 / (${EPOCHREALTIME/./} - start)))/s"
[ -z "${V:-}" ] || cat "$W/out"
[ $failures = 0 ] || tail -n 20 "$W"/*.log
echo "$checks checks, $failures failed; $found"
exit $((failures != 0))
