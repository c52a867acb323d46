#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rpc.mountd as a daemon with three workers that accept on one listening socket.
. "${0%/*}/lib.sh"
. "$HERE/mountd-setup.sh"
server rpc.mountd -p $port -t 3
waitport $port
registered 100005 1
registered 100005 3
for i in 1 2 3 4 5 6; do
	check exports-$i "Export list for $HOST" showmount -e $HOST
done
VARIES=1 check mnt 'mnt status (0|2|13)' /usr/bin/python3 $HERE/pyrpc.py mnt $port $W/exp
finish
