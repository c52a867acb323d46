# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced: rpcbind, and an exports table of the script's own.
need rpcbind rpc.mountd showmount
port=20821
mkdir -p $W/exp /run/nfs $W/nfs
helper rpcbind -f -w
waitport 111
cat >$W/exports <<X
$W/exp $HOST(ro,fsid=1,no_subtree_check)
/srv *(ro,fsid=2,no_subtree_check)
X
: >$W/nfs/etab
: >$W/nfs/rmtab
[ -e /etc/exports ] || touch /etc/exports
mount --bind $W/exports /etc/exports
mount --bind $W/nfs /var/lib/nfs
ALLOW=NO_SHIM,NEGATIVE_CACHE	# rpcbind
SERVER_ALLOW=$ALLOW
