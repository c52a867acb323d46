#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server started by inetd. FLAVOUR wait: it gets the listening socket. nowait: it gets a connection that
# inetd accepted, and is the first to read from it. inetd itself only sees connections without an offer.
. "${0%/*}/lib.sh"
need inetd
port=20811
c="labcli $HOST $port"
echo "$port stream tcp $FLAVOUR root $BUILD/apps/labsvc labsvc ${FLAVOUR/nowait/inetd}" >$W/inetd.conf
server inetd -E -i $W/inetd.conf	# -E: the service gets our environment
waitport $port
SERVER_ALLOW=NO_OFFER
check null 'null ok 10' $c null 10
check echo 'echo 60000 ok' $c echo 60000
check sizes 'sizes ok' $c sizes
check conns 'conns 5 bad 0' $c conns 5
finish
