#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rpc.mountd (without a kernel NFS server) and showmount. rpcbind is asked first, without the shim.
. "${0%/*}/lib.sh"
. "$HERE/mountd-setup.sh"
server rpc.mountd -F -p $port
waitport $port
registered 100005 1
registered 100005 3
check exports "Export list for $HOST" showmount -e $HOST
check mounts "All mount points on $HOST" showmount -a $HOST
check ping 'program 100005 version 3 ready' rpcinfo -T tcp $HOST 100005 3
VARIES=1 check mnt 'mnt status (0|2|13)' /usr/bin/python3 $HERE/pyrpc.py mnt $port $W/exp
finish
