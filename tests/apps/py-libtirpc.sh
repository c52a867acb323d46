#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Python clients (pipelined calls, calls in many fragments) and a libtirpc server.
. "${0%/*}/lib.sh"
port=20832
server labsvc svcrun $port
waitport $port
for kind in blocking asyncio nonblocking fragments; do
	check $kind "py $kind ok" /usr/bin/python3 $HERE/pyrpc.py client $port $kind
done
finish
