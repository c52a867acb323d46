#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A long message whose sender closes, or exits, at once arrives whole, though its reader is slow to look: a reply, and
# a call.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need python3
device_up

cat >"$W/both.py" <<'EOF'
import socket, struct, sys, time
LONG = bytes(range(256)) * 1200
def record(s):
    head = s.recv(4, socket.MSG_WAITALL)
    return s.recv(struct.unpack(">I", head)[0] & 0x7fffffff, socket.MSG_WAITALL)
def call(s, xid, body=b""):
    s.sendall(struct.pack(">11I", 0x80000000 | 40 + len(body), xid, 0, 2, 0x20000f10, 1, 0, 0, 0, 0, 0) + body)
def reply(s, to, body=b""):
    s.sendall(struct.pack(">I", 0x80000000 | 24 + len(body)) + to[:4] + struct.pack(">5I", 1, 0, 0, 0, 0) + body)
def leave(s):
    if sys.argv[2] == "exit":
        sys.exit(0)
    s.close()
    time.sleep(2)
def last(s, skip):
    time.sleep(0.7)
    got = record(s)
    assert got[skip:] == LONG, len(got)
    assert s.recv(1) == b""
    print("whole")
EOF
cat >"$W/server.py" <<'EOF'
from both import *
l = socket.socket()
l.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
l.bind(("10.9.0.1", 20801))
l.listen()
s, _ = l.accept()
reply(s, record(s))
if sys.argv[1] == "call":
    last(s, 40)
else:
    reply(s, record(s), LONG)
    leave(s)
EOF
cat >"$W/client.py" <<'EOF'
from both import *
s = socket.create_connection(("10.9.0.1", 20801))
call(s, 1)
assert len(record(s)) == 24
if sys.argv[1] == "call":
    call(s, 2, LONG)
    leave(s)
else:
    call(s, 2)
    last(s, 24)
EOF
one() { # MESSAGE HOW
	checks=$((checks + 1))
	rm -rf "$W"/*.run*
	background "$W/server.out" server timeout 60 python3 "$W/server.py" "$1" "$2"
	for ((i = 0; i < 300; i++)); do listening 20801 && break; sleep 0.1; done
	client timeout 60 python3 "$W/client.py" "$1" "$2" >"$W/client.out" 2>&1
	wait $pid
	cat "$W/client.out" "$W/server.out" >"$W/out"
	grep -q whole "$W/out" || { echo "FAIL $1, $2: $(cat "$W/out")"; tail -n 20 "$W"/*.log; failures=$((failures + 1)); }
	judge "$1-$2" client 'c["verbs"] == 1'
}
for message in reply call; do
	for how in close exit; do one $message $how; done
done
echo "$checks checks, $failures failed"
exit $((failures != 0))
