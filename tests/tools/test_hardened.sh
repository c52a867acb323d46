#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# A hardened service: the sandbox that systemd makes of a unit, made by hand of the unit and of the drop-in that
# rdmarpc-run --unit has written, around libtirpc's server and client. In namespaces of its own, with nothing in /run.
if [ "$(id -u)" != 0 ] || ! unshare -m -n true 2>/dev/null; then
	echo "needs root and namespaces"
	exit 77
fi
[ "${1:-}" = inside ] || exec unshare -m -n -- "$0" inside
. "$(dirname "$0")/lib"
for c in jq setpriv systemd-analyze; do
	command -v $c >/dev/null || { echo "no $c"; exit 77; }
done
make -s BUILD="$(basename "$BUILD")" "$(basename "$BUILD")"/tests/tools/deny "$(basename "$BUILD")"/apps/labsvc \
	"$(basename "$BUILD")"/apps/labcli || exit 1
pid='' spaces=''
trap 'kill $pid $spaces 2>/dev/null; rm -rf "$T"' EXIT
ip link set lo up && mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run && mkdir /run/rdmarpc || exit 1
R=/run/bin	# which every user can read, and no private /tmp hides
mkdir $R
cp "$BUILD/librpcrdma_shim.so" "$BUILD/rdmarpc-run" "$BUILD/rdmarpc-stat" "$BUILD/apps/labsvc" "$BUILD/apps/labcli" \
	"$BUILD/tests/tools/deny" $R
unset RDMARPC_CONF XDG_RUNTIME_DIR
etc=$T/root/etc/systemd/system
mkdir -p "$etc"

# --- the sandbox ---
echo '#include <sys/syscall.h>' | cc -E -dM - | sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9]*\)$/nr_\1=\2/p' >"$T/numbers"
. "$T/numbers"
# number CALL: what the machine calls it, in $nr; or nothing there
number() { eval "nr=\${nr_$1:-}"; }
members() {	# a set of system calls with the sets that it names
	systemd-analyze syscall-filter "$1" 2>/dev/null | sed -n 's/^ *\([@a-z][a-z0-9_-]*\)$/\1/p' | while read -r m; do
		case $m in "$1") ;; @*) members "$m" ;; *) number "$m"; [ -z "$nr" ] || echo "$nr" ;; esac
	done
}
service=$(members @system-service | sort -nu)
# values KEY FILE...: of all lines KEY=VALUE
values() {
	key=$1
	shift
	for f; do
		while IFS= read -r line; do
			case $line in "$key="*) printf '%s\n' "${line#*=}" ;; esac
		done <"$f"
	done
}
# What deny is to do for these files. Of SystemCallFilter= it knows @system-service and ~CALL.
filter() {
	case $(values SystemCallErrorNumber "$@") in '') echo kill ;; *) echo allow ;; esac
	echo "$service"
	for c in $(values SystemCallFilter "$@" | sed -n 's/^~//p'); do
		number "$c"
		echo "$nr,0,0,0"
	done
	[ -z "$(values MemoryDenyWriteExecute "$@")" ] || echo "$nr_mmap,2,6,6 $nr_mprotect,2,4,4"
	families=" $(values RestrictAddressFamilies "$@" | tr '\n' ' ')"
	[ "$families" = ' ' ] || for f in AF_UNIX:1 AF_INET:2 AF_INET6:10 AF_NETLINK:16 AF_PACKET:17 AF_ALG:38 AF_VSOCK:40; do
		case $families in *" ${f%:*} "*) ;; *) printf '%s,0,ffffffff,%x,97\n' "$nr_socket" "${f#*:}" ;; esac
	done
}
# The file systems: all read-only but these, below which systemd's strict leaves all writable.
cat >"$T/strict" <<'S'
mount --make-rprivate / || exit 90
for w in $WRITABLE; do
	mount --bind "$w" "$w" || exit 91
done
mount -t tmpfs -o mode=1777 tmpfs /tmp && mount -t tmpfs -o mode=1777 tmpfs /var/tmp || exit 92
while read -r _ at _; do
	case " $WRITABLE /proc /dev /sys /tmp /var/tmp " in *" $at "*) continue ;; esac
	case $at in /proc/* | /dev/* | /sys/* | /tmp/* | /var/tmp/*) continue ;; esac
	mount -o remount,bind,ro "$at" || exit 93
done </proc/self/mounts
cd / && exec "$@"
S
cp "$T/strict" $R
# sandbox FILE... -- COMMAND...: becomes it, as systemd would start it by the unit and its drop-ins; $filter is what
# deny is to do, where that is known
filter=
sandbox() {
	files=
	while [ "$1" != -- ]; do files="$files $1"; shift; done
	shift
	# shellcheck disable=SC2046,SC2086 # words
	set -- "$R/deny" ${filter:-$(filter $files)} -- env -i PATH="$PATH" $(values Environment $files | tr -d '"') "$@"
	# shellcheck disable=SC2086
	[ -z "$(values DynamicUser $files)" ] || set -- setpriv --reuid=61234 --regid=61234 --clear-groups "$@"
	[ -z "$space" ] || exec nsenter --mount="/proc/$space/ns/mnt" --wdns=/ setpriv --no-new-privs "$@"
	# shellcheck disable=SC2086
	strict $files -- setpriv --no-new-privs "$@"
}
# strict FILE... -- COMMAND...: becomes it, with the file systems that these files let it have
strict() {
	WRITABLE=
	while [ "$1" != -- ]; do
		for w in $(values ReadWritePaths "$1" | tr -d '"'); do
			[ ! -e "${w#-}" ] || WRITABLE="$WRITABLE ${w#-}"
		done
		shift
	done
	shift
	export WRITABLE
	exec unshare -m sh $R/strict "$@"
}
# keep_space FILE...: keeps such file systems for many services; $kept is for $space, by which a service gets them
space=
keep_space() {
	(strict "$@" -- sleep 10000) &
	kept=$! spaces="$spaces $!"
	until [ "$(cat "/proc/$kept/comm")" = sleep ]; do kill -0 "$kept" || exit 1; sleep 0.05; done
}

# --- services ---
cat >"$etc/hard.service" <<E
[Service]
ExecStart=$R/labsvc svcrun 20801
DynamicUser=yes
ProtectSystem=strict
PrivateTmp=yes
SystemCallFilter=@system-service
RestrictAddressFamilies=AF_INET AF_INET6
MemoryDenyWriteExecute=yes
E
unit=$etc/hard.service
$R/rdmarpc-run --unit=hard --root="$T/root" --install -o upgrade_timeout_ms=30000 -o offer_after=0 >/dev/null
dropin=$T/rdmarpc.conf	# the unit's files are what a case says
mv "$etc/hard.service.d/rdmarpc.conf" "$dropin"
grep -v DynamicUser "$unit" >"$T/root.service"

start() {	# FILE...: a service by these files; its process is $pid
	(sandbox "$@" -- $R/labsvc svcrun 20801 >"$T/out" 2>&1) &
	pid=$!
	n=0
	until has_listener 20801; do
		n=$((n + 1))
		if [ $n = 400 ] || ! kill -0 $pid 2>/dev/null; then cat "$T/out"; return; fi
		sleep 0.05
	done
}
stop() {	# $T/status: its exit status: 143 after SIGTERM, 159 if the filter has killed it
	kill "$pid" 2>/dev/null
	wait "$pid"
	echo "$? $(cat "$T/out")" >"$T/status"
	pid=
}
# A client with the library, which root has started: its answer; $made calls
call() {
	timeout 60 $R/rdmarpc-run -o upgrade_timeout_ms=30000 $R/labcli 127.0.0.1 20801 "$@" 2>"$T/made"
	made=$(tr -dc 0-9 <"$T/made")
}
stat_of() { $R/rdmarpc-stat --json "$1" | jq -c ".processes[0] | $2"; }
ended='[.connections.shm, .connections.tcp, .rpcs.calls_received, .errors.lost]'
segments() { find /run/rdmarpc -name "$pid.*" | wc -l; }

# A service that the sandbox is made for has it.
python=/usr/bin/python3
cat >"$R/probe" <<'P'
import errno, mmap, os, socket
def says(what, f):
    try:
        f()
        print(what, 0, flush=True)
    except OSError as e:
        print(what, errno.errorcode[e.errno], flush=True)
print(os.getuid(), os.listdir("/tmp"), os.listdir("/var/tmp"), flush=True)
says("etc", lambda: open("/etc/x", "w"))
says("run", lambda: open("/run/x", "w"))
says("ours", lambda: os.open("/run/rdmarpc", os.O_TMPFILE | os.O_RDWR))
says("unix", lambda: socket.socket(socket.AF_UNIX))
says("inet", lambda: socket.socket(socket.AF_INET))
says("wx", lambda: mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC))
says("chroot", lambda: os.chroot("/"))
P
probe() { (sandbox "$@" -- $python $R/probe 2>/dev/null); echo "$?"; }
is "the unit's sandbox" "$(probe "$unit" | tr '\n' ' ')" \
	"61234 [] [] etc EROFS run EROFS ours EROFS unix EAFNOSUPPORT inet 0 wx EPERM 159 "
echo SystemCallErrorNumber=EPERM >"$T/errors.conf"
grep -v LD_PRELOAD "$dropin" >"$T/bare.conf"
is "with what the drop-in adds, and as root" "$(probe "$T/root.service" "$T/bare.conf" "$T/errors.conf" | tr '\n' ' ')" \
	"0 [] [] etc EROFS run EROFS ours 0 unix 0 inet 0 wx EPERM chroot EPERM 0 "

# --- carried, though the filter kills ---
start "$unit" "$dropin"
is "hardened: answers" "$(call sum 100000; call big 1000000; call threads 4)" "sum 100000 ok
big 1000000 ok
threads 4 calls 800 bad 0"
is "hardened: all by shared memory" "$(stat_of "$pid" "$ended | .[2] > 800, .[1], .[3]" | tr '\n' ' ')" "true 0 0 "
is "as a user of its own: root sees it, in memory" "$(stat_of "$pid" '[.uid, .alive, .comm]') $(segments)" \
	'[61234,true,"labsvc"] 0'
before=$(stat_of "$pid" .rpcs.calls_received)
answer=$(call sizes)
call sizes >/dev/null
is "each call that the client made has gone by RDMA" "$answer $(stat_of "$pid" .rpcs.calls_received)" \
	"sizes ok $((before + 2 * made))"
stop
is "the filter had nothing to kill" "$(cat "$T/status")" "143 "

start "$T/root.service" "$dropin"
is "of root: answers" "$(call sum 100000)" "sum 100000 ok"
is "of root: carried" "$(stat_of "$pid" "$ended")" "[1,0,1,0]"
is "of root: statistics in the run directory" "$(segments)" 1
stop
is "of root: the filter had nothing to kill" "$(cat "$T/status")" "143 "

# The client, too.
start "$unit" "$dropin"
is "both ends hardened" "$( (sandbox "$unit" "$dropin" -- timeout 60 $R/labcli 127.0.0.1 20801 threads 2) 2>/dev/null; echo $?)" \
	"threads 2 calls 400 bad 0
0"
is "both ends hardened: carried" "$(stat_of "$pid" "$ended | .[0] >= 2, .[1], .[2] >= 400, .[3]" | tr '\n' ' ')" "true 0 true 0 "
stop

# --- what the drop-in adds is needed ---
grep -v ReadWritePaths "$dropin" >"$T/less.conf"
start "$T/root.service" "$T/less.conf"
is "without ReadWritePaths: carried" "$(call sum 100000) $(stat_of "$pid" "$ended")" "sum 100000 ok [1,0,1,0]"
is "without ReadWritePaths: statistics in memory" "$(segments)" 0
stop
grep -v RestrictAddressFamilies "$dropin" >"$T/less.conf"
start "$unit" "$T/less.conf"
is "without AF_UNIX: on TCP" "$(call sum 100000) $(stat_of "$pid" "$ended")" "sum 100000 ok [0,1,0,0]"
is "without AF_UNIX: the reason" "$(stat_of "$pid" '.tcp_reasons | keys')" '["provider cannot reach the peer"]'
stop
is "without AF_UNIX: it lives on" "$(cat "$T/status")" "143 "

# --- one more is forbidden, with an error: each call of the library's that the service can do without ---
carried='' left='' unknown=''
keep_space "$T/root.service"
without=$kept without_allows=$(filter "$T/root.service" "$T/errors.conf")
keep_space "$T/root.service" "$dropin"
kept_allows=$(filter "$T/root.service" "$dropin" "$T/errors.conf")
for c in $(sed -n '/^<!-- system calls -->/,/^$/p' docs/OPERATIONS.md | grep -E '^[a-z]' | xargs); do
	number "$c"
	[ -n "$nr" ] || continue	# of another machine
	space=$without filter="$without_allows $nr,0,0,0"	# as by SystemCallFilter=~$c
	start "$T/root.service" >/dev/null
	answer=$(timeout 60 $R/labcli 127.0.0.1 20801 sum 100000 2>/dev/null)
	stop
	[ "$answer" = "sum 100000 ok" ] || continue
	space=$kept filter="$kept_allows $nr,0,0,0"
	start "$T/root.service" "$dropin"
	is "without $c: answers" "$(call sum 100000)" "sum 100000 ok"
	seen=$(stat_of "$pid" "$ended" 2>/dev/null)
	stop
	is "without $c: it lives on" "$(cat "$T/status")" "143 "
	case $seen in
	'[1,0,1,0]') carried="$carried $c" ;;
	'[0,1,0,0]' | '[0,0,0,0]') left="$left $c" ;;
	'[null,null,null,null]') unknown="$unknown $c" ;;	# no statistics then
	*) is "without $c: carried, or on TCP" "$seen" "one of the two" ;;
	esac
done
for c in memfd_create fstatfs recvmsg sendmsg connect ppoll; do
	has "on TCP" "$left " " $c "
done
for c in getrandom kill unlink waitid; do
	has "carried" "$carried " " $c "
done
echo "carried without$carried; on TCP without$left; no statistics without$unknown"
finish
