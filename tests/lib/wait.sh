# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# Sourced: what a loop that waits needs, without starting a process. In a guest whose processor is interpreted a process
# takes 0.1 s of CPU, which the program that the loop waits for could have used.

exec {wait_tick}<> <(:)	# nobody writes there

# sleep SECONDS: in place of the program of this name.
sleep() {
	read -r -t "$1" -u "$wait_tick"
	true
}

# listening PORT: whether a TCP socket in this network namespace listens there.
listening() {
	local port table sockets
	printf -v port ':%04X' "$1"
	for table in /proc/net/tcp*; do
		mapfile sockets <"$table"
		[[ ! ${sockets[*]} =~ $port\ [0-9A-F]+:0000\ 0A\  ]] || return 0
	done
	return 1
}

# contains FILE REGEX: whether the file is there and its text matches.
contains() {
	local text=
	[ ! -e "$1" ] || IFS= read -r -d '' text <"$1"
	[[ $text =~ $2 ]]
}
