#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nfs-ganesha (back end $FSAL) and libnfs's tools, NFSv3 (MOUNT and NFS on ports of their own) and NFSv4.0.
# NATIVE=1: the leg verbs natively. libnfs 4.0.0 cannot encode NFSv4 WRITEs above a few KB, so that upload is small.
. "${0%/*}/lib.sh"
need nfs-cp nfs-ls nfs-cat showmount
[ "$LEG" != native ] && [ -z "${NATIVE:-}" ] || native_rules "role=server port=20861 native=on" "role=client port=20861 native=on mode=require"
. "$HERE/ganesha-setup.sh"
head -c 2000000 /dev/urandom >$W/a
head -c 1000 /dev/urandom >$W/small
echo hello-lab >$W/hello
check v3-cp-hello 'copied 10 bytes' nfs-cp $W/hello "$url/hello?$ports"
VARIES=1 check v3-ls 'hello' nfs-ls "$url?$ports"
check v3-cat 'hello-lab' nfs-cat "$url/hello?$ports"
check v3-up 'copied 2000000' nfs-cp $W/a "$url/a3?$ports"
check v3-down 'copied 2000000' nfs-cp "$url/a3?$ports" $W/a3
local_check v3-same cmp $W/a $W/a3
VARIES=1 check v4-ls 'hello' nfs-ls "$url?version=4&$ports"
check v4-cat 'hello-lab' nfs-cat "$url/hello?version=4&$ports"
check v4-up 'copied 1000 bytes' nfs-cp $W/small "$url/s4?version=4&$ports"
check v4-down 'copied 2000000' nfs-cp "$url/a3?version=4&$ports" $W/a4
local_check v4-same cmp $W/a $W/a4
check discover "nfs://$HOST/exp" nfs-ls -D nfs://$HOST
check showmount '/exp' showmount -e $HOST
finish
