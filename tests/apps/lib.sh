# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the scripts beside this file; tests/apps/run starts them. A script starts an unmodified server
# and puts unmodified clients to it:
#
#	. "${0%/*}/lib.sh"
#	server labsvc svcrun 20801; waitport 20801
#	check null 'null ok 5' labcli $HOST 20801 null 5
#	finish
#
# LEG says who has the shim: tcp (nobody), both, server, client. In each leg the answers must be right
# and those of leg tcp; the shim's own counters must say that in leg both everything was carried, and
# in the others nothing. A script runs in its own network, mount, PID and UTS namespaces with /run its
# own: ports are free and nothing stays behind.
#
# A fifth leg, verbs, is for the guest of tests/vm: as both, but client and server have no memory in common, and
# an RDMA device at VERBS_HOST is what carries. No network namespace: rxe of Linux 6.1 knows the first one only.
# DIALECT: what servers and clients speak; every connection that is carried must have spoken it.
# A sixth, native, is for scripts that call native_rules: as both, with the library of tests/native.
# CAPTURE=rpc or rdma (leg both): rdmarpc-dump --as that captures the server from the first check on, and finish
# has tshark find each call that was carried, with its reply. SHARK: how tshark is to run, FIND: packets that must be there.
#
# There are two thousand checks, so what each of them takes is left to bash where bash can do it: a process takes 6 ms of CPU.

LEG=${LEG:-tcp}
if [ -z "${IN_NAMESPACES:-}" ]; then
	[ "$LEG" = verbs ] && net= || net=-n
	IN_NAMESPACES=1 exec unshare -u $net -m -p -f --mount-proc --kill-child bash "$0" "$@"
fi

NAME=${0##*/} NAME=${CASE:-${NAME%.sh}}
HERE=$(cd "${BASH_SOURCE[0]%/*}" && pwd)
[ "${BUILD:0:1}" = / ] || BUILD=$(cd "$HERE/../.." && realpath "${BUILD:-build}")
SHIM=$BUILD/librpcrdma_shim.so
[ "$LEG" != native ] || SHIM=$BUILD/tests/native/librpcrdma_shim.so
export PATH=$BUILD/apps:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin

. "$HERE/../lib/wait.sh"
. "$HERE/../lib/shark.sh"

skip() { echo "$*"; exit 77; }
die() { echo "FAIL $*"; exit 1; }

# need COMMAND...: skips the script if one is not installed
need() {
	local c
	for c; do command -v "$c" >/dev/null || skip "$c is not installed"; done
}

ip link set lo up || die "no network namespace"
mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run &&
	mount -t tmpfs -o mode=1777 tmpfs /dev/shm || die "no mount namespace"
W=/run/test
mkdir -p $W/stat /run/rpcbind
# The run directories of the server and of clients, one for each check, of which few scripts have more.
mkdir -m 1777 $W/san $W/stat/server $W/stat/client.{0..31}
: >$W/carried
: >$W/snapshots

# With a library built with SAN= the programs get the sanitizer's own as well. What they leak, and
# where they race, is theirs.
. "$HERE/../san/env.sh"
[ -n "${SAN_RUNTIME+known}" ] || SAN_RUNTIME=$(san_runtime "$SHIM")
PRELOAD=$SHIM${SAN_RUNTIME:+:$SAN_RUNTIME}
ASAN_EXTRA=detect_leaks=0 TSAN_EXTRA=ignore_noninstrumented_modules=1 SAN_SUPP=$HERE/../san/tsan.supp san_env $W/san

if [ -n "${DIALECT:-}" ]; then
	export RDMARPC_DIALECT=$DIALECT RDMARPC_LOG_LEVEL=info RDMARPC_LOG_FILE=$W/log
	install -m 666 /dev/null $W/log
fi

HOST=127.0.0.1
server_env=() client_env=()
case $LEG in both | verbs | native | server) server_env=(LD_PRELOAD="$PRELOAD" RDMARPC_RUN_DIR="$W/stat/server") ;; esac

export RDMARPC_OFFER_AFTER=${OFFER_AFTER:-0}	# carried from the first byte, so that all calls can be counted
export RDMARPC_UPGRADE_TIMEOUT_MS=20000	# a busy machine takes its time, and an interpreted guest, too

# Another host is one with another boot id.
client_host=()
if [ "$LEG" = verbs ]; then
	HOST=${VERBS_HOST:-10.9.0.1}
	export RDMARPC_VERBS=on
	boot_id=/proc/sys/kernel/random/boot_id
	cat /proc/sys/kernel/random/uuid >$W/boot_id
	client_host=(unshare -m sh -c "mount --bind $W/boot_id $boot_id && exec \"\$@\"" -)
fi
export LAB_ADDRESS=$HOST

# native_rules SERVER CLIENT: rules (RDMARPC_RULES) of servers and clients that are started from now on
client_rules=
native_rules() {
	server_env+=(RDMARPC_RULES="$1")
	client_rules=$2
}

# server COMMAND...: the server under test, in the background; its pid is in $spid
server() {
	env "${server_env[@]}" "$@" >>$W/server.log 2>&1 &
	spid=$!
	disown $spid
}

# helper COMMAND...: something that the test needs, never with the shim
helper() {
	"$@" >>$W/helper.log 2>&1 &
	disown $!
}

# await COMMAND...: until it succeeds; false: it took too long
await() {
	local i
	for ((i = 0; i < 1800; i++)); do
		"$@" && return
		sleep 0.1
	done
	return 1
}

rpcbind_knows() { rpcinfo -p 127.0.0.1 2>/dev/null | grep -Eq "^ *$1 +$2 +tcp "; }

# waitport PORT: until somebody listens there (no connection is made)
waitport() {
	await listening "$1" && return
	tail -n 20 $W/server.log $W/ganesha.log $W/helper.log 2>/dev/null
	die "nobody listens on port $1"
}

# waitdoor PORT: until native peers find that RDMA port, which a server opens when it first waits: after listen(), and
# where it is a daemon in another process. In tests/native it is a socket of that name.
has_door() { ss -Hlx | grep -q "@rdmarpc-test-$1 "; }
waitdoor() {
	await has_door "$1" || die "RDMA port $1 is not open"
}

# registered PROGRAM VERSION: until rpcbind, a helper, knows it by TCP
registered() {
	await rpcbind_knows "$1" "$2" || die "program $1 version $2 is not registered"
}

judge() { /usr/bin/python3 -I -S "$HERE/judge.py" "$@"; }
snapshot() { RDMARPC_RUN_DIR=$1 "$BUILD/rdmarpc-stat" --json; }

checks=0 failures=0

# A script that ends in any other way than by finish, skip or die has not looked at all that it should.
cut_short() {
	local rc=$?
	[ $rc = 0 ] || exit $rc
	echo "the script ended before its finish, after $checks checks"
	exit 1
}
trap cut_short EXIT

fail() {
	failures=$((failures + 1))
	echo "FAIL $NAME/$LEG/$1: $2"
	[ -z "${3:-}" ] || { echo "--- stdout"; head -n 15 "$3" | cut -c1-200; }
	[ ! -s $W/err ] || { echo "--- stderr"; head -n 15 $W/err | cut -c1-200; }
}

# Whether REGEX matches what was printed, or a part of it between two NUL characters.
printed() { # REGEX
	local parts part
	mapfile -d '' -t parts <$W/out
	for part in "${parts[@]}"; do
		[[ ! $part =~ $1 ]] || return 0
	done
	return 1
}

# check NAME REGEX COMMAND...: the command, as a client, exits with WANT_RC (0) and prints something
# that REGEX ('': anything) matches; as in leg tcp, unless VARIES=1. What the shim is asked to have
# carried: exactly the calls that the client says it made ("calls N" on stderr), else at least one.
# EXPECT=tcp: nothing even in leg both; EXPECT=any: not judged. ALLOW: reasons (as in reasons.def) for
# which connections to others than the server under test may be on TCP.
check() {
	local n=$1 regex=$2 rc=0 out=$W/out dir=$W/stat/client.$checks
	shift 2
	[ -z "${CAPTURE:-}" ] || go_on_capturing
	checks=$((checks + 1))
	client_env=()
	[ -d "$dir" ] || mkdir -m 1777 "$dir"
	case $LEG in both | verbs | native | client)
		client_env=(LD_PRELOAD="$PRELOAD" RDMARPC_RUN_DIR="$dir" ${client_rules:+RDMARPC_RULES="$client_rules"}) ;;
	esac
	timeout "${TMO:-150}" "${client_host[@]}" env "${client_env[@]}" "$@" >$out 2>$W/err </dev/null || rc=$?
	if [ $rc != "${WANT_RC:-0}" ]; then
		fail "$n" "exit status $rc" $out
	elif [ -n "$regex" ] && ! printed "$regex"; then
		fail "$n" "the output does not match /$regex/" $out
	elif [ -n "${ANSWERS:-}" ] && [ -z "${VARIES:-}" ] && ! same_answer "$n"; then
		fail "$n" "the answer differs from the one over TCP" $out
	else
		note_client "$n" "$dir"
	fi
}

same_answer() {
	local kept=$ANSWERS/$NAME.$1
	if [ "$LEG" = tcp ]; then cp $W/out "$kept"; else [ ! -f "$kept" ] || cmp -s $W/out "$kept"; fi
}

# What finish judges of the client of a check ($counters), and of the server: Python starts once, not for each check.
note_client() {
	local made=some line
	[ "${EXPECT:-}" != any ] || return 0
	case $LEG in both | verbs | native | client)
		while read -r line; do [[ ! $line =~ ^calls\ ([0-9]+)$ ]] || made=${BASH_REMATCH[1]}; done <$W/err
		counters=$2.json
		snapshot "$2" >"$counters" 2>>$W/err
		printf '%s\t' "$1" "${EXPECT:-carried}" "$made" "${ALLOW:-}" >>$W/clients
		echo "$counters" >>$W/clients
	esac
	case $LEG in both | verbs | native | server) snapshot $W/stat/server >>$W/snapshots 2>>$W/err; echo >>$W/snapshots ;; esac
}
judge_clients() {
	local name why
	[ -s $W/clients ] || return 0
	: >$W/err
	judge clients "$LEG" $W/clients $W/carried >$W/verdicts 2>&1 || fail clients "$(cat $W/verdicts)"
	while IFS=$'\t' read -r name why; do fail "$name" "$why"; done < <(grep $'\t' $W/verdicts)
}

# local_check NAME COMMAND...: something about the result that involves no RPC
local_check() {
	local n=$1
	shift
	checks=$((checks + 1))
	"$@" >$W/out 2>$W/err || fail "$n" "failed: $*" $W/out
}

# How many calls, or replies, the clients of all checks sent, or were sent, as RPC-over-RDMA.
messages() { # WHAT
	local line n=0
	while read -r line; do
		[[ $line =~ \"$1_sent\":\ ([0-9]+) ]] && n=$((n + BASH_REMATCH[1]))
		[[ $line =~ \"$1_received\":\ ([0-9]+) ]] && n=$((n + BASH_REMATCH[1]))
	done <$W/carried
	echo $n
}

# Servers may still be busy: with what clients have not waited for, or with each other.
judge_server() {
	local i
	[ "${SERVER_EXPECT:-}" != any ] || return 0
	for ((i = 0; i < 300; i++)); do
		judge server "${SERVER_LEG:-$LEG}" "${SERVER_EXPECT:-carried}" "${SERVER_ALLOW:-}" $W/carried ${SERVER_COUNTS:-} \
			<$W/snapshots >$W/verdict 2>&1 && return 0
		sleep 0.1
		snapshot $W/stat/server >>$W/snapshots 2>>$W/err
	done
	return 1
}

# What the log says of each connection that was carried, and rdmarpc-stat of those that it has seen.
spoke() {
	local others
	grep -q "carried, .*, $DIALECT\$" $W/log || { echo "no connection spoke $DIALECT"; return 1; }
	others=$(grep "carried, [a-z]*, " $W/log | grep -v ", $DIALECT\$"
		 grep -o '"dialect":"[^"]*"' $W/snapshots | grep -v -e '""' -e "\"$DIALECT\"")
	[ -z "$others" ] || { echo "not $DIALECT: $others"; return 1; }
}

# Of all processes with the library whose statistics are the server's. What there was before the first check has been
# asked for its packets when the file has its header.
dump=
begin_capture() {
	need tshark
	await eval 'snapshot $W/stat/server | grep -q "\"pid\":"' || die "no server to capture"
	RDMARPC_RUN_DIR=$W/stat/server "$BUILD/rdmarpc-dump" --as=$CAPTURE -B 65536 -w $W/cap 2>$W/dump.err &
	dump=$!
	await test -s $W/cap || die "no capture: $(cat $W/dump.err)"
}
# A ring is mapped when all its memory is there: until then little of it may be filled. The first check sends little, and
# whatever is captured of it makes the ring.
capturing() { grep -q rdmarpc-capture /proc/$dump/maps; }
go_on_capturing() {
	[ -n "$dump" ] || { begin_capture; return; }
	await capturing || die "nobody captures"
}
shark() {
	tshark -o tcp.try_heuristic_first:TRUE -o rpc.dissect_unknown_programs:TRUE -o rpc.max_tcp_pdu_size:16777216 ${SHARK:-} \
		-r $W/cap "$@" 2>/dev/null
}

# As many calls and replies as the clients count in both directions, each reply with its call, and nothing that tshark does
# not understand. 100417 are calls of the dialect draft02's own.
captured() {
	local want calls replies bad found unknown='_ws.malformed || tcp.analysis.flags || rpc.fragment.error || rpcordma.fragment.error'
	kill -TERM $dump && wait $dump || { echo "rdmarpc-dump: status $?"; return 1; }
	grep -q ' 0 packets dropped' $W/dump.err || { cat $W/dump.err; return 1; }
	want="$(messages calls) $(messages replies)"
	# In one run, as tshark starts for longer than it reads: fields of each message, and last a line with counts of packets.
	read -r calls replies bad found < <(shark -Y 'rpc && rpc.program != 100417' -T fields -E occurrence=f -e rpc.msgtyp -e rpc.time \
		-e rpc.repframe -z "io,stat,0,$unknown,${FIND:-rpc}" | awk -F'\t' '
		/ <> / { split($0, column, "|"); bad = column[3] + 0; found = column[5] + 0 }
		$1 == "0" { calls++ }
		$1 == "1" && $2 $3 != "" { replies++ }
		END { print calls + 0, replies + 0, bad, found }')
	[ "$calls $replies" = "$want" ] || { echo "calls and replies in the capture: $calls $replies; carried: $want"; return 1; }
	[ "$bad" = 0 ] || { echo "malformed:"; shark -Y "$unknown" | head -n 5; return 1; }
	[ "$found" != 0 ] || { echo "no packet with ${FIND:-rpc}"; return 1; }
}

# finish: the server's counters, what must not be left, the verdict, and how many calls the clients' counters say were
# carried (in leg verbs by the device: judge.py)
finish() {
	local calls=
	judge_clients
	case $LEG in both | verbs | native | server)
		checks=$((checks + 1))
		judge_server || fail server-counters "$(cat $W/verdict)"
	esac
	case $LEG in both | verbs | native) calls=", $(messages calls) calls carried" ;; esac
	[ -z "${DIALECT:-}" ] || local_check dialect spoke
	[ -z "$dump" ] || local_check "capture as $CAPTURE" captured
	! san_reports $W/san || fail sanitizer "see above"
	[ -z "$(ls -A /dev/shm)" ] || fail shm "left in /dev/shm: $(ls -A /dev/shm)"
	[ $failures = 0 ] || { echo "--- server log"; cat $W/server.log $W/ganesha.log 2>/dev/null | tail -n 10 | cut -c1-200; }
	conclude "$calls"
}

# conclude [TEXT]: the last line, and the exit status; finish, or who has judged by itself, ends with it.
conclude() {
	echo "$((checks - failures)) of $checks checks${1:-}"
	trap - EXIT
	[ $failures = 0 ] && [ $checks != 0 ]
	exit
}
