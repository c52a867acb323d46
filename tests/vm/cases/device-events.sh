#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What devices report by themselves while calls are under way, played by tests/vm/mask.c on either side: a completion queue
# overruns and is silent from then on (cq), a queue pair breaks and is silent (qp), the device fails (fatal), its link goes
# down and comes back (link). The connections that are concerned end soon, no other does, the log says why, and who comes
# later is carried, or is TCP while the device does not serve. Between two of ours, natively, and with the kernel's NFS client
# in front of ganesha. failover: bonding moves the address to another link, which the kernel itself tells connections and
# listeners.
# device-events.sh [STEP...] [ours|natively] [server|client]: whose device it is
# At most 1800 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
. "$(dirname "$0")/../loss.sh"
[ -f "$BUILD/tests/vm/mask.so" ] || skip "built without rdma-core's headers"
device_up
trap '' PIPE	# as daemons do: here peers leave before their replies come
masked events
export MASK_EVENTS=$W/events
faulty=$MASK MASK='' happened=0
echo 0 none >"$MASK_EVENTS"
chmod 644 "$MASK_EVENTS"

native_server() { RDMARPC_RULES='role=server port=20801 native=20901' server env RDMARPC_VERBS=off "$@"; }
native_client() { RDMARPC_RULES="role=client port=20801 native=20901 ${REQUIRE-mode=require}" client env RDMARPC_VERBS=off "$@"; }

# happen WORD: to every process with such a device (mask.c)
happen() {
	happened=$((happened + 1))
	echo "$happened $1" >"$MASK_EVENTS.new"
	mv "$MASK_EVENTS.new" "$MASK_EVENTS"
}
# said SIDE REGEX: in its log, within 10 s
said() {
	local i
	checks=$((checks + 1))
	for ((i = 0; i < 100; i++)); do
		! contains "$W/$1.run.log" "$2" || return 0
		sleep 0.1
	done
	bad "$what: the log of the $1 does not say '$2': $(tail -n 5 "$W/$1.run.log")"
}
acked() { # so many times more than at the last time
	local n
	checks=$((checks + 1))
	n=$(grep -c acked "$MASK_LOG")
	[ $((n - acked)) = "$1" ] || bad "$what: $((n - acked)) events acknowledged, not $1"
	acked=$n
}
server_lives() {
	checks=$((checks + 1))
	[ "$(lab_server_pid)" = "$server" ] || bad "$what: the server has died: $(cat "$W/server.out"; dmesg | tail -n 3)"
}
# side SIDE: a server, and from now on the device of this side is the faulty one
side() {
	rm -rf "$W"/*.run* "$W"/*.log
	masked events
	at=$1 acked=0
	if [ "$at" = server ]; then of_client=''; else MASK='' of_client=$faulty; fi
	lab_server epoll "${AS/client/server}"
	MASK=$of_client
	server=$(lab_server_pid)
	lab "$AS: first" 'null ok 2' null 2
	sleep 0.5
	before=$(resources) fds=$(server_fds)
}
side_over() {
	MASK=''
	lab_server_kill
}
DEVICE_DOWN='the RDMA device failed, or its link is down'
# tcp_meanwhile: who comes now is on TCP, and the server says why
tcp_meanwhile() {
	REQUIRE='' CLIENT='c["tcp"] == 1 and c["verbs"] == c["shm"] == 0' lab "$what, meanwhile" 'null ok 5' null 5
	[ "$AS" != client ] || judge "$what, meanwhile" server "p['tcp_reasons'].get('$DEVICE_DOWN', 0) >= 1"
}

cq() { ends cq 'CQ error; connections that end: 1'; }
qp() { ends qp 'catastrophic error; connections that end: 1'; }
ends() { # WORD TEXT
	for size in 0 100000; do
		what="$AS, $at's $1, $size"
		: >"$W/$at.run.log"
		stream $size
		happen "$1"
		lost "$what" 30
		said "$at" "RDMA device ${DEVICE}[01]: [^"$'\n'"]*$2"
		[ "$at" = client ] || said server "lost: $DEVICE_DOWN"
		acked 1
		server_lives
		nothing_left "$what"
		lab "$what, next" 'sum 100000 ok' sum 100000
	done
}
# Two connections of a server; the queue of one overruns.
others() {
	local one two
	[ "$at" = server ] || return 0
	what="$AS, others"
	stream 1000
	one=$pid
	stream 1000
	two=$pid
	happen first-cq
	checks=$((checks + 2))
	for ((i = 0; i < 300; i++)); do
		kill -0 $one 2>/dev/null && kill -0 $two 2>/dev/null || break
		sleep 0.1
	done
	sleep 2
	if kill -0 $one 2>/dev/null; then living=$one; else living=$two; fi
	! { kill -0 $one && kill -0 $two; } 2>/dev/null || bad "$what: none has ended"
	kill -0 $living 2>/dev/null || bad "$what: both have ended"
	n=$(server_has_sent)
	sleep 2
	[ "$(server_has_sent)" -gt "$n" ] || bad "$what: the other one stands still at $n calls"
	acked 1
	kill -9 $(pgrep -x labcli)
	wait $one $two 2>/dev/null
	server_lives
}
server_has_sent() {
	stat_of server | /usr/bin/python3 -I -S -c 'import json, sys
print(sum(p["rpcs"]["replies_sent"] for p in json.load(sys.stdin)["processes"]))'
}
fatal() {
	what="$AS, $at's fatal"
	: >"$W/$at.run.log"
	stream 1000
	happen fatal
	lost "$what" 30
	said "$at" "RDMA device ${DEVICE}[01]: local catastrophic error; connections that end: 1"
	acked 1
	server_lives
	nothing_left "$what"
	if [ "$at" = server ]; then
		tcp_meanwhile
		happen up
		sleep 1
	fi
	lab "$what, back" 'sum 100000 ok' sum 100000
	[ "$at" = client ] || acked 1
}
link() {
	local back
	[ "$at" = server ] || return 0
	for back in up back; do
		what="$AS, link down and $back"
		: >"$W/server.run.log"
		stream 1000
		happen down
		said server "RDMA device ${DEVICE}[01], port 1: port error"
		checks=$((checks + 2))
		kill -0 $pid 2>/dev/null || bad "$what: the connection ends"
		tcp_meanwhile
		happen $back
		sleep 1
		lab "$what, later" 'sum 100000 ok' sum 100000
		kill -0 $pid 2>/dev/null || bad "$what: the connection has ended"
		stream_kill
	done
	acked 3
	nothing_left "$what"
}

# The kernel's client writes to ganesha, whose device has it: ganesha's end is over at once, where the client would wait for a
# minute before it connected again. What was being written is right.
of_nfs() {
	local word connects
	server=ganesha proto=rdma versions=4.1
	rm -rf "$W"/server.run*
	masked events
	nfs_server
	nfs_mount 4.1 rdma
	acked=0 n=160
	for word in cq qp fatal link; do
		what="ganesha's $word"
		: >"$W/server.run.log"
		connects=$(xprt | sed -n 's/^connects=//p')
		background "$W/writer" sh -c "cd $MNT && exec $FILES io $word $((n * 65536)) 64k synced"
		writer=$pid
		for ((i = 0; i < 600 && $(stat -c %s /export/$word 2>/dev/null || echo 0) < 262144; i++)); do sleep 0.1; done
		kill -0 $writer 2>/dev/null || bad "$what: the writer has ended too soon: $(cat "$W/writer")"
		start=${EPOCHREALTIME/./}
		if [ $word = link ]; then happen down; else happen $word; fi
		case $word in
		cq) said server 'CQ error; connections that end: 1' ;;
		qp) said server 'catastrophic error; connections that end: 1' ;;
		fatal) said server 'local catastrophic error; connections that end: 1' && sleep 3 && happen up ;;
		link) said server 'port 1: port error' && sleep 1 && happen up ;;
		esac
		for ((i = 0; i < 1200; i++)); do kill -0 $writer 2>/dev/null || break; sleep 0.1; done
		checks=$((checks + 2))
		[ $i != 1200 ] && wait $writer || { bad "$what: $(cat "$W/writer")"; kill -9 $writer 2>/dev/null; }
		found="${found:+$found; }$what: over after $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
		if [ $word = link ]; then
			counted "$what: the connection survives" "connects == $connects"
		else
			counted "$what: connected again" "connects > $connects"
		fi
	done
	nfs_umount
	judge ganesha server 'c["verbs"] >= 3'
	nfs_down
	trap cleanup EXIT
	MASK=''
	dmesg -c | grep -vE 'rpcrdma:|not responding|RPC:|nfs: server' | tail -5
}

# --- not by the mask ---

# Two links behind one address, as bonding makes them, and the address with its MAC moves to the other link.
failover() {
	local home=$LAB_HOST
	[ $DEVICE = rxe ] || return 0
	modprobe bonding max_bonds=0 && ip link add s0 type dummy && ip link add s1 type dummy &&
		ip link add bond0 type bond mode active-backup fail_over_mac active miimon 100 &&
		ip link set s0 master bond0 && ip link set s1 master bond0 && ip addr add 10.9.2.1/24 dev bond0 &&
		ip link set bond0 mtu 9000 up && rdma link add rxb0 type rxe netdev bond0 || die "no bonding"
	sleep 1
	LAB_HOST=10.9.2.1
	for AS in client native_client; do
		rm -rf "$W"/*.run* "$W"/*.log
		lab_server epoll "${AS/client/server}"
		server=$(lab_server_pid) what="$AS, failover"
		lab "$what: first" 'null ok 2' null 2
		stream 1000
		if [ "$(cat /sys/class/net/bond0/bonding/active_slave)" = s0 ]; then other=s1; else other=s0; fi
		ip link set bond0 type bond active_slave $other || bad "$what: the address does not move"
		lost "$what" 30
		server_lives
		if [ $AS = native_client ]; then
			said server 'native peers cannot reach RDMA port'
			checks=$((checks + 1))
			for ((i = 0; i < 100; i++)); do
				[ "$(grep -c 'native peers reach RDMA port' "$W/server.run.log")" -lt 2 ] || break
				REQUIRE='' client timeout 5 labcli $LAB_HOST 20801 null 1 >/dev/null 2>&1
				sleep 0.1
			done
			[ $i != 100 ] || bad "$what: no new listener"
		fi
		lab "$what, later" 'sum 100000 ok' sum 100000
		lab_server_kill
	done
	rdma link delete rxb0
	ip link del bond0
	ip link del s0
	ip link del s1
	LAB_HOST=$home
}

steps='' kinds='' sides=''
for w; do case $w in ours | natively) kinds="$kinds $w" ;; server | client) sides="$sides $w" ;; *) steps="$steps $w" ;; esac; done
[ $DEVICE = rxe ] || kinds=natively
for kind in ${kinds:-ours natively}; do
	[ $kind = ours ] && AS=client || AS=native_client
	for at in ${sides:-server client}; do
		todo=
		for step in ${steps:-cq qp others fatal link}; do
			case $step in of_nfs | failover) ;; *) todo="$todo $step" ;; esac
		done
		[ "$todo" ] || continue
		side $at
		for step in $todo; do $step; done
		side_over
	done
done
for step in ${steps:-failover of_nfs}; do
	case $step in of_nfs | failover) $step ;; esac
done
nfs_finish
