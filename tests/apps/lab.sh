#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rpcgen'd libtirpc client and server; MODE is the server's shape (see labsvc.c).
. "${0%/*}/lib.sh"
port=20801
c="labcli $HOST $port"
# The parent of a child per connection closes what it never read: for it, a connection without an offer.
[ "$MODE" != fork ] || SERVER_ALLOW=NO_OFFER
[ "$LEG" != native ] || native_rules "role=server port=$port native=20901" "role=client port=$port native=20901 mode=require"
# Replies longer than reply_chunk, and calls that nobody answers, are what only reliable replies can carry.
# Without them such a reply opens the hatch, which over a device takes both directions, and calls that follow, to TCP.
hatches=
[ "$LEG${DIALECT:-}" != verbsslides ] || hatches=yes
server labsvc "$MODE" $port $W/pid
waitport $port
[ "$LEG" != native ] || waitdoor 20901
check null 'null ok 100' $c null 100
check echo 'echo 1000 ok' $c echo 1000
[ "$LEG" = native ] || [ $hatches ] || check sizes 'sizes ok' $c sizes
check sum 'sum 100000 ok' $c sum 100000
[ "$LEG" = native ] || check big 'big 3000000 ok' $c big 3000000
check threads 'threads 8 calls 1600 bad 0' $c threads 8
[ $LEG = verbs ] || # there a child takes its parent's connection with it (docs/decisions/0007)
	check fork 'parent ok child ok parent ok' $c fork
check timeout 'timeout then echo ok' $c timeout
check noservice 'Program unavailable' $c noservice
[ "$LEG" = native ] || [ "${DIALECT:-}" = slides ] || check batch 'batch 3000 ok' $c batch 3000
check conns 'conns 40 bad 0' $c conns 40
[ $hatches ] || check pipeline 'pipeline 300 bad 0' $c pipeline 300
finish
