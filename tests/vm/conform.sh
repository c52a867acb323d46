# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For cases in which rdmarpc-conform judges, after lib.sh.
#
#	judged NAME COMMAND...; conform_shim DIALECT; nfs.sh is there, too

cases=$(cd "$(dirname "${BASH_SOURCE[0]}")/../conform" && pwd)
# Everything takes its time where the guest is interpreted.
tool="$BUILD/rdmarpc-conform --timeout=40000 --silence=300"
lab='--serves=lab --program=0x20005244:1'

judged() { # NAME COMMAND...
	local name=$1
	shift
	checks=$((checks + 1))
	if "$@" >"$W/$name.report" 2>&1; then
		echo "$name: $(grep -E '^MUST  ' "$W/$name.report" | tr -s ' ')"
		grep -A 1 '^  differs' "$W/$name.report"
	else
		grep -A "${LINES_OF:-1}" -E '^  (FAIL|UNR)' "$W/$name.report" || cat "$W/$name.report"
		bad "$name"
	fi
}

# The library as responder and as requester, in a dialect.
conform_shim() { # DIALECT
	local name="${MASK:+$MASK }$1"
	RDMARPC_RULES="role=server port=20801 native=20901 dialect=$1" background "$W/server.out" \
		server env LAB_ADDRESS=$LAB_HOST labsvc svcrun 20801
	wait_port 20801
	judged "$name responder" $tool --dialect="$1" $lab rdma://$LAB_HOST:20901 "$cases/cases"
	lab_server_kill
	export RDMARPC_RULES="role=client port=20802 native=20902 mode=require dialect=$1"
	printf '#!/bin/bash\n%s\nW=%s BUILD=%s\nas_host client "$BUILD/tests/conform/rawcall" "$@"\n' "$(declare -f as_host)" "$W" "$BUILD" >"$W/caller"
	chmod +x "$W/caller"
	judged "$name requester" $tool --dialect="$1" ${lab/=lab/=lab,nfs3,reverse} "--requester=$W/caller $LAB_HOST 20802" \
		rdma://$LAB_HOST:20902 "$cases/cases"
	unset RDMARPC_RULES
}
