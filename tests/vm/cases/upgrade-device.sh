#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The device goes while connections use it: both ends hear of it soon, nothing crashes or hangs, what connects
# meanwhile is on TCP. It comes back, and carries again; also in a server whose thread is, for the kernel, somebody
# else than when it began, and than when it opens another device.
# At most 600 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../loss.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up
wrong() { echo "FAIL $*"; failures=$((failures + 1)); }

lab_server poll
lab before 'null ok 5' null 5
background "$W/long" client timeout 100 labcli 10.9.0.1 20801 null 100000000
busy=$pid
background "$W/idle" client python3 -c '
import select, socket, struct
s = socket.create_connection(("10.9.0.1", 20801))
def call():
    s.sendall(struct.pack(">11I", 0x80000028, 7, 0, 2, 0x20000f10, 1, 0, 0, 0, 0, 0))
    return s.recv(100)
call()
print("carried", flush=True)
select.select([s], [], [])
try:
    got = s.recv(1)
except OSError as e:
    got = e
print("told", got, flush=True)'
idle=$pid
checks=$((checks + 2))
# PID WHAT: a process of ours, which ends in time; or this is what it does
ends() {
	local p end=$((SECONDS + 60))
	while ((SECONDS < end)); do
		kill -0 "$1" 2>/dev/null || return 0
		sleep 1
	done
	for p in $(pgrep -P "$1") "$1"; do
		echo "$p $(tr '\0' ' ' <"/proc/$p/cmdline")"
		cat "/proc/$p/syscall" "/proc/$p/stack"
		ls -l "/proc/$p/fd"
	done
	ss -tnp
	ls -R "$W"/*.run* | tail -n 40
	rdma resource show
	die "$2 does not end"
}

# Before it was carried it would be TCP's, and not be told.
limit=$((SECONDS + 60))
until holds client 'sum(x["connections"]["verbs"] for x in all if x["alive"]) == 2'; do
	((SECONDS < limit)) || die "the clients are not carried"
	sleep 0.5
done
at the device goes
rdma link delete rxe0 &
deletion=$!
ends $busy "the busy client"
[ -n "$(lab_server_pid)" ] || wrong "the server has died"
CLIENT='c["tcp"] == 1 and c["verbs"] == c["shm"] == 0' lab meanwhile 'null ok 5' null 5
at the idle client
ends $idle "the idle client"
grep -q told "$W/idle" || wrong "the idle client was not told: $(cat "$W/idle")"
# rxe cannot take a device from librdmacm, which keeps it open until its process ends
lab_server_kill
at who holds the device has ended
deletion_ends
at the device comes back
rdma link add rxe0 type rxe netdev roce0 || wrong "no new link"
rm -rf "$W"/server.run*
lab_server poll
lab after 'null ok 5' null 5
lab_server_kill
rm -rf "$W"/server.run*
lab_server fsuid
at a thread with another fsuid
lab fsuid 'null ok 5' null 5
device_away
device_elsewhere
at another device
lab fsuid-elsewhere 'sum 100000 ok' sum 100000
lab_server_kill
device_home
at home
rm -rf "$W"/server.run*
lab_server poll
lab_finish
