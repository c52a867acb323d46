#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-run --register and --resolve, with an rpcbind of its own in private namespaces.
. "$(dirname "$0")/lib-rpcbind" "$@"
reg=$BUILD/tests/tools/rpcreg
make -s BUILD="$(basename "$BUILD")" "$(basename "$BUILD")/tests/tools/rpcreg" || exit 1

# The library of tests/native: its listeners need no device.
mkdir "$T/tree"
cp "$BUILD/rdmarpc-run" "$BUILD/tests/native/librpcrdma_shim.so" "$T/tree" || exit 1
run=$T/tree/rdmarpc-run
export RDMARPC_LOG_FILE=$T/log RDMARPC_LOG_LEVEL=info

# start WORDS..., start env COMMAND...: rpcreg, or the command, under --register; $pid
start() {
	case $1 in env) ;; *) set -- "$reg" "$@" ;; esac
	"$run" "${opts[@]}" --register "$@" >"$T/out" 2>"$T/err" </dev/null &
	pid=$!
}
listens() { # until somebody listens on a port
	local i
	for ((i = 0; i < 900; i++)); do
		has_listener "$1" && return
		sleep 0.1
	done
	is "listens on $1" no yes
}
end() { # kill -9, without the shell's word on it
	kill -9 $1
	wait $1 2>/dev/null
}
opts=()
A=0.0.0.0 P=300001		# port 5000 is 19.136

# --- no rpcbind ---
start tcp $P exit 7
wait $pid
is "no rpcbind: the program runs" $? 3
has "no rpcbind: said" "$(cat "$T/err")" "rdmarpc-run: warning: --register: no rpcbind yet (/var/run/rpcbind.sock: No such file or directory)"
no_guards "without rpcbind"
out=$("$run" --resolve 127.0.0.1 sh -c 'echo "$RDMARPC_RULES" ran' 2>&1)
has "--resolve, no rpcbind" "$out" "rdmarpc-run: warning: --resolve 127.0.0.1: 127.0.0.1: Connection refused (over RDMA: "
has "--resolve, no rpcbind: the program runs" "$out" " ran"

# --- no guard ---
if command -v strace >/dev/null; then
	# shellcheck disable=SC2016 # the program's
	out=$(strace -o "$T/trace" -e trace=mmap,munmap,openat,pipe2,close,clone,execve -e inject=clone:error=EAGAIN \
		"$run" --register sh -c 'echo "mark ${RDMARPC_FAMILY-none}"' 2>&1)
	has "no guard: said" "$out" "nobody can watch the program: Resource temporarily unavailable"
	has "no guard: the program runs, and has no mark" "$out" "mark none"
	before() { sed '/INJECTED/q' "$T/trace" | sed -n "$1" | tail -n 1; }
	after=$(sed '1,/INJECTED/d;/^execve/,$d' "$T/trace")
	for was in "close($(before 's/^pipe2(\[\([0-9]*\),.*/\1/p')" "close($(before 's/^pipe2(\[.*, \(.*\)\].*/\1/p')" \
		"close($(before "s|^openat.*\"$T/log\".* = ||p")" "munmap($(before 's/^mmap.*MAP_SHARED.* = //p')"; do
		has "no guard: what was there for it" "$after" "$was"
	done
fi

rpcbind -f -w >"$T/rpcbind.log" 2>&1 &
rpcbind=$!
listens 111

# --- registered, and taken back ---
start port 5000 tcp $P tcp6 $P serve
both="rdma6:::.19.136:superuser rdma:$A.19.136:superuser tcp6:::.19.136:superuser tcp:$A.19.136:superuser"
until_is "registered" $P "$both"
is "rdmarpc-run is the program" "$(cat /proc/$pid/comm)" rpcreg
is "the program has no child" "$(pgrep -c -P $pid)" 0
is "two beside it" "$(guards)" 2
is "the guard has no descriptor of the program's" \
	"$(for p in $(pgrep -x rdmarpc-guard); do readlink /proc/$p/fd/*; done | grep -c "$T/out\|$T/err")" 0
# From another PID namespace with the same run directory it looked dead, and was withdrawn.
unshare -p -f --mount-proc "$BUILD/rdmarpc-stat" >/dev/null
unshare -p -f --mount-proc env LD_PRELOAD="$T/tree/librpcrdma_shim.so" /usr/bin/python3 -c 'import socket; socket.socket()'
sleep 3		# longer than a change goes unseen
is "still registered after others have looked" "$(there $P)" "$both"
end $pid
is "status of a killed program" $? 137
until_is "taken back after kill -9" $P "tcp6:::.19.136:superuser tcp:$A.19.136:superuser"
no_guards "after kill -9"
has "log" "$(cat "$T/log")" "info: rpcbind: registered $P version 1 rdma $A.19.136"
has "log" "$(cat "$T/log")" "info: rpcbind: took back $P version 1 rdma6 ::.19.136"

start unreg $P port 5000 tcp $P until "$T/exit" exit 5
until_is "short life: registered" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
: >"$T/exit"
wait $pid
is "status of the program" $? 5
until_is "taken back after exit" $P "tcp:$A.19.136:superuser"

start unreg $P port 5000 tcp $P serve
until_is "term: registered" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
kill -TERM $pid
wait $pid
is "status after SIGTERM" $? 143
until_is "taken back after SIGTERM" $P "tcp:$A.19.136:superuser"
no_guards "after SIGTERM"

# The program inherits what it would without.
out=$(sh -c 'trap "" CHLD; exec "$@"' - "$run" --register sh -c 'grep SigIgn /proc/$$/status' 2>&1)
is "SIGCHLD ignored" "$out" "$(sh -c 'trap "" CHLD; exec sh -c "grep SigIgn /proc/\$\$/status"')"
inherited() { (cd "$T" && ulimit -n 50 && "$@" sh -c 'pwd; ls /proc/$$/fd; ps -o pgid=,sid=,tty= $$' 3</dev/null 5</dev/null); }
want=$(inherited)
for i in {1..12}; do	# the guard is quick, or slow
	is "descriptors, directory, session" "$(inherited "$run" --register)" "$want"
done
no_guards "after inheriting"

# --- only what native peers reach ---
start unreg $P port 5000 tcp $P blind "$T/serve" serve
listens 5000
sleep 1
is "nobody waits at the listener yet" "$(there $P)" "tcp:$A.19.136:superuser"
: >"$T/serve"
until_is "then somebody does" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
end $pid
: >"$T/log"
for why in "no RDMA device, or no permission to use it" "the program's library does not say that it listens for RDMA"; do
	case $why in
	no*) RDMARPC_TEST_NO_DEVICE=1 start unreg $P port 5000 tcp $P serve ;;
	*) start env -u LD_PRELOAD "$reg" unreg $P port 5000 tcp $P serve ;;
	esac
	for ((i = 0; i < 900; i++)); do ! grep -qs "warn: rpcbind: $P version 1 rdma $A.19.136: $why" "$T/log" || break; sleep 0.1; done
	has "shut: the reason" "$(cat "$T/log")" "warn: rpcbind: $P version 1 rdma $A.19.136: $why"
	is "shut: not registered" "$(there $P)" "tcp:$A.19.136:superuser"
	end $pid
done
no_guards "after shut doors"

# --- late, changing, withdrawn by the program, closed ---
start unreg $P sleep 800 port 5000 tcp $P until "$T/move" unreg $P port 5001 tcp6 $P until "$T/withdraw" unreg $P sleep 300000
until_is "late" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
: >"$T/move"
until_is "moved" $P "rdma6:::.19.137:superuser tcp6:::.19.137:superuser"
: >"$T/withdraw"
until_is "withdrawn" $P ""
end $pid
no_guards "after withdrawal"
start port 5000 tcp $P until "$T/close" close sleep 300000
until_is "before close()" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
: >"$T/close"
until_is "a listener that is closed" $P "tcp:$A.19.136:superuser"
end $pid
start unreg $P port 5000 both $P serve
until_is "one socket for both" $P "$both"
end $pid
no_guards "after one socket for both"

# --- daemons ---
for how in daemon first lost child; do
	rm -f "$T/go"
	case $how in
	first) start unreg $P daemon sleep 100 port 5000 tcp $P serve ;;
	child) start unreg $P port 5000 tcp $P until "$T/go" child exit 0 ;;
	*) start unreg $P port 5000 tcp $P until "$T/go" $how serve ;;
	esac
	until_is "$how: registered" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
	: >"$T/go"	# the guard knows it by now
	wait $pid
	is "$how: the parent's status" $? 0
	sleep 0.5
	until_is "$how: followed" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
	daemon=$(pgrep -x rpcreg)
	kill -9 $daemon
	until_is "$how: taken back" $P "tcp:$A.19.136:superuser"
	no_guards "after $how"
done
# The parent forks and ends while the guard reads the list of processes: the child is younger than the list.
if command -v strace >/dev/null; then
	strace -f -o "$T/trace" -e trace=getdents64 -e inject=getdents64:delay_exit=1000000:when=1 \
		"$run" --register "$reg" unreg $P sleep 200 daemon sleep 100 port 5000 tcp $P serve >/dev/null &
	tracer=$!
	until_is "missed: registered" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
	has "missed: the list was slow" "$(cat "$T/trace")" DELAYED
	kill -9 "$(pgrep -x rpcreg)"
	until_is "missed: taken back" $P "tcp:$A.19.136:superuser"
	no_guards "missed"
	wait $tracer
fi
# A forked child that has the listener goes on when its parent dies, and opens the RDMA port again.
start unreg $P port 5000 tcp $P child serve
until_is "two servers" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
end $pid
sleep 2	# until the other has the RDMA port
until_is "two servers: one is left" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
kill -9 $(pgrep -x rpcreg)
until_is "two servers: none is left" $P "tcp:$A.19.136:superuser"
no_guards "after two servers"

# --- the guard's own end ---
start unreg $P port 5000 tcp $P serve
until_is "worker: registered" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
worker=$(pgrep -x -P "$(pgrep -d , -x rdmarpc-guard)" rdmarpc-guard)	# not the newest: both may be of one tick
keeper=$(ps -o ppid= "$worker" | tr -d ' ')
kill -9 $worker
for ((i = 0; i < 900; i++)); do
	now=$(pgrep -P $keeper)
	[ -z "$now" ] || [ "$now" = "$worker" ] || break
	sleep 0.1
done
[ -n "$now" ] && [ "$now" != "$worker" ] || is "worker killed: there is another" "$now" "not $worker"
is "worker killed: registered still" "$(there $P)" "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
kill -9 $keeper
sleep 0.2
is "keeper killed: the worker goes on" "$(guards)" 1
end $pid
until_is "keeper killed: taken back" $P "tcp:$A.19.136:superuser"
no_guards "after kill -9 of both"
start unreg $P port 5000 tcp $P serve
until_is "stop: registered" $P "rdma:$A.19.136:superuser tcp:$A.19.136:superuser"
kill -TERM $(pgrep -x rdmarpc-guard)
until_is "the guard is told to end" $P "tcp:$A.19.136:superuser"
no_guards "told to end"
end $pid

# --- what others have ---
"$reg" unreg $P port 5000 tcp $P serve >/dev/null &
other=$!
until_is "another's" $P "tcp:$A.19.136:superuser"
start port 5002 tcp 300002 serve
until_is "own beside another's" 300002 "rdma:$A.19.138:superuser tcp:$A.19.138:superuser"
is "another's is left alone" "$(there $P)" "tcp:$A.19.136:superuser"
is "rpcbind's own is" "$(there 100000 | tr ' ' '\n' | grep -c rdma)" 0
end $pid
end $other
no_guards "after another's"
: >"$T/log"
"$reg" raw rdma $A.1.1 300003	# as an administrator might
start port 5003 tcp 300003 tcp6 300003 serve
want="rdma6:::.19.139:superuser rdma:$A.1.1:superuser tcp6:::.19.139:superuser tcp:$A.19.139:superuser"
until_is "one is there already" 300003 "$want"
end $pid
until_is "what was there already stays" 300003 "${want#* }"
no_guards "after what was there already"
is "what was there already, in the log" "$(grep -c "warn: rpcbind: 300003 version 1 rdma $A.19.139: is registered already, and not by us" "$T/log")" 1
rpcinfo -d 300003 1

# --- users ---
start port 5004 user 1234 tcp 300004 serve
until_is "another user's" 300004 "rdma:$A.19.140:1234 tcp:$A.19.140:1234"
end $pid
until_is "another user's, taken back" 300004 "tcp:$A.19.140:1234"
chmod 755 "$T" "$T/tree"
start unreg 300005 port 5005 user 1234 tcp 300005 until "$T/withdraw5" unreg 300005 sleep 300000
until_is "user: registered" 300005 "rdma:$A.19.141:1234 tcp:$A.19.141:1234"
: >"$T/withdraw5"
until_is "the user can take back all of its own" 300005 ""
end $pid
touch "$T/user.log"; chmod 666 "$T/user.log"
RDMARPC_LOG_FILE=$T/user.log setpriv --reuid 1234 --regid 1234 --clear-groups \
	"$run" --register "$reg" port 5006 tcp 300006 serve >/dev/null &
pid=$!
until_is "without root" 300006 "rdma:$A.19.142:1234 tcp:$A.19.142:1234"
end $pid
until_is "without root, taken back" 300006 "tcp:$A.19.142:1234"
no_guards "after users"

# --- which programs, which ports ---
"$run" --register=300008,nfs "$reg" port 5007 tcp 300007 port 5008 tcp 300008 port 2049 tcp 100003 serve >/dev/null &
pid=$!
until_is "named by number" 300008 "rdma:$A.19.144:superuser tcp:$A.19.144:superuser"
until_is "named by name, on the usual port" 100003 "rdma:$A.78.81:superuser tcp:$A.8.1:superuser"
is "not named" "$(there 300007)" "tcp:$A.19.143:superuser"
end $pid
no_guards "after names"
printf '[rule]\nrole = server\nport = 5009\nnative = 6009\ncommand = rpcreg\n[rule]\nport = 5010\nmode = tcp\n' >"$T/c.conf"
"$run" -c "$T/c.conf" --register "$reg" port 5010 tcp 300010 port 5011 tcp 300011 port 5009 tcp 300009 serve >/dev/null &
pid=$!
until_is "the rule's port" 300009 "rdma:$A.23.121:superuser tcp:$A.19.145:superuser"
until_is "no rule: the same port" 300011 "rdma:$A.19.147:superuser tcp:$A.19.147:superuser"
is "a rule that says TCP" "$(there 300010)" "tcp:$A.19.146:superuser"
is "the library is told" "$(tr '\0' '\n' </proc/$pid/environ | grep LAST_RULES)" \
	"RDMARPC_LAST_RULES=role=server port=1-65535 native=on"

# --- resolve ---
ip addr add 10.9.8.7/32 dev lo
out=$("$run" --resolve 127.0.0.1,10.9.8.7 sh -c 'echo "$RDMARPC_RULES"' 2>&1)
for a in 127.0.0.1 10.9.8.7; do
	has "resolved" "$out" "role=client address=$a port=5009 native=6009"
	has "resolved, same port" "$out" "role=client address=$a port=5011 native=5011"
done
is "not what is on TCP only" "$(grep -c 5010 <<<"$out")" 0
is "the rules are correct" "$(RDMARPC_RULES=$out "$run" true 2>&1)" ""
out=$(RDMARPC_RULES="port=9 mode=tcp" "$run" --resolve 127.0.0.1 -o mode=require sh -c 'echo "$RDMARPC_RULES"' 2>&1)
has "behind the caller's own rules" "$out" "port=9 mode=tcp; role=client address=127.0.0.1 "
has "required" "$out" "native=6009 mode=require"
end $pid
no_guards "after resolve"
start port 5012 tcp6 300012 serve
until_is "v6" 300012 "rdma6:::.19.148:superuser tcp6:::.19.148:superuser"
out=$("$run" --resolve ::1 sh -c 'echo "$RDMARPC_RULES"' 2>&1)
is "resolved over IPv6" "$out" "role=client address=::1 port=5012 native=5012"
end $pid
no_guards "after v6"
out=$("$run" --resolve 127.0.0.1 sh -c 'echo "$RDMARPC_RULES" ran' 2>&1)
has "nothing registered" "$out" "warning: --resolve 127.0.0.1: 127.0.0.1: nothing is registered for RDMA; "
has "no such host" "$("$run" --resolve no-such-host.invalid true 2>&1)" "warning: --resolve no-such-host.invalid: "

# Answers that are none, or have no end. Over RDMA there is nobody.
kill $rpcbind
wait $rpcbind
for how in junk endless; do
	/usr/bin/python3 - $how <<'P' &
import socket, struct, sys
s = socket.create_server(("127.0.0.1", 111))
c = s.accept()[0]
xid = c.recv(1000)[4:8]
if sys.argv[1] == "junk":
    c.sendall(b"\x80\0\0\x1c" + xid + struct.pack(">6I", 1, 0, 0, 0, 0, 1))
else:
    one = struct.pack(">IIII4sI4sI4s", 1, 7, 1, 3, b"tcp\0", 1, b"a\0\0\0", 1, b"b\0\0\0")
    head = xid + struct.pack(">5I", 1, 0, 0, 0, 0)
    try:
        while True:
            c.sendall(struct.pack(">I", len(head) + 1000 * len(one)) + head + 1000 * one)
            head = b""
    except OSError:
        pass
P
	liar=$!
	listens 111
	out=$(timeout 150 "$run" --resolve 127.0.0.1 sh -c 'echo "$RDMARPC_RULES" ran' 2>&1)
	has "$how" "$out" "warning: --resolve 127.0.0.1: 127.0.0.1: RPC: Can't decode result (over RDMA: "
	has "$how: the program runs" "$out" " ran"
	wait $liar
done
rpcbind -f -w >"$T/rpcbind.log" 2>&1 &
rpcbind=$!
listens 111

# --- rpcbind that goes and comes ---
start port 5013 tcp 300013 serve
until_is "before rpcbind goes" 300013 "rdma:$A.19.149:superuser tcp:$A.19.149:superuser"
kill $rpcbind
wait $rpcbind
rpcbind -f >"$T/rpcbind.log" 2>&1 &
rpcbind=$!
listens 111
until_is "rpcbind has forgotten" 300013 ""
"$reg" port 5014 tcp 300014 exit 0
sleep 1
is "nothing is put that the program has not registered" "$(there 300013)" ""
kill $rpcbind
wait $rpcbind
end $pid
no_guards "after rpcbind is gone"

# --- rpcbind that is full of what others have registered ---
rpcbind -f >"$T/rpcbind.log" 2>&1 &
rpcbind=$!
listens 111
setpriv --reuid 1234 --regid 1234 --clear-groups "$reg" fill 3000 tcp $A.1.1 400000
: >"$T/log"
start port 5015 tcp 300015 serve
until_is "beside 3000 entries" 300015 "rdma:$A.19.151:superuser tcp:$A.19.151:superuser"
out=$("$run" --resolve 127.0.0.1 sh -c 'echo "$RDMARPC_RULES"' 2>&1)
has "resolved beside 3000 entries" "$out" "role=client address=127.0.0.1 port=5015 native=5015"
end $pid
until_is "beside 3000 entries, taken back" 300015 "tcp:$A.19.151:superuser"
no_guards "beside 3000 entries"
setpriv --reuid 1234 --regid 1234 --clear-groups "$reg" fill 400 tcp $A.19.152 500000 fill 1200 rdma $A.1.1 510000
start port 5016 tcp 300016 serve
until_is "beside 400 for its own port" 300016 "rdma:$A.19.152:superuser tcp:$A.19.152:superuser"
has "too many, in the log" "$(cat "$T/log")" "warn: rpcbind: too many entries: "
is "too many, in the log once" "$(grep -c 'that matter here are ignored' "$T/log")" 1
end $pid
until_is "beside 400 for its own port, taken back" 300016 "tcp:$A.19.152:superuser"
no_guards "beside 400 for its own port"
kill $rpcbind
wait $rpcbind

# --- usage ---
for bad in --register=foo --register=0 --register= --register=1,x --resolve= --resolve=a,,b '--resolve=,'; do
	out=$("$run" $bad true 2>&1)
	is "usage: $bad" $? 125
	has "usage: $bad" "$out" "rdmarpc-run: ${bad%%=*}: '"
done
finish
