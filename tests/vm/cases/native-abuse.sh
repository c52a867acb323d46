#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Native peers of ill will, and what a third client has to bear of it, beside the same by TCP: calls whose replies are never
# taken (RDMA: there is no receive for any; TCP: nobody reads), and those who connect and say nothing. The server is one
# thread that never blocks.
. "$(dirname "$0")/../lib.sh"
[ -x "$BUILD/tests/vm/greedy" ] || skip "built without rdma-core's headers"
device_up
PYTHONPATH=$(cd "$(dirname "$0")/../.." && pwd)
PYTHONPATH=$PYTHONPATH/ends:$PYTHONPATH/lib
export PYTHONPATH PYTHONDONTWRITEBYTECODE=1
CALLS=560	# more than the server's send queue takes, and no more than its credits on top
PEERS=4

cat >"$W/server.py" <<'P'
from agent import *
L, P, conns = listen('10.9.0.1', 20801, backlog=64), select.epoll(), {}
L.setblocking(False)
P.register(L, select.EPOLLIN)

def take():
    try:
        s, _ = L.accept()
    except OSError:
        return
    s.setblocking(False)
    conns[s.fileno()] = s, bytearray(), bytearray()
    P.register(s, select.EPOLLIN)

def serve(s, into, out):
    try:
        got = s.recv(65536)
        if not got:
            raise EOFError
        into += got
        while len(into) >= 4 and len(into) >= 4 + (rr_len := struct.unpack('>I', into[:4])[0] & ~LAST):
            out += reply(xid_of(into[4:8]), bytes(into[44:4 + rr_len]))
            del into[:4 + rr_len]
    except BlockingIOError:
        pass
    try:
        while out:
            del out[:s.send(out)]
    except BlockingIOError:
        pass

while True:
    for fd, _ in P.poll():
        if fd == L.fileno():
            take()
        elif fd in conns:
            try:
                serve(*conns[fd])
            except (OSError, EOFError):
                conns.pop(fd)[0].close()
P
cat >"$W/third.py" <<'P'
from agent import *
s = connect(20801, '10.9.0.1')
ask(s, 1, blob(300))
start = time.monotonic()
for i in range(50):
    ask(s, 2 + i, blob(300))
print(int(1e6 * (time.monotonic() - start)))
P
cat >"$W/greedy.py" <<'P'
import sys
from agent import *
s = connect(20801, '10.9.0.1')
s.sendall(b''.join(call(i) for i in range(int(sys.argv[1]))))
print('sent', flush=True)
time.sleep(1000)
P
end() { # SIDE COMMAND...
	RDMARPC_RULES="role=$1 port=20801 native=20901$([ "$1" = server ] || echo ' mode=require')" "$1" \
		env RDMARPC_VERBS=off RDMARPC_NATIVE_SILENT=8 RDMARPC_UPGRADE_TIMEOUT_MS=${TIMEOUT:-1000} "${@:2}"
}
mkfifo "$W/never"
exec 9<>"$W/never"
third() { # NAME: us for its calls, in $us
	us=$(TIMEOUT=20000 end client timeout 60 python3 "$W/third.py" 2>"$W/err") || die "$1: $(cat "$W/err"; cat "$W/server.out")"
}
# crowd COMMAND...: so many of them, which have said something
crowd() {
	local i n
	: >"$W/crowd"
	peers=
	for ((i = 0; i < PEERS; i++)); do
		"$@" >>"$W/crowd" 2>&1 <&9 &
		peers="$peers $!"
	done
	pids="$pids $peers"
	for ((i = 0; i < 300; i++)); do
		n=$(grep -c '^sent\|^after' "$W/crowd")
		[ "$n" -lt $PEERS ] || return 0
		sleep 0.1
	done
	[ -n "${SOME:-}" ] || die "$1: $(cat "$W/crowd")"
}
disperse() { local i; for i in $peers; do kill "$i" 2>/dev/null; wait "$i" 2>/dev/null; done; }
channels() { find "/proc/$1/fd" -lname /dev/infiniband/rdma_cm | wc -l; }

background "$W/server.out" end server python3 "$W/server.py"
for ((i = 0; i < 300; i++)); do
	listening 20801 && break
	sleep 0.1
done
p=$(lab_server_pid)
third quiet; quiet=$us; echo "quiet $quiet"
crowd python3 "$W/greedy.py" $CALLS
third tcp; tcp=$us; echo "tcp $tcp"
disperse
crowd "$BUILD/tests/vm/greedy" 10.9.0.1 20901 $CALLS
third rdma; rdma=$us; echo "rdma $rdma"
cp "$W/crowd" "$W/greedy"
disperse
((rdma < 20 * tcp)) || die "50 calls of a third client: quiet $quiet us, abuse by TCP $tcp us, by RDMA $rdma us"
PEERS=24 SOME=1 crowd "$BUILD/tests/vm/greedy" 10.9.0.1 20901 0
third silent
n=$(channels "$p")
((n <= 1 + 8 + 8 + 2)) || die "$n channels: too many that say nothing"
disperse
for ((i = 0; i < 100 && $(channels "$p") > 1; i++)); do sleep 0.1; done
[ "$(channels "$p")" = 1 ] || die "$(channels "$p") channels are left"
kill -9 "$p" || die "the server has ended: $(cat "$W/server.out")"
echo "50 calls of a third client: quiet $quiet us, abuse by TCP $tcp us, by RDMA $rdma us, by silence $us us; $n channels"
