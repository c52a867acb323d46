#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A Python server (MODE threads or asyncio), Python clients and the libtirpc client.
. "${0%/*}/lib.sh"
port=20831
server /usr/bin/python3 $HERE/pyrpc.py server $port "$MODE"
waitport $port
for kind in blocking asyncio nonblocking fragments; do
	check $kind "py $kind ok" /usr/bin/python3 $HERE/pyrpc.py client $port $kind
done
check c-null 'null ok 100' labcli $HOST $port null 100
check c-sizes 'sizes ok' labcli $HOST $port sizes
check c-threads 'bad 0' labcli $HOST $port threads 4
check c-pipeline 'bad 0' labcli $HOST $port pipeline 300
finish
