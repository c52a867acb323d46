#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server started by systemd-socket-activate. FLAVOUR listen: it gets the listening socket (fd 3).
# accept: systemd-socket-activate accepts, and each connection gets a server of its own (fd 0).
. "${0%/*}/lib.sh"
need systemd-socket-activate
port=20813
c="labcli $HOST $port"
case $FLAVOUR in
listen) how=(-l "$HOST:$port" "$BUILD/apps/labsvc" wait) ;;
accept) how=(-l "$HOST:$port" --accept --inetd "$BUILD/apps/labsvc" inetd) SERVER_ALLOW=NO_OFFER ;;
esac
server systemd-socket-activate -E LD_PRELOAD -E RDMARPC_RUN_DIR -E RDMARPC_VERBS -E RDMARPC_UPGRADE_TIMEOUT_MS "${how[@]}"
waitport $port
check null 'null ok 10' $c null 10
check sizes 'sizes ok' $c sizes
check threads 'threads 4 calls 800 bad 0' $c threads 4
finish
