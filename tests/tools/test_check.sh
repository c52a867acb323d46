#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-check: a server that is carried, each reason for which one is not, servers and rpcbinds of ill will. With a
# network and a /run of its own.
if [ "$(id -u)" != 0 ] || ! unshare -m -n true 2>/dev/null; then
	echo "needs root and namespaces"
	exit 77
fi
[ "${1:-}" = inside ] || exec unshare -m -n -- "$0" inside
. "$(dirname "$0")/lib"
command -v jq >/dev/null && command -v rpcbind >/dev/null || { echo "no jq or rpcbind"; exit 77; }
mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run && ip link set lo up || exit 1
unset XDG_RUNTIME_DIR
check=$BUILD/rdmarpc-check
lab=0x20005244
RDMARPC_UPGRADE_TIMEOUT_MS=30000	# nothing here is about a busy machine
export RDMARPC_UPGRADE_TIMEOUT_MS
pids=
trap 'for p in $pids; do kill "$p" 2>/dev/null; done; rm -rf "$T"' EXIT

# background COMMAND...: $!, ended at the end
background() { "$@" >>"$T/out" 2>&1 & pids="$pids $!"; }
# listens PORT [COMMAND...]: waits until somebody does; within what COMMAND enters
listens() { p=$1; shift; n=0; until "$@" ss -Hltn "sport = :$p" | grep -q .; do n=$((n + 1)); [ $n -lt 500 ] || return 1; sleep 0.02; done; }
# json WHAT WANT STATUS JQ ARGUMENT...
json() {
	what=$1 want=$2 status=$3 q=$4
	shift 4
	"$check" --json --calls=50 --timeout=60 "$@" >"$T/json" 2>"$T/err"
	is "$what: status" "$?:$(cat "$T/err")" "$status:"
	is "$what" "$(jq -c "$q" "$T/json" 2>&1)" "$want"
}

# --- a server with the library, and one without ---
background "$BUILD/rdmarpc-run" -- "$BUILD/apps/labsvc" svcrun 20100
background "$BUILD/apps/labsvc" svcrun 20101
listens 20100 && listens 20101 || { echo "the servers do not start"; cat "$T/out"; exit 1; }
ends='.peer | [.end, .carrier, .reason]'
json "carried" '["carried","shm",""]' 0 "$ends" 127.0.0.1:20100 $lab
is "both ways are measured" "$(jq '[.peer.tcp, .peer.with_library] | map(.calls == 50 and .p50_ns > 0 and .p99_ns >= .p50_ns) | all' "$T/json")" true
release=$("$check" --version)
has "of which release" "$(jq -r '.peer.steps[] | select(.step == "server") | .text' "$T/json")" "librpcrdma_shim.so (release ${release##* })"
is "the server tells it" "$(jq -r .peer.release "$T/json")" "${release##* }"
by='[.peer.carriers[] | [.carrier, .state, .here, .there]]'
is "each carrier" "$(jq -c "$by" "$T/json")" '[["shm","used","",""],["verbs","untried","no device leads to a loopback address",""],'\
'["native","untried","no rule has native for this server",""]]'
is "each is a step" "$(jq -c '[.peer.steps[-3:][] | [.step, .verdict]]' "$T/json")" \
	'[["shared memory","ok"],["RDMA device","note"],["native RDMA","note"]]'
json "another version" '[1,"carried"]' 0 '.peer | [.program_version, .end]' 127.0.0.1:20100 $lab:7
json "no library there" '["tcp","none",""]' 1 "$ends" 127.0.0.1:20101 $lab
is "no library there: each carrier" "$(jq -c '[.peer.carriers[] | .state, .here]' "$T/json")" '["untried","the server has no library","untried",'\
'"no device leads to a loopback address","untried","no rule has native for this server"]'
has "and the process is named" "$(jq -r '.peer.steps[].text' "$T/json")" "labsvc, of this host: has not loaded the library"
out=$("$check" 127.0.0.1:20100 $lab)
is "in words: status" "$?" 0
has "in words: what carries" "$out" "ok      carrier         shm, dialect v1"
has "in words: which release" "$out" "the server has it, release ${release##* }; offer and answer came through"
has "in words: shared memory" "$out" "ok      shared memory   carries"
has "in words: RDMA devices" "$out" "note    RDMA device     not tried: no device leads to a loopback address"
has "in words: what TCP takes" "$out" "where TCP takes"
has "in words: in detail" "$("$check" -v 127.0.0.1:20100 $lab)" "carried, shm, v1"

# --- on this host all is well, and the reason is elsewhere ---
printf '[rule]\nport = 20100\nmode = tcp\n' >"$T/rule.conf"
RDMARPC_CONF=$T/rule.conf json "a rule" '["tcp","tcp","a rule says tcp"]' 1 "$ends" 127.0.0.1:20100 $lab
has "what to change" "$(jq -r '.peer.steps[].advice' "$T/json")" "rdmarpc-run --print-config"
is "a rule: of shared memory" "$(jq -c '.peer.carriers[0] | [.state, .here]' "$T/json")" '["untried","a rule says tcp"]'
printf '[rule]\ncommand = other\nmode = tcp\n' >"$T/rule.conf"
RDMARPC_CONF=$T/rule.conf json "another command's rule" '"carried"' 0 .peer.end 127.0.0.1:20100 $lab
RDMARPC_CONF=$T/rule.conf json "the rule of --command" '["tcp","tcp","a rule says tcp"]' 1 "$ends" --command=other 127.0.0.1:20100 $lab
RDMARPC_ENABLED=off json "switched off" '["tcp","tcp","a rule says tcp"]' 1 "$ends" 127.0.0.1:20100 $lab
"$BUILD/rdmarpc-stat" --stop
json "stopped" '["tcp","tcp","upgrades are stopped on this host"]' 1 "$ends" 127.0.0.1:20100 $lab
"$BUILD/rdmarpc-stat" --start

background "$BUILD/rdmarpc-run" -o enabled=off -- "$BUILD/apps/labsvc" svcrun 20102
listens 20102 || exit 1
steps() { jq -r '.peer.steps[] | .text, .advice' ''"$T/json"; }
json "a server that is switched off" '["tcp","tcp","peer has no shim"]' 1 "$ends" 127.0.0.1:20102 $lab
has "its advice is not to load the library" "$(steps)" "the server has it and takes no offers"
RDMARPC_OFFER_AFTER=auto json "a server with offer_after = 0 alone" '["tcp","tcp","peer has no shim"]' 1 "$ends" 127.0.0.1:20100 $lab
has "its advice" "$(steps)" "offer_after (0 is for clients)"
has "it was asked all the same" "$(steps)" "with offer_after = 0 it is carried: shm"
is "... of shared memory" "$(jq -c '.peer.carriers[0] | [.state, .here]' "$T/json")" '["untried","peer has no shim; with offer_after = 0 it carries"]'
background "$BUILD/rdmarpc-run" -o tell_peer=off -- "$BUILD/apps/labsvc" svcrun 20103
listens 20103 || exit 1
json "a server that tells nothing" '["carried",""]' 0 '.peer | [.end, .release]' 127.0.0.1:20103 $lab
has "... says so" "$(steps)" "the server has it (it does not tell its release)"

# --- another network namespace ---
ip link add v0 type veth peer name v1 && ip addr add 10.77.0.1/24 dev v0 && ip link set v0 up
background unshare -n -m sleep 1000
far=$!
n=0
until [ "$(readlink /proc/$far/ns/net)" != "$(readlink /proc/self/ns/net)" ]; do sleep 0.02; done
ip link set v1 netns $far
there() { nsenter -t $far -n -m "$@"; }
there ip link set lo up && there ip addr add 10.77.0.2/24 dev v1 && there ip link set v1 up || exit 1
background nsenter -t $far -n -m env LAB_ADDRESS=10.77.0.2 "$BUILD/rdmarpc-run" -- "$BUILD/apps/labsvc" svcrun 20100
listens 20100 there || exit 1
json "a run directory in common" '["carried","shm",""]' 0 "$ends" 10.77.0.2:20100 $lab
background nsenter -t $far -n -m unshare -m sh -c 'mount -t tmpfs -o mode=755 tmpfs /run && exec env LAB_ADDRESS=10.77.0.2 "$0" "$@"' \
	"$BUILD/rdmarpc-run" -- "$BUILD/apps/labsvc" svcrun 20101
listens 20101 there || exit 1
json "none in common" '["tcp","tcp","one host without a run directory in common, and no RDMA device"]' 1 "$ends" 10.77.0.2:20101 $lab
has "none in common: what to change" "$(jq -r '.peer.steps[].advice' "$T/json")" "mount /run/rdmarpc into both"
is "none in common: the server tells its release" "$(jq -r .peer.release "$T/json")" "${release##* }"
is "none in common: of shared memory" "$(jq -c '.peer.carriers[0] | [.state, .here, .there]' "$T/json")" \
	'["failed","","another network namespace of this host, without a run directory in common"]'
is "... which is a problem" "$(jq -r '.peer.steps[] | select(.step == "shared memory") | .verdict, .text' "$T/json")" "problem
the server says: another network namespace of this host, without a run directory in common"
RDMARPC_VERBS=off json "option verbs is off" '["untried","option verbs is off"]' 1 '.peer.carriers[1] | [.state, .here]' 10.77.0.2:20101 $lab
printf '[rule]\naddress = 10.77.0.2\nport = 20101\nnative = 20049\n' >"$T/rule.conf"
RDMARPC_CONF=$T/rule.conf json "a native rule, and no device" '["failed","no RDMA device, or no permission to use it"]' 1 \
	'.peer.carriers[2] | [.state, .here]' 10.77.0.2:20101 $lab
is "... after which the server was asked" "$(jq -c '.peer.carriers[0].state' "$T/json")" '"failed"'
far2=$(there ss -Hltnp 'sport = :20101' | sed -n 's/.*pid=\([0-9]*\).*/\1/p')
RDMARPC_OFFER_AFTER=auto json "none in common, and nobody waits" '["tcp","tcp","server not asked, since it is not known to have the library"]' \
	1 "$ends" 10.77.0.2:20101 $lab
has "it was asked all the same, and says why" "$(steps)" "with offer_after = 0: one host without a run directory in common"
is "the server says the same" "$(nsenter -t "$far2" -n -m "$BUILD/rdmarpc-stat" --json "$far2" | jq -c '[.processes[].tcp_reasons | keys[]] | map(select(test("one host"))) | length')" 1

# --- a proxy between, and a server on another host as it were ---
cat >"$T/proxy.py" <<'P'
import socket, sys, threading
def pump(a, b):
    while data := a.recv(65536):
        b.sendall(data)
    b.shutdown(socket.SHUT_WR)
L = socket.create_server((sys.argv[1], int(sys.argv[2])))
while True:
    c, _ = L.accept()
    s = socket.create_connection((sys.argv[1], int(sys.argv[3])))
    for pair in (c, s), (s, c):
        threading.Thread(target=pump, args=pair, daemon=True).start()
P
background nsenter -t $far -n -m /usr/bin/python3 "$T/proxy.py" 10.77.0.2 20109 20100
listens 20109 there || exit 1
json "a proxy between" '["tcp","tcp","the two ends see different addresses (a proxy or NAT)"]' 1 "$ends" 10.77.0.2:20109 $lab
is "a proxy between: of shared memory" "$(jq -c '.peer.carriers[0] | [.state, .there]' "$T/json")" \
	'["failed","the two ends see different addresses (a proxy or NAT)"]'
is "a proxy between: the server's release" "$(jq -r .peer.release "$T/json")" "${release##* }"
has "a proxy between: what to change" "$(jq -r '.peer.steps[].advice' "$T/json")" "set bypass_proxies at the server"
cat /proc/sys/kernel/random/uuid >"$T/boot_id"
background nsenter -t $far -n -m unshare -m sh -c 'mount --bind "$1" /proc/sys/kernel/random/boot_id && mount -t tmpfs -o mode=755 tmpfs /run &&
	shift && exec env LAB_ADDRESS=10.77.0.2 "$@"' - "$T/boot_id" "$BUILD/rdmarpc-run" -- "$BUILD/apps/labsvc" svcrun 20111
listens 20111 there || exit 1
json "no device" '["tcp","tcp","no RDMA device, or no permission to use it"]' 1 "$ends" 10.77.0.2:20111 $lab
is "no device: of shared memory" "$(jq -c '.peer.carriers[0] | [.state, .there]' "$T/json")" '["failed","the two ends are on different hosts"]'
has "no device: what to change" "$(jq -r '.peer.steps[].advice' "$T/json")" "/dev/infiniband/rdma_cm"

# An RDMA device as sysfs would show it: which port leads to the server.
device=/sys/class/infiniband/rxe7/ports/1
mount -t tmpfs tmpfs /sys/class && mkdir -p $device/gids $device/pkeys || exit 1
echo "4: ACTIVE" >$device/state
echo fe80:0000:0000:0000:0000:00ff:fe00:0001 >$device/gids/0
echo 0x0000 >$device/pkeys/0
echo 0x8001 >$device/pkeys/1
device_text() { jq -r '.peer.carriers[1].here' "$T/json" | sed 's/.*; //'; }
json "a device without the address's GID" '"untried"' 1 '.peer.carriers[1].state' 10.77.0.2:20111 $lab
is "... is named" "$(device_text)" "no device has a GID of 10.77.0.1, from which v0 leads to the server"
echo v0 >/sys/class/infiniband/rxe7/parent
json "a device of the interface" '"untried"' 1 '.peer.carriers[1].state' 10.77.0.2:20111 $lab
is "... is named, too" "$(device_text)" "rxe7 port 1 is ACTIVE, v0 is its interface, P_Keys 0x8001"
echo 0000:0000:0000:0000:0000:ffff:0a4d:0001 >$device/gids/1
echo "1: DOWN" >$device/state
json "a port that is down" '"untried"' 1 '.peer.carriers[1].state' 10.77.0.2:20111 $lab
is "... is seen" "$(device_text)" "rxe7 port 1 is DOWN, GID 1 is 10.77.0.1, P_Keys 0x8001"
umount /sys/class

# --- servers of ill will, on another host as it were ---
PYTHONPATH=$PWD/tests/lib
export PYTHONPATH
cat >"$T/ill.py" <<'P'
import socket, struct, sys
from rpc import opaque, parse_call, receive_record, record, reply
how, address, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
L = socket.create_server((address, port))
while True:
    c, _ = L.accept()
    say = lambda *words, tail=b'': c.sendall(record(reply(xid, struct.pack('>%dI' % len(words), *words) + tail)))
    try:
        while True:
            xid, prog, _, _, _ = parse_call(receive_record(c))
            print('program', prog, flush=True)
            if how == 'picky' and prog != 0x20005244:
                break
            if how == 'mute':
                continue
            if how == 'junk':
                c.sendall(b'\x80\0\0\x08' + b'x' * 8)
            elif how == 'long':
                c.sendall(b'\x7f\xff\xff\xff' + b'x' * 100)
            elif how == 'binds-long':    # a string that ends behind the record
                say(1, 100003, 3, 0xfffffff0)
            elif how == 'binds-cut':
                say(1, 100003)
            elif how == 'binds-two':    # two versions at a port each
                row = lambda v, u: struct.pack('>3I', 1, 0x20005244, v) + opaque(b'tcp') + opaque(u) + opaque(b'root')
                say(tail=row(2, b'10.77.0.2.0.9') + row(1, b'10.77.0.2.78.133') + struct.pack('>I', 0))
            elif how == 'binds-odd':    # words without a port, one with, and a control character in a name
                row = lambda p, n, u: struct.pack('>3I', 1, p, 1) + opaque(n) + opaque(u) + opaque(b'root')
                tail = row(7, b'tcp', b'999.1') + row(8, b'\x1b[2J', b'') + row(0x20005244, b'tcp', b'10.77.0.2.78.133')
                say(tail=tail + struct.pack('>I', 0))
            else:
                say()
    except (EOFError, OSError):
        pass
    c.close()
P
ill() { nsenter -t $far -n -m /usr/bin/python3 "$T/ill.py" "$@" >"$T/ill" 2>&1 & pids="$pids $!"; last=$!; listens "$3" there; }
ill picky 10.77.0.2 20103 || exit 1
json "one that closes on the offer" '["tcp","tcp","peer closed on the offer"]' 1 "$ends" 10.77.0.2:20103 $lab
ill ready 10.77.0.2 20104 || exit 1
is "one that closes: of shared memory" "$(jq -c '.peer | .release, (.carriers[0] | .state, .here)' "$T/json" | paste -sd ' ')" \
	'"" "failed" "peer closed on the offer"'
json "one that answers all" '["tcp","tcp"]' 1 '.peer | [.end, .carrier]' 10.77.0.2:20104 $lab
ill mute 10.77.0.2 20105 || exit 1
json "one that is mute" '["unreached","waiting for the reply to a NULL call: no answer in time"]' 3 '.peer | [.end, .tcp.error]' -t 1 10.77.0.2:20105 $lab
ill junk 10.77.0.2 20106 || exit 1
json "one that answers junk" '"unreached"' 3 .peer.end 10.77.0.2:20106 $lab
ill long 10.77.0.2 20107 || exit 1
json "one that announces 2 GiB" '"unreached"' 3 .peer.end 10.77.0.2:20107 $lab
for how in binds-long binds-cut binds-odd; do
	ill $how 10.77.0.2 111 || exit 1
	json "rpcbind: $how" '"tcp"' 1 .peer.end 10.77.0.2:20103 $lab:1
	timeout 60 "$check" --calls=5 10.77.0.2 $lab >"$T/odd" 2>&1
	is "rpcbind: $how: text is clean" "$?:$(tr -d ' -~\n' <"$T/odd" | wc -c)" "$([ $how = binds-odd ] && echo 1 || echo 3):0"
	kill $last
	wait $last 2>/dev/null
done
ill binds-two 10.77.0.2 111 || exit 1
q='.peer | [.address, .program_version]'
json "two ports: that of the version" '["10.77.0.2:20101",1]' 1 "$q" 10.77.0.2 $lab:1
json "two ports: that of another version" '["10.77.0.2:9",2]' 3 "$q" 10.77.0.2 $lab:2
json "two ports: the first, if none has the version" '["10.77.0.2:9",3]' 3 "$q" 10.77.0.2 $lab:3
json "two ports: the first, if no version is asked for" '["10.77.0.2:9",2]' 3 "$q" 10.77.0.2 $lab
json "two ports: the port's own version" '["10.77.0.2:20101",1]' 1 "$q" 10.77.0.2:20101
kill $last
wait $last 2>/dev/null
json "nobody listens" '["unreached","connecting: Connection refused"]' 3 '.peer | [.end, .tcp.error]' 127.0.0.1:9 $lab
json "no such name" '"unreached"' 3 .peer.end does-not-exist.invalid:9 $lab

# A server of this host without the library gets no call that it does not know.
/usr/bin/python3 "$T/ill.py" ready 127.0.0.1 20108 >"$T/seen" 2>&1 & pids="$pids $!"
listens 20108 || exit 1
json "one of this host" '"tcp"' 1 .peer.end 127.0.0.1:20108 $lab
is "and only its program is called" "$(sort -u "$T/seen")" "program $((lab))"

# --- rpcbind ---
background rpcbind -f -w
listens 111 || exit 1
background "$BUILD/rdmarpc-run" -- "$BUILD/apps/labsvc" register 20110
n=0
until rpcinfo -p 127.0.0.1 2>/dev/null | grep -q 20110; do n=$((n + 1)); [ $n -lt 250 ] || exit 1; sleep 0.02; done
json "the program's port" '["carried","127.0.0.1:20110"]' 0 '.peer | [.end, .address]' 127.0.0.1 $lab
json "the port of a program's version" '["carried","127.0.0.1:20110",1]' 0 '.peer | [.end, .address, .program_version]' 127.0.0.1 $lab:1
json "the port's program" "[\"carried\",$((lab))]" 0 '.peer | [.end, .program]' 127.0.0.1:20110
json "rpcbind itself, which has no library" '"tcp"' 1 .peer.end 127.0.0.1 portmapper
json "a program that is not there" '"unreached"' 3 .peer.end 127.0.0.1 0x20001111
json "the program of a port, of a version" "[\"carried\",$((lab)),1]" 0 '.peer | [.end, .program, .program_version]' 127.0.0.1:20110 $lab:1
json "a port of nobody's" '"unreached"' 3 .peer.end 127.0.0.1:20101

# --- this host ---
q='[.local[] | select(.step == "run directory") | .verdict]'
json "the run directory" '["ok"]' 0 "$q"
RDMARPC_RUN_DIR=$T/no/such json "one that is not there" '["note","warning"]' 0 "$q"
mkdir -m 777 "$T/open"
RDMARPC_RUN_DIR=$T/open json "one that others can change" "\"$T/open: others can write to it, and it is not sticky\"" 0 \
	'[.local[] | select(.step == "run directory")][0].text'
(ulimit -f 8; json "a small RLIMIT_FSIZE" '["warning"]' 0 '[.local[] | select(.step == "RLIMIT_FSIZE") | .verdict]')
if command -v strace >/dev/null; then
	out=$(strace -e trace=pipe2,close -o "$T/trace" prlimit --nofile=7 "$check" 127.0.0.1:20100 $lab 2>&1)
	has "no descriptors for the second pipe to the program that calls" "$out" "a pipe: Too many open files"
	is "the first pipe and the log are closed" "$(sed '1,/EMFILE/d' "$T/trace" | grep -c ^close)" 3
fi
q='[.local[] | select(.step == "log") | [.verdict, .text]]'
RDMARPC_LOG_FILE=$T/log json "a log file that is yet to be" "[[\"ok\",\"$T/log\"]]" 0 "$q"
RDMARPC_LOG_FILE=$T/no/log json "one whose directory there is not" "[[\"warning\",\"$T/no/log: No such file or directory\"]]" 0 "$q"
RDMARPC_LOG_TO=journal json "a journal that there is not" \
	'[["warning","the journal: /run/systemd/journal/socket: No such file or directory"]]' 0 "$q"
mkdir -p /run/systemd/journal && : >/run/systemd/journal/socket
RDMARPC_LOG_TO=journal json "the journal" '[["ok","the journal"]]' 0 "$q"
echo 'spin = 5' >"$T/bad.conf"
RDMARPC_CONF=$T/bad.conf json "mistakes in the configuration" '["ok","warning"]' 0 '[.local[] | select(.step == "settings") | .verdict]'
server=$(ss -Hltnp 'sport = :20100' | sed -n 's/.*pid=\([0-9]*\).*/\1/p')
json "a process" '[["process","ok"],["seccomp","ok"],["namespaces","ok"]]' 0 \
	'[.local[] | select(.step == "process" or .step == "seccomp" or .step == "namespaces") | [.step, .verdict]]' --pid="$server"
has "its release" "$(jq -r '.local[] | select(.step == "process") | .text' "$T/json")" " (release ${release##* })"
background setpriv --no-new-privs /usr/bin/python3 -c '
import ctypes, time
ALLOW = (ctypes.c_uint64 * 1)(6 | 0x7fff0000 << 32)    # one instruction: everything is allowed
class Prog(ctypes.Structure):
    _fields_ = [("len", ctypes.c_ushort), ("filter", ctypes.c_void_p)]
p = Prog(1, ctypes.addressof(ALLOW))
assert ctypes.CDLL(None).prctl(22, 2, ctypes.byref(p), 0, 0) == 0
time.sleep(1000)'
filtered=$!
n=0
until grep -q "^Seccomp:.2" /proc/$filtered/status; do n=$((n + 1)); [ $n -lt 500 ] || break; sleep 0.02; done
json "one with a filter" '["note","a filter is in force"]' 1 '.local[] | select(.step == "seccomp") | [.verdict, .text]' --pid=$filtered
has "one with a filter: what it must allow" "$(jq -r '.local[].advice' "$T/json")" "@system-service"
json "one in other namespaces" '["of its own: net mnt"]' 1 '[.local[] | select(.step == "namespaces") | .text]' --pid=$far
is "which has no library" "$(jq -r '.local[] | select(.step == "process") | .verdict' "$T/json")" problem
json "no such process" '["problem"]' 1 '[.local[] | select(.step == "process") | .verdict]' --pid=4194000
cp "$check" "$T/alone"
out=$("$T/alone" 2>&1)
is "no library: status" "$?" 1
has "no library" "$out" "problem library"
for bad in --what --calls=0 --pid=x 127.0.0.1 127.0.0.1:0 :5 "127.0.0.1:5 nonsense" "a b c"; do
	# shellcheck disable=SC2086
	"$check" $bad >/dev/null 2>&1
	is "usage: $bad" "$?" 2
done
"$check" >/dev/full 2>/dev/null
is "a full disk is an error" "$?" 2
finish
