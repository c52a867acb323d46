#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# NFSv4.1: a session with a back channel, many calls outstanding.
. "$(dirname "$0")/lib.sh"
[ "$LEG" != native ] || native_rules "role=server port=20861 native=on" "role=client port=20861 native=on mode=require"
. "$HERE/ganesha-setup.sh"
check io 'nfs41 1600000 bytes same' /usr/bin/python3 $HERE/nfs41.py 20861 exp
finish
