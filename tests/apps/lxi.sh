#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# lxi talks VXI-11 through the RPC code inside libc, which no preloaded library can see; rdmarpc-run --tirpc
# puts libtirpc's in its place. Without that it is TCP, and works.
. "${0%/*}/lib.sh"
need lxi rpcbind
helper rpcbind -f -w
waitport 111
server /usr/bin/python3 $HERE/vxi11.py 20843
waitport 20843
registered 395183 1
ALLOW=NO_SHIM,NEGATIVE_CACHE	# rpcbind
SERVER_ALLOW=$ALLOW,NO_OFFER
EXPECT=any check plain 'rdmarpc,laboratory' lxi scpi -a $HOST '*IDN?'
wrap=
case $LEG in both | verbs | client) wrap="$BUILD/rdmarpc-run --tirpc --" ;; esac
check name 'rdmarpc,laboratory' $wrap lxi scpi -a $HOST '*IDN?'
check long '^0123456789' $wrap lxi scpi -a $HOST 'WAVE?'
local_check long-length test "$(tr -d '\n' <$W/out | wc -c)" = 60000
finish
