#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Two shims that have no memory in common find each other by TCP and carry by verbs: unmodified libtirpc
# programs, the right answers, and by both sides' own counters nothing on TCP and nothing lost.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
rxe_up
export PATH=$BUILD/apps:$PATH
checks=0 failures=0

judge() { # NAME SIDE WANTED...: what its statistics must say, as Python about p of each process
	local name=$1 side=$2 rule=$3
	stat_of "$side" >"$W/json"
	python3 -c '
import json, sys
bad = [p for p in json.load(open(sys.argv[1]))["processes"]
       if sum(p["connections"].values()) and not eval(sys.argv[2], {}, {
           "p": p, "c": p["connections"], "m": p["messages"], "e": p["errors"], "u": p["upgrade"]})]
for p in bad:
    print({k: p[k] for k in ("comm", "connections", "tcp_reasons", "messages", "errors", "upgrade")})
sys.exit(bool(bad))' "$W/json" "$rule" || { echo "FAIL $name: $side: not so: $rule"; failures=$((failures + 1)); }
}
lab() { # NAME WANTED ARGUMENT...
	local name=$1 want=$2
	shift 2
	checks=$((checks + 1))
	rm -rf "$W"/client.run*
	if ! client timeout 60 labcli 10.9.0.1 20801 "$@" >"$W/out" 2>"$W/err" || ! grep -q "$want" "$W/out"; then
		echo "FAIL $name: not '$want'"
		cat "$W/out" "$W/err"
		failures=$((failures + 1))
	fi
	judge "$name" client 'c["verbs"] >= 1 and c["tcp"] == c["shm"] == 0 and e["lost"] == 0'
}

background "$W/server.out" server env LAB_ADDRESS=10.9.0.1 labsvc svcrun 20801 "$W/pid"
for ((i = 0; i < 100; i++)); do ss -Hltn 'sport = :20801' | grep -q . && break; sleep 0.1; done
lab null 'null ok 100' null 100
lab echo 'echo 1000 ok' echo 1000
lab sizes 'sizes ok' sizes
lab sum 'sum 100000 ok' sum 100000
lab big 'big 3000000 ok' big 3000000
lab threads 'threads 8 calls 1600 bad 0' threads 8
lab timeout 'timeout then echo ok' timeout
lab conns 'conns 20 bad 0' conns 20
lab pipeline 'pipeline 300 bad 0' pipeline 300
judge all server 'c["tcp"] == c["shm"] == 0 and e["lost"] == 0 and m["long_calls_received"] and m["reliable_replies_sent"]'
kill "$(ss -Hltnp 'sport = :20801' | sed 's/.*pid=\([0-9]*\).*/\1/')"
[ $failures = 0 ] || tail -n 20 "$W"/*.log
echo "$checks checks, $failures failed"
[ $failures = 0 ]
