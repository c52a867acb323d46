#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Many READs outstanding on one connection; ganesha answers them in any order.
. "${0%/*}/lib.sh"
[ "$LEG" != native ] || native_rules "role=server port=20861 native=on" "role=client port=20861 native=on mode=require"
. "$HERE/ganesha-setup.sh"
check small 'nfsaio reads 128 bad 0' nfsaio "$url/f?$ports" 128 65536
check large 'nfsaio reads 16 bad 0' nfsaio "$url/g?$ports" 16 1048576
finish
