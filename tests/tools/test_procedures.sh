#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-stat --procedures: exact counts of real programs, rpcbind and others of libtirpc, at both ends; in each format.
. "$(dirname "$0")/lib-rpcbind"
for c in jq rpcinfo; do
	command -v $c >/dev/null || { echo "no $c"; exit 77; }
done
make -s BUILD="$(basename "$BUILD")" "$(basename "$BUILD")"/apps/{benchsvc,benchcli} || exit 1
stat=$BUILD/rdmarpc-stat
export RDMARPC_RUN_DIR=$T/run RDMARPC_UPGRADE_TIMEOUT_MS=20000
mkdir "$T/run"
# In the background only: the process is the program then.
rdma() { LD_PRELOAD=$BUILD/librpcrdma_shim.so exec "$@"; }
wait_for() {
	until "$@"; do sleep 0.05; done
}
# rows SIDE PID...: calls, errors, replies of each procedure
rows() {
	local side=$1
	shift
	"$stat" --json "$@" | jq -r --arg side "$side" '.processes[].procedures[] | select(.side == $side) |
		"\(if .others then "others" else "\(.program_name)\(.version).\(.procedure_name)" end) \(.calls) \(.errors) \(.latency_ns.count)"' |
		awk '{ c[$1] += $2; e[$1] += $3; n[$1] += $4 } END { for (p in c) printf "%s %d %d %d\n", p, c[p], e[p], n[p] }' | sort
}

rdma rpcbind -f >/dev/null 2>&1 &
daemon=$!
wait_for has_listener 111
clients=
ask() {
	rdma rpcinfo "$@" >/dev/null 2>&1 &
	clients="$clients $!"
	wait $!
}
ask -p 127.0.0.1			# GETADDR, DUMP of version 2
ask -s 127.0.0.1			# DUMP of version 3
ask -T tcp 127.0.0.1 100000 4		# GETADDR, NULL
ask -m 127.0.0.1			# GETSTAT
ask -a 127.0.0.1.0.111 -T tcp 100000 9	# PROG_MISMATCH
ask -a 127.0.0.1.0.111 -T tcp 100003 3	# PROG_UNAVAIL
want="portmap2.DUMP 1 0 1
rpcbind3.DUMP 1 0 1
rpcbind4.GETADDR 2 0 2
rpcbind4.GETSTAT 1 0 1
rpcbind4.NULL 1 0 1"
is "the server's calls: what nobody serves are others" "$(rows server $daemon)" "others 2 2 2
$want"
# shellcheck disable=SC2086
is "the clients' calls" "$(rows client $clients)" "nfs3.NULL 1 1 1
${want%%
*}
portmap9.NULL 1 1 1
${want#*
}"
out=$("$stat" --procedures $daemon)
has "text: whose" "$out" "$daemon rpcbind, live:
  RECEIVED, SERVICE TIME           CALLS ERRORS RESENT  ARGS/C   RES/C LONG-A LONG-R      P50      P90      P99      MAX
  portmap v2 DUMP                      1      0      0      40     "
has "text: others" "$out" "
  others                               2      2      0      40      "
has "text: a process of no calls" "$("$stat" --procedures)" "rpcinfo, ended:
  SENT, ROUND TRIP                 CALLS"
is "--program: of it only" "$("$stat" --procedures --program=nfs | grep -c " v[0-9]")" 1
"$stat" --openmetrics | /usr/bin/python3 tests/tools/openmetrics.py >"$T/om" 2>&1
labels="command='rpcbind',pid='$daemon',procedure='GETADDR',program='rpcbind',side='server',uid='0',version='4'"
for sample in "calls_total{$labels} 2" "errors_total{$labels} 0" "resent_total{$labels} 0" "argument_bytes_total{$labels} 176" \
	"long_arguments_total{$labels} 0" "latency_seconds_count{$labels} 2" \
	"calls_total{command='rpcbind',pid='$daemon',procedure='',program='others',side='server',uid='0',version=''} 2"; do
	is "OpenMetrics: $sample" "$(grep -c -F -x "rdmarpc_procedure_$sample" "$T/om")" 1
done
kill $daemon
wait $daemon 2>/dev/null

# Sizes, long and short; many calls at once, of several threads and connections.
rdma "$BUILD/apps/benchsvc" 20700 >"$T/ready" 2>&1 &
daemon=$!
wait_for grep -q ready "$T/ready"
run() {
	rdma "$BUILD/apps/benchcli" 20700 "$@" >/dev/null &
	client=$!
	wait $client
}
sums() {
	"$stat" --json "$1" | jq -c '[.processes[].procedures[] | [.procedure, .calls, .errors, .resent, .argument_bytes, .result_bytes,
		.long_arguments, .long_results, .latency_ns.count]]'
}
run arg 1000 100000	# and one in ten before
is "arguments that are long: client" "$(sums $client)" "[[1,1101,0,0,$((1101 * 100044)),$((1101 * 24)),1101,0,1101]]"
is "the same at the server" "$(sums $daemon)" "$(sums $client)"
run res 500 2000
is "results that are short: client" "$(sums $client)" "[[2,551,0,0,$((551 * 44)),$((551 * 2028)),0,0,551]]"
run res 100 70001
is "results that are long: client" "$(sums $client)" "[[2,111,0,0,$((111 * 44)),$((111 * 70032)),0,111,111]]"
run threads 4 2000	# and before that five each, and 64 of the first
is "four threads: client" "$(sums $client)" "[[0,8084,0,0,323360,194016,0,0,8084]]"
run shared 4 2000
is "four threads on one connection: client" "$(sums $client)" "[[0,8084,0,0,323360,194016,0,0,8084]]"
is "all of it: server" "$("$stat" --json $daemon | jq -c '[.processes[].procedures[] | [.procedure, .calls, .latency_ns.count]]')" \
	"[[0,16168,16168],[1,1101,1101],[2,662,662]]"
is "the process's latency is of all of them" "$("$stat" --json $client | jq .processes[].latency_ns.count)" 8084

# A server that reads its calls, and answers none: they show while they wait, when their client is gone, and when it is.
cat >"$T/mute.py" <<'P'
import socket, sys
from rpc import receive_record
c = socket.create_server(('127.0.0.1', 20701)).accept()[0]
try:
    while receive_record(c):
        pass
except EOFError:
    sys.stdin.read()
P
cat >"$T/calls.py" <<'P'
import socket, sys
from rpc import call, record
s = socket.create_connection(('127.0.0.1', 20701))
for xid, (proc, size) in enumerate([(3, 8), (3, 8), (7, 0)]):
    s.sendall(record(call(xid, 0x20005244, 5, proc, bytes(size))))
sys.stdin.read()
P
export PYTHONPATH=$PWD/tests/lib
mkfifo "$T/stay" "$T/stay2"
rdma /usr/bin/python3 "$T/mute.py" <"$T/stay" &
mute=$!
exec 8>"$T/stay"
wait_for has_listener 20701
rdma /usr/bin/python3 "$T/calls.py" <"$T/stay2" &
client=$!
exec 9>"$T/stay2"
want="536891972 v5 3 2
536891972 v5 7 1"
received() { "$stat" --procedures "$1" | sed -n 's/^  \([0-9]* v5 [0-9]*\) *\([0-9]*\) *0 *0 .*/\1 \2/p'; }
until_ "calls that wait are shown at the server" eval '[ "$(received $mute)" = "$want" ]'
is "and at the client" "$(received $client)" "$want"
is "with what they bring: JSON" "$("$stat" --json $mute | jq -c '[.processes[].procedures[] | [.side, .calls, .argument_bytes, .latency_ns.count]]')" \
	'[["server",2,96,0],["server",1,40,0]]'
exec 9>&-
wait $client
is "when their client is gone" "$(received $mute)" "$want"
exec 8>&-
wait $mute
is "and when the server is" "$("$stat" --procedures | grep -c '^  536891972 v5')" 4

# --reset: what is new since then, in tables.
"$stat" --reset
is "nothing is new" "$("$stat" --procedures $daemon)" "$daemon benchsvc, live: no calls by RDMA"
run res 100 10
is "--reset: what is new" "$("$stat" --procedures $daemon | sed -n 's/ v1 \([0-9]*\) *\([0-9]*\) .*/ \1 \2/p')" "  536891973 2 111"
"$stat" --reset $daemon
run null 10
is "--reset of a process: what is new" "$("$stat" --procedures $daemon | grep -c " v1 NULL  *12 ")" 1
is "--reset of a process: not of others" "$("$stat" --procedures $client | grep -c " v1 NULL  *12 ")" 1
"$stat" --reset $client
is "--reset of another process keeps the first one's" "$("$stat" --procedures | grep -c " v1 NULL  *12 ")" 1
has "--total" "$("$stat" --procedures --total $daemon)" "  536891973 v1 NULL                16180      0      0      40      24 "
is "--reset is not for programs" "$("$stat" --json $daemon | jq -c '[.processes[].procedures[].calls]')" "[16180,1101,773]"
is "nor for OpenMetrics" "$("$stat" --openmetrics $daemon | grep -c "calls_total.* 16180\$")" 1
kill $daemon
wait $daemon 2>/dev/null
finish
