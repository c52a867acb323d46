#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Client and server under memcheck, carried by verbs: it has nothing to say.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
need valgrind
device_up
checked_server() { server valgrind --quiet --trace-children=yes --log-file="$W/memcheck.%p" "$@"; }
checked_client() { client valgrind --quiet --trace-children=yes --log-file="$W/memcheck.%p" "$@"; }
lab_server svcrun checked_server
for what in "null ok 20:null 20" "sum 100000 ok:sum 100000" "big 300000 ok:big 300000"; do
	# shellcheck disable=SC2086 # words
	AS=checked_client lab "${what#*:}" "${what%%:*}" ${what#*:}
done
# Whether memory of the app's may be read is asked of rt_sigprocmask() with an operation that there is not (preload/appmem.c), of
# which valgrind takes a note.
if grep -hv "^--[0-9]*-- sigprocmask: unknown 'how' field" "$W"/memcheck.*; then
	echo "FAIL memcheck has something to say"
	failures=$((failures + 1))
fi
lab_finish
