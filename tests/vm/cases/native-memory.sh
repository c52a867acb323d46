#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What many native connections cost: pinned memory of client and server, as the kernel counts it, is what
# docs/DEVICES.md says: 432 KiB for each of the first 128, 128 for each other, which has fewer credits, and is used.
# With a limit of locked memory as many come in as are within it: the others are refused, and go by TCP.
# native-memory.sh [CONNECTIONS]
# At most 3600 s.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up
n=${1:-200}
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

# of NAME PID: kB
of() { awk -v n="$1:" '$1 == n { print $2 }' "/proc/$2/status" 2>/dev/null; }
available() { awk '$1 == "MemAvailable:" { print $2 }' /proc/meminfo; }

lab_server epoll native_server
lab prepare 'null ok 2' null 2
server=$(lab_server_pid)
want=$((n < 128 ? n * 432 : 128 * 432 + (n - 128) * 128))
before=$(of VmPin $server) rss=$(of VmRSS $server) free=$(available)
rm -rf "$W"/client.run*
background "$W/conns" native_client labcli $LAB_HOST 20801 conns "$n"
client=$pid pin=0 stopped='' pin_client=0 most=0 least=$free
while kill -0 $client 2>/dev/null; do
	p=$(of VmPin $server) c=$(of VmPin "$(pgrep -x labcli)") r=$(of VmRSS $server) f=$(available)
	((p <= pin)) || pin=$p
	((${c:-0} <= pin_client)) || pin_client=$c
	((r <= most)) || most=$r
	((f >= least)) || least=$f
	if [ -z "$stopped" ] && ((p - before >= want && n > 128)); then
		stopped=$(pgrep -x labcli)
		kill -STOP "$stopped"
		few 'threads 3 calls 600 bad 0' threads 3
		few 'sum 100000 ok' sum 100000
		kill -CONT "$stopped"
	fi
	sleep 0.03
done
wait $client && grep -q "conns $n bad 0" "$W/conns" || bad "conns: $(cat "$W/conns")"
judge conns client "c['verbs'] == $n and c['tcp'] == c['shm'] == 0"
((n <= 128)) || [ -n "$stopped" ] || bad "never as much as that at once"
checks=$((checks + 3))
found="kB for $n connections: to be pinned $want; pinned in the server $((pin - before)), in the client $pin_client; for each, \
resident in the server $(((most - rss) / n)); the guest's memory $(((free - least) / n))"
((pin - before >= want && pin - before <= want + 2 * 432 && pin_client <= want + n * 128)) || bad "that is not what DEVICES.md says: $found"
for ((i = 0; i < 100; i++)); do [ "$(of VmPin $server)" != "$before" ] || break; sleep 0.1; done
[ "$(of VmPin $server)" = "$before" ] || bad "it stays pinned: $(of VmPin $server) kB, before $before"
lab_server_kill
rm -rf "$W"/server.run*

limited() { native_server setpriv --bounding-set -ipc_lock prlimit --memlock=$((40 << 20)) "$@"; }
lab_server epoll limited
CLIENT='c["verbs"] == 2 and c["tcp"] == 3 and e["lost"] == 0' lab limited 'conns 5 bad 0' conns 5
lab_finish
