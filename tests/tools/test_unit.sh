#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-run --unit: drop-ins for Debian's own units and for hardened ones, as systemd reads them.
. "$(dirname "$0")/lib"
command -v systemd-analyze >/dev/null || { echo "systemd is not installed"; exit 77; }
trap 'rm -rf "$T"' EXIT
run=$BUILD/rdmarpc-run
lib=$BUILD/librpcrdma_shim.so
etc=$T/root/etc/systemd/system
mkdir -p "$etc"
# verify UNIT: what systemd has to say of the drop-in
verify() { SYSTEMD_UNIT_PATH=$etc:/lib/systemd/system timeout 300 systemd-analyze verify --man=no "$1" 2>&1 | grep -F rdmarpc.conf; }

# --- Debian's ---
for u in rpcbind nfs-ganesha ypserv krb5-admin-server; do
	[ -e "/lib/systemd/system/$u.service" ] || { is "$u is installed" no yes; continue; }
	cp "/lib/systemd/system/$u.service" "$etc"
	out=$("$run" --unit="$u" --root="$T/root" --install 2>&1)
	is "$u: status" "$?" 0
	has "$u: what to do now" "$out" "systemctl restart $u.service"
	has "$u: the library" "$(cat "$etc/$u.service.d/rdmarpc.conf")" "Environment=\"LD_PRELOAD=$lib\""
	is "$u: systemd reads it" "$(verify "$u.service")" ""
done
echo 'Bogus=1' >>"$etc/rpcbind.service.d/rdmarpc.conf"
has "and would say so" "$(verify rpcbind.service)" "Bogus"
"$run" --unit=rpcbind.service --root="$T/root" --install >/dev/null
is "written anew" "$(verify rpcbind.service)" ""

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
out=$("$run" --unit hard --root="$T/root" --print -o log_to=journal -o 'log_file=/x y"z%n\n')
is "hardened: printed" "$(printf '%s\n' "$out" | grep -v '^#')" '[Service]
Environment="LD_PRELOAD='"$lib"'"
Environment="RDMARPC_LOG_TO=journal"
Environment="RDMARPC_LOG_FILE=/x y\"z%%n\\n"
ReadWritePaths=-/run/rdmarpc
RestrictAddressFamilies=AF_UNIX'
is "and nothing is written" "$(find "$etc" -path '*hard.service.d*')" ""
"$run" --unit hard --root="$T/root" -o log_to=journal -o 'log_file=/x y"z%n\n' --install >/dev/null
is "hardened: systemd reads it" "$(verify hard.service)" ""
sed -i 's/ AF_INET6/ AF_INET6 AF_UNIX/' "$etc/hard.service"
is "AF_UNIX is allowed already" "$("$run" --unit hard --root="$T/root" | grep -c AF_UNIX)" 0
sed -i 's/^RestrictAddressFamilies=.*/RestrictAddressFamilies=~AF_UNIX/' "$etc/hard.service"
has "AF_UNIX is forbidden" "$("$run" --unit hard --root="$T/root" 2>&1 >/dev/null)" "keeps connections on TCP"
sed -i '/^RestrictAddressFamilies/d' "$etc/hard.service"
is "no restriction is begun" "$("$run" --unit hard --root="$T/root" | grep -c AF_UNIX)" 0
printf '[Service]\nEnvironment="A=b" LD_PRELOAD=libjemalloc.so.2\n' >"$etc/hard.service.d/mine.conf"
out=$("$run" --unit hard --root="$T/root" --install 2>&1)
is "a preload of its own: status" "$?" 125
has "a preload of its own" "$out" "LD_PRELOAD of its own"
rm "$etc/hard.service.d/mine.conf"

# --- templates, --tirpc, what cannot have the library ---
sed 's/^ExecStart=.*/ExecStart=-\/nowhere\/prog %i/' "$etc/hard.service" >"$etc/tmpl@.service"
out=$("$run" --unit tmpl@1 --root="$T/root" --tirpc 2>&1)
has "--tirpc" "$out" "shim.so:libtirpc.so.3\""
has "a program that is not there" "$out" "warning: /nowhere/prog"
has "a unit that is not there" "$("$run" --unit nobody --root="$T/root" 2>&1)" "warning: there is no such unit"

# --- removal ---
"$run" --unit hard --root="$T/root" --remove >/dev/null
is "removed" "$?:$([ -e "$etc/hard.service.d" ] || echo gone)" "0:gone"
"$run" --unit hard --root="$T/root" --remove >/dev/null 2>&1
is "removed twice" "$?" 125
mkdir "$etc/hard.service.d"
echo mine >"$etc/hard.service.d/rdmarpc.conf"
for what in --install --remove; do
	"$run" --unit hard --root="$T/root" $what >/dev/null 2>&1
	is "another's file stays: $what" "$?:$(cat "$etc/hard.service.d/rdmarpc.conf")" "125:mine"
done
for bad in ../x a/b '' .x 'a b'; do
	"$run" --unit "$bad" --root="$T/root" --install >/dev/null 2>&1
	is "a name: '$bad'" "$?" 125
done
finish
