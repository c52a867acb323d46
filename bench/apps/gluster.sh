#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# glusterd, a brick, and libgfapi: reads of 4 KiB, and stat(). Without the client's caches: all of them go to the brick.
. "$(dirname "$0")/load.sh"
. "$HERE/gluster-setup.sh"
for cache in quick-read io-cache read-ahead write-behind open-behind stat-prefetch; do
	cli volume set vol performance.$cache off || die "volume set $cache"
done
for what in read stat; do
	load gf$what - /usr/bin/python3 $HERE/../../bench/gfload.py $host vol $W/client.log $what $SECONDS_EACH
done
loaded
