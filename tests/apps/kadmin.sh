#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kadmin and kadmind (RPCSEC_GSS). kadmin first asks the KDC, over TCP that is not RPC.
. "$(dirname "$0")/lib.sh"
need krb5kdc kadmind kadmin kdb5_util
mkdir -p $W/db
cat >$W/krb5.conf <<X
[libdefaults]
	default_realm = LAB
	dns_lookup_kdc = false
	dns_lookup_realm = false
	rdns = false
	udp_preference_limit = 1
[realms]
	LAB = {
		kdc = $HOST:20788
		admin_server = $HOST:20749
	}
X
cat >$W/kdc.conf <<X
[kdcdefaults]
	kdc_ports = 20788
	kdc_tcp_ports = 20788
[realms]
	LAB = {
		database_name = $W/db/principal
		key_stash_file = $W/db/stash
		acl_file = $W/db/acl
		kadmind_port = 20749
		kpasswd_port = 20464
	}
X
echo '*/admin@LAB *' >$W/db/acl
export KRB5_CONFIG=$W/krb5.conf KRB5_KDC_PROFILE=$W/kdc.conf KRB5CCNAME=FILE:$W/cc
kdb5_util -r LAB -P master create -s >>$W/helper.log 2>&1 || die "kdb5_util"
kadmin.local -r LAB -q 'addprinc -pw secret lab/admin' >>$W/helper.log 2>&1 || die "kadmin.local"
for i in $(seq 300); do echo "addprinc -nokey user$i"; done | kadmin.local -r LAB >>$W/helper.log 2>&1
helper krb5kdc -n
waitport 20788
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
