#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rpcbind as a daemon: listens, forks, its parent exits, gives root up.
. "${0%/*}/lib.sh"
need rpcbind rpcinfo
server rpcbind -w
waitport 111
sleep 0.3
check p '100000 +4 +tcp +111 +portmapper' rpcinfo -p $HOST
check Tall 'version 2 ready.*version 3 ready.*version 4 ready' rpcinfo -T tcp $HOST 100000
finish
