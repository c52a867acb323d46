#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# A client on PerlIO.
. "${0%/*}/lib.sh"
need perl
port=20833
server labsvc svcrun $port
waitport $port
check perl 'perl ok' perl $HERE/lab.pl $port
finish
