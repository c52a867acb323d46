#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What crosses the wire, as tshark reads it: headers of version 1 and nothing malformed, credits, and for each
# kind of message the chunk lists that it must have (capture.py). capture.sh [lab] [nfs]
. "$(dirname "$0")/../lib.sh"
here=$(cd "$(dirname "$0")/.." && pwd)
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need tshark tcpdump
wire_up
LAB_HOST=10.9.1.2

capture() {
	background "$W/tcpdump" tcpdump -i v0 --immediate-mode -U -B 65536 -s 0 -w "$W/pcap" udp port 4791
	tcpdump=$pid
	for ((i = 0; i < 300; i++)); do
		! contains "$W/tcpdump" 'listening on' || return 0
		sleep 0.1
	done
	die "tcpdump does not begin"
}
# captured KIND...: these were there, and nothing wrong
captured() {
	local size=-1
	for ((i = 0; i < 60; i++)); do	# until tcpdump has written what has come
		sleep 0.5
		[ "$size" != "$(stat -c %s "$W/pcap")" ] || break
		size=$(stat -c %s "$W/pcap")
	done
	kill "$tcpdump"
	wait "$tcpdump"
	checks=$((checks + 1))
	grep -q '^0 packets dropped' "$W/tcpdump" && /usr/bin/python3 "$here/capture.py" "$W/pcap" 10.9.1.1 "$@" && return
	cat "$W/tcpdump"
	echo "FAIL what tshark says: see above"
	failures=$((failures + 1))
}

reply_chunks() { client env RDMARPC_RELIABLE_REPLIES=off "$@"; }
refused() { reply_chunks "$@" || true; }
one_chunk() { server env RDMARPC_MAX_CHUNKS=1 "$@"; }
lab_kinds() {
	capture
	lab_server svcrun
	lab msg 'null ok 5' null 5
	lab long-call 'sum 100000 ok' sum 100000
	lab reliable 'big 200000 ok' big 200000
	AS=reply_chunks lab reply-chunk 'big 200000 ok' big 200000
	lab_server_kill
	lab_server svcrun one_chunk	# takes no call with a Read chunk and a Reply chunk
	AS=refused CLIENT='c["verbs"] == 1 and e["err_chunk_received"] == 1' lab error 'echo 100000 BAD' echo 100000
	captured call answer long-call reliable-reply pulled call+reply reply-chunk error
	lab_server_kill
}
nfs_kinds() { # as between any two that know RFC 8267
	capture
	VERBS_HOST=$LAB_HOST env NATIVE=1 TMO=90 "$here/../apps/run" -l verbs ganesha-vfs || failures=$((failures + 1))
	captured call answer call+read call+write answer+write call+reply
}

[ $# != 0 ] || set -- lab
for what; do ${what}_kinds; done
[ $failures = 0 ] || tail -n 20 "$W"/*.log
echo "$checks checks, $failures failed"
exit $((failures != 0))
