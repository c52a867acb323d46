#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# kadmin and kadmind (RPCSEC_GSS): one session that asks for a principal again and again.
. "$(dirname "$0")/load.sh"
need kadmind kadmin
. "$HERE/krb5-setup.sh"
kadmin.local -r LAB -q 'addprinc -pw secret lab/admin' >>$W/helper.log 2>&1 || die "kadmin.local"
yes 'getprinc lab/admin' | head -n 1000 >$W/questions
server kadmind -nofork
waitport 20749
load getprinc 1000 sh -c "kadmin -r LAB -p lab/admin -w secret <$W/questions | grep -c ^Principal: | grep -qx 1000"
loaded
