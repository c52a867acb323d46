#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A long reply whose server closes, or exits, at once arrives whole, though the client is slow to look.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need python3
rxe_up

cat >"$W/server.py" <<'EOF'
import socket, struct, sys, time
s = socket.socket()
s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
s.bind(("10.9.0.1", 20801))
s.listen()
c, _ = s.accept()
def call():
    head = c.recv(4, socket.MSG_WAITALL)
    return c.recv(struct.unpack(">I", head)[0] & 0x7fffffff, socket.MSG_WAITALL)
def reply(to, body):
    c.sendall(struct.pack(">I", 0x80000000 | 24 + len(body)) + to[:4] + struct.pack(">5I", 1, 0, 0, 0, 0) + body)
reply(call(), b"")
reply(call(), bytes(range(256)) * 1200)
if sys.argv[1] == "exit":
    sys.exit(0)
c.close()
time.sleep(5)
EOF
cat >"$W/client.py" <<'EOF'
import socket, struct, time
s = socket.create_connection(("10.9.0.1", 20801))
def call(xid):
    s.sendall(struct.pack(">11I", 0x80000028, xid, 0, 2, 0x20000f10, 1, 0, 0, 0, 0, 0))
call(1)
assert len(s.recv(28, socket.MSG_WAITALL)) == 28
call(2)
time.sleep(0.7)
got = s.recv(28 + 256 * 1200, socket.MSG_WAITALL)
assert got[28:] == bytes(range(256)) * 1200, len(got)
assert s.recv(1) == b""
print("whole")
EOF
for how in close exit; do
	checks=$((checks + 1))
	rm -rf "$W"/*.run*
	background "$W/$how.out" server python3 "$W/server.py" $how
	for ((i = 0; i < 100; i++)); do ss -Hltn 'sport = :20801' | grep -q . && break; sleep 0.1; done
	client timeout 60 python3 "$W/client.py" >"$W/out" 2>&1
	grep -q whole "$W/out" || { echo "FAIL $how: $(cat "$W/out" "$W/$how.out")"; tail -n 20 "$W"/*.log; failures=$((failures + 1)); }
	judge $how client 'c["verbs"] == 1'
	wait $pid
done
echo "$checks checks, $failures failed"
exit $((failures != 0))
