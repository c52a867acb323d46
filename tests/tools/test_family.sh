#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Whose processes rdmarpc-run --register takes for the program's: those of other users that have its mark are not.
. "$(dirname "$0")/lib-rpcbind" "$@"
reg=$BUILD/tests/tools/rpcreg
make -s BUILD="$(basename "$BUILD")" "$(basename "$BUILD")/tests/tools/rpcreg" || exit 1
mkdir "$T/tree"
cp "$BUILD/rdmarpc-run" "$BUILD/tests/native/librpcrdma_shim.so" "$reg" "$T/tree" || exit 1
chmod 755 "$T" "$T/tree"
run=$T/tree/rdmarpc-run reg=$T/tree/rpcreg
A=0.0.0.0

start() { # WORDS...: rpcreg under --register; $pid
	RDMARPC_LOG_FILE=$T/log RDMARPC_LOG_LEVEL=debug "$run" --register "$reg" "$@" >/dev/null 2>"$T/err" </dev/null &
	pid=$!
}
end() { # PID...: kill -9, without the shell's word on it
	kill -9 "$@"
	wait "$@" 2>/dev/null
}
mark_of() { tr '\0' '\n' <"/proc/$1/environ" | sed -n 's/^RDMARPC_FAMILY=//p'; }
as_user() { # UID WORDS...: rpcreg of that user, with the program's mark and library but none of its processes above it
	setpriv --reuid "$1" --regid "$1" --clear-groups env "RDMARPC_FAMILY=$mark" \
		"LD_PRELOAD=$T/tree/librpcrdma_shim.so" "RDMARPC_RULES=role=server port=1-65535 native=on" \
		"$reg" "${@:2}" >/dev/null 2>&1 </dev/null &
	copy=$!
}

rpcbind -f -w >"$T/rpcbind.log" 2>&1 &
rpcbind=$!
for ((i = 0; i < 900; i++)); do rpcinfo >/dev/null 2>&1 && break; sleep 0.1; done

# --- the mark ---
start port 5021 tcp 300021 until "$T/more" port 5022 tcp 300022 until "$T/again" port 5028 tcp 300028 serve
until_is "registered" 300021 "rdma:$A.19.157:superuser tcp:$A.19.157:superuser"
mark=$(mark_of $pid)
has "the mark is of 128 bits" "$(sed 's/[0-9a-f]\{32\}/random/' <<<"$mark")" random
other=$("$run" --register sh -c 'echo "$RDMARPC_FAMILY"')
is "each run has another" "$([ "$mark" != "$other" ] && echo differs)" differs

# --- another user with a copy of it ---
as_user 1235 port 5020 tcp 300020 serve
until_is "another user's own" 300020 "tcp:$A.19.156:1235"
: >"$T/more"	# the guard looks at all processes before it registers what comes now
until_is "the program's next" 300022 "rdma:$A.19.158:superuser tcp:$A.19.158:superuser"
is "another user's process is not adopted by its mark" "$(there 300020)" "tcp:$A.19.156:1235"
end $copy
# A registration of root's without a socket, on whose port another user listens now: nobody's.
"$reg" raw tcp $A.19.159 300023
as_user 1235 port 5023 tcp 300024 serve
until_is "another user's, on a port that was root's" 300024 "tcp:$A.19.159:1235"
: >"$T/again"
until_is "the program's third" 300028 "rdma:$A.19.164:superuser tcp:$A.19.164:superuser"
is "on a port that was root's: not adopted" "$(there 300023) $(there 300024)" "tcp:$A.19.159:superuser tcp:$A.19.159:1235"
end $copy $pid
no_guards "after copies"

# --- daemons that give up their privileges, and lose their parent at once ---
start daemon user 1234 port 5025 tcp 300025 serve
wait $pid
until_is "dropped before it listens" 300025 "rdma:$A.19.161:1234 tcp:$A.19.161:1234"
end "$(pgrep -x rpcreg)"
until_is "dropped before it listens: taken back" 300025 "tcp:$A.19.161:1234"
no_guards "after a daemon that dropped"
start daemon port 5026 tcp 300026 user 1234 serve
wait $pid
until_is "dropped after it listens" 300026 "rdma:$A.19.162:superuser tcp:$A.19.162:superuser"
end "$(pgrep -x rpcreg)"
until_is "dropped after it listens: taken back" 300026 "tcp:$A.19.162:superuser"
no_guards "after a daemon that dropped late"
# Its user may have what root has registered for a socket that root has made, and what is its own: no more.
"$reg" raw tcp $A.19.163 300027
start daemon user 1234 port 5027 tcp 300029 serve
wait $pid
until_is "the user's own" 300029 "rdma:$A.19.163:1234 tcp:$A.19.163:1234"
is "root's, for a socket that is the user's" "$(there 300027)" "tcp:$A.19.163:superuser"
end "$(pgrep -x rpcreg)"
no_guards "after what is root's"
# --- a user with more listening sockets than the guard looks at ---
ulimit -n "$(ulimit -Hn)"
setpriv --reuid 1236 --regid 1236 --clear-groups /usr/bin/python3 -c '
import resource, signal, socket
n = min(resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 50, 19000)
s = [socket.create_server(("127.0.0.1", 10000 + i)) for i in range(n)]
print("ready", flush=True)
signal.pause()' >"$T/many" &
many=$!
for ((i = 0; i < 900; i++)); do [ ! -s "$T/many" ] || break; sleep 0.1; done
is "so many sockets" "$(cat "$T/many")" ready
start port 5030 tcp 300030 serve
until_is "beside so many sockets" 300030 "rdma:$A.19.166:superuser tcp:$A.19.166:superuser"
end $pid
until_is "beside so many sockets: taken back" 300030 "tcp:$A.19.166:superuser"
end $many
no_guards "after so many sockets"
kill $rpcbind
wait $rpcbind 2>/dev/null
finish
