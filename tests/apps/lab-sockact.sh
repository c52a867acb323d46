#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A server that gets its listening socket from systemd-socket-activate (fd 3).
. "$(dirname "$0")/lib.sh"
need systemd-socket-activate
port=20813
c="labcli 127.0.0.1 $port"
server systemd-socket-activate -E LD_PRELOAD -E RDMARPC_RUN_DIR -l 127.0.0.1:$port $BUILD/apps/labsvc wait
waitport $port
check null 'null ok 10' $c null 10
check sizes 'sizes ok' $c sizes
check threads 'threads 4 calls 800 bad 0' $c threads 4
finish
