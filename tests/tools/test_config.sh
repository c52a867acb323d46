#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-run --print-config and --check-config.
. "$(dirname "$0")/lib"
trap 'rm -rf "$T"; [ -z "${pid:-}" ] || kill "$pid" 2>/dev/null' EXIT
run=$BUILD/rdmarpc-run

# --- what is wrong with a file: each problem with its place, and a status ---
cat >"$T/bad.conf" <<'END'
mode = auto
credits = 12
credits = 13
spin_uss = 4
[rule]
port = 2000-3000
mode = tcp
[rule]
port = 2049
command = gane*
mode = require
[rule]
port = 111
port = 112
mode = tcp
END
out=$("$run" --check-config="$T/bad.conf")
is "status of a bad file" "$?" 1
is "its problems" "$out" "$T/bad.conf:3:1: option 'credits' again, after line 2; this one counts
$T/bad.conf:4:1: unknown option 'spin_uss', did you mean 'spin_us'?; ignored
$T/bad.conf:8:1: rule never counts: the one at line 5 comes first and applies to all that this one does
$T/bad.conf:14:1: key 'port' again, after line 13; this one counts"
i=0
while [ $i -lt 300 ]; do echo "wrong$i = 1"; i=$((i + 1)); done >"$T/long.conf"
is "all problems, however many" "$("$run" --check-config="$T/long.conf" | wc -l)" 300
"$run" --check-config="$T/none.conf" >/dev/null
is "status of a file that is not there" "$?" 1
out=$(RDMARPC_CREDITS=x "$run" --check-config=rdmarpc.conf.example)
is "a good file, whatever the environment" "$?:$out" "0:"

# Only rules that cover all of another make it useless.
rules() { printf '[rule]\n%b\n[rule]\n%b\n' "$1" "$2" >"$T/r.conf"; "$run" --check-config="$T/r.conf" | grep -c "never counts"; }
is "all, then one port" "$(rules 'mode=tcp' 'port=1\nmode=auto')" 1
is "one port, then all" "$(rules 'port=1\nmode=tcp' 'mode=auto')" 0
is "client, then either" "$(rules 'role=client\nmode=tcp' 'mode=auto')" 0
is "a network, then a host of it" "$(rules 'address=10.0.0.0/8\nmode=tcp' 'address=10.1.2.3\nmode=auto')" 1
is "a network, then a host elsewhere" "$(rules 'address=10.0.0.0/8\nmode=tcp' 'address=11.1.2.3\nmode=auto')" 0
is "a host, then its network" "$(rules 'address=10.1.2.3\nmode=tcp' 'address=10.0.0.0/8\nmode=auto')" 0
is "IPv4, then IPv6" "$(rules 'address=0.0.0.0/0\nmode=tcp' 'address=::/0\nmode=auto')" 0
is "one command's, then all" "$(rules 'command=*\nmode=tcp' 'mode=auto')" 0
is "one program, then all" "$(rules 'program=100003\nmode=tcp' 'mode=auto')" 0
is "one program, twice" "$(rules 'program=100003\nmode=tcp' 'program=100003\nmode=auto')" 1

# --- what is in force ---
cat >"$T/good.conf" <<'END'
credits = 13
run_dir = /run/x
[rule]
command = gane*
role = server
port = 2049
native = on
[rule]
address = fd00::/8
program = 100005
mode = require
dialect = v2
END
out=$(RDMARPC_SPIN_US=7 RDMARPC_RULES='port=1-2 mode=tcp' "$run" -c "$T/good.conf" -o stash=2m --print-config)
is "status" "$?" 0
line() { printf '%s\n' "$out" | sed -n "s/ *# */ # /; /^$1/p"; }
is "from the file" "$(line credits)" "credits = 13 # $T/good.conf:1"
is "a path" "$(line run_dir)" "run_dir = /run/x # $T/good.conf:2"
is "from the environment" "$(line spin_us)" "spin_us = 7us # environment, RDMARPC_SPIN_US"
is "from -o" "$(line stash)" "stash = 2m # environment, RDMARPC_STASH"
is "a default" "$(line enabled)" "enabled = on # default"
is "rules" "$(line '\[rule\]')" "[rule] # RDMARPC_RULES:1
[rule] # $T/good.conf:3; another command's
[rule] # $T/good.conf:8"
has "a rule of the file" "$out" 'role = server
command = "gane*"
port = 2049
mode = auto
native = on'
has "another" "$out" 'address = fd00::/8
program = 100005
mode = require
dialect = v2'
out=$("$run" -c "$T/good.conf" --print-config /usr/bin/ganesha.nfsd)
is "rules for a program" "$(line '\[rule\]' | head -n 1)" "[rule] # $T/good.conf:3"
printf '%s\n' "$out" >"$T/again.conf"
is "it is a configuration itself" "$("$run" --check-config="$T/again.conf")" ""
is "and says the same" "$("$run" -c "$T/again.conf" --print-config ganesha.nfsd | sed 's/ *#.*//; /^$/d')" \
	"$(printf '%s\n' "$out" | sed 's/ *#.*//; /^$/d')"
has "an option of a word or a number" "$(RDMARPC_OFFER_AFTER=auto "$run" --print-config)" "offer_after = auto "
out=$("$run" -c "$T/bad.conf" --print-config)
is "status with problems" "$?" 1
is "they come first, as comments" "$(printf '%s\n' "$out" | grep -c '^# problem: ')" 4

# --- of a running process: its environment, its name, its file ---
RDMARPC_CONF=$T/good.conf RDMARPC_STASH=3m sleep 60 &
pid=$!
while [ "$(cat /proc/$pid/comm)" != sleep ]; do :; done
out=$(RDMARPC_STASH=1m "$run" --print-config --pid=$pid)
is "status, of a process" "$?" 0
is "from its environment" "$(line stash)" "stash = 3m # environment, RDMARPC_STASH"
is "from its file" "$(line credits)" "credits = 13 # $T/good.conf:1"
has "what it has not" "$out" "has not loaded librpcrdma_shim.so"
touch -d '+1 hour' "$T/good.conf"
has "a file that has changed since" "$("$run" --print-config --pid=$pid)" "is younger than process $pid"
out=$("$run" --print-config --pid=99999999 2>&1)
is "no such process" "$?:$out" "1:rdmarpc-run: process 99999999: No such file or directory"
out=$("$run" --print-config --pid=x 2>&1)
is "no process id" "$?:$out" "125:rdmarpc-run: --pid: 'x' is no process id"
for id in 0 -1 "${pid}x" 2147483648 ''; do
	out=$("$run" --print-config --pid="$id" 2>&1)
	is "nor is '$id'" "$?:$out" "125:rdmarpc-run: --pid: '$id' is no process id"
done
finish
