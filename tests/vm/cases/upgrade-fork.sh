#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What verbs carries belongs to the process that made it. A forked child that uses it hears of a reset at once,
# as do its parent and the peer; nobody waits. A server whose children do that is on TCP from then on.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need python3
rxe_up
wrong() { echo "FAIL $*"; failures=$((failures + 1)); }

lab_server svcrun
checks=$((checks + 1))
client timeout 30 labcli 10.9.0.1 20801 fork >"$W/out" 2>&1
grep -q 'parent ok child BAD' "$W/out" || wrong "client: $(cat "$W/out")"
grep -q 'cannot share' "$W/client.run.log" || wrong "client: the reason is not in the log"
lab others-go-on 'null ok 5' null 5
lab_server_kill

# the parent reads the calls, a child answers each
cat >"$W/parent-child.py" <<'EOF'
import os, socket, struct
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("10.9.0.1", 20801))
s.listen()
while True:
    c, _ = s.accept()
    while True:
        try:
            head = c.recv(4, socket.MSG_WAITALL)
            if len(head) < 4:
                break
            call = c.recv(struct.unpack(">I", head)[0] & 0x7fffffff, socket.MSG_WAITALL)
        except OSError:
            break
        if os.fork() == 0:
            c.sendall(struct.pack(">I", 0x80000018) + call[:4] + struct.pack(">5I", 1, 0, 0, 0, 0))
            os._exit(0)
        try:
            os.wait()
        except OSError:
            pass
    c.close()
EOF
background "$W/py.out" server python3 "$W/parent-child.py"
for ((i = 0; i < 100; i++)); do ss -Hltn 'sport = :20801' | grep -q . && break; sleep 0.1; done
checks=$((checks + 1))
rm -rf "$W"/client.run*
start=$SECONDS
client timeout 60 labcli 10.9.0.1 20801 null 3 >"$W/out" 2>&1 && wrong "server: a child answered by verbs"
[ $((SECONDS - start)) -lt 20 ] || wrong "server: the client waits"
CLIENT='c["tcp"] == 1 and c["verbs"] == c["shm"] == 0' lab then-by-tcp 'null ok 3' null 3
kill -9 "$(lab_server_pid)"
grep -q 'cannot share' "$W/server.run.log" || wrong "server: the reason is not in the log"
failed_logs() { tail -n 20 "$W"/*.log; }
[ $failures = 0 ] || failed_logs
echo "$checks checks, $failures failed"
exit $((failures != 0))
