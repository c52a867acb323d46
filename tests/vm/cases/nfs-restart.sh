#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Ganesha is killed under a mounted client that writes, and another one takes its place: the client goes on, and what it
# wrote is right. Then it mounts again and again, and nothing of that stays with the server.
# nfs-restart.sh [VERSION...] [rdma|tcp] [remounts=N]
# At most 1200 s.
. "$(dirname "$0")/../lib.sh"
. "$(dirname "$0")/../nfs.sh"
n=20 words=()
for w; do
	case $w in remounts=*) n=${w#*=} ;; *) words+=("$w") ;; esac
done
nfs_arguments "${words[@]}"
[ "$versions" != "3 4.0 4.1 4.2" ] || versions='3 4.1'

server_fds() {
	local open
	open=("/proc/$(cat "$W/ganesha.pid")/fd"/*)
	echo ${#open[@]}
}
restarted() { # VERSION
	local i start
	background "$W/writer" sh -c "cd $MNT && exec $FILES io restart$1 4194304 64k synced"
	for ((i = 0; i < 300 && $(stat -c %s /export/restart"$1" 2>/dev/null || echo 0) < 1048576; i++)); do sleep 0.1; done
	kill -0 "$pid" 2>/dev/null || bad "$1: the writer has ended too soon: $(cat "$W/writer")"
	kill -9 "$(cat "$W/ganesha.pid")"
	wait "$server_pid" 2>/dev/null
	local writer=$pid
	start=${EPOCHREALTIME/./}
	ganesha_up
	checks=$((checks + 1))
	for ((i = 0; i < 2400; i++)); do kill -0 "$writer" 2>/dev/null || break; sleep 0.1; done
	[ $i != 2400 ] && wait "$writer" || bad "$1: the client does not go on: $(cat "$W/writer")"
	found="${found:+$found; }$1: all is written $(((${EPOCHREALTIME/./} - start) / 1000)) ms after the other server's start"
	[ $proto != rdma ] || counted "a new connection by RDMA" 'connects >= 2 && bad_xids + bad_reply == 0'
}
remounted() { # VERSION
	local i before
	before=$(server_fds)
	for ((i = 0; i < n; i++)); do
		nfs_umount
		nfs_mount "$1" $proto
		[ -s $MNT/restart"$1" ] || bad "$1: mount $i has no file"
		[ $proto != rdma ] || counted "$1: mount $i has a connection of its own" 'connects == 1'
	done
	checks=$((checks + 1))
	for ((i = 0; i < 200 && $(server_fds) > before + 10; i++)); do sleep 0.1; done
	[ $i != 200 ] || bad "$1: $n mounts leave $(server_fds) descriptors to the server; before $before"
}

nfs_server
for v in $versions; do
	nfs_mount $v $proto
	restarted $v
	remounted $v
	nfs_umount
done
[ $proto != rdma ] || judge ganesha server 'c["verbs"] >= 1 and not e["err_chunk_sent"]'
nfs_finish
