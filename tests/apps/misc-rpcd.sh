#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rpc.statd and rpc.rquotad, pinged by rpcinfo. rpcbind is asked first, without the shim.
. "${0%/*}/lib.sh"
need rpcbind rpc.statd rpc.rquotad rpcinfo
helper rpcbind -f -w
waitport 111
mkdir -p $W/nfs/sm $W/nfs/sm.bak
chown -R statd $W/nfs
mount --bind $W/nfs /var/lib/nfs
server rpc.statd -F -p 20851 --no-notify
waitport 20851
server rpc.rquotad -F -p 20852
waitport 20852
registered 100024 1
registered 100011 1
registered 100011 2
ALLOW=NO_SHIM,NEGATIVE_CACHE	# rpcbind
SERVER_ALLOW=$ALLOW
check statd 'version 1 ready' rpcinfo -T tcp $HOST 100024 1
check rquotad-1 'version 1 ready' rpcinfo -T tcp $HOST 100011 1
check rquotad-2 'version 2 ready' rpcinfo -T tcp $HOST 100011 2
finish
