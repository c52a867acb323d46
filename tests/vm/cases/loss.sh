#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# An end that is killed, a link that goes down, with calls under way: the end that is left sees a lost connection,
# as on TCP, soon enough; nothing of the connection stays, and the next client is served. loss.sh [STEP...]
# At most 600 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../loss.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need rdma
device_up

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
		stream_kill
		nothing_left client-killed-$size
		lab client-killed-next 'null ok 5' null 5
	done
}
impatient() { client env RDMARPC_UPGRADE_TIMEOUT_MS=3000 "$@"; }
# rxe may lose the error (docs/DEVICES.md: one time in twenty); then it is tried again.
link_down() {
	local i
	for i in 1 2 3; do
		stream 100000
		ip link set roce0 down
		[ $i != 3 ] && ! stream_ends 20 || break
		echo "link-down: nothing in $took s"
		stream_kill
		ip link set roce0 up
		lab_server_kill
		device_anew
		new_server
	done
	lost link-down 20
	ip link set roce0 up
	nothing_left link-down
	AS=impatient CLIENT='c["tcp"] + c["verbs"] == 1 and c["shm"] == 0' lab link-up-next 'null ok 5' null 5
	lab_server_kill
	device_anew
	new_server
	lab device-anew 'null ok 5' null 5
}

new_server
[ $# != 0 ] || set -- server_killed client_killed link_down
for step; do $step; done
lab_finish
