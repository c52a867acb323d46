#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-dump: what its options take, and what they refuse before anything is captured.
. "$(dirname "$0")/lib"
trap 'rm -rf "$T"' EXIT
dump=$BUILD/rdmarpc-dump
most=2147483647	# no process has this number
wrong() { # STATUS WHAT ARG...
	want="$1:rdmarpc-dump: $2"
	shift 2
	out=$("$dump" "$@" 2>&1 >"$T/out")
	is "$*" "$?:$out" "$want"
}
number() { # OPTION LEAST MOST WRONG...
	option=$1 range="is not a number from $2 to $3"
	shift 3
	for v; do wrong 2 "$option: '$v' $range" "$option" "$v"; done
}
number --pid 1 $most 0 2147483648 -1 1x x '' 18446744073709551617
number --count 1 9223372036854775807 0 9223372036854775808
number --snaplen 1 $most 0 2147483648
number --buffer 64 262144 63 262145
wrong 2 "--as: 'x' is none of: rpc, rdma, wire" --as x
for args in "" "--count 1 --snaplen 1 --buffer 64" "--count 9223372036854775807 --snaplen $most --buffer 262144" "--as rpc" "--as rdma" "--as wire"; do
	# shellcheck disable=SC2086
	wrong 1 "no such process could be captured" --pid $most $args
	is "what is written all the same is a capture ($args)" "$(head -c 4 "$T/out" | od -An -tx1)" " 0a 0d 0d 0a"
done
"$dump" -w "$T/cap" --pid $most 2>/dev/null
is "a file of that name" "$(head -c 4 "$T/cap" | od -An -tx1)" " 0a 0d 0d 0a"
wrong 1 "$T/no/cap: No such file or directory" -w "$T/no/cap" --pid $most
for v in "foo|filter: 'foo' is none of: host, port, program, calls, replies" "port|filter: 'port' of what?" "port 1 and calls|" "|"; do
	is "Wireshark asks of the filter '${v%|*}'" \
		"$("$dump" --extcap-interface rdmarpc --extcap-capture-filter "${v%|*}" 2>/dev/null | sed 's/^rdmarpc-dump: //')" "${v#*|}"
done
out=$("$dump" --version)
is "--version" "$?:${out%% *}" "0:rdmarpc-dump"
"$dump" --help >"$T/help" 2>"$T/err"
is "--help: status, and nothing on standard error" "$?:$(cat "$T/err")" "0:"
"$dump" --bogus >"$T/out" 2>"$T/err"
is "an unknown option: status, and nothing on standard output" "$?:$(cat "$T/out")" "2:"
has "an unknown option: what there is" "$(cat "$T/err")" "$(sed -n 1p "$T/help")"
finish
