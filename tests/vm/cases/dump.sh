#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-dump of connections that the device carries, between two of ours and native ones, at the server:
# tshark finds each call's reply and nothing malformed, as RPC over TCP and as RPC-over-RDMA, and each packet says
# that it was verbs. dump.sh [upgraded] [native]
# At most 1200 s.
. "$(dirname "$0")/../lib.sh"
here=$(cd "$(dirname "$0")/../.." && pwd)
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need tshark
device_up
by_rule() { RDMARPC_RULES='role=server port=20801 native=20901' server env RDMARPC_VERBS=off "$@"; }
native_client() { RDMARPC_RULES='role=client port=20801 native=20901 mode=require' client env RDMARPC_VERBS=off "$@"; }

begin() { # SIDE OPTION...: captures that side's processes to $W/cap
	local i
	rm -f "$W/cap"
	RDMARPC_RUN_DIR=$W/$1.run background "$W/said" "$BUILD/rdmarpc-dump" -w "$W/cap" "${@:2}"
	reader=$pid
	for ((i = 0; i < 600; i++)); do [ ! -s "$W/cap" ] || return; sleep 0.1; done
	die "no capture begins: $(cat "$W/said")"
}
stop() {
	checks=$((checks + 1))
	kill -TERM "$reader"
	wait "$reader" || bad "$1: the capture's status is $?"
	grep -q ' 0 packets dropped' "$W/said" || bad "$1: $(cat "$W/said")"
}
# shark FIELD...: of each packet
shark() {
	tshark -2 -o tcp.try_heuristic_first:TRUE -o rpc.dissect_unknown_programs:TRUE -r "$W/cap" -T fields -E occurrence=f \
		"${@/#/-e}" 2>"$W/err"
}
# judged NAME CALLS AS: so many calls, each with its reply
judged() {
	local name=$1 got
	checks=$((checks + 1))
	shark rpc.msgtyp rpc.time _ws.malformed tcp.analysis.flags rpc.fragment.error rpcordma.fragment.error frame.comment >"$W/fields"
	got=$(awk -F'\t' '
		$1 == 0 { calls++ }
		$1 == 1 && $2 != "" { replies++ }
		$3 $4 $5 $6 != "" { wrong++ }
		$1 != "" && $7 !~ /; carrier verbs, dialect v1(, native peer)?; chunks: / { other++ }
		END { printf "%d calls, %d replies, %d malformed, %d of another carrier", calls, replies, wrong, other }' "$W/fields")
	[ "$got" = "$2 calls, $2 replies, 0 malformed, 0 of another carrier" ] || {
		bad "$name: $got; not $2 of each: $(cat "$W/err")"
		cut -f 1-7 "$W/fields" | sort | uniq -c | sort -rn | head -20
	}
	cut -f 7 "$W/fields" | grep -o 'chunks: .*' | sort | uniq -c | xargs echo "$name:"
	[ "$3" = rpc ] && return
	/usr/bin/python3 "$here/tools/roce.py" "$W/cap" >"$W/roce" 2>&1	# a line for each fault, and one with their number
	[ "$(wc -l <"$W/roce")" = 1 ] || bad "$name: $(head -n 5 "$W/roce")"
}
captured() { # NAME SERVER CLIENT
	local as
	for as in rpc rdma; do
		lab_server svcrun "$2"
		AS=$3 lab "$1-before" 'null ok 2' null 2
		begin server -C labsvc --as=$as
		AS=$3 lab "$1-null" 'null ok 20' null 20
		AS=$3 lab "$1-sum" 'sum 100000 ok' sum 100000
		AS=$3 lab "$1-big" 'big 200000 ok' big 200000
		stop "$1 as $as"
		judged "$1 as $as" 22 $as
		lab_server_kill
		rm -rf "$W"/server.run*
	done
}
upgraded() { captured upgraded server client; }
native() { captured native by_rule native_client; }

[ $# != 0 ] || set -- upgraded native
for what; do $what; done
[ $failures = 0 ] || tail -n 20 "$W"/*.log
echo "$checks checks, $failures failed"
exit $((failures != 0))
