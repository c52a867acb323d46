#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-dump: what tshark makes of it, who may capture, and what the captured processes notice. In a network and with
# processes of its own.
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	echo "needs root and mount namespaces"
	exit 77
fi
[ "${1:-}" = inside ] || exec unshare -m -n -p -f --mount-proc --kill-child -- "$0" inside
. "$(dirname "$0")/lib"
for c in tshark setpriv rpcbind rpcinfo; do
	command -v $c >/dev/null || { echo "no $c"; exit 77; }
done
mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run && ip link set lo up || exit 1
mkdir /run/rpcbind
chmod 755 "$T"
cp "$BUILD/librpcrdma_shim.so" "$BUILD/rdmarpc-dump" "$BUILD/apps/labsvc" "$BUILD/apps/labcli" "$T"
trap 'rm -rf "$T"' EXIT
unset XDG_RUNTIME_DIR
export RDMARPC_UPGRADE_TIMEOUT_MS=20000
dump=$T/rdmarpc-dump
A=1500 B=1501		# users
as() { u=$1; shift; setpriv --reuid="$u" --regid="$u" --clear-groups "$@"; }
rdma() { LD_PRELOAD=$T/librpcrdma_shim.so "$@"; }
# A client may have a port by which tshark would know another protocol.
shark() { tshark -o tcp.try_heuristic_first:TRUE -o rpc.dissect_unknown_programs:TRUE "$@" 2>/dev/null; }

# until WHAT COMMAND...
until_() {
	what=$1 n=0
	shift
	until "$@"; do
		n=$((n + 1))
		[ $n -lt 1200 ] || { is "$what" never "some time"; finish; }
		sleep 0.05
	done
}
listens() { ss -Hltn "sport = :$1" | grep -q .; }
port=20800
# serve MODE [WRAPPER...]: labsvc at $port; $server is its pid
serve() {
	mode=$1
	port=$((port + 1))
	shift
	rm -f "$T/pid"
	LD_PRELOAD=$T/librpcrdma_shim.so "$@" "$T/labsvc" "$mode" $port "$T/pid" >"$T/svc.out" 2>&1 &
	job=$!
	until_ "a server" listens $port
	server=$job
}
end() {
	kill "$server"
	wait "$job" 2>/dev/null
}
# begin OPTION...: captures to $T/cap; a section's header there means that all processes were asked
begin() {
	rm -f "$T/cap"
	"$dump" -w "$T/cap" "$@" 2>"$T/said" &
	reader=$!
	until_ "a capture" test -s "$T/cap"
}
stop() {
	kill -TERM $reader
	wait $reader
	is "the capture's status" $? 0
}
cli() { rdma "$T/labcli" 127.0.0.1 $port "$@"; }

# judge WHAT CALLS [REPLIES]: tshark finds so many calls, each with its reply, and nothing that it does not understand
judge() {
	is "$1: calls" "$(shark -r "$T/cap" -Y 'rpc.msgtyp == 0' | wc -l)" "$2"
	is "$1: replies" "$(shark -r "$T/cap" -Y 'rpc.msgtyp == 1 && rpc.time' | wc -l)" "${3:-$2}"
	is "$1: malformed" "$(shark -r "$T/cap" -Y '_ws.malformed || tcp.analysis.flags || rpc.fragment.error' | wc -l)" 0
	has "$1: none dropped" "$(cat "$T/said")" " 0 packets dropped"
}
comments() { shark -r "$T/cap" -Y rpc -T fields -e frame.comment | sort -u; }
ends() { shark -r "$T/cap" -Y rpc -T fields -e ip.src -e ip.dst -e tcp.srcport -e tcp.dstport | sort -u; }

# --- a client and a server, in each dialect ---
for dialect in v1 v2 draft02 slides; do
	serve svcrun env RDMARPC_DIALECT=$dialect
	begin
	replies=8
	# The slides have no way for a long reply: it goes by TCP.
	[ $dialect != slides ] || replies=7
	for c in "null 5" "echo 20" "sum 100000" "big 300000"; do
		# shellcheck disable=SC2086
		RDMARPC_DIALECT=$dialect cli $c >"$T/cli.out" 2>&1
		is "$dialect: $c" "$(tail -n 1 "$T/cli.out" | grep -c ok):$?" "1:0"
	done
	stop
	judge $dialect 8 $replies
	has "$dialect: comments" "$(comments)" "labsvc[$server], server, received; carrier shm, dialect $dialect; chunks: none"
	end
done
serve svcrun
begin
cli sum 100000 >/dev/null 2>&1
stop
has "a long call's chunk" "$(comments)" "server, received; carrier shm, dialect v1; chunks: position-zero Read"
is "the interface" "$(shark -r "$T/cap" -Y rpc -T fields -e frame.interface_name -e frame.interface_description | sort -u)" \
	"rdmarpc:$server	labsvc"
is "addresses and ports" "$(ends | grep -c "127.0.0.1	127.0.0.1	$port	\|127.0.0.1	127.0.0.1	[0-9]*	$port\$")" 2
end

# --- what is shown ---
serve svcrun
begin -c 3
cli null 5 >/dev/null 2>&1
wait $reader
is "-c" "$?:$(shark -r "$T/cap" -Y rpc | wc -l)" 0:3
begin calls and port $port
cli null 5 >/dev/null 2>&1
stop
is "calls" "$(shark -r "$T/cap" -Y rpc | wc -l):$(shark -r "$T/cap" -Y 'rpc.msgtyp == 1' | wc -l)" 5:0
begin --program portmapper
cli null 5 >/dev/null 2>&1
stop
is "another program" "$(shark -r "$T/cap" | wc -l)" 0
begin program 0x20005244
cli null 5 >/dev/null 2>&1
stop
judge "this program" 5
begin port 1
cli null 1 >/dev/null 2>&1
stop
is "another port" "$(shark -r "$T/cap" | wc -l)" 0
begin -s 60
cli echo 20 >/dev/null 2>&1
cli sum 100000 >/dev/null 2>&1
stop
is "-s: calls are still dissected" "$(shark -r "$T/cap" -Y 'rpc.msgtyp == 0' | wc -l)" 2
is "-s: and replies" "$(shark -r "$T/cap" -Y 'rpc.msgtyp == 1 && rpc.time' | wc -l)" 2
is "-s: bytes" "$(shark -r "$T/cap" -T fields -e frame.cap_len | sort -nr | head -n 1)" 104
out=$("$dump" port 2>&1)
is "half a filter" "$?:$out" "2:rdmarpc-dump: filter: 'port' of what?"
out=$("$dump" -p 2000000 -w /dev/null 2>&1)
is "no such process" "$?" 1

# Live, by a pipe: as many as tshark takes, then both end.
"$dump" -w - | shark -r - -c 4 -Y rpc -l >"$T/live" &
reader=$!
until [ -s "$T/live" ]; do cli null 2 >/dev/null 2>&1; done
wait $reader
is "live" "$(head -n 2 "$T/live" | grep -c "proc-0 \(Call\|Reply\)")" 2

# By Wireshark's own way to have others capture.
dir=$(tshark -G folders 2>/dev/null | sed -n 's/^Extcap path:[[:space:]]*//p')
mkdir "$T/extcap"
ln -s "$dump" "$T/extcap/rdmarpc"
if [ -d "$dir" ] && mount --bind "$T/extcap" "$dir"; then
	is "extcap: interfaces" "$(tshark -D 2>/dev/null | grep -c "rdmarpc\(-$server\)\? (RPC-over-RDMA: \(all processes\|labsvc\[$server\]\))")" 2
	for i in rdmarpc "rdmarpc-$server"; do
		shark -i "$i" -c 4 >"$T/live" &
		reader=$!
		while kill -0 $reader 2>/dev/null; do cli null 2 >/dev/null 2>&1; sleep 0.1; done
		wait $reader
		is "extcap: $i" "$(grep -c "proc-0 \(Call\|Reply\)" "$T/live")" 4
	done
	umount "$dir"
fi

# --- who may, and one at a time ---
begin -p "$server"
cli null 1 >/dev/null 2>&1
sleep 0.3
out=$("$dump" -p "$server" -w /dev/null 2>&1)
is "two readers" "$?" 1
has "two readers" "$out" "labsvc[$server]: another rdmarpc-dump captures it"
stop
out=$(as $A "$dump" -p "$server" -w /dev/null 2>&1)
is "another user" "$?" 1
has "another user" "$out" "labsvc[$server]: permission denied"
end
serve svcrun setpriv --reuid=$A --regid=$A --clear-groups
out=$(as $B "$dump" -p "$server" -w /dev/null 2>&1)
is "another user's" "$?" 1
touch "$T/own"
chown $A "$T/own"
setpriv --reuid=$A --regid=$A --clear-groups "$dump" -p "$server" -w "$T/own" 2>"$T/said" &
reader=$!
until_ "a capture" test -s "$T/own"
cli null 5 >/dev/null 2>&1
kill $reader
wait $reader
mv "$T/own" "$T/cap"
judge "one's own" 5
end

# --- what the captured notice ---
rings() { find "/proc/$server/fd" -lname '*rdmarpc-capture*' 2>/dev/null | wc -l; }
serve svcrun
cli null 1 >/dev/null 2>&1
begin
cli null 1 >/dev/null 2>&1
is "a ring" "$(rings)" 1
kill -9 $reader
wait $reader 2>/dev/null
nothing() { cli null 1 >/dev/null 2>&1; [ "$(rings)" = 0 ]; }
until_ "a dead reader's ring goes" nothing
begin
is "calls under capture" "$(cli null 200 2>/dev/null)" "null ok 200"
stop
judge "after a reader's death" 200
nothing
is "a ring that was left" "$(rings)" 0
end
serve fork
begin
is "a child for each connection" "$(cli null 20 2>/dev/null)" "null ok 20"
stop
judge "forked" 20
end

# --- rpcbind: dissectors as they are ---
rdma rpcbind -f -w &
server=$! job=$!
until_ "rpcbind" listens 111
begin -C rpcbind --program 100000
rdma rpcinfo -T tcp 127.0.0.1 100000 4 >/dev/null 2>&1
rdma rpcinfo -p 127.0.0.1 >/dev/null 2>&1
stop
judge "rpcbind" "$(tshark -r "$T/cap" -Y 'portmap && rpc.msgtyp == 0' 2>/dev/null | wc -l)"
is "portmap" "$(tshark -r "$T/cap" -Y 'portmap && rpc.msgtyp == 0' 2>/dev/null | wc -l | sed 's/[1-9][0-9]*/some/')" some
has "service times" "$(tshark -r "$T/cap" -q -z rpc,programs 2>/dev/null)" "Portmap(100000)  4"
end
finish
