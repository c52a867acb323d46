#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# glusterd calls its clients back, on the connections that they made.
. "${0%/*}/lib.sh"
. "$HERE/gluster-setup.sh"
check callback 'gfapi was called back' /usr/bin/python3 $HERE/gfapi.py $host vol $W/client.log callback
SERVER_COUNTS=messages.reverse_calls_sent
finish
