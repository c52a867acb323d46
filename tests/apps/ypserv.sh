#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ypserv: the parent reads the call, a forked child writes the reply.
. "${0%/*}/lib.sh"
need ypserv ypcat rpcbind
makedbm=/usr/lib/yp/makedbm
[ -x $makedbm ] || skip "makedbm is not installed"
port=20841
hostname lab
domainname labdom
mkdir -p $W/yp/labdom
mount --bind $W/yp /var/yp
records() { awk -v n="$1" -v pad="$2" 'BEGIN { for (i = 1; i <= n; i++) printf "k%05d v%05d-%0*d\n", i, i, pad, 0 }'; }
records 500 60 >$W/small
records 3000 90 >$W/large
$makedbm -m lab $W/small $W/yp/labdom/small
$makedbm -m lab $W/large $W/yp/labdom/large
helper rpcbind -f -w
waitport 111
server ypserv --foreground --port $port
waitport $port
registered 100004 2
ALLOW=NO_SHIM,NEGATIVE_CACHE	# rpcbind
SERVER_ALLOW=$ALLOW
check small 'v00500-000' ypcat -d labdom -h $HOST small
# By verbs a child's reply brings that connection back to TCP, and the server takes up no other (decision 11).
[ $LEG != verbs ] || { EXPECT=tcp; SERVER_EXPECT=any; }
check large 'v03000-000' ypcat -d labdom -h $HOST large
check ping 'version 2 ready' rpcinfo -T tcp $HOST 100004 2
finish
