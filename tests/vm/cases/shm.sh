#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# The guest's kernel carries what the host's does: rpcbind and rpcinfo over shared memory.
. "$(dirname "$0")/../lib.sh"
need rpcbind rpcinfo
LEG=both CASE=vm-rpcbind timeout -k 5 90 "$(dirname "$0")/../../apps/rpcbind.sh"
