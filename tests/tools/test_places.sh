#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Where statistics and "stop" are, for which user; what other users and other namespaces can do about
# them. With a /run and with processes of its own.
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	echo "needs root and mount namespaces"
	exit 77
fi
[ "${1:-}" = inside ] || exec unshare -m -n -p -f --mount-proc --kill-child -- "$0" inside
. "$(dirname "$0")/lib"
command -v jq >/dev/null && command -v setpriv >/dev/null || { echo "no jq or setpriv"; exit 77; }
mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run && ip link set lo up || exit 1
chmod 755 "$T"
cp "$BUILD/librpcrdma_shim.so" "$BUILD/rdmarpc-stat" "$T"
unset XDG_RUNTIME_DIR
A=1500 B=1501		# users

# The program: has a TCP listener, says its pid, and lives until its input ends. "drop": a child of it
# gives root up and then serves a connection.
cat >"$T/prog.py" <<'P'
import os, socket, sys
L = socket.create_server(('127.0.0.1', 0))
if 'drop' in sys.argv:
    c = socket.create_connection(L.getsockname())
    r, w = os.pipe()
    if os.fork() == 0:
        os.setgid(1500)
        os.setuid(1500)
        L.accept()
        os.write(w, b'%d' % os.getpid())
        sys.stdin.read()
        os._exit(0)
    print(os.read(r, 20).decode())
else:
    print(os.getpid())
sys.stdout.flush()
sys.stdin.read()
P
as() { u=$1; shift; setpriv --reuid="$u" --regid="$u" --clear-groups "$@"; }
mkfifo "$T/in"
# start USER [VAR=value]... [-- WRAPPER...]: $pid, as the program knows it. One at a time, unless another is $T/in2.
start() {
	user=$1
	shift
	rm -f "$T/pid"
	as "$user" env "$@" LD_PRELOAD="$T/librpcrdma_shim.so" /usr/bin/python3 "$T/prog.py" $how <"$T/in" >"$T/pid" &
	job=$!
	exec 8>"$T/in"
	until [ -s "$T/pid" ]; do sleep 0.02; done
	pid=$(cat "$T/pid")
}
how=
end() {
	exec 8>&-
	wait "$job"
}
trap 'exec 8>&-; rm -rf "$T"' EXIT
show() { u=$1; shift; as "$u" "$T/rdmarpc-stat" --json | jq -c "$@"; }
q="[.processes[] | [.pid, .comm, .uid, .verified, .alive]]"
places() { (cd /run && find rdmarpc user/$A -name '*[0-9].[0-9]*' 2>/dev/null | sed 's/[0-9]*\.[0-9]*$/SEGMENT/'); }
fresh() { rm -rf /run/rdmarpc /run/user; }

# --- by default ---
start 0
is "root's directory" "$(stat -c '%a %u' /run/rdmarpc)" "755 0"
is "root's segment" "$(places)" "rdmarpc/SEGMENT"
is "root's process, as root sees it" "$(show 0 "$q")" "[[$pid,\"python3\",0,true,true]]"
is "and everybody" "$(show $A "$q")" "[[$pid,\"python3\",0,true,true]]"
end
fresh

for before in no yes; do
	[ $before = no ] || mkdir -m 755 /run/rdmarpc
	start $A
	is "a user's is no file" "$(places)" ""
	is "a user's, as root sees it" "$(show 0 "$q")" "[[$pid,\"python3\",$A,true,true]]"
	is "a user's, as the user sees it" "$(show $A "$q")" "[[$pid,\"python3\",$A,true,true]]"
	is "a user's, as other users do not see it" "$(show $B "$q")" "[]"
	is "by pid" "$("$T/rdmarpc-stat" --json "$pid" | jq -c "$q")" "[[$pid,\"python3\",$A,true,true]]"
	end
	is "and nothing stays" "$(show 0 "$q"):$(places)" "[]:"
done
fresh

mkdir -p /run/user/$A
chown $A /run/user/$A
chmod 700 /run/user/$A
start $A XDG_RUNTIME_DIR=/run/user/$A
is "in the user's own run time directory" "$(places):$(stat -c '%a %u' /run/user/$A/rdmarpc)" "user/$A/rdmarpc/SEGMENT:700 $A"
is "that, as root sees it" "$(show 0 "$q")" "[[$pid,\"python3\",$A,true,true]]"
end
start 0 XDG_RUNTIME_DIR=/run/user/$A
is "root's is not where another user could move it" "$(places | grep -v user)" "rdmarpc/SEGMENT"
end
rm -f /run/rdmarpc/*
start $B XDG_RUNTIME_DIR=/run/user/$A
is "nor another user's" "$(places | grep -v user)" ""
end
fresh

# --- what an administrator can make ---
mkdir -p /run/rdmarpc/$A
chown $A /run/rdmarpc/$A
start $A
is "a directory made for a user" "$(places)" "rdmarpc/$A/SEGMENT"
is "that, as root sees it" "$(show 0 "$q")" "[[$pid,\"python3\",$A,true,true]]"
end
is "and it says how it ended" "$(show 0 '[.processes[] | [.uid, .alive, .ended]]')" "[[$A,false,true]]"
fresh

mkdir -m 1777 /run/rdmarpc
start $A
is "where users may make one" "$(places):$(stat -c '%a %u' /run/rdmarpc/$A)" "rdmarpc/$A/SEGMENT:700 $A"
end
rm -rf /run/rdmarpc/$A
as $B mkdir -m 777 /run/rdmarpc/$A
start $A
is "somebody else's is not used" "$(places):$(show 0 "$q")" ":[[$pid,\"python3\",$A,true,true]]"
end
fresh

# --- a daemon that gives root up, and forks ---
how=drop
start 0
is "it stays visible to root" "$(show 0 "[.processes[] | select(.pid == $pid) | [.pid, .comm, .uid, .verified, .alive]]")" \
	"[[$pid,\"python3\",$A,true,true]]"
end
how=
fresh

# --- names squatted by others cost a start nothing ---
calls() {	# USER: system calls of a program that makes a TCP socket
	as "$1" strace -f -o "$T/trace" -E LD_PRELOAD="$T/librpcrdma_shim.so" \
		/usr/bin/python3 -c 'import socket; socket.socket()' && grep -c . "$T/trace"
}
if command -v strace >/dev/null; then
	install -m 666 /dev/null "$T/trace"
	mkdir -m 1777 /run/rdmarpc
	as $A "$T/rdmarpc-stat" >/dev/null
	squat() { as $B sh -c "cd /run/rdmarpc && seq $1 $2 | sed 's/.*/&.1/' | xargs touch"; }
	squat 1000001 1001000
	calls 0 >/dev/null
	a1=$(calls $A) r1=$(calls 0)
	squat 1001001 1020000
	a2=$(calls $A) r2=$(calls 0)
	is "a user's start among 20,000 names" "$([ $((a2 - a1)) -lt 20 ] || echo "$a1 $a2")" ""
	is "root's start among 20,000 names" "$([ $((r2 - r1)) -lt 20 ] || echo "$r1 $r2")" ""
	fresh
fi

# --- stop ---
stopped() { as "$1" "$T/rdmarpc-stat" --json | jq -c .stopped; }
mkdir -m 1777 /run/rdmarpc
for kind in touch mkdir mkfifo "ln -s /etc/passwd" full; do
	case $kind in
	full) as $B mkdir -p /run/rdmarpc/stop/x ;;
	*) as $B $kind /run/rdmarpc/stop ;;
	esac
	is "$kind of another user stops nobody" "$(stopped 0):$(stopped $A)" "false:false"
	timeout 30 "$T/rdmarpc-stat" --stop
	is "root's stop, over $kind" "$?:$(stopped 0):$(stopped $A):$(stopped $B)" "0:true:true:true"
	"$T/rdmarpc-stat" --start
	is "root's start" "$?:$(stopped 0)" "0:false"
	rm -rf /run/rdmarpc/* /run/rdmarpc/.s*
done
touch /run/something
ln /run/something /run/rdmarpc/stop
is "a link to a file of root's stops nobody" "$(stopped 0):$(stopped $A)" "false:false"
rm /run/rdmarpc/stop
as $A "$T/rdmarpc-stat" --stop
is "a user's stop is for that user" "$?:$(stopped $A):$(stopped $B):$(stopped 0)" "0:true:false:false"
as $A "$T/rdmarpc-stat" --start
is "a user's start" "$?:$(stopped $A)" "0:false"
fresh
as $A timeout 30 "$T/rdmarpc-stat" --stop 2>/dev/null
is "a user without a directory cannot" "$?" 1
mkdir -m 1777 /run/conf
as $B mkfifo /run/conf/stop.$A
RDMARPC_RUN_DIR=/run/conf as $A timeout 30 "$T/rdmarpc-stat" --stop 2>"$T/err"
is "a user's, pre-empted in a shared directory, is told" "$?:$(tail -n 1 "$T/err")" \
	"1:rdmarpc-stat: /run/conf/stop.$A belongs to somebody else"
rm -rf /run/conf

# --- lies ---
mkdir -p /run/rdmarpc/$A
chown $A /run/rdmarpc/$A
start $A
seg=$(echo /run/rdmarpc/$A/*)
as $A cp "$seg" "/run/rdmarpc/$A/1.${seg##*.}"
as $A /usr/bin/python3 - "/run/rdmarpc/$A/1.${seg##*.}" <<'P'
import sys
f = open(sys.argv[1], 'r+b')
f.seek(36); f.write((1).to_bytes(4, 'little'))
f.seek(56); f.write(b'systemd\0')
P
end
q1="[.processes[] | select(.uid == $A and .pid == 1) | [.comm, .verified, .alive]]"
is "who is dead may have been called anything" "$(show 0 "$q1")" '[["systemd",false,false]]'
has "its pid is its owner's word" "$("$T/rdmarpc-stat")" "    (1)  1500 systemd         died"
mkfifo "$T/in3"
as $A /usr/bin/python3 -c '
import fcntl, os, sys
f = open(sys.argv[1], "r+b")
fcntl.lockf(f, fcntl.LOCK_EX, 1)
print(os.getpid(), flush=True)
sys.stdin.read()' "/run/rdmarpc/$A/"1.*[0-9] <"$T/in3" >"$T/held" &
exec 7>"$T/in3"
until [ -s "$T/held" ]; do sleep 0.02; done
liar=$(cat "$T/held") liar_job=$!
is "who lives is called what the kernel says" \
	"$(show 0 "[.processes[] | select(.alive) | [.pid, .comm, .uid, .verified]]")" "[[$liar,\"python3\",$A,true]]"
is "and speaks for itself only" "$("$T/rdmarpc-stat" --json 1 | jq -c "$q")" "[]"
exec 7>&-
wait "$liar_job"
fresh

# --- other PID namespaces ---
inner() { unshare -p -f --mount-proc -- "$@"; }
start 0
seg=$(echo /run/rdmarpc/*)
is "from within, a process outside lives" "$(inner "$T/rdmarpc-stat" --json | jq -c "$q")" "[[$pid,\"python3\",0,false,true]]"
has "and has no pid there" "$(inner "$T/rdmarpc-stat")" "($pid)     0 python3         live"
inner env LD_PRELOAD="$T/librpcrdma_shim.so" /usr/bin/python3 -c 'import socket; socket.socket()'
is "starts within leave it alone" "$([ -e "$seg" ] && echo yes)" yes
is "without a /proc of its own, too" "$(unshare -p -f "$T/rdmarpc-stat" --json | jq -c "[.processes[] | select(.alive) | [.pid, .comm, .verified]]")" \
	"[[$pid,\"python3\",false]]"
unshare -U "$T/rdmarpc-stat" --json >"$T/out"
is "from another user namespace" "$(jq -c "[.processes[] | select(.alive) | [.pid, .comm, .verified]]" "$T/out"):$([ -e "$seg" ] && echo yes)" \
	"[[$pid,\"python3\",true]]:yes"
is "which still lives" "$(show 0 "[.processes[] | select(.alive) | .pid]")" "[$pid]"
end
fresh

# A process within, seen from outside: its pid is the one that it has outside.
rm -f "$T/pid2"
LD_PRELOAD="$T/librpcrdma_shim.so" unshare -p -f --mount-proc /usr/bin/python3 "$T/prog.py" <"$T/in" >"$T/pid2" &
job=$!
exec 8>"$T/in"
until [ -s "$T/pid2" ]; do sleep 0.02; done
outside=$(cat /proc/$job/task/$job/children)
is "a process within, from outside" "$(cat "$T/pid2"):$(show 0 "$q")" "1:[[${outside% },\"python3\",0,true,true]]"
end
fresh

# In a user namespace, root is not root: there is no directory for it.
rm -f "$T/pid2"
as $A unshare -U -r env LD_PRELOAD="$T/librpcrdma_shim.so" /usr/bin/python3 "$T/prog.py" <"$T/in" >"$T/pid2" &
job=$!
exec 8>"$T/in"
until [ -s "$T/pid2" ] || ! kill -0 $job 2>/dev/null; do sleep 0.02; done
if [ -s "$T/pid2" ]; then
	is "root of a user namespace" "$(places):$(show 0 "[.processes[] | [.pid, .uid, .alive]]")" \
		":[[$(cat "$T/pid2"),$A,true]]"
fi
end
finish
