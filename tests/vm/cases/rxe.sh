#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The device itself: it comes up, and rdma-core's own programs talk over it.
. "$(dirname "$0")/../lib.sh"
need rdma ibv_devinfo rping
device_up
ibv_devinfo -d rxe0 >"$W/devinfo" || die "ibv_devinfo"
grep -q PORT_ACTIVE "$W/devinfo" || { cat "$W/devinfo"; die "the port is not active"; }
background "$W/server" rping -s -a 10.9.0.1 -C 10
for ((i = 0; i < 300; i++)); do
	rdma resource show cm_id 2>/dev/null | grep -q "state LISTEN" && break
	sleep 0.1
done
timeout 20 rping -c -a 10.9.0.1 -C 10 -V >"$W/client" 2>&1 || { cat "$W/client" "$W/server"; die "rping"; }
echo "rxe0 active, 10 rpings"
