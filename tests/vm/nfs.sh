# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For cases with the kernel's NFS/RDMA client or server, after lib.sh. A server has /export: an ext4 (handles,
# ACLs, attributes) on a RAM disk, made anew for each case.
#
#	nfs_arguments "$@"; nfs_server
#	nfs_mount VERSION PROTO OPTIONS; files STEP ARGUMENT...; counted TEXT EXPRESSION; nfs_umount
#	nfs_finish
#
# V=1 makes it talk.

FILES=$BUILD/tests/vm/nfs_files
TMO=240	# seconds, in which a step ends unless it hangs, however little CPU the guest gets
MNT=/mnt
NFS_HOST=10.9.0.1

# nfs_arguments [VERSION...] [ganesha|knfsd] [rdma|tcp] [full] [mounts=N]: sets $versions $server $proto $full $mounts
nfs_arguments() {
	versions='' server=ganesha proto=rdma full='' mounts=
	for w; do
		case $w in
		[34]*) versions="$versions $w" ;;
		ganesha | knfsd) server=$w ;;
		rdma | tcp) proto=$w ;;
		full) full=1 ;;
		mounts=*) mounts=${w#*=} ;;
		*) die "what is $w?" ;;
		esac
	done
	[ -n "$versions" ] || versions="3 4.0 4.1 4.2"
}

nfs_modules() {
	{ modprobe brd rd_nr=1 rd_size=262144 && modprobe -a nfs nfsv3 nfsv4 nfsd rpcrdma; } 2>"$W/modprobe" ||
		{ cat "$W/modprobe"; die "no NFS in the kernel"; }
	mkdir -p /var/lib/nfs/rpc_pipefs
	mountpoint -q /var/lib/nfs/rpc_pipefs || mount -t rpc_pipefs sunrpc /var/lib/nfs/rpc_pipefs
	mountpoint -q /sys/kernel/tracing || mount -t tracefs tracefs /sys/kernel/tracing
}

# What the kernel's client saw go wrong on its queue pairs and in replies, what it sent again (for which it makes a new
# connection), and who ended a connection: for who looks into a failure.
watch_ends() {
	local e d=/sys/kernel/tracing/events
	for e in send receive fastreg li; do
		echo 'status != 0 && status != 5' >$d/rpcrdma/xprtrdma_wc_$e/filter &&
			echo 1 >$d/rpcrdma/xprtrdma_wc_$e/enable
	done
	for e in rpcrdma/xprtrdma_disconnect rdma_cma/cm_disconnect rdma_cma/cm_event_handler sunrpc/xprt_disconnect_force \
		sunrpc/xprt_retransmit sunrpc/rpc_timeout_status sunrpc/rpc__garbage_args sunrpc/rpc__unparsable \
		sunrpc/rpc_bad_verifier sunrpc/rpc__auth_tooweak sunrpc/rpc__stale_creds; do
		echo 1 >$d/$e/enable
	done
} 2>/dev/null
show_ends() {
	grep -v '^#' /sys/kernel/tracing/trace | tail -n 40
	grep . /sys/class/infiniband/${DEVICE}0/ports/1/hw_counters/* | grep -v ':0$' | sed 's:.*/::' | xargs
}

nfs_export() {
	mkdir -p /export
	mkfs.ext4 -q -F -b 4096 -O ea_inode,^has_journal /dev/ram0 200M && mount /dev/ram0 /export ||
		die "no /export"
	chmod 777 /export
	mkdir /export/dir && (cd /export/dir && seq -f 'f%05g' 0 1999 | xargs touch)
}

wait_port() {
	local i
	for ((i = 0; i < 600; i++)); do ! listening "$1" || return 0; sleep 0.1; done
	tail -n 20 "$W"/*.out "$W"/ganesha.log 2>/dev/null
	die "nobody listens on port $1"
}

rpcbind_up() {
	listening 111 || { background "$W/rpcbind.out" rpcbind -f -w; wait_port 111; }
}

knfsd_up() {
	mountpoint -q /proc/fs/nfsd || mount -t nfsd nfsd /proc/fs/nfsd
	rpcbind_up
	mkdir -p /var/lib/nfs/v4recovery
	exportfs -o rw,no_root_squash,insecure,fsid=0,no_subtree_check,async '*:/export' || die "exportfs"
	background "$W/mountd.out" rpc.mountd -F -p 20048
	mountd_pid=$pid
	echo 1048576 >/proc/fs/nfsd/max_block_size	# less is the default of a small machine
	rpc.nfsd -L 10 -G 10 --rdma=20049 "${NFSD_THREADS:-8}" || die "rpc.nfsd"
	echo Y >/proc/fs/nfsd/v4_end_grace
	wait_port 20048
}
knfsd_down() {
	rpc.nfsd 0
	exportfs -ua
	[ -z "${mountd_pid:-}" ] || { kill "$mountd_pid"; wait "$mountd_pid"; } 2>/dev/null	# its port is ganesha's, too
	mountd_pid=
}

# A file system of Ceph: it has what FSAL_VFS has not, delegations, ACLs and extended attributes.
ceph_up() {
	. "$(dirname "${BASH_SOURCE[0]}")/../apps/ceph.sh"
	background "$W/ceph.out" $ceph_command 10.9.0.1
	for ((i = 0; i < 1800; i++)); do
		[ ! -e "$W/ceph/ready" ] || return
		kill -0 "$pid" 2>/dev/null || break
		sleep 0.1
	done
	tail -n 30 "$W/ceph.out"
	die "no Ceph"
}

ganesha_up() {
	local fsal=VFS path=/export ceph_block='' preload='' as=server
	if [ $proto = rdma ]; then preload=$BUILD/librpcrdma_shim.so${MASK:+:$BUILD/tests/vm/mask.so}; else as="env"; fi
	if [ "${GANESHA_FSAL:-}" = CEPH ]; then
		ceph_up
		fsal=CEPH path=/
	fi
	need ganesha.nfsd
	rpcbind_up
	mkdir -p /run/ganesha /run/dbus "$W/rec"
	[ -e /etc/mtab ] || ln -s /proc/self/mounts /etc/mtab
	cat >"$W/ganesha.conf" <<-X
		NFS_CORE_PARAM { NFS_Port = 2049; MNT_Port = 20048; NLM_Port = 20863; Rquota_Port = 20864;
			Enable_NLM = false; Enable_RQUOTA = false; Protocols = 3,4; mount_path_pseudo = true; }
		NFSV4 { Grace_Period = 5; Lease_Lifetime = 10; Graceless = true; RecoveryBackend = fs;
			RecoveryRoot = $W/rec; Allow_Numeric_Owners = true; Only_Numeric_Owners = true;
			Delegations = true; }
		NFS_KRB5 { ${KRB5:-Active_krb5 = false;} }
		EXPORT { Export_Id = 1; Path = $path; Pseudo = /export; Access_Type = RW; Squash = No_Root_Squash;
			SecType = ${SEC:-sys}; Protocols = 3,4; Transports = TCP; Delegations = RW;
			MaxRead = 1048576; MaxWrite = 1048576; PrefRead = 1048576; PrefWrite = 1048576;
			FSAL { Name = $fsal; } }
		$ceph_block
		LOG { Default_Log_Level = EVENT; ${GANESHA_LOG:-} }
	X
	[ $proto = tcp ] || export RDMARPC_RULES='role=server port=2049 native=20049'
	background "$W/ganesha.out" $as env LD_PRELOAD="$preload" \
		ganesha.nfsd -F -f "$W/ganesha.conf" -L "$W/ganesha.log" -p "$W/ganesha.pid"
	server_pid=$pid
	wait_port 2049
	wait_port 20048
	sleep 1	# until the export is there
}
ganesha_down() {
	local p t i
	p=$(cat "$W/ganesha.pid" 2>/dev/null) && kill "$p" 2>/dev/null
	for ((i = 0; i < 1000; i++)); do kill -0 "$server_pid" 2>/dev/null || break; sleep 0.1; done
	if kill -0 "$server_pid" 2>/dev/null; then
		for t in "/proc/$p/task"/*; do echo "$(cat "$t/comm" "$t/syscall" "$t/wchan" | xargs)"; done
		tail -n 5 "$W/ganesha.log"
		kill -9 "$p" "$server_pid" 2>/dev/null
		die "ganesha does not end"
	fi
	wait "$server_pid" 2>/dev/null
}

# nfs_server: $server is up; when the case ends it is taken down
nfs_server() {
	need rpcbind mount.nfs mkfs.ext4
	device_up	# first, for those in the same boot that take the device away: DEVICES.md, "rdma link delete"
	nfs_modules
	watch_ends
	nfs_export
	"${server}_up"
	trap 'nfs_down; cleanup' EXIT
}
nfs_down() {
	umount -f -l $MNT 2>/dev/null
	"${server}_down"
	mountpoint -q /export || return 0	# the case itself has been here
	for ((i = 0; i < 100; i++)); do umount /export 2>/dev/null && return; sleep 0.1; done
	echo "/export stays in use"
}

# nfs_path VERSION: knfsd has its only export for the root of NFSv4
nfs_path() {
	case $server$1 in knfsd4*) echo / ;; *) echo /export ;; esac
}
# nfs_mount VERSION PROTO [OPTIONS]
nfs_mount() {
	local o=vers=$1,proto=$2${3:+,$3} path
	path=$(nfs_path "$1")
	[ "$2" = tcp ] || o=$o,port=20049
	[ "$1" != 3 ] || o=$o,nolock,mountproto=tcp,mountport=20048
	checks=$((checks + 1))
	timeout 40 mount -t nfs -o "$o" $NFS_HOST:$path $MNT 2>"$W/mount" && return
	cat "$W/mount"
	show_ends
	dmesg | tail -n 5
	tail -n 20 "$W"/*.out "$W"/*.log 2>/dev/null
	die "mount -o $o"
}
nfs_umount() {
	checks=$((checks + 1))
	timeout 40 umount $MNT || bad umount
}

# files STEP ARGUMENT...: of nfs_files; paths are relative to the mount
files() {
	local start=${EPOCHREALTIME/./}
	checks=$((checks + 1))
	if (cd $MNT && timeout $TMO "$FILES" "$@") >"$W/out" 2>&1; then
		[ -z "${V:-}" ] || echo "$*: $(cat "$W/out"), $(((${EPOCHREALTIME/./} - start) / 1000)) ms"
	else
		bad "$*: $(cat "$W/out")"
	fi
}

# refused TEXT STEP ARGUMENT...: the server cannot do that by TCP either
refused() {
	local want=$1
	shift
	checks=$((checks + 1))
	! (cd $MNT && timeout $TMO "$FILES" "$@") >"$W/out" 2>&1 && grep -q "$want" "$W/out" ||
		bad "$*: not '$want': $(cat "$W/out")"
}

# The client's counters, of this mount's transport (include/linux/sunrpc/xprtrdma.h, xprt_rdma_print_stats).
XPRT_RDMA='port bind connects connect_time idle sends recvs bad_xids req_u backlog_u reads writes replies
	requested replied pullup fixup hardway failed_marshal bad_reply nomsg recycled orphaned mrs local_inv
	empty_sendctx waits'
mountstats() {
	awk -v m=" mounted on $MNT " 'index($0, "device ") == 1 { on = index($0, m) } on' /proc/self/mountstats
}
# xprt: NAME=NUMBER for each, summed over the connections
xprt() {
	mountstats | awk -v names="$XPRT_RDMA" '
		BEGIN { n = split(names, name) }
		$1 == "xprt:" && $2 == "rdma" { for (i = 1; i <= n; i++) sum[i] += $(i + 2) }
		END { for (i = 1; i <= n; i++) print name[i] "=" sum[i] + 0 }'
}
# ops NAME: how many calls of an operation
ops() { mountstats | awk -v op="$1:" '$1 == op { print $2 }'; }
# counted TEXT EXPRESSION: bash arithmetic over the names of XPRT_RDMA
counted() {
	local values
	checks=$((checks + 1))
	values=$(xprt | tr '\n' ' ')
	[ -z "${V:-}" ] || echo "$values"
	(eval "$values"; (($2))) || bad "the client's counters: $1: not so: $2: $values"
}

nfs_finish() {
	local complaints
	complaints=$(dmesg | grep -E 'rpcrdma:|svcrdma:|RPC:.*rror|NFS:.*rror|not responding')
	[ -z "$complaints" ] || bad "the kernel complains: $complaints"
	[ $failures = 0 ] || { show_ends; tail -n 20 "$W"/*.log "$W"/*.out 2>/dev/null; }
	echo "$checks checks, $failures failed${found:+; $found}"
	exit $((failures != 0))
}
