#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-run --unit: drop-ins for Debian's own units and for hardened ones, as systemd reads them, and their removal.
. "$(dirname "$0")/lib"
command -v systemd-analyze >/dev/null || { echo "systemd is not installed"; exit 77; }
trap 'rm -rf "$T"' EXIT
run=$BUILD/rdmarpc-run
lib=$BUILD/librpcrdma_shim.so
etc=$T/root/etc/systemd/system
mkdir -p "$etc"
unit() { name=$1; shift; "$run" --unit="$name" --root="$T/root" "$@"; }
# verify UNIT: what systemd has to say of the drop-in
verify() { SYSTEMD_UNIT_PATH=$etc:/lib/systemd/system timeout 300 systemd-analyze verify --man=no "$1" 2>&1 | grep -F rdmarpc.conf; }
# files: each directory and file below the root, with what is in it
files() { (cd "$T/root" && find . -type d -print -o -type f -exec cksum {} + | sort); }

# --- Debian's ---
for u in rpcbind nfs-ganesha ypserv krb5-admin-server; do
	[ -e "/lib/systemd/system/$u.service" ] || { is "$u is installed" no yes; continue; }
	cp "/lib/systemd/system/$u.service" "$etc"
	files >"$T/before"
	ours=$etc/$u.service.d/rdmarpc.conf
	out=$(unit $u --install 2>&1)
	is "$u: status" "$?" 0
	has "$u: what to do now" "$out" "systemctl restart $u.service"
	is "$u: no warning" "$(printf '%s\n' "$out" | grep -c warning)" 0
	has "$u: the library" "$(cat "$ours")" "Environment=\"LD_PRELOAD=$lib\""
	is "$u: --print prints the same" "$(unit $u --print)" "$(cat "$ours")"
	is "$u: systemd reads it" "$(verify $u.service)" ""
	echo 'Bogus=1' >>"$ours"
	has "$u: and would say so" "$(verify $u.service)" "Bogus"
	unit $u.service --install >/dev/null
	is "$u: written anew" "$(cat "$ours")" "$(unit $u)"
	is "$u: the unit and all else stay" "$(files | grep -vF "/$u.service.d")" "$(cat "$T/before")"
	out=$(unit $u --remove)
	is "$u: removed" "$?" 0
	has "$u: removed: what to do now" "$out" "systemctl restart $u.service"
	is "$u: the removal leaves nothing" "$(files)" "$(cat "$T/before")"
done

# --- a hardened one ---
cat >"$etc/hard.service" <<E
[Service]
ExecStart=/usr/sbin/rpcbind -f -w
DynamicUser=yes
ProtectSystem=strict
PrivateTmp=yes
PrivateDevices=yes
SystemCallFilter=@system-service
RestrictAddressFamilies=AF_INET AF_INET6
MemoryDenyWriteExecute=yes
E
cp "$etc/hard.service" "$T"
files >"$T/before"
out=$(unit hard --print -o log_to=journal -o 'log_file=/x y"z%n\n')
is "hardened: printed" "$(printf '%s\n' "$out" | grep -v '^#')" '[Service]
Environment="LD_PRELOAD='"$lib"'"
Environment="RDMARPC_LOG_TO=journal"
Environment="RDMARPC_LOG_FILE=/x y\"z%%n\\n"
ReadWritePaths="-/run/rdmarpc"
RestrictAddressFamilies=AF_UNIX'
is "and nothing is written" "$(files)" "$(cat "$T/before")"
unit hard -o log_to=journal -o 'log_file=/x y"z%n\n' -o run_dir='/run/a b%n' --install >/dev/null
is "hardened: systemd reads it" "$(verify hard.service)" ""
is "a run directory of its own" "$(grep ReadWrite "$etc/hard.service.d/rdmarpc.conf")" 'ReadWritePaths="-/run/a b%%n"'
sed -i 's/ AF_INET6/ AF_INET6 AF_UNIX/' "$etc/hard.service"
is "AF_UNIX is allowed already" "$(unit hard | grep -c AF_UNIX)" 0
sed -i 's/^RestrictAddressFamilies=.*/RestrictAddressFamilies=~AF_UNIX/' "$etc/hard.service"
has "AF_UNIX is forbidden" "$(unit hard 2>&1 >/dev/null)" "keeps connections on TCP"
sed -i '/^RestrictAddressFamilies/d' "$etc/hard.service"
is "no restriction is begun" "$(unit hard | grep -c AF_UNIX)" 0

# --- ProtectSystem=, a boolean or a word, of which systemd ignores what is neither ---
protected() { { echo '[Service]' && printf 'ProtectSystem=%s\n' "$@"; } >"$etc/hard.service" && unit hard | grep -c ReadWritePaths; }
dynamic() { { echo '[Service]' && printf '%s\n' "$@"; } >"$etc/hard.service" && unit hard | grep -c ReadWritePaths; }
is "DynamicUser= implies strict" "$(dynamic DynamicUser=yes)" 1
is "DynamicUser= implies strict, whatever else is said" "$(dynamic DynamicUser=on ProtectSystem=no)" 1
is "DynamicUser=no implies nothing" "$(dynamic DynamicUser=no)" 0
for v in yes On full 0; do
	is "ProtectSystem=$v after strict" "$(protected strict "$v")" 0
	is "ProtectSystem=strict after $v" "$(protected "$v" strict)" 1
done
for v in '' Strict FULL perhaps; do
	is "ProtectSystem=$v after strict" "$(protected strict "$v")" 1
	is "ProtectSystem=$v after full" "$(protected full "$v")" 0
done
cp "$T/hard.service" "$etc"
sed -i '/^RestrictAddressFamilies/d' "$etc/hard.service"

# --- a preload of its own ---
mine=$etc/hard.service.d/mine.conf
printf '[Service]\nEnvironment="A=b" LD_PRELOAD=libjemalloc.so.2\n' >"$mine"
out=$(unit hard --install 2>&1)
is "a preload of its own: status" "$?" 125
has "a preload of its own" "$out" "LD_PRELOAD of its own"
mkdir "$T/root/etc/default"
printf '# A=b\nA=b\n LD_PRELOAD="libjemalloc.so.2"\n' >"$T/root/etc/default/hard"
printf '[Service]\nEnvironmentFile=-/etc/default/hard\n' >"$mine"
has "in a file that it names" "$(unit hard 2>&1)" "LD_PRELOAD of its own"
printf '[Service]\nEnvironment=MY_LD_PRELOAD=x.so\nEnvironmentFile=-/etc/default/none\n' >"$mine"
unit hard >/dev/null 2>&1
is "a variable whose name ends so is another" "$?" 0
rm -r "$mine" "$T/root/etc/default"

# --- how a unit may be written (systemd.syntax(7)) ---
printf '[Service]\n ProtectSystem = strict \r\nRestrictAddressFamilies = \\\n  AF_INET AF_INET6 \\\n  AF_UNIX\n' >"$etc/hard.service"
is "spaces around =, and lines that go on" "$(unit hard | sed -n '/^Read/p; /^Restrict/p')" 'ReadWritePaths="-/run/rdmarpc"'
printf '[Service]\n#ProtectSystem=strict\n ; RestrictAddressFamilies=AF_INET\n' >"$etc/hard.service"
is "comments do not count" "$(unit hard | grep -c -e ^Read -e ^Restrict)" 0
cp "$T/hard.service" "$etc"

# --- templates, --tirpc, what cannot have the library ---
printf '[Service]\nExecStart=-/nowhere/prog %%i\n' >"$etc/tmpl@.service"
out=$(unit tmpl@1 --tirpc 2>&1)
has "--tirpc" "$out" "shim.so:libtirpc.so.3\""
has "a program that is not there" "$out" "warning: /nowhere/prog"
for d in tmpl@1.service.d tmpl@.service.d service.d; do
	is "before $d restricts" "$(unit tmpl@1 2>/dev/null | grep -c AF_UNIX)" 0
	mkdir "$etc/$d"
	printf '[Service]\nRestrictAddressFamilies=AF_INET\n' >"$etc/$d/families.conf"
	is "after it" "$(unit tmpl@1 2>/dev/null | grep -c =AF_UNIX)" 1
	rm -r "${etc:?}/$d"
done
rm "$etc/tmpl@.service"
has "a unit that is not there" "$(unit nobody 2>&1)" "warning: there is no such unit"
unit nobody --install >/dev/null 2>&1
has "nor is it by its drop-in" "$(unit nobody 2>&1)" "warning: there is no such unit"
unit nobody --remove >/dev/null

# --- a host with an RDMA device: a /dev with the name of one ---
if [ "$(id -u)" = 0 ] && unshare -m true 2>/dev/null; then
	# shellcheck disable=SC2016 # a script's own
	with_device() {
		unshare -m sh -c 'mount --make-rprivate / && : >"$0/null" && mount --bind /dev/null "$0/null" &&
			mount -t tmpfs -o mode=755 tmpfs /dev && : >/dev/null && mount --move "$0/null" /dev/null &&
			mkdir /dev/infiniband && : >/dev/infiniband/rdma_cm && exec "$@"' "$T" \
			"$run" --root="$T/root" "$@"
	}
	is "a device: what it takes" "$(with_device --unit=rpcbind | grep -v '^#' | tail -n +3)" "LimitMEMLOCK=infinity"
	is "without a warning" "$(with_device --unit=rpcbind 2>&1 >/dev/null)" ""
	out=$(with_device --unit=hard --install 2>&1)
	has "a device, PrivateDevices=" "$out" "warning: PrivateDevices= hides RDMA devices"
	is "a device, a hardened unit" "$(grep -v '^#' "$etc/hard.service.d/rdmarpc.conf" | tail -n +3)" \
		'ReadWritePaths="-/run/rdmarpc"
RestrictAddressFamilies=AF_UNIX
LimitMEMLOCK=infinity
RestrictAddressFamilies=AF_NETLINK'
	is "a device: systemd reads it" "$(verify hard.service)" ""
	sed -i 's/^RestrictAddressFamilies=.*/& AF_UNIX AF_NETLINK/' "$etc/hard.service"
	is "a device, families that are allowed already" "$(with_device --unit=hard 2>/dev/null | grep -c AF_)" 0
	private() { { echo '[Service]' && printf 'PrivateDevices=%s\n' "$@"; } >"$etc/hard.service"; }
	hides() { with_device --unit=hard 2>&1 >/dev/null | grep -c PrivateDevices; }
	for v in 1 yes y true t on ON Yes; do
		private "$v"
		is "PrivateDevices=$v" "$(hides)" 1
	done
	for v in 0 no n false f off OFF No; do
		private yes "$v"
		is "PrivateDevices=$v after yes" "$(hides)" 0
	done
	# systemd ignores what is no boolean.
	for v in '' yesterday 10 ye; do
		private no "$v"
		is "PrivateDevices=$v after no" "$(hides)" 0
		private yes "$v"
		is "PrivateDevices=$v after yes" "$(hides)" 1
	done
	cp "$T/hard.service" "$etc"
fi

# --- removal ---
unit hard --install >/dev/null
echo '[Service]' >"$mine"
unit hard --remove >/dev/null
is "removed: another's drop-in stays" "$?:$(ls -A "$etc/hard.service.d")" "0:mine.conf"
rm "$mine"
unit hard --install >/dev/null
unit hard --remove >/dev/null
is "removed" "$?" 0
is "the removal leaves nothing" "$(files)" "$(cat "$T/before")"
unit hard --remove >/dev/null 2>&1
is "removed twice" "$?" 125
mkdir "$etc/hard.service.d"
echo mine >"$etc/hard.service.d/rdmarpc.conf"
for what in --install --remove; do
	unit hard $what >/dev/null 2>&1
	is "another's file stays: $what" "$?:$(cat "$etc/hard.service.d/rdmarpc.conf")" "125:mine"
done
for bad in ../x a/b '' .x 'a b'; do
	unit "$bad" --install >/dev/null 2>&1
	is "a name: '$bad'" "$?" 125
done
finish
