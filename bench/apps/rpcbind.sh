#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# rpcbind and libtirpc: GETPORT on one connection; rpcinfo, a process per question.
. "$(dirname "$0")/load.sh"
need rpcbind rpcinfo
server rpcbind -f -w
waitport 111
load getport - getport $SECONDS_EACH
load rpcinfo 200 sh -c 'i=0; while [ $i -lt 200 ]; do rpcinfo -T tcp 127.0.0.1 100000 2 || exit 1; i=$((i + 1)); done'
loaded
