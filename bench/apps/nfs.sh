#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# nfs-ganesha and libnfs (NFSv3): what a client does all day.
. "$(dirname "$0")/load.sh"
. "$HERE/ganesha-setup.sh"
file="$url/f?$ports"
load getattr - nfsload "$file" getattr $SECONDS_EACH
load read - nfsload "$file" read $SECONDS_EACH
load read8 - nfsload "$file" read $SECONDS_EACH 8
load create - nfsload "$file" create $SECONDS_EACH
loaded
