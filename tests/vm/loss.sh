# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For cases in which something is lost with calls under way, after lib.sh: $before and $fds are what resources() and
# server_fds() said before.

resources() { rdma resource show 2>/dev/null | sed 's/  */ /g; s/ ctx .*//'; }
server_fds() {
	local open
	open=("/proc/$(lab_server_pid)/fd"/*)
	echo ${#open[@]}
}

# stream SIZE: a client whose calls are under way when this returns
stream() {
	local i
	took=0.0
	rm -rf "$W"/client.run* "$W/stream"
	background "$W/stream" ${AS:-client} labcli $LAB_HOST 20801 stream "$1"
	for ((i = 0; i < 600; i++)); do
		! contains "$W/stream" streaming || return 0
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	cat "$W/stream"
	die "stream: it does not begin"
}
stream_kill() {
	kill -9 "$(pgrep -x labcli)"
	wait $pid 2>/dev/null
}
stream_ends() { # SECONDS: does it, in that time?
	local i
	for ((i = 0; i < $1 * 10; i++)); do
		kill -0 $pid 2>/dev/null || break
		sleep 0.1
	done
	took=$((i / 10)).$((i % 10))
	! kill -0 $pid 2>/dev/null
}
# lost NAME SECONDS: the client sees that the connection is lost, in that time
lost() {
	checks=$((checks + 1))
	if kill -0 $pid 2>/dev/null && ! stream_ends "$2"; then
		bad "$1: the client does not notice"
		stream_kill
	elif ! grep -q '^ended: RPC: Unable to \(send\|receive\)' "$W/stream"; then
		bad "$1: that is not what TCP shows"
	fi
	echo "$1: after $took s $(tail -n 1 "$W/stream")"
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

# device_anew: what this rxe needs after its link was down: the CM gets nowhere before (rping says so too)
device_anew() {
	rdma link delete ${DEVICE}0 && rdma link add ${DEVICE}0 type $DEVICE netdev roce0 || die "no device again"
}

# device_away: it goes from who uses it. That ends when the last of them does: rxe cannot take itself from librdmacm.
# device_elsewhere: its address is another device's. device_home: all is as before; users of either have ended.
device_away() {
	rdma link delete ${DEVICE}0 &
	deletion=$!
}
device_elsewhere() {
	ip link add roce1 type dummy && ip link set roce1 mtu 9000 && ip addr del 10.9.0.1/24 dev roce0 &&
		ip addr add 10.9.0.1/24 dev roce1 && ip link set roce1 up && rdma link add ${DEVICE}1 type $DEVICE netdev roce1 ||
		die "no other device"
}
# deletion_ends: waits for that end, not for ever; who holds the device is shown.
deletion_ends() {
	local i
	for ((i = 0; i < 1200; i++)); do
		kill -0 $deletion 2>/dev/null || return 0
		sleep 0.1
	done
	rdma resource show
	ps -eo pid,stat,wchan:30,args | awk '$2 ~ /D/'
	find /proc/[0-9]*/fd -lname '/dev/infiniband/*' 2>/dev/null
	die "the device does not go"
}
device_home() {
	deletion_ends
	rdma link delete ${DEVICE}1 && ip link del roce1 && ip addr add 10.9.0.1/24 dev roce0 &&
		rdma link add ${DEVICE}0 type $DEVICE netdev roce0 || die "no device again"
}
