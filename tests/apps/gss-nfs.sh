#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# req: rfc8166 8.2.2.1 #1, 8.2.2.3 #1
# NFSv3 by RPCSEC_GSS from nfs-ganesha: krb5, krb5i, krb5p; and without. In the legs native and verbs the context is made
# over TCP on the NFS port, where the native listener is no hindrance, and used on the RDMA port.
. "${0%/*}/lib.sh"
hostname server.lab
need jq
. "$HERE/krb5-setup.sh"
krb5_service nfs/server.lab
krb5_login user
KRB5="Active_krb5 = true; PrincipalName = nfs; KeytabPath = $W/keytab; CCacheDir = $W;" SEC=krb5,krb5i,krb5p
data=20861
case $LEG in native | verbs)
	data=20849
	native_rules "role=server port=20861 native=$data" "role=client port=$data native=$data mode=require; mode=tcp"
	SERVER_EXTRA=NO_OFFER ;;
esac
. "$HERE/ganesha-setup.sh"
ALLOW=$ALLOW,POLICY,NOT_RPC,SHORT_WRITE,NONE SERVER_ALLOW=$SERVER_ALLOW,${SERVER_EXTRA:-}
for sec in sys krb5 krb5i krb5p; do
	check $sec "gssnfs $sec 103201 bytes same" gssnfs $HOST 20861 $data 20862 /exp $sec
	case $LEG.$sec in	# RFC 8166 §8.2.2: what is sealed is not reduced
	tcp.* | both.* | server.* | client.*) continue ;;
	*.sys | *.krb5) rule='.read_chunks_sent > 1 and .write_chunks_received > 1' ;;
	*) rule='.read_chunks_sent == 0 and .write_chunks_received == 0 and .long_calls_sent > 1 and .reply_chunks_received > 1' ;;
	esac
	local_check $sec-chunks jq -e ".processes[].messages | select(.inline_sent + .long_calls_sent > 0) | $rule" "$counters"
done
finish
