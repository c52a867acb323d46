#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# glusterd, a brick (a server that is glusterd's client as well), the command line over TCP, and libgfapi.
. "${0%/*}/lib.sh"
. "$HERE/gluster-setup.sh"
cli="gluster --remote-host=$host"
VARIES=1 check pool 'localhost' $cli pool list
check list '^vol' $cli volume list
VARIES=1 check info 'Status: Started' $cli volume info
VARIES=1 check status 'Brick' $cli volume status
check io 'gfapi 5000000 bytes same' /usr/bin/python3 $HERE/gfapi.py $host vol $W/client.log rw
finish
