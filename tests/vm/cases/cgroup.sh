#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The server's control group has a limit of RDMA objects (rdma.max): connections beyond it stay on TCP and say why. One
# that has its queue pair and finds nothing left for a long message may be lost, but soon. With the limit gone the same
# server carries again, and who was there before has noticed nothing. The same for the client's group; and natively.
# At most 1200 s.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up
root=/sys/fs/cgroup
mountpoint -q $root || mount -t cgroup2 cgroup2 $root || die "no cgroup2"
grep -qw rdma $root/cgroup.controllers || skip "the kernel has no rdma cgroup"
echo +rdma >$root/cgroup.subtree_control
mkdir -p $root/limited || die "no control group"

within() { # SIDE COMMAND...: in the control group
	"$1" bash -c 'echo $$ >'$root'/limited/cgroup.procs && exec "$@"' - "${@:2}"
}
limited_server() { within server "$@"; }
limited_client() { within client "$@"; }
objects() { sed -n 's/.*hca_object=\([0-9]*\).*/\1/p' $root/limited/rdma.current; }
limit() { echo "rxe0 hca_object=$1" >$root/limited/rdma.max || die "rdma.max"; }
LIMIT='limit of RDMA objects reached (rdma.max of the cgroup)'

# one_is_there: a connection that calls all the time; its objects are $each. Its first calls go by TCP.
one_is_there() {
	local i
	background "$W/first" "$1" labcli $LAB_HOST 20801 stream 0
	for ((i = 0; i < 300; i++)); do
		each=$(objects)
		[ "${each:-0}" -le 3 ] || break
		sleep 0.1
	done
	sleep 1
	each=$(objects)
	[ "${each:-0}" -gt 3 ] || die "one connection takes '$each' objects"
}
one_goes() { kill -9 $(pgrep -x labcli); wait "$pid" 2>/dev/null; }

ended=0
# little N AS: a call of 100,000 bytes, while the control group may have no more than N objects
little() {
	limit "$1"
	checks=$((checks + 1))
	rm -rf "$W"/client.run*
	"$2" timeout 60 labcli $LAB_HOST 20801 sum 100000 >"$W/out" 2>"$W/err"
	rc=$?
	case $rc.$(tail -n 1 "$W/out") in
	0.'sum 100000 ok') ;;
	1.'sum 100000 BAD') grep -q 'Unable to' "$W/err" && ended=$((ended + 1)) || bad "$2, $1 objects: $(cat "$W/err")" ;;
	*) bad "$2, $1 objects: status $rc: $(cat "$W/out" "$W/err")" ;;
	esac
}

lab_server poll limited_server
one_is_there client
first=$pid
limit $((3 * each))
SOME='1 <= c["verbs"] <= 4 and c["verbs"] + c["tcp"] == 6 and c["shm"] == e["lost"] == 0'
CLIENT="$SOME" lab server-beyond 'conns 6 bad 0' conns 6
judge server-beyond server "c['verbs'] >= 2 and e['lost'] == 0 and p['tcp_reasons'].get('$LIMIT', 0) >= 1"
# each thing that a connection takes is once what cannot be had
for ((n = each; n < 2 * each + 2; n++)); do little $n client; done
limit max
lab server-again 'sum 100000 ok' sum 100000
kill -0 $first || bad "the first connection has ended: $(cat "$W/first")"
one_goes
lab_server_kill
rm -rf "$W"/server.run*

lab_server poll
AS=limited_client
CLIENT="$SOME and p['tcp_reasons'].get('$LIMIT', 0) >= 1"
limit $((2 * each))
lab client-beyond 'conns 6 bad 0' conns 6
for ((n = 0; n < each + 2; n++)); do little $n limited_client; done
limit max
CLIENT=$BY_VERBS lab client-again 'sum 100000 ok' sum 100000
lab_server_kill
rm -rf "$W"/server.run*

export RDMARPC_RULES='role=server port=20801 native=20901; role=client port=20801 native=20901'
lab_server poll
limit $((2 * each))
CLIENT='c["verbs"] >= 1 and c["verbs"] + c["tcp"] == 6 and e["lost"] == 0' lab native-beyond 'conns 6 bad 0' conns 6
limit max
CLIENT=$BY_VERBS lab native-again 'sum 100000 ok' sum 100000
found="one connection takes $each objects; $ended of the long calls were lost"
lab_finish
