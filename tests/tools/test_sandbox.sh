#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Under seccomp: each system call of the library's, forbidden, leaves connections carried or on TCP, and all of them are in
# docs/OPERATIONS.md and in systemd's @system-service; and a hardened service's sandbox, set up by hand.
. "$(dirname "$0")/lib"
trap 'rm -rf "$T"' EXIT
pair=$BUILD/tests/tools/rpcpair
deny=$BUILD/tests/tools/deny
RDMARPC_RUN_DIR=$T/run
RDMARPC_UPGRADE_TIMEOUT_MS=30000
export RDMARPC_RUN_DIR RDMARPC_UPGRADE_TIMEOUT_MS
mkdir -m 1777 "$T/run"
chmod 755 "$T"
"$deny" 9999 -- true || { echo "no seccomp here"; exit 77; }
echo '#include <sys/syscall.h>' | cc -E -dM - | sed -n 's/^#define __NR_\([a-z0-9_]*\) \([0-9]*\)$/\1 \2/p' >"$T/numbers"
number() { sed -n "s/^$1 //p" "$T/numbers"; }
calls=$(sed -n '/^<!-- system calls -->/,/^$/p' docs/OPERATIONS.md | grep -E '^[a-z]' | tr -s ' \n' ' ')
# pair [VAR=value]... [-- RULE...]: with the library, in the sandbox
with() {
	vars=
	while [ "$1" != -- ]; do vars="$vars $1"; shift; done
	shift
	# shellcheck disable=SC2086
	timeout 120 "$deny" "$@" -- env $vars LD_PRELOAD="$BUILD/librpcrdma_shim.so" "$pair" 2>&1
	echo "$?"
}

# --- each of them ---
tried=0
for c in $calls; do
	nr=$(number "$c")
	[ -n "$nr" ] || continue	# of another machine
	timeout 60 "$deny" "$nr" -- env "$pair" >/dev/null 2>&1 </dev/null || continue	# programs need it themselves
	tried=$((tried + 1))
	is "$c is forbidden" "$(with -- "$nr" | tr '\n' ' ')" "done 0 "
	is "$c is forbidden, calls go by TCP first" "$(with RDMARPC_OFFER_AFTER=2 -- "$nr" | tr '\n' ' ')" "done 0 "
done
is "enough of them are not the program's own: $tried" "$([ "$tried" -ge 15 ] && echo yes)" yes
unix_af="$(number socket),0,ffffffff,1,97"
is "no AF_UNIX: on TCP" "$(with -- "$unix_af" | tr '\n' ' ')" "done 0 "
is "which mode require shows" "$(with RDMARPC_MODE=require -- "$unix_af" | tail -n 1 | grep -c '^0$')" 0
is "no memory to share: on TCP" "$(with -- "$(number memfd_create)" | tr '\n' ' ')" "done 0 "
is "which mode require shows, too" "$(with RDMARPC_MODE=require -- "$(number memfd_create)" | tail -n 1 | grep -c '^0$')" 0

# --- the list ---
if command -v strace >/dev/null; then
	names() { sed -n 's/^[0-9]* *\([a-z_0-9]*\)(.*/\1/p; s/^[0-9]* <\.\.\. \([a-z_0-9]*\) resumed.*/\1/p' "$1" | sort -u; }
	strace -f -qq -o "$T/plain" "$pair" >/dev/null
	strace -f -qq -E LD_PRELOAD="$BUILD/librpcrdma_shim.so" -o "$T/shim" "$pair" >/dev/null
	names "$T/plain" >"$T/plain.names"
	names "$T/shim" >"$T/shim.names"
	for c in $(comm -13 "$T/plain.names" "$T/shim.names"); do
		has "docs/OPERATIONS.md lists $c" " $calls " " $c "
	done
fi
if command -v systemd-analyze >/dev/null; then
	# A set with those that it names.
	members() {
		systemd-analyze syscall-filter "$1" 2>/dev/null | sed -n 's/^ *\([@a-z][a-z0-9_-]*\)$/\1/p' | while read -r m; do
			case $m in "$1") ;; @*) members "$m" ;; *) echo "$m" ;; esac
		done
	}
	members @system-service | sort -u >"$T/service"
	for c in $calls; do
		is "@system-service has $c" "$(grep -cx "$c" "$T/service")" 1
	done
	allowed=$(while read -r c; do number "$c"; done <"$T/service")
	# MemoryDenyWriteExecute: nothing writable and executable, nothing made executable.
	wx="$(number mmap),2,6,6 $(number mprotect),2,4,4"
	# shellcheck disable=SC2086
	is "a hardened service: carried" "$(with RDMARPC_MODE=require -- allow $allowed $wx | tr '\n' ' ')" "done 0 "
	# shellcheck disable=SC2086
	is "without AF_UNIX: on TCP" "$(with -- allow $allowed $wx $unix_af | tr '\n' ' ')" "done 0 "
	if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
		# ProtectSystem=strict, PrivateTmp, DynamicUser.
		cat >"$T/strict" <<'S'
mount --make-rprivate / && mount --bind / / && mount -o remount,bind,ro / && mount -t tmpfs tmpfs /dev/shm || exit 90
shift 0
exec setpriv --reuid=61234 --regid=61234 --clear-groups --no-new-privs "$@"
S
		# shellcheck disable=SC2086
		out=$(timeout 120 unshare -m sh "$T/strict" "$deny" allow $allowed $wx -- env RDMARPC_MODE=require RDMARPC_RUN_DIR=/run/no \
			LD_PRELOAD="$BUILD/librpcrdma_shim.so" "$pair" 2>&1)
		is "and with a file system that is read-only, as another user" "$?:$out" "0:done"
	fi
fi
finish
