#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A Java server (MODE server: streams and threads; select: channels and a Selector), Java clients and the
# libtirpc client.
. "${0%/*}/lib.sh"
need java javac
port=20834
classes=${ANSWERS:-$W}/java	# compiled for all legs
[ -e $classes/Lab.class ] || javac -d $classes $HERE/Lab.java >>$W/helper.log 2>&1 || { cat $W/helper.log; die "javac"; }
java="java -Xshare:auto -XX:TieredStopAtLevel=1 -cp $classes Lab"
server $java "$MODE" $port
waitport $port
check io 'java io ok' $java io $port
check nio 'java nio ok' $java nio $port
check null 'null ok 100' labcli $HOST $port null 100
check echo 'echo 1000000 ok' labcli $HOST $port echo 1000000
finish
