#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kadmin and kadmind (RPCSEC_GSS). kadmin first asks the KDC, over TCP that is not RPC.
. "${0%/*}/lib.sh"
need kadmind kadmin
. "$HERE/krb5-setup.sh"
kadmin.local -r LAB -q 'addprinc -pw secret lab/admin' >>$W/helper.log 2>&1 || die "kadmin.local"
for i in $(seq 300); do echo "addprinc -nokey user$i"; done | kadmin.local -r LAB >>$W/helper.log 2>&1
server kadmind -nofork
waitport 20749
ALLOW=NOT_RPC,SHORT_WRITE,NONE	# the KDC
SERVER_ALLOW=NO_OFFER
k="kadmin -r LAB -p lab/admin -w secret -q"
check list 'user300@LAB' $k listprincs
check add 'Principal "x@LAB" created' $k 'addprinc -pw y x'
VARIES=1 check get 'Principal: x@LAB' $k 'getprinc x'
check cpw 'Password for "x@LAB" changed' $k 'cpw -pw z x'
check delete 'Principal "x@LAB" deleted' $k 'delprinc -force x'
finish
