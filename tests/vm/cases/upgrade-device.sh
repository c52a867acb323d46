#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The device goes while connections use it, and comes back: both ends hear of it soon, nothing crashes or hangs, what
# connects meanwhile is on TCP, what connects later is not.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
rxe_up
wrong() { echo "FAIL $*"; failures=$((failures + 1)); }

dump() { for p in /proc/[0-9]*; do grep -q ^State:.D "$p/status" && { cat "$p/comm" "$p/stack"; }; done; }
lab_server poll
lab before 'null ok 5' null 5
background "$W/long" client timeout 100 labcli 10.9.0.1 20801 null 100000000
busy=$pid
background "$W/idle" client python3 -c '
import select, socket, struct
s = socket.create_connection(("10.9.0.1", 20801))
def call():
    s.sendall(struct.pack(">11I", 0x80000028, 7, 0, 2, 0x20000f10, 1, 0, 0, 0, 0, 0))
    return s.recv(100)
call()
print("carried", flush=True)
select.select([s], [], [])
try:
    got = s.recv(1)
except OSError as e:
    got = e
print("told", got, flush=True)'
idle=$pid
sleep 3
checks=$((checks + 2))
start=$SECONDS
rdma link delete rxe0 &
for ((i = 0; i < 300; i++)); do jobs -r %% | grep -q delete || break; sleep 0.1; done
jobs -r | grep delete && { dump; tail -n 5 "$W"/*.log; die "the link cannot be deleted"; }
wait $busy
[ $? != 124 ] && [ $((SECONDS - start)) -lt 60 ] || wrong "the busy client does not notice"
[ -n "$(lab_server_pid)" ] || wrong "the server has died"
CLIENT='c["tcp"] == 1 and c["verbs"] == c["shm"] == 0' lab meanwhile 'null ok 5' null 5
rdma link add rxe0 type rxe netdev roce0 || wrong "no new link"
lab after 'null ok 5' null 5
wait $idle
grep -q told "$W/idle" || wrong "the idle client was not told: $(cat "$W/idle")"
lab_finish
