# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced: a realm LAB with its KDC on port 20788, and for krb5_service and krb5_login. Needs $W, $HOST,
# helper and waitport.
need krb5kdc kdb5_util kadmin.local
mkdir -p $W/db
cat >$W/krb5.conf <<X
[libdefaults]
	default_realm = LAB
	dns_lookup_kdc = false
	dns_lookup_realm = false
	dns_canonicalize_hostname = false
	rdns = false
	udp_preference_limit = 1
[realms]
	LAB = {
		kdc = $HOST:20788
		admin_server = $HOST:20749
	}
[domain_realm]
	.lab = LAB
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
export KRB5_KTNAME=FILE:$W/keytab KRB5RCACHENAME=none:
kdb5_util -r LAB -P master create -s >>$W/helper.log 2>&1 || die "kdb5_util"
helper krb5kdc -n
waitport 20788

krb5_service() { # NAME: a principal whose key is in the keytab
	kadmin.local -r LAB -q "addprinc -randkey $1" >>$W/helper.log 2>&1 &&
		kadmin.local -r LAB -q "ktadd -k $W/keytab $1" >>$W/helper.log 2>&1 || die "kadmin.local"
}
krb5_login() { # NAME: who the clients are
	kadmin.local -r LAB -q "addprinc -pw secret $1" >>$W/helper.log 2>&1 || die "kadmin.local"
	echo secret | kinit "$1" >>$W/helper.log 2>&1 || die "kinit"
}
