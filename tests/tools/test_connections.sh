#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-stat of connections between real processes: who is at the other end, how many are open, how much goes over each, and
# a thousand of them on one terminal. In a network and with processes of its own.
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	echo "needs root and mount namespaces"
	exit 77
fi
[ "${1:-}" = inside ] || exec unshare -m -n -p -f --mount-proc --kill-child -- "$0" inside
. "$(dirname "$0")/lib"
command -v jq >/dev/null || { echo "no jq"; exit 77; }
mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run && ip link set lo up || exit 1
trap 'rm -rf "$T"' EXIT
unset XDG_RUNTIME_DIR
export RDMARPC_UPGRADE_TIMEOUT_MS=20000
# shellcheck disable=SC3045 # dash has it
ulimit -n 8192
stat=$BUILD/rdmarpc-stat
port=20900
serve() { # MODE
	port=$((port + 1))
	LD_PRELOAD=$BUILD/librpcrdma_shim.so "$BUILD/apps/labsvc" "$1" $port >"$T/svc.out" 2>&1 &
	server=$!
	until_ "a server" has_listener $port
}
# The client opens so many connections, makes two calls on each, then one on each that it is told to ("5": the first five);
# "-5" closes them. Each line is answered.
cat >"$T/client.py" <<'P'
import sys
import rpc
socks = [rpc.connect(int(sys.argv[1])) for _ in range(int(sys.argv[2]))]
def null(s):
    s.sendall(rpc.record(rpc.call(1, 0x20005244, 1, 0)))
    rpc.receive_record(s)
for s in socks + socks:
    null(s)
print("ready", flush=True)
for line in sys.stdin:
    n = int(line)
    for s in socks[:abs(n)]:
        null(s) if n > 0 else s.close()
    print("done", flush=True)
P
mkfifo "$T/lines"
exec 9<>"$T/lines"
answers() { [ "$(wc -l <"$T/answers")" = "$1" ]; }
# client CONNECTIONS [WRAPPER...]
client() {
	c=$1
	shift
	: >"$T/answers"
	env LD_PRELOAD="$BUILD/librpcrdma_shim.so" PYTHONPATH="$PWD/tests/lib" "$@" \
		/usr/bin/python3 "$T/client.py" $port "$c" <"$T/lines" >"$T/answers" 2>&1 9>&- &
	client=$!
	until_ "the client's calls" answers 1
}
tell() { # LINE NUMBER
	echo "$1" >&9
	until_ "an answer to $1" answers "$2"
}
gone() { kill "$@"; wait "$@"; } 2>/dev/null
of() { p=$1; shift; "$stat" --json "$p" | jq -c "$@"; }
child() { tr -d ' ' <"/proc/$1/task/$1/children"; }

# --- open now, since start; who is at the other end ---
serve svcrun
client 3
q='.processes[] | [.open.shm, .connections.shm, ([.list[].peer_pid] | unique)]'
is "the server's" "$(of $server "$q")" "[3,3,[$client]]"
is "the client's" "$(of $client "$q")" "[3,3,[$server]]"
has "in the list" "$("$stat" -l $server)" " $client shm   carried "
tell -1 2
closed() { [ "$(of $server '.processes[].open.shm')" = 2 ]; }
until_ "a closed connection" closed
is "one is closed: the server's" "$(of $server "$q")" "[2,3,[$client]]"
is "one is closed: the client's" "$(of $client "$q")" "[2,3,[$server]]"
columns() { sed -n "s/^ *$1 .* live *//p" | tr -s ' ' | cut -d' ' -f1-7; }
is "in the table: open, shm, verbs, tcp, calls and bytes" "$("$stat" | columns $server)" "2 3 0 0 0 6 $((6 * 64))"
gone $client

# --- rates ---
client 2
"$stat" --watch=0.3 --list --sort=rate --command=labsvc $server >"$T/watched" &
watcher=$!
until_ "the first table" grep -qs "fd " "$T/watched"
tell 1 2
# After fd, its number, both addresses, an arrow, the peer and what carries it: the state, and the rates.
rates() { awk '$1 == "fd" && $8 == "carried" && $9 > 0 { print $9, $10 }' "$T/watched"; }
some() { rates | grep -q .; }
until_ "a rate" some
n=$(grep -c "fd " "$T/watched")
later() { [ "$(grep -c "fd " "$T/watched")" -ge $((n + 4)) ]; }
until_ "two more tables" later
gone $watcher
is "a rate: of one connection, in one table" "$(rates | wc -l)" 1
is "of 64 bytes a call" "$(rates | awk '{ r = $2 / $1; print (r > 40 && r < 90) }')" 1
is "the connection is the first of its table" "$(grep -B 1 "carried  *[1-9]" "$T/watched" | grep -c "fd ")" 1
is "the first table has none" "$(grep -m 2 "fd " "$T/watched" | awk '{ print $9, $10 }' | sort -u)" "- -"
is "no line of a process is wider than 80 columns" "$(grep " live " "$T/watched" | awk 'length > 80' | wc -l)" 0
gone $client $server

# --- other processes at the other end ---
serve fork
client 1
is "a child of the server" "$(of $client '.processes[].list[].peer_pid')" "$(child $server)"
gone $client $server
serve svcrun
client 1 unshare -p -f
inner=$(child $client)
is "a client in a PID namespace of its own" "$(of $server '.processes[].list[].peer_pid')" "$inner"
is "has no number for the server" "$(of "$inner" '.processes[].list[].peer_pid')" 0
kill -9 "$inner"	# the first process of a PID namespace ignores others
gone $server
wait $client
port=$((port + 1))
LD_PRELOAD=$BUILD/librpcrdma_shim.so unshare -p -f --mount-proc sh -c ": ; sleep 0; $BUILD/apps/labsvc svcrun $port & wait" >"$T/svc.out" 2>&1 &
outer=$!
until_ "a server" has_listener $port
shell=$(child $outer)
server=$(child "$shell")
client 1 nsenter -t "$server" -p -m
inner=$(child $client)
number=$(sed -n 's/^NSpid:.*\t//p' "/proc/$inner/status")
is "two in a PID namespace: the number there" "$(of "$server" '.processes[].list[].peer_pid')" "$number"
has "in parentheses, since here it is another's" "$("$stat" -l "$server")" " ($number) shm   carried "
kill -9 "$inner" "$server"
wait $client $outer

# --- a thousand ---
serve svcrun
client 1000
is "a thousand are open" "$(of $server '.processes[] | [.open.shm, (.list | length)]')" "[1000,1000]"
"$stat" --json $server | jq -r '.processes[].list[] | "\(.local) \(.peer)"' >"$T/wanted"
is "a thousand on a terminal" "$(TERM=xterm timeout 300 /usr/bin/python3 tests/tools/watch.py --scroll "$T/wanted" \
	"$stat" --watch=0.2 --list --command=labsvc 2>&1)" "ok 1000"
one=$(of $client '.processes[].list[7].local | sub(".*:"; "") | tonumber')
is "of which one is shown" "$("$stat" --list --command=labsvc --port="$one" | grep -c "fd ")" 1
gone $client $server
finish
