# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the cases, which run in the guest as root. A case prints what it finds, last a line that sums it up, and
# ends with 0, or 77 (skipped). The guest lives on: what a case starts, it ends. Whatever it finds, the
# guest's kernel must have had nothing to complain of.

set -u
. "${BASH_SOURCE[0]%/*}/../lib/wait.sh"
die() { echo "FAIL $*"; exit 1; }
skip() { echo "$*"; exit 77; }
# Bash calls this, in a process of its own, for what is no command and no function.
command_not_found_handle() { echo "FAIL $1: no such command" >&2; kill $$; return 127; }
need() { local c; for c; do command -v "$c" >/dev/null || skip "$c is not installed"; done; }

W=$(mktemp -d /run/case.XXXXXX)
chmod 711 "$W"
pids=
cleanup() {
	local p
	for p in $pids; do kill "$p" 2>/dev/null; done
	for p in $pids; do wait "$p" 2>/dev/null; done
	rm -rf "$W"
	kernel_log
}
kernel_log() {	# what the cases before have read is gone from it
	if dmesg -c | grep -E -A 30 'WARNING: CPU|BUG: |BUG at|Oops|general protection|refcount_t|blocked for more than'; then
		die "the kernel complains"
	fi
}
trap cleanup EXIT
trap 'exit 1' TERM

# background FILE COMMAND...: its output goes to FILE; its pid is in $pid
background() {
	local out=$1
	shift
	"$@" >"$out" 2>&1 </dev/null &
	pid=$!
	pids="$pids $pid"
}

# device_up: one on a dummy interface, address 10.9.0.1: soft-RoCE, or what DEVICE says (tests/vm/run CASE@siw). ib_uverbs
# comes before rdma_cm: the kernel tells the module that came last first that a device goes (docs/DEVICES.md).
DEVICE=${DEVICE:-rxe}
device_up() {
	[ ! -e /sys/class/infiniband/${DEVICE}0 ] || return 0
	modprobe ib_uverbs && case $DEVICE in rxe) modprobe rdma_rxe ;; *) modprobe "$DEVICE" ;; esac &&
		modprobe -a rdma_ucm dummy || die "the kernel has no $DEVICE"
	ip link add roce0 type dummy && ip link set roce0 mtu 9000 && ip addr add 10.9.0.1/24 dev roce0 &&
		ip link set roce0 up && rdma link add ${DEVICE}0 type $DEVICE netdev roce0 || die "no $DEVICE device"
}

# wire_up: two such devices, 10.9.1.1 and 10.9.1.2, on the ends of a veth pair, v0 and v1, and routes by which
# what one says to the other does cross it, so that it can be captured (rxe gives what is for its own MAC
# address to itself). The rules by oif are for rdma_cm, which rejects what comes from where it would not go.
wire_up() {
	local i
	[ ! -e /sys/class/infiniband/rxw0 ] || return 0
	modprobe -a rdma_rxe rdma_ucm ib_uverbs veth && ip link add v0 type veth peer name v1 || die "no veth pair"
	for i in all v0 v1; do echo 0 >/proc/sys/net/ipv4/conf/$i/rp_filter; done
	echo 1 >/proc/sys/net/ipv4/conf/all/accept_local
	for i in 0 1; do
		ip addr add 10.9.1.$((i + 1))/32 dev v$i
		ip link set v$i mtu 9000 up
	done
	ip route add 10.9.1.2 dev v0 src 10.9.1.1 table 101
	ip route add 10.9.1.1 dev v1 src 10.9.1.2 table 102
	ip rule add pref 5 oif v1 to 10.9.1.1 lookup 102
	ip rule add pref 6 oif v0 to 10.9.1.2 lookup 101
	ip rule add pref 10 iif lo to 10.9.1.2 lookup 101
	ip rule add pref 11 iif lo to 10.9.1.1 lookup 102
	ip rule add pref 100 lookup local
	ip rule del pref 0
	rdma link add rxw0 type rxe netdev v0 && rdma link add rxw1 type rxe netdev v1 || die "no rxe device"
}

# server COMMAND... and client COMMAND...: with the shim, as on two hosts: each has a boot id (the client the guest's
# own) and a run directory of its own ($W/server.run, $W/client.run), so that there is no shared memory between them.
# The server's mounts follow the guest's. If a copy of an NFS mount stayed with the server, the kernel's client would stay
# connected after umount, and would take leave of the server only when the copy goes: in the server's own exit.
# (rxe of Linux 6.1 does not work in network namespaces: its sockets are all in the first one. And without KVM
# everything takes its time, the start of a process too, so that an upgrade may have much of it.)
as_host() { # NAME COMMAND...
	local name=$1 run=$W/$1.run with
	shift
	with=(LD_PRELOAD="$BUILD/librpcrdma_shim.so${MASK:+:$BUILD/tests/vm/mask.so}" RDMARPC_RUN_DIR="$run" RDMARPC_LOG_FILE="$run.log"
		RDMARPC_LOG_LEVEL=info RDMARPC_UPGRADE_TIMEOUT_MS=20000 RDMARPC_OFFER_AFTER=0 RDMARPC_VERBS=on)
	[ -d "$run" ] || mkdir -m 1777 "$run"
	if [ "$name" = client ]; then
		(export "${with[@]}" && exec "$@")	# without env, which would be one process image more for each call
		return
	fi
	[ -e "$run.boot_id" ] || cat /proc/sys/kernel/random/uuid >"$run.boot_id"
	RUN=$run unshare -m --propagation slave \
		sh -c 'mount --bind "$RUN.boot_id" /proc/sys/kernel/random/boot_id && exec "$@"' - env "${with[@]}" "$@"
}
# masked PROFILE: from now on they have another device, which tests/vm/mask.c plays; what it refuses is in $W/mask.log
masked() {
	export MASK=$1 MASK_LOG=$W/mask.log
	: >"$MASK_LOG"
	chmod 666 "$MASK_LOG"
}
server() { as_host server "$@"; }
client() { as_host client "$@"; }
stat_of() { RDMARPC_RUN_DIR=$W/$1.run "$BUILD/rdmarpc-stat" --json; }

# --- the laboratory program (tests/apps) between the two hosts ---

PATH=$BUILD/apps:$PATH
LAB_HOST=10.9.0.1
checks=0 failures=0
bad() { echo "FAIL $*"; failures=$((failures + 1)); }

BY_VERBS='c["verbs"] >= 1 and c["tcp"] == c["shm"] == 0 and e["lost"] == 0'

# holds SIDE RULE: whether the statistics of each of its processes say so, in Python: c connections, m messages,
# e errors, u upgrade, p all of it, and `all` those of every process. What they say instead is in $differs. One Python
# judges for the whole case, as its start takes a second here.
holds() {
	local side=$1 rule=$2 said=
	differs=
	stat_of "$side" >"$W/json"
	[ -n "${JUDGE_PID:-}" ] || coproc JUDGE { exec /usr/bin/python3 -I -S -c '
import json, sys
for line in sys.stdin:
    path, rule = line.rstrip("\n").split("\t")
    try:
        seen = [p for p in json.load(open(path))["processes"] if sum(p["connections"].values())]
        bad = [p for p in seen if not eval(rule, {}, {
                   "all": seen, "p": p, "c": p["connections"], "m": p["messages"], "e": p["errors"], "u": p["upgrade"]})]
        for p in bad:
            print({k: p[k] for k in ("comm", "connections", "tcp_reasons", "messages", "errors", "upgrade")})
        print("so" if seen and not bad else "not so", flush=True)
    except Exception as e:
        print(repr(e), "not so", sep="\n", flush=True)'; }
	printf '%s\t%s\n' "$W/json" "$rule" >&"${JUDGE[1]}"
	while read -r said <&"${JUDGE[0]}"; do
		case $said in so) return 0 ;; 'not so') return 1 ;; esac
		differs+=$said$'\n'
	done
	return 1
}
# judge NAME SIDE RULE: that holds.
judge() {
	local differs
	holds "$2" "$3" && return
	bad "$1: $2: not so: $3"
	printf %s "$differs"
}
# lab NAME WANTED ARGUMENT...: labcli prints what the regular expression WANTED matches, and CLIENT holds for its statistics
lab() {
	local name=$1 want=$2
	shift 2
	checks=$((checks + 1))
	rm -rf "$W"/client.run*
	if ! ${AS:-client} timeout "${LAB_TIMEOUT:-60}" labcli $LAB_HOST 20801 "$@" >"$W/out" 2>"$W/err" || ! contains "$W/out" "$want"; then
		echo "FAIL $name: not '$want'"
		cat "$W/out" "$W/err"
		tail -n 4 "$W"/{client,server}.run.log
		failures=$((failures + 1))
	fi
	judge "$name" client "${CLIENT:-$BY_VERBS}"
}

lab_server() { # MODE [AS]
	background "$W/server.out" ${2:-server} env LAB_ADDRESS=$LAB_HOST labsvc "$1" 20801
	for ((i = 0; i < 300; i++)); do
		! listening 20801 || { await_door "$(lab_server_pid)"; return; }
		sleep 0.1
	done
	die "labsvc does not listen"
}
lab_server_pid() {
	[[ ! $(ss -Hltnp 'sport = :20801') =~ .*pid=([0-9]+) ]] || echo "${BASH_REMATCH[1]}"
}
# A server that native peers reach opens its RDMA port when it first waits, which is after listen().
await_door() { # PID
	grep -qz '^RDMARPC_RULES=.*native=' "/proc/$1/environ" || return 0
	for ((i = 0; i < 300; i++)); do
		! contains "$W/server.run.log" "\[$1\][^"$'\n'"]* native peers reach" || return 0
		sleep 0.1
	done
}
at() { echo "$SECONDS s: $*"; }	# seen of a case that fails
lab_server_kill() {	# and waits until the port is free
	kill -9 "$(lab_server_pid)" 2>/dev/null
	for ((i = 0; i < 300; i++)); do
		listening 20801 || return 0
		sleep 0.1
	done
	die "labsvc does not die"
}
lab_finish() {
	lab_server_kill
	[ $failures = 0 ] || tail -n 20 "$W"/*.log
	echo "$checks checks, $failures failed${found:+; $found}"
	exit $((failures != 0))
}
