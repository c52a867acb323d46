#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# What docs/OPERATIONS.md says of systemd, done under systemd: drop-ins for Debian's units and for a hardened one, their
# clients' calls carried by shared memory, the journal, a restart, the removal.
# Under systemd.
# At most 900 s.
. "$(dirname "$0")/../lib.sh"
need systemctl journalctl rpcbind rpcinfo
[ "$(cat /proc/1/comm)" = systemd ] || die "the first process is $(cat /proc/1/comm)"
R=/opt/rdmarpc	# which a user of a unit's own can read, wherever the tree lies
mkdir -p $R
cp "$BUILD/librpcrdma_shim.so" "$BUILD/rdmarpc-run" "$BUILD/rdmarpc-stat" "$BUILD/apps/labsvc" $R
stat_of() { $R/rdmarpc-stat --json "$1"; }
pid_of() { systemctl show -p MainPID --value "$1"; }
called() { $R/rdmarpc-run -o offer_after=0 -- timeout 60 "$@"; }

sd() { # ARGUMENT...: systemctl, which must succeed
	checks=$((checks + 1))
	timeout 150 systemctl "$@" >"$W/out" 2>&1 && return
	bad "systemctl $*: $(cat "$W/out")"
	systemctl status --no-pager "${@: -1}"
	journalctl --no-pager -n 30
	return 1
}
# unit NAME OPTION...: has the library, and is started
unit() {
	local name=$1
	shift
	checks=$((checks + 1))
	$R/rdmarpc-run --unit="$name" "$@" --install >"$W/out" 2>&1 || bad "--unit=$name: $(cat "$W/out")"
	sd daemon-reload && sd restart "$name"
}
# answered NAME WANTED COMMAND...: by unit NAME, of which WANTED is seen, over shared memory
answered() {
	local name=$1 want=$2 i
	shift 2
	checks=$((checks + 2))
	for ((i = 0; i < 30; i++)); do	# a service is started before it listens
		called "$@" >"$W/out" 2>&1 && grep -q "$want" "$W/out" && break
		sleep 1
	done
	[ $i != 30 ] || bad "$name: not '$want': $(cat "$W/out")"
	judge "$name" "$(pid_of "$name")" \
		'p["alive"] and c["shm"] >= 1 and p["rpcs"]["calls_received"] >= 1 and p["rpcs"]["replies_sent"] >= 1 and e["lost"] == 0'
}
# removed NAME WANTED COMMAND...: without the library; nothing of the drop-in is left, and WANTED is seen over TCP
removed() {
	local name=$1 want=$2 i
	shift 2
	checks=$((checks + 4))
	$R/rdmarpc-run --unit="$name" --remove >"$W/out" 2>&1 || bad "--unit=$name --remove: $(cat "$W/out")"
	[ ! -e "/etc/systemd/system/$name.service.d" ] || bad "$name: it leaves $(find "/etc/systemd/system/$name.service.d")"
	sd daemon-reload && sd restart "$name" || return
	[ "$(systemctl show -p DropInPaths --value "$name")" = '' ] || bad "$name: systemd has a drop-in yet"
	for ((i = 0; i < 30; i++)); do
		called "$@" >"$W/out" 2>&1 && grep -q "$want" "$W/out" && break
		sleep 1
	done
	[ $i != 30 ] || bad "$name, removed: not '$want': $(cat "$W/out")"
	grep -q libc "/proc/$(pid_of "$name")/maps" || bad "$name, removed: it has no process"
	! grep -q librpcrdma "/proc/$(pid_of "$name")/maps" || bad "$name, removed: the library is there still"
}
# journal TEXT: is in the library's log
journal() {
	local i
	checks=$((checks + 1))
	for ((i = 0; i < 50; i++)); do
		journalctl --sync
		! journalctl -t rdmarpc -o cat --no-pager | grep -q "$1" || return 0
		sleep 0.2
	done
	bad "not in the journal: $1: $(journalctl -t rdmarpc -o cat --no-pager | tail -n 5)"
}

# --- rpcbind: installed, restarted, removed ---
unit rpcbind -o log_to=journal -o log_level=info || lab_finish
answered rpcbind 'program 100000 version 2 ready' rpcinfo -T tcp 127.0.0.1 100000 2
journal 'rpcbind info: .*shm'
was=$(pid_of rpcbind)
sd restart rpcbind
[ "$(pid_of rpcbind)" != "$was" ] || bad "it is the process that it was"
answered rpcbind 'program 100000 version 2 ready' rpcinfo -T tcp 127.0.0.1 100000 2

# --- a hardened one ---
cat >/etc/systemd/system/hard.service <<X
[Service]
ExecStart=$R/labsvc svcrun 20801
DynamicUser=yes
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
NoNewPrivileges=yes
SystemCallFilter=@system-service
RestrictAddressFamilies=AF_INET AF_INET6
MemoryDenyWriteExecute=yes
X
if unit hard -o log_to=journal -o log_level=warn; then
	answered hard 'sum 100000 ok' labcli 127.0.0.1 20801 sum 100000
	$R/rdmarpc-stat --log-level=info "$(pid_of hard)" >"$W/out" 2>&1 || bad "--log-level: $(cat "$W/out")"
	answered hard 'sum 100000 ok' labcli 127.0.0.1 20801 sum 100000
	journal 'labsvc info: .*shm'
	[ "$(journalctl -t rdmarpc -o cat --no-pager | grep -c 'labsvc info: .*carried, shm')" = 1 ] || bad "it has told before"
	removed hard 'sum 100000 ok' labcli 127.0.0.1 20801 sum 100000
fi

# --- NIS ---
if [ -e /lib/systemd/system/ypserv.service ]; then
	echo labdom >/etc/defaultdomain
	mkdir -p /var/yp/labdom
	unit ypserv && answered ypserv 'program 100004 version 2 ready' rpcinfo -T tcp 127.0.0.1 100004 2 &&
		removed ypserv 'program 100004 version 2 ready' rpcinfo -T tcp 127.0.0.1 100004 2
fi

# --- ganesha ---
if [ -e /lib/systemd/system/nfs-ganesha.service ]; then
	mkdir -p /etc/ganesha "$W/exp" "$W/rec"
	[ -e /etc/mtab ] || ln -s /proc/self/mounts /etc/mtab
	cat >/etc/ganesha/ganesha.conf <<-X
		NFS_CORE_PARAM { Enable_NLM = false; Enable_RQUOTA = false; Protocols = 3,4; }
		NFSV4 { Graceless = true; RecoveryBackend = fs; RecoveryRoot = $W/rec; }
		NFS_KRB5 { Active_krb5 = false; }
		EXPORT { Export_Id = 1; Path = $W/exp; Pseudo = /exp; Access_Type = RW; Squash = No_Root_Squash;
			Protocols = 3,4; Transports = TCP; FSAL { Name = MEM; } }
	X
	unit nfs-ganesha && answered nfs-ganesha 'program 100003 version 3 ready' rpcinfo -T tcp 127.0.0.1 100003 3 &&
		removed nfs-ganesha 'program 100003 version 3 ready' rpcinfo -T tcp 127.0.0.1 100003 3
fi

# --- kadmin ---
if [ -e /lib/systemd/system/krb5-admin-server.service ]; then
	HOST=127.0.0.1
	helper() { background "$W/helper.out" "$@"; }
	waitport() { for ((i = 0; i < 300; i++)); do ! ss -Hltn "sport = :$1" | grep -q . || return; sleep 0.1; done; die "port $1"; }
	. "$(dirname "$0")/../../apps/krb5-setup.sh"
	kadmin.local -r LAB -q 'addprinc -pw secret lab/admin' >"$W/out" 2>&1 || die "kadmin.local: $(cat "$W/out")"
	mkdir -p /etc/krb5kdc
	cp "$W/krb5.conf" /etc/krb5.conf
	cp "$W/kdc.conf" /etc/krb5kdc/kdc.conf
	unit krb5-admin-server &&
		answered krb5-admin-server 'lab/admin@LAB' kadmin -r LAB -p lab/admin -w secret -q listprincs &&
		removed krb5-admin-server 'lab/admin@LAB' kadmin -r LAB -p lab/admin -w secret -q listprincs
fi

removed rpcbind 'program 100000 version 2 ready' rpcinfo -T tcp 127.0.0.1 100000 2
checks=$((checks + 1))
[ -z "$(find /etc/systemd/system -name '*rdmarpc*')" ] || bad "left: $(find /etc/systemd/system -name '*rdmarpc*')"
echo "$checks checks, $failures failed"
exit $((failures != 0))
