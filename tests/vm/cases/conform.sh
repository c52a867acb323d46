#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-conform over the device: the library's native listener and native client with the laboratory program, and
# the kernel's NFS server. Where Linux is known to differ, tests/conform/linux.known says how and why.
# conform.sh [shim] [linux] [v1] [v2] [draft02] [slides]: in these dialects, of which Linux has v1 only; all by default
# At most 3600 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
. "$(dirname "$0")/../conform.sh"
[ -f "$BUILD/librpcrdma_verbs.so" ] || skip "built without rdma-core's headers"
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
	shim) for d in ${dialects:-v1 v2 draft02 slides}; do conform_shim "$d"; done ;;
	*) of_linux ;;
	esac
done
[ $failures = 0 ] || tail -n 20 "$W"/*.log "$W"/*.out 2>/dev/null
echo "$checks checks, $failures failed"
exit $((failures != 0))
