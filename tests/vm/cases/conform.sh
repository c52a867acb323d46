#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-conform over the device: the library's native listener and native client with the laboratory program, and
# the kernel's NFS server. Where Linux is known to differ, tests/conform/linux.known says how and why.
# conform.sh [shim] [linux] [v1] [v2] [draft02] [slides]: in these dialects, of which Linux has v1 only; all by default
# At most 3600 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
cases=$(cd "$(dirname "$0")/../../conform" && pwd)
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

of_shim() { # DIALECT
	RDMARPC_RULES="role=server port=20801 native=20901 dialect=$1" background "$W/server.out" \
		server env LAB_ADDRESS=$LAB_HOST labsvc svcrun 20801
	wait_port 20801
	judged "$1 responder" $tool --dialect="$1" $lab rdma://$LAB_HOST:20901 "$cases/cases"
	lab_server_kill
	export RDMARPC_RULES="role=client port=20802 native=20902 mode=require dialect=$1"
	printf '#!/bin/bash\n%s\nW=%s BUILD=%s\nas_host client "$BUILD/tests/conform/rawcall" "$@"\n' "$(declare -f as_host)" "$W" "$BUILD" >"$W/caller"
	chmod +x "$W/caller"
	judged "$1 requester" $tool --dialect="$1" ${lab/=lab/=lab,nfs3,reverse} "--requester=$W/caller $LAB_HOST 20802" \
		rdma://$LAB_HOST:20902 "$cases/cases"
	unset RDMARPC_RULES
}

of_linux() {
	server=knfsd
	nfs_modules
	nfs_export
	head -c 8192 /dev/zero >/export/file
	chmod 666 /export/file
	knfsd_up
	trap 'nfs_down; cleanup' EXIT
	local nfs="$tool --serves=nfs3,nfs4 rdma://$LAB_HOST:20049" data="$cases/cases/rfc8166/nfs-write"
	# Before cases with errors: behind those replies of this kernel's have been seen to begin with data of Read
	# chunks (docs/CONFORM.md, Known differences).
	judged linux-data $nfs $data-read.case $data-padded.case
	# shellcheck disable=SC2046 # words
	judged linux $nfs --known="$cases/linux.known" \
		$(find "$cases/cases" -name '*.case' ! -path "$data-read.case" ! -path "$data-padded.case")
}

device_up
dialects='' peers=
for what; do
	case $what in
	shim | linux) peers="$peers $what" ;;
	*) dialects="$dialects $what" ;;
	esac
done
for peer in ${peers:-shim linux}; do
	case $peer in
	shim) for d in ${dialects:-v1 v2 draft02 slides}; do of_shim "$d"; done ;;
	*) of_linux ;;
	esac
done
[ $failures = 0 ] || tail -n 20 "$W"/*.log "$W"/*.out 2>/dev/null
echo "$checks checks, $failures failed"
exit $((failures != 0))
