#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Of connections that came and went nothing is left, in the client, in the server, in the device. A window that
# was left would keep its protection domain. leaks.sh [CYCLES]
# At most 1500 s.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need rdma
device_up
cycles=${1:-1000}
export RDMARPC_MEMORY=512k RDMARPC_MAX_MESSAGE=128k RDMARPC_REPLY_CHUNK=64k RDMARPC_REPLY_CHUNK_MAX=128k

resources() { rdma resource show | tr -s ' '; }
fds() { ls "/proc/$1/fd" | wc -l; }
# cycle N: a client that has had so many connections and waits; its pid is in $cli
cycle() {
	local i
	rm -f "$W/cycle"
	client labcli 10.9.0.1 20801 cycle "$1" <"$W/hold" >"$W/cycle" 2>&1 &
	for ((i = 0; i < 12000; i++)); do
		! contains "$W/cycle" cycle || break
		sleep 0.1
	done
	grep -q "cycle $1 bad 0" "$W/cycle" || { cat "$W/cycle"; die "not 'cycle $1 bad 0'"; }
	cli=$(pgrep -x labcli)
	sleep 1	# the server has seen the end of the last one
}
# what CLIENT: all that there is
what() { echo "client $(fds "$cli") server $(fds "$(lab_server_pid)") $(resources)"; }

mkfifo "$W/hold"
sleep 3600 >"$W/hold" &	# keeps it open for reading to block
holder=$!
pids="$pids $holder"
lab_server svcrun
cycle 3
before=$(what)
kill "$cli"
rm -rf "$W"/client.run*
start=$SECONDS
cycle "$cycles"
after=$(what)
judge cycles client "c['verbs'] == $cycles and c['tcp'] == c['shm'] == 0 and e['lost'] == 0"
kill "$cli"
[ "$before" = "$after" ] || { echo "after 3 connections:  $before"; echo "after $cycles connections: $after"; die "something is left"; }
lab_server_kill
[ $failures = 0 ] || exit 1
echo "$cycles connections in $((SECONDS - start)) s, then: $after"
