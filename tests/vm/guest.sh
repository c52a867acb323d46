# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For scripts of the host: a QEMU guest with Debian's kernel that has the host's file tree as its own,
# read-only with a tmpfs above.
#
#	guest_start DIR KERNELDIR INITRD; guest_run DIR SECONDS COMMAND...; guest_stop DIR
#
# DIR holds the share, the console and the pid. KVM where it works, else QEMU's own interpreter (VM_ACCEL=tcg
# asks for it at once: some machines have a /dev/kvm that hangs). VM_ACCEL=icount: time is counted in instructions
# of one CPU, 1 ns each, so that it passes alike on any machine, however busy. VM_QEMU: further arguments for QEMU.
# norandmaps: the interpreter keeps what it has translated by virtual address; where each process has its libraries
# elsewhere it translates libc anew for each exec, which was half of that exec's CPU.
# VM_CPUS: how many processors. With one the interpreter makes ordinary code of atomic instructions, and no processor
# waits for another one.
# VM_INIT=systemd: that is the guest's first process, with no more units than its journal and files of its own take.

VM_HERE=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
VM_CPUS=${VM_CPUS:-2}
VM_MEMORY=${VM_MEMORY:-2560}
exec {VM_TICK}<> <(:)	# nobody writes there

# Looking for what a guest does starts no process: it has the CPUs.
guest_tick() { read -r -t 0.05 -u "$VM_TICK"; true; }
guest_alive() {
	local pid
	[ -s "$1/pid" ] && read -r pid <"$1/pid" && kill -0 "$pid" 2>/dev/null
}

guest_cpu() { # DIR: seconds that its QEMU has computed; 0 if it is gone
	local stat
	read -r -a stat <"/proc/$(pgrep -P "$(cat "$1/pid")")/stat" || stat=()
	echo $(((${stat[13]:-0} + ${stat[14]:-0}) / $(getconf CLK_TCK)))
} 2>/dev/null

# session INCREMENT COMMAND...: in the background: becomes a session of its own, and so much nicer than what starts it, also
# for a scheduler that sees sessions as groups.
session() {
	# shellcheck disable=SC2016 # for sh
	exec setsid nice -n "$1" sh -c '{ nice >/proc/self/autogroup; } 2>/dev/null; exec "$@"' - "${@:2}"
}

guest_boot() { # DIR KERNELDIR INITRD SECONDS ACCEL...
	local dir=$1 share=$1/share kernel=$2 initrd=$3 i=$(($4 * 20))
	shift 4
	rm -rf "$share"
	mkdir -p "$share"
	cp "$VM_HERE/guest-main" "$share/main"
	session 0 timeout -k 3 "${VM_LIFE:-5400}" qemu-system-x86_64 -nodefaults -no-user-config -display none \
		-no-reboot -M q35 "$@" -smp "$VM_CPUS" -m "$VM_MEMORY" -kernel "$kernel/vmlinux" -initrd "$initrd" \
		-append "console=ttyS0 quiet loglevel=4 panic=-1 mitigations=off nokaslr norandmaps audit=0 apparmor=0 selinux=0 nowatchdog rcupdate.rcu_expedited=1 random.trust_cpu=on no_timer_check tsc=reliable vm.kernel=$kernel vm.init=${VM_INIT:-bash} systemd.unit=vm.target" \
		-serial file:"$dir/console" \
		-fsdev local,id=root,path=/,security_model=none,readonly=on,multidevs=remap \
		-device virtio-9p-pci,fsdev=root,mount_tag=hostroot \
		-fsdev local,id=share,path="$share",security_model=none \
		-device virtio-9p-pci,fsdev=share,mount_tag=share -device virtio-rng-pci ${VM_QEMU:-} </dev/null >"$dir/qemu.log" 2>&1 &
	echo $! >"$dir/pid"
	disown $!
	while ((i-- > 0)) && guest_alive "$dir"; do
		[ -e "$share/ready" ] || { guest_tick; continue; }
		! guest_clock_wrong "$share" || { guest_kill "$dir"; return 2; }
		return 0
	done
	guest_kill "$dir"
	return 1
}
# Where the host is very busy while the guest's kernel measures how fast the processor counts, the guest's seconds are
# a fraction of ours, and all that it waits for takes too long. By then it has been up for a few of them.
guest_clock_wrong() { # SHARE
	local off=$(($(cat "$1/ready") - $(stat -c %Y "$1/ready")))
	[ "${VM_ACCEL:-}" != icount ] && [ ${off#-} -gt 10 ] &&
		echo "vm: the guest's clock is $off s off when it has booted" >&2
}

guest_start() { # DIR KERNELDIR INITRD
	local try
	mkdir -p "$1"
	echo 0 >"$1/n"
	if [ "${VM_ACCEL:-kvm}" = kvm ] && [ -w /dev/kvm ] && guest_boot "$@" 15 -accel kvm -cpu host; then
		return 0
	fi
	if [ "${VM_ACCEL:-}" = icount ]; then
		VM_CPUS=1 guest_boot "$@" 120 -accel tcg,thread=single,tb-size=256 -icount shift=0,sleep=on -cpu Nehalem && return 0
	else
		for try in 1 2 3; do	# a clock that is wrong is measured again
			guest_boot "$@" 400 -accel tcg,thread=multi,tb-size=256 -cpu Nehalem && return 0
			[ $? = 2 ] || break
		done
	fi
	echo "vm: the guest did not come up" >&2
	tail -n 20 "$1/console" "$1/qemu.log" >&2
	return 1
}

# Its output appears when it ends; 125: the guest died or does not answer.
guest_run() { # DIR SECONDS COMMAND...
	local dir=$1 share=$1/share limit=$2 n
	shift 2
	n=$(($(cat "$dir/n") + 1))
	echo $n >"$dir/n"
	printf '%s\n' "$*" >"$share/$n.cmd"
	echo "$limit" >"$share/$n.limit"
	: >"$share/$n.go"
	for ((i = (limit + 10) * 20; i > 0; i--)); do
		[ ! -e "$share/$n.rc" ] || break
		guest_alive "$dir" || break
		guest_tick
	done
	[ ! -e "$share/$n.out" ] || cat "$share/$n.out"
	[ ! -e "$share/$n.rc" ] || return "$(cat "$share/$n.rc")"
	echo "vm: the guest does not answer; its console:"
	tail -n 20 "$dir/console"
	return 125
}

guest_kill() { # DIR
	local i
	for ((i = 0; i < 60; i++)); do
		guest_alive "$1" || break
		[ $i != 40 ] || kill -TERM "$(cat "$1/pid")" 2>/dev/null
		guest_tick
	done
	rm -f "$1/pid"
}

guest_stop() { # DIR
	[ ! -d "$1/share" ] || : >"$1/share/stop"
	guest_kill "$1"
}
