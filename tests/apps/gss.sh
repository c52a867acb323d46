#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# RPCSEC_GSS between libtirpc programs, service SERVICE (krb5, krb5i, krb5p); connections with a context each.
# Of what libtirpc itself can: nothing above 64 KiB that is sealed.
. "${0%/*}/lib.sh"
. "$HERE/krb5-setup.sh"
krb5_service lab/server.lab
krb5_login user
export LAB_GSS=lab@server.lab LAB_GSS_SERVICE=$SERVICE
[ $LEG != native ] || native_rules "role=server port=20801 native=20901" "role=client port=20801 native=20901 mode=require"
server labsvc svcrun 20801
waitport 20801
[ $LEG != native ] || waitdoor 20901
ALLOW=NOT_RPC,SHORT_WRITE,NONE	# the KDC
c="labcli $HOST 20801"
check null 'null ok 20' $c null 20
if [ $SERVICE = krb5 ] && [ $LEG != native ]; then	# there are no longer replies than reply_chunk
	check sizes 'sizes ok' $c sizes
	check sum 'sum 100000 ok' $c sum 100000
	check big 'big 3000000 ok' $c big 3000000
else
	for n in 0 3900 4096 65000; do check echo-$n "echo $n ok" $c echo $n; done
	check sum-short 'sum 10000 ok' $c sum 10000
	check big-short 'big 65000 ok' $c big 65000
fi
check conns 'conns 10 bad 0' $c conns 10
WANT_RC=1 check none 'null BAD' env -u LAB_GSS labcli $HOST 20801 null 1
finish
