#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What many native connections cost: pinned memory of client and server, as the kernel counts it, is what
# docs/DEVICES.md says: 432 KiB for each of the first 128, 128 for each other, which has fewer credits, and is used.
# With all of them open, others make calls; in the end, all that the server had of them is given back.
# With a limit of locked memory as many come in as are within it: the others are refused, and go by TCP.
# native-memory.sh [CONNECTIONS]: 10,000 with VM_MEMORY=16000.
# At most 4800 s.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up
n=${1:-200}
# At most three quarters of all descriptors are native connections', five for each, and by default a process has 65,530
# mappings, six for each.
ulimit -n $((n * 8 > 65536 ? n * 8 : 65536))
((n <= 5000)) || echo $((n * 16)) >/proc/sys/vm/max_map_count
# Both ends are on this host, and each has a TCP connection to itself: there are fewer ports than that takes at one address.
ports=$(cat /proc/sys/net/ipv4/ip_local_port_range)
trap 'echo "$ports" >/proc/sys/net/ipv4/ip_local_port_range; cleanup' EXIT
echo 32768 $((n > 5000 ? 60999 : 32768 + n + 99)) >/proc/sys/net/ipv4/ip_local_port_range
native_server() { RDMARPC_RULES='role=server port=20801 native=20901' server env RDMARPC_VERBS=off "$@"; }
client_at() { RDMARPC_RULES='role=client port=20801 native=20901' as_host "$1" env RDMARPC_VERBS=off "${@:2}"; }
native_client() { client_at client "$@"; }
AS=native_client
# few TEXT COMMAND...: by a connection of which the server has many
few() {
	local want=$1
	shift
	checks=$((checks + 1))
	rm -rf "$W"/other.run*
	client_at other timeout 60 labcli $LAB_HOST 20801 "$@" >"$W/out" 2>&1
	grep -q "$want" "$W/out" || bad "$*: $(cat "$W/out")"
	judge "few-$1" other "$BY_VERBS"
}

# of FILE NAME: the figure of that name in the file, in $kB. It starts no process: the processor is the connections'.
of() {
	local lines
	kB=0
	mapfile -t lines <"$1"
	[[ ! "${lines[*]}" =~ $2:[[:space:]]+([0-9]+) ]] || kB=${BASH_REMATCH[1]}
} 2>/dev/null
look() { # what is pinned in the server ($p) and in the client ($c), resident in the server ($r), available ($f)
	of "/proc/$server/status" VmPin; p=$kB
	of "/proc/$server/status" VmRSS; r=$kB
	of "/proc/$labcli/status" VmPin; c=$kB
	of /proc/meminfo MemAvailable; f=$kB
}
# What the server has, besides memory, and the kernel of all: descriptors, mappings and queue pairs.
objects() { echo "$(ls "/proc/$server/fd" | wc -l) $(wc -l <"/proc/$server/maps") $(rdma resource show qp | grep -c 'type RC')"; }
# Until the server's resident memory has not become less for two seconds.
idle() {
	local last=$((1 << 40))
	while look; ((r < last)); do last=$r; sleep 2; done
}

lab_server epoll native_server
lab prepare 'null ok 2' null 2
server=$(lab_server_pid) labcli=0
want=$((n < 128 ? n * 432 : 128 * 432 + (n - 128) * 128))
look
before=$p rss=$r free=$f had=$(objects)
rm -rf "$W"/client.run*
began=$SECONDS
background "$W/conns" native_client labcli $LAB_HOST 20801 conns "$n"
client=$pid pin=0 stopped='' pin_client=0 most=0 least=$free rest=0 calls=0 all='' pause=$((n > 1000)).03
while kill -0 $client 2>/dev/null; do
	[ $labcli != 0 ] || labcli=$(pgrep -x labcli || echo 0)
	look
	((p <= pin)) || pin=$p
	((c <= pin_client)) || pin_client=$c
	((r <= most)) || most=$r
	((f >= least)) || least=$f
	if [ -z "$stopped" ] && ((p - before >= want && n > 128)); then
		stopped=$SECONDS
		kill -STOP "$labcli"
		few 'threads 3 calls 600 bad 0' threads 3
		few 'sum 100000 ok' sum 100000
		calls=$((SECONDS - stopped)) all=$(objects)
		idle
		rest=$r stopped=$((stopped - began))
		kill -CONT "$labcli"
	fi
	sleep $pause
done
wait $client && grep -q "conns $n bad 0" "$W/conns" || bad "conns: $(cat "$W/conns")"
judge conns client "c['verbs'] == $n and c['tcp'] == c['shm'] == 0"
((n <= 128)) || [ -n "$stopped" ] || bad "never as much as that at once"
checks=$((checks + 4))
found="kB for $n connections: to be pinned $want; pinned in the server $((pin - before)), in the client $pin_client; for each, \
resident in the server $(((most - rss) / n)), idle $((rest ? (rest - rss) / n : 0)); the guest's memory $(((free - least) / n))"
((pin - before >= want && pin - before <= want + 2 * 432 && pin_client <= want + n * 128)) || bad "that is not what DEVICES.md says: $found"
# The server takes them down one by one: it has ten seconds for each that it gives back.
for ((i = 0, last = 1 << 40; i < 100; i++)); do
	look
	[ $p != "$before" ] || break
	((p == last)) || i=0 last=$p
	sleep 0.1
done
[ $p = "$before" ] || bad "it stays pinned: $p kB, before $before"
left=$(objects)
[ "${left% * *} ${left##* }" = "${had% * *} ${had##* }" ] || bad "descriptors, mappings, queue pairs: $left left, before $had"
sleep 1
look
found+="; descriptors, mappings and queue pairs $had, then $all, last $left; MB of the guest's memory $((free / 1024)), $((least / 1024)), \
$((f / 1024)), of the server's $((rss / 1024)), $((most / 1024)), $((r / 1024)); s: all there after ${stopped:-?}, calls of others $calls, over after $((SECONDS - began)); $(grep ' after ' "$W/conns" | xargs)"
lab_server_kill
rm -rf "$W"/server.run*

limited() { native_server setpriv --bounding-set -ipc_lock prlimit --memlock=$((40 << 20)) "$@"; }
lab_server epoll limited
CLIENT='c["verbs"] == 2 and c["tcp"] == 3 and e["lost"] == 0' lab limited 'conns 5 bad 0' conns 5
lab_finish
