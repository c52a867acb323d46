#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# ypserv, which forks for a map, and ypcat, a process per map of 500 entries.
. "$(dirname "$0")/load.sh"
need ypserv ypcat rpcbind
makedbm=/usr/lib/yp/makedbm
[ -x $makedbm ] || skip "makedbm is not installed"
hostname lab
domainname labdom
mkdir -p $W/yp/labdom
mount --bind $W/yp /var/yp
for ((i = 1; i <= 500; i++)); do printf 'k%05d v%05d-%060d\n' $i $i 0; done >$W/map
$makedbm -m lab $W/map $W/yp/labdom/map
helper rpcbind -f -w
waitport 111
server ypserv --foreground --port 20841
waitport 20841
registered 100004 2
load ypcat 50 sh -c 'i=0; while [ $i -lt 50 ]; do [ $(ypcat -d labdom -h 127.0.0.1 map | wc -l) = 500 ] || exit 1; i=$((i + 1)); done'
loaded
