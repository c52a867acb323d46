#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rpcbind and rpcinfo. (Not "rpcbind -h 127.0.0.1": Debian 12's aborts by itself.)
. "${0%/*}/lib.sh"
need rpcbind rpcinfo
server rpcbind -f -w
waitport 111
check T2 'program 100000 version 2 ready' rpcinfo -T tcp $HOST 100000 2
check Tall 'version 2 ready.*version 3 ready.*version 4 ready' rpcinfo -T tcp $HOST 100000
check t 'program 100000 version 4 ready' rpcinfo -t $HOST 100000 4
check a 'program 100000 version 4 ready' rpcinfo -a $HOST.0.111 -T tcp 100000 4
check p '100000 +4 +tcp +111 +portmapper' rpcinfo -p $HOST
check dump '100000 +4 +tcp' rpcinfo $HOST
check short '100000 +2,3,4' rpcinfo -s $HOST
VARIES=1 check stat 'PORTMAP|NULL' rpcinfo -m $HOST
WANT_RC=1 check unavailable '' rpcinfo -T tcp $HOST 100099
finish
