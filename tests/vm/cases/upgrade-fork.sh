#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What verbs carries belongs to the process that made it. A server that forks for each connection has it in the
# child, by verbs, and so has a program that inetd's kind starts. Whoever uses one that another process has made, is
# on TCP from then on, and nothing is lost; what connects next to such a process is on TCP at once.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need python3
device_up
wrong() { echo "FAIL $*"; failures=$((failures + 1)); }
BACK='u["hatches"] >= 1 and e["lost"] == 0'

cat >"$W/rpc.py" <<'EOP'
import os, select, socket, struct, subprocess, sys
def whole(c, n):
    b = c.recv(n, socket.MSG_WAITALL) if n else b""
    if len(b) < n:
        raise EOFError
    return b
def read(c):
    return whole(c, struct.unpack(">I", whole(c, 4))[0] & 0x7fffffff)
def answer(c, call):
    c.sendall(struct.pack(">I", 0x80000018) + call[:4] + struct.pack(">5I", 1, 0, 0, 0, 0))
def serve(c):
    try:
        while True:
            answer(c, read(c))
    except EOFError:
        pass
def listen():
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("10.9.0.1", 20801))
    s.listen()
    return s
EOP
serves() { # NAME < what it does with connection c, of listener s
	{ printf 'from rpc import *\ns = listen()\nwhile True:\n    c, _ = s.accept()\n'; sed 's/^/    /'; } >"$W/$1.py"
	rm -rf "$W"/server.run*
	background "$W/py.out" server env PYTHONPATH="$W" python3 "$W/$1.py"
	for ((i = 0; i < 300; i++)); do listening 20801 && return; sleep 0.1; done
	die "$1 does not listen"
}

# a child for each connection: labsvc's, and one whose parent looks first
lab_server fork
lab child 'null ok 20' null 20
lab child-sum 'sum 100000 ok' sum 100000
judge child server 'c["tcp"] == c["shm"] == u["hatches"] == 0 and e["lost"] == 0'
lab_server_kill

serves looks-first <<'EOF2'
select.select([c], [], [])
if os.fork() == 0:
    serve(c)
    os._exit(0)
c.close()
EOF2
CLIENT="$BACK" lab looks-first 'null ok 20' null 20
CLIENT='c["tcp"] == 1 and c["verbs"] == 0' lab then-by-tcp 'null ok 3' null 3
judge looks-first server 'e["lost"] == 0'
lab_server_kill

# inetd: the connection as stdin of a program
serves inetd <<'EOF2'
subprocess.Popen([sys.executable, "-c", "import sys, socket; from rpc import *; serve(socket.socket(fileno=0))"], stdin=c)
c.close()
EOF2
lab inetd 'null ok 20' null 20
judge inetd server 'c["tcp"] == c["shm"] == u["hatches"] == 0 and e["lost"] == 0'
lab_server_kill

# the parent reads the calls, a child answers each
serves parent-child <<'EOF2'
try:
    while True:
        call = read(c)
        if os.fork() == 0:
            answer(c, call)
            os._exit(0)
        os.wait()
except EOFError:
    c.close()
EOF2
CLIENT="$BACK" lab parent-child 'null ok 20' null 20
judge parent-child server 'e["lost"] == 0'
lab_server_kill

# a client and its child ask in turn; who forks for something else keeps verbs
lab_server svcrun
CLIENT="$BACK" lab client-fork 'parent ok child ok parent ok' fork
lab others-go-on 'null ok 5' null 5
judge client-fork server 'e["lost"] == 0'
cat >"$W/exec.py" <<'EOP'
import os, struct, subprocess
from rpc import *
c = socket.create_connection(("10.9.0.1", 20801))
def ask(xid):
    c.sendall(struct.pack(">11I", 0x80000028, xid, 0, 2, 0x20000f10, 1, 0, 0, 0, 0, 0))
    assert read(c)[:4] == struct.pack(">I", xid)
ask(1)
subprocess.run(["true"], preexec_fn=os.getpid)
p = subprocess.Popen(["sleep", "100"], preexec_fn=os.getpid)
ask(2)
if os.fork() == 0:
    os._exit(0)
os.wait()
ask(3)
print("asked")
sys.stdout.flush()
c.close()
p.kill()
EOP
checks=$((checks + 1))
rm -rf "$W"/client.run*
client env PYTHONPATH="$W" timeout 60 python3 "$W/exec.py" >"$W/out" 2>&1
grep -q asked "$W/out" || wrong "exec: $(cat "$W/out")"
judge exec client "$BY_VERBS"
lab_finish
