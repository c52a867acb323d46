# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced, where need, skip and $W are: what ganesha takes to have Ceph below it. $ceph_command ADDRESS starts that, it is
# there when there is $W/ceph/ready, and $ceph_block is for ganesha's configuration.
need ceph-mon ceph-osd ceph-mds
[ -e /usr/lib/x86_64-linux-gnu/ganesha/libfsalceph.so ] || skip "nfs-ganesha-ceph is not installed"
ceph_command="/usr/bin/python3 $(dirname "${BASH_SOURCE[0]}")/ceph.py $W/ceph"
ceph_block="CEPH { Ceph_Conf = $W/ceph/ceph.conf; umask = 0; }"
