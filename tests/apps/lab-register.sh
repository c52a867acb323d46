#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server that registers with rpcbind, found by clnt_create(host, prog, vers, "tcp").
. "${0%/*}/lib.sh"
need rpcbind rpcinfo
helper rpcbind -f -w
waitport 111
server labsvc register 20815
waitport 20815
registered 536891972 1
ALLOW=NO_SHIM,NEGATIVE_CACHE	# rpcbind
SERVER_ALLOW=$ALLOW
check null 'null ok 10' labcli $HOST 0 null 10
check sizes 'sizes ok' labcli $HOST 0 sizes
check rpcinfo-T 'program 536891972 version 1 ready' rpcinfo -T tcp $HOST 536891972 1
EXPECT=any check rpcinfo-p '536891972 +1 +tcp +20815' rpcinfo -p $HOST
finish
