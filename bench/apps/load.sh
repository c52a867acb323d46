# SPDX-License-Identifier: BSD-3-Clause
# shellcheck shell=bash
# For the scripts beside this file, which bench/real starts. Each sources this, starts its servers as tests/apps
# does (LEG=tcp: neither end has the library; LEG=both: both ends have it), puts loads on them and ends with "loaded":
#
#	load NAME OPERATIONS COMMAND...
#
# A load is played once for each of PLACES: unpinned; pinned, servers and client on a CPU each; busy, unpinned beside
# four processes that compute for ever. OPERATIONS is how many operations the command makes; with "-" its last line says
# "OPERATIONS SECONDS". Each play prints a line of JSON: operations a second, and the CPU time of one in all processes.
. "$(dirname "${BASH_SOURCE[0]}")/../../tests/apps/lib.sh"
unset RDMARPC_UPGRADE_TIMEOUT_MS
PLACES=${PLACES:-unpinned pinned busy}
SECONDS_EACH=${SECONDS_EACH:-2}
cpus=$(awk '/^Cpus_allowed_list/ { print $2 }' /proc/self/status)
first_cpu=${cpus%%[,-]*} last_cpu=${cpus##*[,-]}
client_stat=$W/stat/client
mkdir -m 1777 $client_stat
[ "$LEG" != both ] || client_env=(LD_PRELOAD="$PRELOAD" RDMARPC_RUN_DIR="$client_stat")

# CPU time in clock ticks of all processes of this namespace, those that have ended included; busy ones are not.
ticks() {
	cat /proc/[0-9]*/stat 2>/dev/null | awk -v busy=" ${busy[*]} " '{
		pid = $1
		sub(/^.*\) /, "")
		if (!index(busy, " " pid " "))
			sum += $12 + $13 + $14 + $15
	} END { print sum }'
}

servers_on() { # CPUS: all processes but this shell
	local p
	for p in /proc/[0-9]*; do
		[ "$p" = /proc/$$ ] || taskset -a -p -c "$1" "${p#/proc/}" >/dev/null 2>&1
	done
}

busy=()
place() { # unpinned|pinned|busy
	local i
	[ ${#busy[@]} = 0 ] || { kill "${busy[@]}"; wait "${busy[@]}"; } 2>/dev/null
	busy=() pin=()
	servers_on "$cpus"
	case $1 in
	pinned) servers_on "$first_cpu"; pin=(taskset -c "$last_cpu") ;;
	busy)
		for ((i = 0; i < 4; i++)); do
			sh -c 'while :; do :; done' &
			busy+=($!)
		done ;;
	esac
}

load() { # NAME OPERATIONS COMMAND...
	local name=$1 n=$2 where start cpu took
	shift 2
	for where in $PLACES; do
		place "$where"
		cpu=$(ticks) start=$EPOCHREALTIME
		"${pin[@]}" timeout 120 env "${client_env[@]}" "$@" >$W/out 2>$W/err </dev/null ||
			{ cat $W/out $W/err >&2; die "$name: exit status $?"; }
		took=$(awk -v a="$start" -v b="$EPOCHREALTIME" 'BEGIN { print b - a }')
		cpu=$(($(ticks) - cpu))
		[ "$n" = - ] && set_of=$(tail -n 1 $W/out) || set_of="$n $took"
		awk -v name="$name.$where" -v cpu=$cpu -v hz="$(getconf CLK_TCK)" '{
			printf "{\"load\":\"%s\",\"ops_per_s\":%.1f,\"cpu_us\":%.2f}\n", name, $1 / $2, cpu / hz * 1e6 / $1
		}' <<<"$set_of"
	done
	place unpinned
}

# The counters of both ends say what was carried: {"sent": calls of the clients, "received": calls at the servers}
loaded() {
	local end key sum
	printf '{"carried":{'
	for end in client:calls_sent server:calls_received; do
		key=${end#*:}
		sum=$(RDMARPC_RUN_DIR=$W/stat/${end%:*} "$BUILD/rdmarpc-stat" --json | grep -o "\"$key\":[0-9]*" |
			awk -F: '{ n += $2 } END { print n + 0 }')
		printf '"%s":%s%s' "$key" "$sum" "$([ "$key" = calls_sent ] && echo ,)"
	done
	echo '}}'
	trap - EXIT	# lib.sh's, of scripts that end before this
	exit 0
}
