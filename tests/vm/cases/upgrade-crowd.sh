#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# 150 clients connect at once to a server of another host, by default options, and go on calling: all of them end
# on verbs, and no call is lost. Twice: nothing is known of the server, so that each first call asks; and its
# library is known to be there (by its evidence, which on one host shows), so that offers ride along.
# upgrade-crowd.sh [PROCESSES [CONNECTIONS]]
# At most 600 s.
# On two processors.
. "$(dirname "$0")/../lib.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
device_up
processes=${1:-15} each=${2:-10}
all=$((processes * each))
by_default() { as_host "$1" env -u RDMARPC_OFFER_AFTER -u RDMARPC_UPGRADE_TIMEOUT_MS "${@:2}"; }
evidence=
server() { by_default server env $evidence "$@"; }
client() { by_default client "$@"; }

# decided SIDE: how many of its connections have a carrier, and how many of them verbs
decided() {
	stat_of "$1" | python3 -c '
import json, sys
c = [p["connections"] for p in json.load(sys.stdin)["processes"]]
print(sum(sum(x.values()) for x in c), sum(x["verbs"] for x in c))'
}

# crowd NAME RULE: RULE holds for each process's statistics, too
crowd() {
	local name=$1 rule=$2 n=0 verbs=0 was=0 still=0 i p clients=
	rm -rf "$W"/*.run*
	lab_server svcrun
	client true
	exec 9<>"$W/hold"
	for ((i = 0; i < processes; i++)); do
		client labcli $LAB_HOST 20801 crowd "$each" <"$W/hold" >"$W/crowd.$i" 2>&1 9>&- &
		clients="$clients $!"
	done
	for ((i = 0; i < 60 && verbs < all && still < 15; i++)); do	# a minute is how long each may take
		sleep 4
		read -r n verbs <<<"$(decided server)"
		still=$((n < all || verbs > was ? 0 : still + 1)) was=$verbs
		[ "${V:-}" != 1 ] || at "$name: $n of $all, by verbs $verbs"
	done
	at "$name: $verbs of $all are carried by verbs"
	exec 9>&-
	for p in $clients; do wait "$p"; done
	for ((i = 0; i < processes; i++)); do
		checks=$((checks + 1))
		grep -q "crowd $each bad 0" "$W/crowd.$i" || { bad "$name, client $i:"; cat "$W/crowd.$i"; }
	done
	judge "$name" client "c['verbs'] == $each and c['shm'] == e['lost'] == 0 and $rule"
	judge "$name" server "c['verbs'] == $all and c['shm'] == e['lost'] == 0 and $rule"
	checks=$((checks + 2))
}

ulimit -n 4096
mkfifo "$W/hold"
evidence=RDMARPC_OFFER_AFTER=0 crowd unknown 'c["tcp"] == 0'
lab_server_kill
evidence='' crowd known True
lab_finish
