# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced: glusterd, which starts a brick. The volume is made over glusterd's Unix socket.
need glusterd gluster
libgfapi=/usr/lib/x86_64-linux-gnu/libgfapi.so.0
[ -e $libgfapi ] || skip "libgfapi is not installed"
mkdir -p $W/lib $W/log/bricks /run/gluster $W/brick
mount --bind $W/lib /var/lib/glusterd
mount --bind $W/log /var/log/glusterfs
if ! /usr/bin/python3 -c 'import os, sys; os.setxattr(sys.argv[1], "user.x", b"1")' $W/brick 2>/dev/null; then
	modprobe -a loop ext4 2>/dev/null	# a brick wants user.*, which tmpfs has from Linux 6.6 on
	truncate -s 64M $W/disk && mkfs.ext4 -q -O ^has_journal $W/disk && mount -o loop $W/disk $W/brick ||
		die "no file system for the brick"
fi
# Before it answers, glusterd configures geo-replication by starting gsyncd again and again, which is Python: half a
# minute where the processor is interpreted, of the minute that the command line has.
printf '#!/bin/sh\necho gsyncd\n' >$W/gsyncd
chmod 755 $W/gsyncd
gsyncd=/usr/lib/x86_64-linux-gnu/glusterfs/gsyncd
[ ! -e $gsyncd ] || mount --bind $W/gsyncd $gsyncd
host=$HOST
if [ $LEG != verbs ]; then	# a loopback address is refused
	host=10.77.0.1
	ip addr add $host/32 dev lo
fi
hostname lab
server glusterd -N -L INFO -p $W/glusterd.pid
waitport 24007
if [ $LEG = server ]; then	# the brick and glusterd are each other's clients
	SERVER_LEG=both SERVER_ALLOW=NO_OFFER
fi
cli() { timeout 150 gluster --mode=script "$@" >>$W/helper.log 2>&1; }
cli volume create vol $host:$W/brick force || { cat $W/helper.log; die "volume create"; }
cli volume start vol || { cat $W/helper.log; die "volume start"; }
