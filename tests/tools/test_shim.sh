#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# What an operator sees of an ordinary program with the library: configuration, log, statistics,
# --stop, diagnostics.
. "$(dirname "$0")/lib"
trap 'rm -rf "$T"' EXIT
[ -e "$BUILD/librpcrdma_shim.so" ] || { echo "librpcrdma_shim.so is not built"; exit 1; }
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }
make -s BUILD="$(basename "$BUILD")" "$(basename "$BUILD")/tests/tools/rpcpair" || exit 1
pair=$BUILD/tests/tools/rpcpair
RDMARPC_RUN_DIR=$T/run
RDMARPC_LOG_FILE=$T/log
export RDMARPC_RUN_DIR RDMARPC_LOG_FILE

# shim [VAR=value]... -- ARGS...: runs the pair with the library, from no segments and no log.
shim() {
	rm -rf "$T/run" "$T/log"
	mkdir -m 1777 "$T/run"
	vars=
	while [ "$1" != -- ]; do
		vars="$vars $1"
		shift
	done
	shift
	out=$(env $vars LD_PRELOAD="$BUILD/librpcrdma_shim.so" timeout 60 "$pair" "$@" 2>&1)
	is "status of: $vars $*" "$?" 0
	log=$(cat "$T/log" 2>/dev/null)
}
show() { "$BUILD/rdmarpc-stat" --json | jq -c "$1"; }

shim --
is "nothing is printed" "$out" "done"
is "nothing is logged when all is well" "$log" ""
is "carried, both ends" "$(show '.processes[].connections')" '{"shm":2,"verbs":0,"tcp":0}'
is "all calls went by RDMA" "$(show '.processes[].rpcs')" \
	'{"calls_sent":10,"calls_received":10,"replies_sent":10,"replies_received":10}'
is "the process ended in order" "$(show '.processes[] | [.comm, .alive, .ended]')" '["rpcpair",false,true]'

shim -- none
is "no segment without a socket" "$(ls "$T/run")" ""
shim -- udp
is "no segment without a TCP socket" "$(ls "$T/run")" ""

shim RDMARPC_CREDITS=many RDMARPC_CREDIT=5 --
is "a wrong value: the program runs" "$out" "done"
has "a wrong value is logged" "$log" " error: option 'RDMARPC_CREDITS': 'many' is not a number (allowed: 1..1024); using default '64'"
has "an unknown variable is logged" "$log" " error: environment: unknown RDMARPC_CREDIT, did you mean RDMARPC_CREDITS?; ignored"
printf 'spin_us = 1h\n[rule]\nport = x\nmode = tcp\n' >"$T/bad.conf"
shim RDMARPC_CONF="$T/bad.conf" --
is "a wrong file: the program runs" "$out" "done"
has "a wrong file is logged with line and column" "$log" "$T/bad.conf:1:11: option 'spin_us': '1h' is not a time"
has "so is a wrong rule" "$log" "$T/bad.conf:3:8: key 'port': 'x' is not a port"
shim RDMARPC_CONF="$T/absent.conf" --
has "a missing file that was asked for" "$log" "$T/absent.conf: no such file; using defaults"

# Another interposer behind the library, whichever table its names are in: what the library calls next is its function.
cat >"$T/behind.c" <<'EOF'
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>
int socket(int domain, int type, int protocol)
{
	syscall(SYS_mkdirat, AT_FDCWD, getenv("MARK"), 0700);
	return syscall(SYS_socket, domain, type, protocol);
}
EOF
for style in gnu sysv both; do
	"${CC:-cc}" -shared -fPIC -Wl,--hash-style=$style -o "$T/behind.so" "$T/behind.c" || exit 1
	rm -rf "$T/run" "$T/mark"
	mkdir -m 1777 "$T/run"
	out=$(MARK=$T/mark LD_PRELOAD="$BUILD/librpcrdma_shim.so $T/behind.so" timeout 60 "$pair" 2>&1)
	is "with one behind it (hash style $style)" "$out" "done"
	is "... that one was called" "$(ls -d "$T/mark")" "$T/mark"
	is "... and connections were carried" "$(show '.processes[].connections.shm')" 2
done

reason() { show '[.processes[].tcp_reasons | keys[]] | unique'; }
shim RDMARPC_ENABLED=off --
is "disabled" "$(show '.processes[].connections.shm')" 0
shim RDMARPC_MODE=tcp --
is "mode tcp" "$(show '.processes[].connections.shm')" 0
printf '[rule]\ncommand = rpcp*\nrole = client\nmode = tcp\n' >"$T/rule.conf"
shim RDMARPC_CONF="$T/rule.conf" --
is "a rule on the command" "$(show '.processes[].connections.shm')" 0
printf '[rule]\ncommand = other\nmode = tcp\n' >"$T/rule.conf"
shim RDMARPC_CONF="$T/rule.conf" --
is "a rule on another command" "$(show '.processes[].connections.shm')" 2
printf '[rule]\nprogram = 100003\nmode = tcp\n' >"$T/rule.conf"
shim RDMARPC_CONF="$T/rule.conf" --
is "a rule on the program" "$(show '.processes[].connections.shm')" 0

# --stop, on a directory that shim() would empty.
rm -rf "$T/run" && mkdir -m 1777 "$T/run"
"$BUILD/rdmarpc-stat" --stop
LD_PRELOAD="$BUILD/librpcrdma_shim.so" "$pair" >/dev/null
is "stopped" "$(show '.processes[].connections.shm')" 0
has "stopped: the reason" "$(reason)" "upgrades are stopped on this host"
"$BUILD/rdmarpc-stat" --start
LD_PRELOAD="$BUILD/librpcrdma_shim.so" "$pair" >/dev/null
is "started again" "$(show '[.processes[].connections.shm] | add')" 2

if [ -e "$BUILD/librpcrdma_diag.so" ]; then
	shim RDMARPC_DIAGNOSTICS=on -- splice
	has "diagnostics: what" "$log" "splice: EINVAL; called from"
	has "diagnostics: the program's own function" "$log" "rpcpair+0x"
	has "diagnostics: by name" "$log" " misuse+0x"
	has "diagnostics: and its caller" "$log" " main+0x"
	shim RDMARPC_DIAGNOSTICS=on RDMARPC_MAX_MESSAGE=64k -- calls 100000
	has "diagnostics: a record above the limit" "$log" "record that cannot be carried: TCP from here on"
	has "diagnostics: who wrote it" "$log" " call+0x"
	shim RDMARPC_DIAGNOSTICS=on -- stream
	has "diagnostics: stdio on a carried connection" "$log" "fdopen: what the stream reads and writes is not carried; called from"
	shim RDMARPC_DIAGNOSTICS=on RDMARPC_OFFER_AFTER=32 -- stream
	is "diagnostics: stdio on one of TCP" "$log" ""
	shim -- splice
	is "off by default" "$log" ""
fi
finish
