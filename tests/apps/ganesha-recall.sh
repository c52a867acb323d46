#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The NFSv4.1 server calls its client: ganesha takes a delegation back. Ceph is its back end, since FSAL_VFS gives
# none.
. "${0%/*}/lib.sh"
[ "$LEG" != native ] || native_rules "role=server port=20861 native=on" "role=client port=20861 native=on mode=require"
FSAL=CEPH
. "$HERE/ganesha-setup.sh"
ALLOW=NO_SHIM,NEGATIVE_CACHE SERVER_ALLOW=NO_SHIM,NEGATIVE_CACHE,NO_OFFER
case $LEG in both | verbs | native) SERVER_COUNTS=messages.reverse_calls_sent ;; esac
check recall 'delegation recalled' /usr/bin/python3 $HERE/nfs41.py 20861 exp recall
finish
