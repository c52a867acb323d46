#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# NFSv4.1: a session with a back channel, many calls outstanding.
. "${0%/*}/lib.sh"
[ "$LEG" != native ] || native_rules "role=server port=20861 native=on" "role=client port=20861 native=on mode=require"
. "$HERE/ganesha-setup.sh"
[ -z "${CAPTURE:-}" ] || check null 'program 100003 version 4 ready' rpcinfo -a $HOST.81.125 -T tcp 100003 4
check io 'nfs41 1600000 bytes same' /usr/bin/python3 $HERE/nfs41.py 20861 exp
finish
