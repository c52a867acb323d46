#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Native connections that end badly, with calls under way: an end is killed, the link goes down, the device is taken
# away. The end that is left sees a lost connection, as on TCP; the server lives, its TCP listener goes on; of peers that
# were killed nothing is left; and when there is a device again, native peers reach the same server. And such as do not
# end, though packets get lost, altered, doubled or out of order, or the last one of the set-up never comes. native-loss.sh [STEP...]
# At most 1200 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../loss.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need rdma
device_up

native_server() { RDMARPC_RULES='role=server port=20801 native=20901' server env RDMARPC_VERBS=off "$@"; }
native_client() { RDMARPC_RULES='role=client port=20801 native=20901 mode=require' client env RDMARPC_VERBS=off "$@"; }
AS=native_client
by_tcp() { # NAME: who knows nothing of us is served
	checks=$((checks + 1))
	timeout 30 labcli $LAB_HOST 20801 null 5 >"$W/out" 2>&1 && grep -q 'null ok 5' "$W/out" || bad "$1: by TCP: $(cat "$W/out")"
}
server_lives() {
	checks=$((checks + 1))
	[ "$(lab_server_pid)" = "$server" ] || bad "$1: the server has died"
}
new_server() {
	lab_server poll native_server
	server=$(lab_server_pid)
	lab prepare 'null ok 2' null 2
	sleep 0.5
	before=$(resources) fds=$(server_fds)
}

killed() {
	for size in 0 100000; do
		stream $size
		stream_kill
		server_lives client-killed-$size
		nothing_left client-killed-$size
		lab client-killed-next 'null ok 5' null 5
	done
	stream 100000
	lab_server_kill
	lost server-killed 20
	new_server
}
losses() { cat "$W"/server.run*.log | grep -c ': lost: '; }
# The client's SO_KEEPALIVE has its device ask, though it only waits for an answer.
kept_alive() {
	export LAB_KEEPALIVE=2
	stream 100000
	unset LAB_KEEPALIVE
	ip link set roce0 down
	lost kept-alive 120
	ip link set roce0 up
	server_lives kept-alive
	lab_server_kill
	device_anew
	new_server
}
# Whoever has something under way notices, and no word of that comes through; who only waits for an answer waits
# on, as by TCP.
link_down() {
	local i n
	n=$(losses)
	stream 100000
	ip link set roce0 down
	for ((i = 0; i < 1200; i++)); do
		kill -0 $pid 2>/dev/null && [ "$(losses)" = "$n" ] || break
		sleep 0.1
	done
	if kill -0 $pid 2>/dev/null; then
		checks=$((checks + 1))
		[ $i -lt 1200 ] && echo "link-down: the server notices after $((i / 10)).$((i % 10)) s" || bad "link-down: nobody notices"
		stream_kill
	else
		lost link-down 0
	fi
	ip link set roce0 up
	server_lives link-down
	by_tcp link-up
	lab_server_kill
	device_anew
	new_server
}
device_gone() {
	stream 100000
	device_away
	lost device-gone 60
	server_lives device-gone
	by_tcp device-gone
	device_elsewhere
	by_tcp device-elsewhere
	again device-elsewhere
	server_lives device-elsewhere
	lab_server_kill
	device_home
	new_server
}
again() { # NAME: within 30 s the server is reached natively
	local i
	checks=$((checks + 1))
	for ((i = 0; i < 30; i++)); do
		rm -rf "$W"/client.run*
		$AS timeout 20 labcli $LAB_HOST 20801 echo 1000 >"$W/out" 2>&1 && grep -q 'echo 1000 ok' "$W/out" && break
		sleep 1
	done
	[ $i != 30 ] || bad "$1: not reached any more: $(cat "$W/out")"
	judge "$1" client "$BY_VERBS"
}

# What the devices, or siw's TCP, have noticed of it
noticed() {
	case $DEVICE in
	rxe) cat /sys/class/infiniband/rxw[01]/ports/1/hw_counters/{duplicate_request,out_of_seq_request,rcvd_seq_err,completer_retry_err} ;;
	*) nstat -asz TcpRetransSegs TcpInCsumErrors TcpExtTCPOFOQueue TcpExtTCPDSACKOldSent | awk '/Tcp/ { print $2 }' ;;
	esac | awk '{ n += $1 } END { print n }'
}
# noisy HOW DEVICE...: so are the wires, rxe's between two devices, and of what goes over lo the packets to siw's address. The library's
# own connections between 127.0.0.1 and itself are spared: loopback is no wire, and the library does not wait for it.
noisy() {
	local d
	if [ $DEVICE = rxe ]; then
		for d in "${@:2}"; do tc qdisc replace dev "$d" root netem $1 || die "netem $1"; done
		return
	fi
	tc qdisc del dev lo root 2>/dev/null	# with "replace" cls_u32 of Linux 6.1 warns
	tc qdisc add dev lo root handle 1: prio bands 4 priomap 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 &&
		tc qdisc add dev lo parent 1:4 netem $1 &&
		tc filter add dev lo parent 1: protocol ip u32 match ip dst $LAB_HOST/32 flowid 1:4 ||
		die "netem $1"
}
noise() {
	local how d n host=$LAB_HOST devices=lo
	modprobe -a sch_netem sch_prio cls_u32 || die "no netem"
	lab_server_kill
	[ $DEVICE != rxe ] || { wire_up; LAB_HOST=10.9.1.1 devices='v0 v1'; }
	LAB_TIMEOUT=250
	lab_server epoll native_server
	for how in 'loss 1%' 'loss 5%' 'corrupt 1%' 'duplicate 10%' 'delay 2ms reorder 75%'; do
		noisy "$how" $devices
		n=$(noticed)
		lab "$how: sum" 'sum 100000 ok' sum 100000
		lab "$how: big" 'big 200000 ok' big 200000
		lab "$how: threads" 'threads 4 calls 800 bad 0' threads 4
		n=$(($(noticed) - n))
		checks=$((checks + 1))
		((n > 0)) || bad "$how: nobody notices"
		at "$how: $n times noticed"
	done
	for d in $devices; do tc qdisc del dev $d root; done
	lab_server_kill
	unset LAB_TIMEOUT
	LAB_HOST=$host
	new_server
}

# The CM's last packet, "ready to use", never gets through: attribute 0x14 of a datagram to queue pair 1. The server
# knows by the client's first message that the connection is there, and takes no time-out of the CM's for it.
rtu() {
	local host=$LAB_HOST start
	modprobe -a sch_prio cls_u32 act_gact || die "no filters for packets"
	lab_server_kill
	wire_up
	LAB_HOST=10.9.1.1
	rm -rf "$W"/server.run*
	lab_server epoll native_server
	tc qdisc replace dev v1 root handle 1: prio
	tc filter add dev v1 parent 1: protocol ip u32 match u16 4791 0xffff at 22 match u32 1 0xffffff at 32 \
		match u16 0x14 0xffff at 64 action drop || die "no filter"
	start=$SECONDS
	LAB_TIMEOUT=15 lab rtu-lost 'conns 3 bad 0' conns 3
	checks=$((checks + 1))
	tc -s filter show dev v1 | grep -Eq 'dropped [1-9]' || bad "rtu: nothing was dropped: $(tc -s filter show dev v1)"
	at "rtu: 3 connections in $((SECONDS - start)) s"
	tc qdisc del dev v1 root
	judge rtu server 'c["verbs"] == 3 and e["lost"] == 0'
	lab_server_kill
	LAB_HOST=$host
	new_server
}

new_server
[ $# != 0 ] || set -- killed link_down kept_alive device_gone noise rtu
for step; do $step; done
lab_finish
