#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-conform: what it says of cases that cannot be read, its reports, its exit status. What it judges is
# tests/conform.
. "$(dirname "$0")/lib"
. tests/san/env.sh
svc=
trap 'kill $svc 2>/dev/null; rm -rf "$T"' EXIT
conform=$BUILD/rdmarpc-conform
mkdir "$T/doc"

wrong() { # LABEL WANTED: standard input is no case
	cat >"$T/doc/a.case"
	"$conform" --check "$T/doc" >"$T/out" 2>&1
	is "$1" "$?:$(sed "s|.*/doc/a.case:||" "$T/out")" "2:$2"
}
head='title t
requires rfc8166 1 #1
dialect v1
'
wrong "a case without head" "1: a case begins with title, requires and dialect" <<X
send msg
X
wrong "a line that there is not" "4: step 'sned': there is title, requires, level, role, dialect, target, peer, private, ends, send, expect, memory, withdraw, pull, push, set, wait, repeat, end, close, call, null" <<X
${head}sned msg
X
wrong "a kind of message" "4: send 'ms': there is msg, nomsg, msgp, done, error, bcall, brply, connprop, other, raw" <<X
${head}send ms
X
wrong "a field" "4: field 'credits': there is xid, vers, credit, proc, flags, inv" <<X
${head}send msg credits=1
X
wrong "a value that is none" "4: '1x': neither a number, a name nor a constant of the documents" <<X
${head}send msg credit=1x
X
wrong "a pattern that is sent" "4: credit: what is sent is one value" <<X
${head}send msg credit=1..2
X
wrong "a name that nothing has" "5: 'data' is nowhere defined" <<X
${head}send msg
	write data
X
wrong "an item in the wrong place" "5: item 'rest': there is read, write, reply, prop, rpc, u32, u64, hex, string, opaque, pattern, fill, mark, copy, at, cut" <<X
${head}send msg
	rest
X
wrong "half a byte" "5: hex: half a byte" <<X
${head}send raw
	hex 012
X
wrong "how an RDMA Write should end" "5: should be 'push NAME [refused]'" <<X
${head}memory data write 8
push data denied
X
wrong "what is refused has no data" "6: indented, but there is nothing that it could belong to" <<X
${head}memory data write 8
push data refused
	u32 1
X
wrong "a repeat without end" "4: the repeat of line 4 has no end" <<X
${head}repeat i 2
X
wrong "an ordinal" "2: '1' is no ordinal: #1, #2, ..." <<X
title t
requires rfc8166 1 1
dialect v1
null
X
wrong "what belongs to nothing" "1: indented, but there is nothing that it could belong to" <<X
	rpc call
X
for c in tests/conform/cases/*/*.case; do
	"$conform" --check "$c" >/dev/null || is "$c" unreadable readable
done
# strictly there is no choice: of alternatives one says what rdmarpc does (calls-beyond-grant says why two do)
is "alternatives that nothing strict is said of" "$(awk '
	function ends() { if (n > 1 && (named == 0 || (named > 1 && of !~ /calls-beyond-grant/))) print of ":" line ": " named; n = 0 }
	FNR == 1 { ends() }
	/^expect/ { ends(); n = 1; named = / as rdmarpc$/; of = FILENAME; line = FNR; next }
	/^or / { n++; named += / as rdmarpc$/; next }
	/^[a-z]/ { ends() }
	END { ends() }' tests/conform/cases/*/*.case)" ""
is "all cases" "$("$conform" --check tests/conform/cases)" "$(find tests/conform/cases -name '*.case' | wc -l) cases"

# --- reports, of a peer that passes one and fails two ---
port=21470
RDMARPC_RUN_DIR=$T/run RDMARPC_UPGRADE_TIMEOUT_MS=50000
export RDMARPC_RUN_DIR RDMARPC_UPGRADE_TIMEOUT_MS
LD_PRELOAD=$BUILD/librpcrdma_shim.so$(san_runtime "$BUILD/librpcrdma_shim.so" | sed 's/^/:/') "$BUILD/apps/labsvc" svcrun $port &
svc=$!
for i in $(seq 900); do
	has_listener $port && break
	sleep 0.1
done
printf '%snull\n' "$head" >"$T/doc/a.case"
printf '%ssend msg vers=7\n\trpc call\nexpect error vers=7 err=ERR_CHUNK\n' "$head" >"$T/doc/b.case"
printf 'level SHOULD\n' | cat - "$T/doc/b.case" >"$T/doc/c.case"
judge() { "$conform" --program=0x20005244:1 "$@" shm://127.0.0.1:$port "$T/doc"; }
judge >"$T/out"
is "a MUST that fails" "$?:$(grep -c '^  pass' "$T/out"):$(grep -c '^  FAIL' "$T/out")" 1:1:2
is "the report says where and what came" "$(grep -c 'b.case:6: err is 1 (0x1), expected 2; came: error xid=0x1000 vers=7 err=1' "$T/out")" 1
judge --format=json | /usr/bin/python3 -c '
import json, sys
r = json.load(sys.stdin)
print(r["dialect"], [(c["case"], c["verdict"], c["level"]) for c in r["cases"]])' >"$T/out"
is "JSON" "$(cat "$T/out")" "v1 [('doc/a', 'pass', 'MUST'), ('doc/b', 'fail', 'MUST'), ('doc/c', 'fail', 'SHOULD')]"
judge --format=junit | /usr/bin/python3 -c '
import sys, xml.etree.ElementTree as e
s = e.parse(sys.stdin).getroot()
print(s.get("tests"), s.get("failures"), [[k.tag for k in t] for t in s])' >"$T/out"
is "JUnit" "$(cat "$T/out")" "3 1 [[], ['failure', 'system-out'], ['system-out']]"
printf '%scall null 1\n' "$head" >"$T/doc/b.case"
judge >"$T/out"
is "a call that nobody can make" "$(grep -c 'b.case:4: call needs --requester' "$T/out")" 1
printf '%ssend msg vers=7\n\trpc call\nexpect error vers=7 err=ERR_CHUNK\n' "$head" >"$T/doc/b.case"
printf '# none\ndoc/b: it is so\n' >"$T/known"
judge --known="$T/known" >"$T/out"
is "a known difference" "$?:$(grep -A 1 '^  differs' "$T/out" | grep -c 'it is so')" 0:1
printf 'doc/a: it was so\n' >"$T/known"
rm "$T/doc/b.case"
judge --known="$T/known" >"$T/out"
is "and one that is none any more" "$?:$(grep -c 'is listed as a known difference, and is none' "$T/out")" 1:1

# --- strictly, and what a case does not look at ---
rm "$T"/doc/*
version='send msg vers=7\n\trpc call\nexpect error vers=7 err=ERR_CHUNK%s\nor error vers=7 err=ERR_VERS low=1 high=1..2%s\n'
# shellcheck disable=SC2059 # they are formats
{
	printf "$head$version" '' '' >"$T/doc/a.case"
	printf "$head$version" ' as rdmarpc' '' >"$T/doc/b.case"
	printf "$head$version" ' as other' ' as rdmarpc' >"$T/doc/c.case"
}
judge >"$T/out"
is "alternatives" "$?:$(grep -c '^  pass' "$T/out")" 0:3
judge --strict >"$T/out"
is "strictly only that of rdmarpc is" "$?:$(grep -c '^  pass' "$T/out"):$(grep -c "a.case:7: this is what came, and no alternative says 'as rdmarpc'" "$T/out"):$(grep -c 'b.case:6: err is 1 (0x1), expected 2' "$T/out")" 1:1:1:1
judge --strict=other >"$T/out"
is "or of somebody else" "$(grep -c 'c.case:6: err is 1 (0x1), expected 2' "$T/out")" 1
rm "$T"/doc/*
printf '%ssend msg vers=7\n\trpc call\nexpect error vers=7 err=ERR_VERS low=1 high=1..2\n' "$head" >"$T/doc/a.case"
judge --self-test >"$T/out"
is "a case that looks at everything" "$?:$(sed 's/[0-9][0-9]* changes/N changes/' "$T/out")" "0:4 lies, 0 of them not noticed; N changes of what came"
printf '%ssend msg vers=7\n\trpc call\nexpect error vers=7 err=ERR_VERS high=1..2\n' "$head" >"$T/doc/a.case"
judge --self-test >"$T/out"
is "one that does not look at a word" "$?:$(grep -c 'a.case:6: fails though nobody lies: byte 20 of 28, 0x00, could be another, and the case does not say so' "$T/out")" 1:1
"$conform" shm://127.0.0.1:1 "$T/doc" >/dev/null
is "nobody there" "$?" 3
"$conform" nobody:1 "$T/doc" >/dev/null 2>&1
is "no peer" "$?" 2
for o in timeout silence patience; do
	for n in 0 600001 1x ''; do
		out=$("$conform" --$o="$n" --check "$T/doc" 2>&1)
		is "--$o=$n" "$?:$out" "2:rdmarpc-conform: --$o: '$n' is no number from 1 to 600000"
	done
	for n in 1 600000; do
		"$conform" --$o="$n" --check "$T/doc" >/dev/null 2>&1
		is "--$o=$n" "$?" 0
	done
done
finish
