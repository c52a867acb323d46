# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced: starts nfs-ganesha with its back end $FSAL (VFS; MEM: files of up to 2 MiB
# in memory; CEPH, with delegations), and rpcbind for it. KRB5, SEC: how it does RPCSEC_GSS, and with which services.
need ganesha.nfsd rpcbind
mkdir -p /run/ganesha /run/dbus $W/exp $W/rec
chmod 777 $W/exp
if [ ! -e /etc/mtab ]; then	# ganesha reads it; a minimal system has none
	cp -a /etc $W/etc
	ln -s /proc/self/mounts $W/etc/mtab
	mount --bind $W/etc /etc
fi
helper rpcbind -f -w
waitport 111
path=$W/exp ceph_block=
if [ "${FSAL:-}" = CEPH ]; then
	. "$HERE/ceph.sh"
	helper $ceph_command $HOST
	await test -e $W/ceph/ready || { tail -n 20 $W/helper.log; die "no Ceph"; }
	path=/
fi
cat >$W/ganesha.conf <<X
NFS_CORE_PARAM { NFS_Port = 20861; MNT_Port = 20862; NLM_Port = 20863; Rquota_Port = 20864;
	Enable_NLM = false; Enable_RQUOTA = true; Protocols = 3,4; mount_path_pseudo = true; }
NFSV4 { Grace_Period = 5; Lease_Lifetime = 5; Graceless = true; RecoveryBackend = fs;
	RecoveryRoot = $W/rec; Allow_Numeric_Owners = true; Only_Numeric_Owners = true; Delegations = true; }
NFS_KRB5 { ${KRB5:-Active_krb5 = false;} }
EXPORT_DEFAULTS { Access_Type = RW; Squash = No_Root_Squash; SecType = sys,${SEC:-none}; Protocols = 3,4;
	Transports = TCP; }
EXPORT { Export_Id = 1; Path = $path; Delegations = RW; Pseudo = /exp; Access_Type = RW; PrefRead = 1048576;
	PrefWrite = 1048576; MaxRead = 1048576; MaxWrite = 1048576; FSAL { Name = ${FSAL:-VFS}; } }
$ceph_block
MEM { Inode_Size = 2097152; }
LOG { Default_Log_Level = EVENT; }
X
server ganesha.nfsd -F -f $W/ganesha.conf -L $W/ganesha.log -p $W/ganesha.pid
waitport 20861
waitport 20862
await grep -q 'NFS SERVER INITIALIZED' $W/ganesha.log 2>/dev/null || die "ganesha does not come up"
sleep 1	# until the export is there
ALLOW=NO_SHIM,NEGATIVE_CACHE	# rpcbind
SERVER_ALLOW=$ALLOW
url="nfs://$HOST/exp"
ports="nfsport=20861&mountport=20862"
