#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An end that is killed, a link that goes down, with calls under way: the end that is left sees a lost connection,
# as on TCP, soon enough; nothing of the connection stays, and the next client is served. loss.sh [STEP...]
# At most 600 s.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need rdma
rxe_up

bad() { echo "FAIL $*"; failures=$((failures + 1)); }
resources() { rdma resource show 2>/dev/null | tr -s ' ' | sed 's/ ctx .*//'; }
server_fds() { ls "/proc/$(lab_server_pid)/fd" | wc -l; }

# stream SIZE: a client whose calls are under way when this returns
stream() {
	local i
	rm -rf "$W"/client.run* "$W/stream"
	background "$W/stream" client labcli 10.9.0.1 20801 stream "$1"
	for ((i = 0; i < 600; i++)); do
		grep -qs streaming "$W/stream" && return
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	cat "$W/stream"
	die "stream: it does not begin"
}
# lost NAME SECONDS: the client sees that the connection is lost, in that time
lost() {
	local i
	checks=$((checks + 1))
	for ((i = 0; i < $2 * 10; i++)); do
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	echo "$1: after $((i / 10)).$((i % 10)) s $(tail -n 1 "$W/stream")"
	if kill -0 $pid 2>/dev/null; then
		bad "$1: the client does not notice"
		kill -9 "$(pgrep -x labcli)"
	elif ! grep -q '^ended: RPC: Unable to \(send\|receive\)' "$W/stream"; then
		bad "$1: that is not what TCP shows"
	fi
	wait $pid 2>/dev/null
}
# nothing_left NAME: within 60 s the server has what it had before the connection
nothing_left() {
	local i
	checks=$((checks + 1))
	for ((i = 0; i < 600; i++)); do
		[ "$(resources)" = "$before" ] && [ "$(server_fds)" = "$fds" ] && return
		sleep 0.1
	done
	bad "$1: left of the connection: $(resources), $(server_fds) descriptors; before: $before, $fds"
}

new_server() {
	lab_server svcrun
	lab prepare 'null ok 2' null 2	# what is made once
	sleep 0.5
	before=$(resources) fds=$(server_fds)
}

server_killed() {
	for size in 0 100000; do
		stream $size
		lab_server_kill
		lost server-killed-$size 20
		new_server
	done
}
client_killed() {
	for size in 0 100000; do
		stream $size
		kill -9 "$(pgrep -x labcli)"
		wait $pid 2>/dev/null
		nothing_left client-killed-$size
		lab client-killed-next 'null ok 5' null 5
	done
}
impatient() { client env RDMARPC_UPGRADE_TIMEOUT_MS=3000 "$@"; }
# After that the CM of this rxe does not get through any more (rping says so too) until it is made anew.
link_down() {
	stream 100000
	ip link set roce0 down
	lost link-down 120
	ip link set roce0 up
	nothing_left link-down
	AS=impatient CLIENT='c["tcp"] + c["verbs"] == 1 and c["shm"] == 0' lab link-up-next 'null ok 5' null 5
	lab_server_kill
	rdma link delete rxe0 && rdma link add rxe0 type rxe netdev roce0 || die "no device again"
	new_server
	lab device-anew 'null ok 5' null 5
}

new_server
[ $# != 0 ] || set -- server_killed client_killed link_down
for step; do $step; done
lab_finish
