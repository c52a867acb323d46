#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where log lines go and what is in them: file, syslog, journal; what cannot be used is said once; nobody waits for a
# reader; rdmarpc-stat --log-level. With a /dev/log and a /run of its own.
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	echo "needs root and mount namespaces"
	exit 77
fi
[ "${1:-}" = inside ] || exec unshare -m -n -- "$0" inside
. "$(dirname "$0")/lib"
command -v jq >/dev/null || { echo "no jq"; exit 77; }
mkdir "$T/dev" && mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run && ip link set lo up || exit 1
mount -t tmpfs -o mode=755 tmpfs "$T/dev" && cp -a /dev/null /dev/zero /dev/full /dev/random /dev/urandom "$T/dev" || exit 1
mkdir "$T/dev/shm" && mount --bind "$T/dev" /dev && chmod 1777 /dev/shm || exit 1
unset XDG_RUNTIME_DIR
chmod 755 "$T"
pair=$BUILD/tests/tools/rpcpair
RDMARPC_UPGRADE_TIMEOUT_MS=30000
export RDMARPC_UPGRADE_TIMEOUT_MS
pids=
trap 'for p in $pids; do kill "$p" 2>/dev/null; done; umount -l /dev "$T/dev" /run; rm -rf --one-file-system "$T"' EXIT

# reader SOCKET FILE [deaf]: a datagram socket, each of whose messages is a line of the file; or nobody reads
cat >"$T/reader.py" <<'P'
import os, socket, sys, time
try:
    os.unlink(sys.argv[1])
except FileNotFoundError:
    pass
s = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
s.bind(sys.argv[1])
os.chmod(sys.argv[1], 0o666)
with open(sys.argv[2], 'a') as f:
    print('listens', file=f, flush=True)
    while 'deaf' in sys.argv:
        time.sleep(1)
    while True:
        print(repr(s.recv(4096).decode())[1:-1], file=f, flush=True)
P
reader() {
	: >"$2"
	/usr/bin/python3 "$T/reader.py" "$@" 8>&- & reader=$!
	pids="$pids $reader"
	until grep -q listens "$2"; do sleep 0.02; done
}
# run [VAR=value]... -- ARGS...: the pair with the library, which must end well and print its own word only
run() {
	vars=
	while [ "$1" != -- ]; do vars="$vars $1"; shift; done
	shift
	# shellcheck disable=SC2086
	out=$(env $vars LD_PRELOAD="$BUILD/librpcrdma_shim.so" timeout 120 "$pair" "$@" 2>&1)
	is "with$vars: $*" "$?:$out" "0:done"
}
# What a reader has got so far; it may be a moment behind.
got() { n=0; until [ "$(wc -l <"$1")" -gt "$2" ] || [ $n -ge 250 ]; do n=$((n + 1)); sleep 0.02; done; cat "$1"; }

# --- what is in a line ---
run RDMARPC_LOG_FILE="$T/log" RDMARPC_LOG_LEVEL=info --
client=$(grep -E 'fd [0-9]+ to ' "$T/log")
server=$(grep -E 'fd [0-9]+ from ' "$T/log")
where='rdmarpc\[[0-9]+\] rpcpair info: fd [0-9]+'
is "the client's line: command, pid, peer, port, program" \
	"$(echo "$client" | grep -cE "$where to 127.0.0.1:[0-9]+, program 100003: carried, shm, v1\$")" 1
is "the server's line: both addresses" \
	"$(echo "$server" | grep -cE "$where from 127.0.0.1:[0-9]+ at 127.0.0.1:[0-9]+: carried, shm, v1\$")" 1

# --- syslog, journal ---
reader /dev/log "$T/syslog"
run RDMARPC_LOG_TO=syslog RDMARPC_LOG_LEVEL=info --
lines=$(got "$T/syslog" 2)
is "syslog: priority, no time of ours" \
	"$(echo "$lines" | grep -cE '^<30>rdmarpc\[[0-9]+\]: rpcpair info: fd [0-9]+ (to|from) .*: carried, shm, v1$')" 2
run RDMARPC_LOG_TO=syslog RDMARPC_CREDITS=many --
has "syslog: an error has another priority" "$(got "$T/syslog" 3)" "<27>rdmarpc["
mkdir -p /run/systemd/journal
reader /run/systemd/journal/socket "$T/journal"
run RDMARPC_LOG_TO=journal RDMARPC_LOG_LEVEL=info --
is "journal" "$(got "$T/journal" 2 | grep -cE \
	'^PRIORITY=6\\nSYSLOG_FACILITY=3\\nSYSLOG_IDENTIFIER=rdmarpc\\nMESSAGE=rpcpair info: fd [0-9]+ .*: carried, shm, v1\\n$')" 2

# --- what cannot be used ---
: >"$T/syslog"
run RDMARPC_LOG_FILE="$T/no/such/log" RDMARPC_LOG_LEVEL=info --
is "a log file that cannot be used: one line to syslog" "$(got "$T/syslog" 0 | sed 's/\[[0-9]*\]//')" \
	"<28>rdmarpc: log_file $T/no/such/log cannot be used (no such directory): nothing is logged"
: >"$T/syslog"
ln -s "$T/log" "$T/link"
run RDMARPC_LOG_FILE="$T/link" --
has "nor a link" "$(got "$T/syslog" 0)" "(a symbolic link): nothing is logged"
: >"$T/syslog"
run RDMARPC_RUN_DIR="$T/no/such" --
run RDMARPC_LOG_LEVEL=info --
is "nothing is logged where no log is configured" "$(cat "$T/syslog")" ""
rm -f "$T/log"
run RDMARPC_LOG_FILE="$T/log" RDMARPC_RUN_DIR="$T/no/such" --
is "a run directory that cannot be used" "$(sed 's/.*rpcpair //' "$T/log")" \
	"warn: run directory $T/no/such: does not exist; statistics are kept in memory"

# --- nobody waits ---
kill $reader; wait $reader 2>/dev/null
reader /dev/log "$T/deaf" deaf
cat >"$T/many.py" <<'P'
import socket, struct, sys
L = socket.create_server(('127.0.0.1', 0))
for i in range(300):
    c = socket.create_connection(L.getsockname())
    s, _ = L.accept()
    c.sendall(b'no RPC at all, but long enough')
    assert s.recv(100)
    c.close(); s.close()
print('done')
P
out=$(RDMARPC_LOG_TO=syslog RDMARPC_LOG_LEVEL=debug LD_PRELOAD=$BUILD/librpcrdma_shim.so timeout 300 /usr/bin/python3 "$T/many.py" 2>&1)
is "a reader that does not read: 600 connections" "$?:$out" "0:done"
kill $reader; wait $reader 2>/dev/null
run RDMARPC_LOG_TO=syslog RDMARPC_LOG_LEVEL=info --
rm /dev/log
run RDMARPC_LOG_TO=syslog RDMARPC_LOG_LEVEL=info --

# --- a reader that comes back ---
cat >"$T/slow.py" <<'P'
import socket, sys
L = socket.create_server(('127.0.0.1', 0))
for line in sys.stdin:
    c = socket.create_connection(L.getsockname())
    s, _ = L.accept()
    c.sendall(b'no RPC at all, but long enough')
    assert s.recv(100)
    c.close(); s.close()
    print('once', flush=True)
P
mkfifo "$T/in"
# slow VAR=value...: a process that makes a connection for each line that it gets; $slow
slow() {
	: >"$T/once"
	env "$@" LD_PRELOAD="$BUILD/librpcrdma_shim.so" /usr/bin/python3 "$T/slow.py" <"$T/in" >"$T/once" 2>&1 &
	slow=$!
	pids="$pids $slow"
	exec 8>"$T/in"
}
once() { had=$(wc -l <"$T/once"); echo >&8; until [ "$(wc -l <"$T/once")" -gt "$had" ]; do kill -0 $slow || exit 1; sleep 0.02; done; }
slow RDMARPC_LOG_TO=syslog RDMARPC_LOG_LEVEL=info
once
reader /dev/log "$T/syslog"
once
has "a reader that comes later is found" "$(got "$T/syslog" 1)" "not ONC RPC"
has "and told how much was left out" "$(cat "$T/syslog")" " lines left out] "
exec 8>&-
wait $slow

# --- rdmarpc-stat --log-level ---
stat=$BUILD/rdmarpc-stat
level_of() { wc -l <"$T/log"; }
for how in /run/rdmarpc "$T/no/such"; do	# in a file, in memory
	rm -f "$T/log"
	slow RDMARPC_LOG_FILE="$T/log" RDMARPC_RUN_DIR=$how
	once
	before=$(level_of)
	RDMARPC_RUN_DIR=$how "$stat" --log-level=info $slow
	is "--log-level=info ($how): status" "$?" 0
	once
	is "--log-level=info ($how)" "$(tail -n +$((before + 1)) "$T/log" | grep -c 'not ONC RPC')" 2	# each end says so
	before=$(level_of)
	RDMARPC_RUN_DIR=$how "$stat" --log-level=off $slow
	once
	is "--log-level=off ($how)" "$(level_of)" "$before"
	RDMARPC_RUN_DIR=$how "$stat" --log-level=debug $slow
	RDMARPC_RUN_DIR=$how "$stat" --log-level=configured $slow
	once
	is "--log-level=configured ($how)" "$(level_of)" "$before"
	if [ "$how" = /run/rdmarpc ]; then
		setpriv --reuid=1500 --regid=1500 --clear-groups env RDMARPC_RUN_DIR=$how "$stat" --log-level=debug $slow 2>"$T/err"
		is "not for other users: status" "$?" 1
		once
		is "not for other users" "$(level_of)" "$before"
	fi
	exec 8>&-
	wait $slow
done
slow RDMARPC_LOG_LEVEL=info
once
has "a process without a log" "$("$stat" --log-level=info $slow 2>&1)" "has no log"
exec 8>&-
wait $slow
"$stat" --log-level=info 4194000 2>"$T/err"
is "no such process: status" "$?" 1
has "no such process" "$(cat "$T/err")" "process 4194000: nothing is known of it"

# --- logrotate ---
rm -f "$T/log"
slow RDMARPC_LOG_FILE="$T/log" RDMARPC_LOG_LEVEL=info
once
mv "$T/log" "$T/log.1"
n=0
until [ -s "$T/log" ] || [ $n = 200 ]; do n=$((n + 1)); once; sleep 0.02; done
has "a renamed log is begun anew" "$(cat "$T/log")" "not ONC RPC"
exec 8>&-
wait $slow
finish
