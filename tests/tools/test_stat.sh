#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-stat: processes living and dead, the JSON names that are an interface, hostile files.
. "$(dirname "$0")/lib"
command -v jq >/dev/null || { echo "jq is not installed"; exit 77; }
make -s BUILD="$(basename "$BUILD")" "$(basename "$BUILD")/tests/tools/mkseg" || exit 1
stat=$BUILD/rdmarpc-stat
RDMARPC_RUN_DIR=$T/run
export RDMARPC_RUN_DIR
mkdir -m 1777 "$T/run"

# A process with a segment; it lives until its fifo is closed. $pid
mkfifo "$T/in"
mkseg=$BUILD/tests/tools/mkseg
start() {
	"$mkseg" "$T/run" "$@" <"$T/in" >"$T/pid" &
	exec 8>"$T/in"
	until [ -s "$T/pid" ]; do sleep 0.02; done
	pid=$(cat "$T/pid")
}
end() {
	exec 8>&-
	wait "$pid"
	mv "$T/pid" "$T/last"
}
trap 'exec 8>&-; rm -rf "$T"' EXIT
json() { "$stat" --json "$@" | jq -c "$q"; }

release=$("$stat" --version)
release=${release##* }
q=.
is "nobody" "$(json 2>"$T/err")" '{"version":1,"release":"'"$release"'","stopped":false,"processes":[],"directories":[{"path":"'"$T"'/run","fault":""}]}'
has "and where it was looked for" "$(cat "$T/err")" "rdmarpc-stat: looked in $T/run"
has "a directory that is not there" "$(RDMARPC_RUN_DIR=$T/none "$stat" 2>&1)" "rdmarpc-stat: $T/none: does not exist"
mkdir -m 777 "$T/open"
has "one that others can change" "$(RDMARPC_RUN_DIR=$T/open "$stat" 2>&1)" "rdmarpc-stat: $T/open: others can write to it, and it is not sticky"

# A connection by TCP that may still be carried is in the sums that people read, and in those of programs when it is over.
start undecided
q='.processes[0] | [.connections.tcp, .tcp_reasons, (.list[] | select(.fd == 8) | .state, .carrier, .reason)]'
is "undecided: not counted yet" "$(json)" '[1,{"peer has no shim":1},"new","tcp","peer made no offer"]'
has "undecided: nor as OpenMetrics" "$("$stat" --openmetrics | grep '^rdmarpc_connections_total.*tcp')" ' 1'
has "undecided: in the table" "$("$stat")" "tcp: 1 peer has no shim, 1 peer made no offer"
end
is "undecided, and the process has ended" "$(json)" '[2,{"peer has no shim":1,"peer made no offer":1},"new","tcp","peer made no offer"]'
start crowd
n=$("$stat" --json | jq '[.processes[0].list[] | select(.reason == "peer made no offer")] | length')
has "undecided: two that share an entry, the last of $n, count once each" "$("$stat" | grep tcp:)" ", $((n + 1)) peer made no offer"
end
# What a later release has appended is counted under one name, and nothing of it is left out.
start later
later='a reason that only another release knows'
is "another release's reasons" "$(json)" '[3,{"peer has no shim":1,"'"$later"'":2},"tcp","tcp","'"$later"'"]'
has "another release's reasons: in the table" "$("$stat")" "tcp: 1 peer has no shim, 2 $later"
is "another release's reasons: as OpenMetrics" "$("$stat" --openmetrics | sed -n "s/^rdmarpc_tcp_connections_total.*$later.*} //p")" 2
end
rm -f "$T"/run/*
touch "$T/file"
for dir in none open file; do
	for how in "" --json --list --procedures; do
		RDMARPC_RUN_DIR=$T/$dir "$stat" $how >"$T/out" 2>"$T/err"
		is "a directory that cannot be used, $dir, $how: status" "$?:$(grep -c "^rdmarpc-stat: $T/$dir: " "$T/err")" 1:1
	done
	RDMARPC_RUN_DIR=$T/$dir "$stat" --openmetrics >/dev/null 2>"$T/err"
	is "a directory that cannot be used, $dir: Prometheus is told nevertheless" "$?:$(grep -c "^rdmarpc-stat: $T/$dir: " "$T/err")" 0:1
done
"$stat" >/dev/null 2>&1
is "a directory with nobody in it: status" "$?" 0

start
q='.processes[0] | [.pid, .comm, .alive, .ended]'
is "a living process" "$(json)" "[$pid,\"mkseg\",true,false]"
q='.processes[0].connections'
is "connections" "$(json)" '{"shm":2,"verbs":0,"tcp":1}'
q='.processes[0].open'
is "those that are open" "$(json)" '{"shm":1,"verbs":0,"tcp":1,"none":0}'
q='.processes[0].tcp_reasons'
is "reasons" "$(json)" '{"peer has no shim":1}'
q='.processes[0].rpcs'
is "rpcs: open and closed connections" "$(json)" \
	'{"calls_sent":11,"calls_received":0,"replies_sent":0,"replies_received":9}'
q='[.processes[0].list[] | [.fd,.local,.peer,.carrier,.state,.dialect,.version,.program,.peer_pid,.reason]]'
is "list" "$(json)" '[[5,"127.0.0.1:900","127.0.0.1:111","shm","carried","v2",1,100000,4711,""],[7,"","","tcp","tcp","",0,0,0,"peer has no shim"]]'
q='.processes[0].flow | [.spins, .spins_paid, .spun_ns]'
is "spinning: open and closed connections" "$(json)" '[12,9,120000]'
q='.processes[0] | [keys_unsorted[]]'
is "names" "$(json)" '["pid","comm","exe","release","uid","verified","alive","ended","end","end_code","since","connections","open","tcp_reasons","rpcs","messages","bytes","flow","errors","upgrade","latency_ns","list","procedures"]'
q='.processes[0].latency_ns | [.count, (.p50 > 890 and .p50 < 950), (.p99 < 950), (.max > 960000 and .max < 1040000)]'
is "latency" "$(json)" '[100,true,true,true]'
out=$("$stat" "$pid")
has "table" "$out" "mkseg           live      2      2      0      1       11        0      0"
has "table: spinning" "$out" "spun: 120.0us in 12 waits, of which 75.0 % saved a sleep"
has "table: reasons" "$out" "tcp: 1 peer has no shim"
has "table: connections" "$out" "
  fd 5    127.0.0.1:900         -> 127.0.0.1:111            4711 shm   carried        10       0 v2/v1   portmapper -
  fd 7    -                     <- -                           - tcp   tcp             0       0 -       -          peer has no shim"
has "table: headers" "$out" "OPEN    SHM  VERBS    TCP CALLSOUT  CALLSIN  BYTES      P50      P99  RELEASE
     FD   LOCAL                    PEER                  PEERPID VIA   STATE       CALLS   BYTES DIALECT PROGRAM    REASON
"
has "table: release" "$out" " $release
"
is "no header of connections where there are none" "$("$stat" | grep -c LOCAL)" 0
q='.processes[0].release'
is "release" "$(json)" "\"$release\""
# A library of before that said it.
cp "$(ls "$T"/run/"$pid".*)" "$T/run/$pid.72340172838076673"
printf '\001\001\001\001\001\001\001\001' | dd of="$T/run/$pid.72340172838076673" bs=1 seek=40 conv=notrunc 2>/dev/null
head -c 16 /dev/zero | dd of="$T/run/$pid.72340172838076673" bs=1 seek=8168 conv=notrunc 2>/dev/null
# ... nor has it tallies.
head -c 8 /dev/zero | dd of="$T/run/$pid.72340172838076673" bs=1 seek=5872 conv=notrunc 2>/dev/null
q='.processes[1] | [.release, .alive, .procedures, .latency_ns.count, [.list[].fd]]'
is "a segment of before" "$(json)" '["",false,[],100,[5,7]]'
is "a release that is not said, in the table" "$("$stat" | grep -c -e "-$")" 1
rm "$T/run/$pid.72340172838076673"*
q='.processes | length'
is "by pid" "$(json "$pid")" 1
is "another pid" "$(json 1 2>/dev/null)" 0
"$stat" 1 >/dev/null 2>"$T/err"
is "another pid: status" "$?" 1
has "another pid: message" "$(cat "$T/err")" "process 1: nothing is known of it"
timeout 100 "$stat" --watch=0.1 1 >"$T/out" 2>"$T/err"
is "--watch of another pid: status and message" "$?:$(cat "$T/out"):$(cat "$T/err")" "1::rdmarpc-stat: process 1: nothing is known of it"
is "--watch goes on" "$(timeout 100 "$stat" --watch=0.1 | grep -m 2 -c CALLS/S)" 2
is "--watch on a terminal" "$(TERM=xterm timeout 300 /usr/bin/python3 tests/tools/watch.py "$stat" --watch=0.05 --list 2>&1)" "ok 80
ok smaller
ok scrolled
ok larger
ok stopped
ok interrupted
ok quit
ok dumb"
end
q='.processes[] | [.comm, .alive, .ended, .rpcs.calls_sent]'
is "ended" "$(json)" '["mkseg",false,true,11]'
is "its segment is marked dead" "$(set -- "$T"/run/"$(cat "$T/last")".*.*; [ -e "$1" ] && echo yes)" yes
rm -f "$T"/run/*

start
kill -9 "$pid"
end 2>/dev/null
q='.processes[] | [.alive, .ended, .rpcs.calls_sent]'
is "died" "$(json)" '[false,false,11]'
has "died, in the table" "$("$stat")" " died "
rm -f "$T"/run/*

# How it ended, while nobody has waited for it, or by who has watched it.
orphan() {	# ARGUMENT... of mkseg, by a parent that does not wait
	rm -f "$T/pid"
	(exec prlimit --core=0 /usr/bin/python3 -c 'if True:
		import subprocess, sys, time
		p = subprocess.Popen(sys.argv[2:], stdin=open(sys.argv[1]))
		time.sleep(600)' "$T/in" "$mkseg" "$T/run" "$@") >"$T/pid" 8>&- & parent=$!
	exec 8>"$T/in"
	until [ -s "$T/pid" ]; do sleep 0.02; done
	pid=$(cat "$T/pid")
}
becomes() { until grep -q "$1" "/proc/$pid/$2"; do sleep 0.02; done; }
reaped() {
	kill -9 $parent
	wait $parent 2>/dev/null
	exec 8>&-
	rm -rf "$T"/run/* "$T/pid"
}
q='.processes[] | [.alive, .ended, .end, .end_code]'
for how in "KILL:signal,9:kill" "TERM:signal,15:kill" "SEGV:crash,11:crash" "ABRT:crash,6:crash"; do
	orphan
	kill -s "${how%%:*}" "$pid"
	becomes "State:.*Z" status
	what=${how#*:} && what=${what%:*}
	is "ended by SIG${how%%:*}" "$(json)" "[false,false,\"${what%,*}\",${what#*,}]"
	has "ended by SIG${how%%:*}, in the table" "$("$stat")" " mkseg           $(printf %-5s "${how##*:}") "
	has "ended by SIG${how%%:*}, and why" "$("$stat")" "end: signal ${what#*,}, "
	has "ended by SIG${how%%:*}, for Prometheus" "$("$stat" --openmetrics)" 'state="died"} 1'
	reaped
done
orphan exit 3
exec 8>&-
becomes "State:.*Z" status
is "ended by _exit()" "$(json)" '[false,false,"exit",3]'
has "ended by _exit(), in the table" "$("$stat")" "end: _exit(3)"
has "ended by _exit(), for Prometheus" "$("$stat" --openmetrics)" 'state="ended"} 1'
reaped
orphan exec
exec 8>&-
becomes "^sleep" comm
is "another program by now" "$(json)" '[false,false,"left",0]'
has "another program by now, in the table" "$("$stat")" "end: the process goes on without the library"
has "another program by now: it has not died" "$("$stat" --openmetrics)" 'state="died"} 0'
kill -9 "$pid"
reaped
if [ "$(uname -r | awk -F. '{ print ($1 * 1000 + $2 >= 6015) }')" = 1 ]; then
	start
	"$stat" --watch=0.05 >"$T/watched" & watcher=$!
	until grep -q " mkseg  *live " "$T/watched"; do sleep 0.02; done
	kill -9 "$pid"
	end 2>/dev/null
	until grep -q " mkseg  *\(died\|kill\) " "$T/watched"; do sleep 0.02; done
	sleep 0.2
	kill $watcher
	wait $watcher 2>/dev/null
	is "who has watched it knows how it ended" "$(grep -c " mkseg  *died " "$T/watched"):$(grep -c "end: signal 9, Killed" "$T/watched" | sed 's/^[1-9][0-9]*$/yes/')" "0:yes"
	rm -rf "$T"/run/*
fi

# --stop and --start.
"$stat" --stop
is "--stop" "$("$stat" --json | jq .stopped):$(ls "$T/run")" "true:stop"
has "--stop, in the table" "$("$stat")" "new upgrades are stopped on this host"
"$stat" --stop
is "--stop twice" "$?" 0
"$stat" --start
is "--start" "$("$stat" --json | jq .stopped):$(ls "$T/run")" "false:"
"$stat" --start
is "--start twice" "$?" 0
# OpenMetrics, judged by a strict reader; its output is one sample a line, labels in order.
samples() { "$@" --openmetrics 2>"$T/err" | /usr/bin/python3 tests/tools/openmetrics.py 2>&1; }
names='command='\''mkseg'\'',pid='
uid="uid='$(id -u)'"
start
samples "$stat" >"$T/samples"
is "OpenMetrics: nothing but" "$(grep -v "^rdmarpc_[a-z_]*{.*} [0-9.]*\$" "$T/samples")" ""
is "OpenMetrics: each counter is that of the JSON" \
	"$(sed -n "s/^rdmarpc_\(rpcs\|messages\|bytes\|errors\|upgrade\)\(_[a-z_]*\){${names}'$pid',$uid} /\1\2 /p" "$T/samples" | sort)" \
	"$("$stat" --json | jq -r '.processes[0] | {rpcs,messages,bytes,errors,upgrade} | to_entries[] | .key as $g | .value |
		to_entries[] | "\($g)_\(.key)_total \(.value)"' | sort)"
for line in "flow_spun_seconds_total{$names'$pid',$uid} 0.000120000" \
	"connections_total{carrier='shm',$names'$pid',$uid} 2" "connections_total{carrier='tcp',$names'$pid',$uid} 1" \
	"open_connections{carrier='shm',$names'$pid',$uid} 1" "tcp_connections_total{$names'$pid',reason='peer has no shim',$uid} 1" \
	"process_release{$names'$pid',release='$release',$uid} 1" "process_state{$names'$pid',state='live',$uid} 1" "process_state{$names'$pid',state='died',$uid} 0" \
	"rpc_latency_seconds_bucket{command='mkseg',le='0.000001024',pid='$pid',$uid} 99" \
	"rpc_latency_seconds_bucket{command='mkseg',le='0.000524288',pid='$pid',$uid} 99" \
	"rpc_latency_seconds_bucket{command='mkseg',le='0.001048576',pid='$pid',$uid} 100" \
	"rpc_latency_seconds_count{$names'$pid',$uid} 100" "stopped{} 0" "directory_usable{directory='$T/run'} 1"; do
	is "OpenMetrics: $line" "$(grep -c -F -x -e "rdmarpc_$line" "$T/samples")" 1
done
"$stat" --openmetrics >"$T/metrics"
for spoil in '/EOF/d' 's/^# TYPE .*stopped.*//' '/^# HELP .*stopped/d' 's/_sent_total{/_sent{/' '/process_state/p' 's/le="+Inf"/le="2"/' \
	's/_count{\(.*\) 100/_count{\1 99/' 's/le="0.000002048"} 99/le="0.000002048"} 98/' 's/",uid/,uid/' 's/pid=/comm="x\\y",pid=/'; do
	is "OpenMetrics: the reader is strict: $spoil" "$(sed "$spoil" "$T/metrics" | /usr/bin/python3 tests/tools/openmetrics.py 2>&1 | cut -c -16)" \
		"not OpenMetrics:"
done
is "OpenMetrics: by pid" "$(samples "$stat" "$pid" | grep -c process_start_time)" 1
"$stat" --openmetrics 1 >/dev/null 2>&1
is "OpenMetrics: another pid: status" "$?" 1
# A dead process of the same pid, name and user: the living one is shown.
cp "$T"/run/"$pid".* "$T/run/$pid.72340172838076673"
printf '\001\001\001\001\001\001\001\001' | dd of="$T/run/$pid.72340172838076673" bs=1 seek=40 conv=notrunc 2>/dev/null
q='[.processes[].alive]'
is "a pid that was another's" "$(json)" "[true,false]"
has "OpenMetrics: no series twice" "$(samples "$stat" | grep -e _sent_total -e state)" "process_state{$names'$pid',state='live',$uid} 1"
end
rm -f "$T"/run/*
mkseg=$T/'a"b\c'
cp "$BUILD/tests/tools/mkseg" "$mkseg"
start
has "OpenMetrics: a command of quotes and backslashes" "$(samples "$stat")" "rdmarpc_rpcs_calls_sent_total{command='a\"b\\\\c',pid='$pid',$uid} 11"
end
rm -f "$T"/run/*
mkseg=$BUILD/tests/tools/mkseg
line='two
lines'
mkdir -m 1777 "$T/$line"
has "OpenMetrics: a directory's name with a newline" "$(RDMARPC_RUN_DIR=$T/$line samples "$stat")" "directory='$T/two\\nlines'} 1"
has "OpenMetrics: a directory that others can change" "$(RDMARPC_RUN_DIR=$T/open samples "$stat")" "directory_usable{directory='$T/open'} 0"
is "OpenMetrics: a directory that is not there" "$(RDMARPC_RUN_DIR=$T/none samples "$stat")" "rdmarpc_stopped{} 0"
# In containers that share a run directory two living processes may have one number, name and user: they are added up.
if [ "$(id -u)" = 0 ]; then
	pids=
	exec 8<>"$T/in"
	for i in 1 2; do	# not within one tick: the second would not get the name
		unshare -pf "$mkseg" "$T/run" <"$T/in" >"$T/pid.$i" 8>&- & pids="$pids $!"
		until [ -s "$T/pid.$i" ]; do sleep 0.02; done
		sleep 0.1
	done
	has "OpenMetrics: two of one name" "$(samples unshare -pf "$stat" | grep _calls_sent)" "rdmarpc_rpcs_calls_sent_total{${names}'1',$uid} 22"
	exec 8>&-
	wait $pids
	rm -f "$T"/run/*
fi

# --reset leaves a file of the user's; segments count on.
[ "$(id -u)" = 0 ] && file=reset || file=reset.$(id -u)
start
sum=$(md5sum <"$(ls "$T"/run/"$pid".*)")
row() { "$stat" "$@" | sed -n "s/.* mkseg *live *\(.*\) $release\$/\1/p" | tr -s ' '; }
is "before --reset" "$(row | cut -d' ' -f1-6)" "2 2 0 1 11 0"
echo junk >"$T/run/$file"
has "a file that --reset has not written" "$("$stat" 2>&1)" "what --reset has left in $T/run is of another release"
"$stat" --reset
is "--reset: status" "$?" 0
is "--reset: the table" "$(row)" "2 0 0 0 0 0 0 - - "
is "--reset: reasons and spins" "$("$stat" | grep -c -e tcp: -e spun:)" 0
is "--reset: --total" "$(row --total | cut -d' ' -f1-6)" "2 2 0 1 11 0"
is "--reset: the segment" "$(md5sum <"$(ls "$T"/run/"$pid".*)")" "$sum"
q='.processes[0].rpcs.calls_sent'
is "--reset: JSON" "$(json)" 11
has "--reset: OpenMetrics" "$("$stat" --openmetrics)" "calls_sent_total{pid=\"$pid\",command=\"mkseg\",uid=\"$(id -u)\"} 11"
for cut in 0 10 79 80 1000 5000; do
	cp "$T/run/$file" "$T/cut"
	truncate -s $cut "$T/cut"
	mv "$T/run/$file" "$T/kept"
	mv "$T/cut" "$T/run/$file"
	is "--reset: a file cut at $cut" "$(row 2>/dev/null | cut -d' ' -f5)" 11
	mv "$T/kept" "$T/run/$file"
done
# A file that ends within a process: what is there of that, pointers included, is not believed.
size=$(od -An -tu4 -j48 -N4 "$T/run/$file" | tr -d ' ')
[ "${size:-0}" -gt 17 ] && [ "$size" -lt 1000000 ] || size=1000	# then --reset has left no file, and what follows fails
for short in 1 17; do
	{ head -c 72 "$T/run/$file" && head -c $((size - short)) /dev/zero | tr '\0' '\377'; } >"$T/cut"
	mv "$T/run/$file" "$T/kept"
	mv "$T/cut" "$T/run/$file"
	is "--reset: a file of other bytes, $short too short" "$(row 2>/dev/null | cut -d' ' -f5)" 11
	mv "$T/kept" "$T/run/$file"
done
ln "$T/run/$file" "$T/run/other"
is "--reset: a file of two names" "$(row | cut -d' ' -f5)" 11
rm "$T/run/other"
mv "$T/run/$file" "$T/kept"
ln -s "$T/kept" "$T/run/$file"
is "--reset: a symbolic link" "$(row | cut -d' ' -f5)" 11
"$stat" --reset
is "--reset in its place" "$(row | cut -d' ' -f5):$([ -L "$T/run/$file" ] || echo file)" "0:file"
if [ "$(id -u)" = 0 ]; then
	chown 65534 "$T/run/$file"
	is "--reset: another user's file" "$(row | cut -d' ' -f5)" 11
	mkdir "$T/run/dir"
	rm "$T/run/$file"
fi
"$stat" --reset 1 2>"$T/err"
is "--reset of another pid" "$?:$(cat "$T/err")" "1:rdmarpc-stat: process 1: nothing is known of it"
is "--reset: nothing is left lying" "$(find "$T/run" -name ".*" ! -name ".")" ""
end
rm -rf "$T"/run/*

# Times in --watch are of the calls since the table before.
start calls
has "P50 since the start" "$("$stat" | grep mkseg)" "   1.0us"
is "--watch: the first P50 is since the start" "$(timeout 100 "$stat" --watch=0.2 | grep -m 1 mkseg | sed 's/.*live *2 *1 *- *- *//; s/ .*//')" 1.0us
is "--watch: P50 since the table before" "$(timeout 100 "$stat" --watch=0.2 | grep -m 1 -c "live .* 6[3-5]\.[0-9]us  ")" 1
end
rm -f "$T"/run/*

# What is shown, and in which order: two processes, of which the second has more calls, to another port.
start
cp "$mkseg" "$T/busy"
"$T/busy" "$T/run" port 2049 <"$T/in" >"$T/pid.busy" 8>&- & second=$!
until [ -s "$T/pid.busy" ]; do sleep 0.02; done
q='[.processes[].comm]'
is "--command" "$(json --command=busy)" '["busy"]'
is "--port: of the peer" "$(json --port=2049)" '["busy"]'
is "--port: of our end" "$(json --port=900 --sort=command)" '["busy","mkseg"]'
is "--command and --port" "$(json --command=busy --port=111 2>/dev/null)" '[]'
is "--program: a number" "$(json --program=100003)" '["busy"]'
is "--program: 16-based" "$(json --program=0x186a0)" '["mkseg"]'
is "--program: a name" "$(json --program=portmapper)" '["mkseg"]'
is "--program and --port" "$(json --program=nfs --port=111 2>/dev/null)" '[]'
has "nobody is as asked for" "$("$stat" --command=none 2>&1)" "rdmarpc-stat: none of the 2 processes that are seen is one that was asked for"
for sort in "calls busy mkseg" "bytes busy mkseg" "command busy mkseg" "since mkseg busy" "p50 busy mkseg" "connections busy mkseg"; do
	is "--sort=${sort%% *}" "$("$stat" --sort="${sort%% *}" | sed -n 's/^ *[0-9][0-9]* *[0-9][0-9]* \([a-z]*\).*/\1/p' | tr '\n' ' ')" "${sort#* } "
done
for sort in pid uid p99; do is "--sort=$sort" "$(json --sort=$sort | grep -c 'mkseg.*busy\|busy.*mkseg')" 1; done
is "--sort in the JSON" "$(json --sort=calls)" '["busy","mkseg"]'
is "--sort=rate" "$(timeout 100 "$stat" --watch=0.05 --sort=rate | grep -m 2 -c busy)" 2
q='[.processes[].list[].fd]'
is "--port: only such connections" "$(json --port=2049)" '[5]'
q='[.processes[].list[].program]'
is "programs" "$(json --sort=command)" '[100003,0,100000,0]'
is "--port: in the list" "$("$stat" --list --port=2049 | grep -c "fd ")" 1
q='[.processes[].list[].fd]'
is "--sort=calls: of connections" "$(json --sort=calls --command=busy)" '[5,7]'
kill -9 $second
wait $second 2>/dev/null
q='[.processes[].comm]'
is "--sort: the living first" "$(json --sort=calls)" '["mkseg","busy"]'
end
rm -f "$T"/run/*
has "--sort: what there is" "$("$stat" --sort=size 2>&1)" "--sort: 'size' is none of pid, uid, command, since, connections, calls, rate, bytes, p50, p99"
has "--program: what there is" "$("$stat" --program=none 2>&1)" "--program: 'none' is neither a number nor a name of /etc/rpc"
has "--port: what there is" "$("$stat" --port=nfs 2>&1)" "--port: 'nfs' is not a port (1..65535)"

for bad in --sort=size --port=0 --port=65536 --port=1x --port= --program= --program=0 --program=4294967296 --program=-1 --sort=rate "--port=1 --stop" "--command=x --log-level=info" "--sort=pid --openmetrics" "--openmetrics --json" "--openmetrics --procedures" "--procedures --list" "--openmetrics --watch" --watch=x --watch=0 --watch=nan x 0 -5 "--stop --start" --what --log-level=loud "--reset --json" "--reset --stop" "--reset --watch" "--total --json"; do
	"$stat" $bad >/dev/null 2>&1
	is "usage: $bad" "$?" 2
done
(cd /tmp && "$stat" >/dev/full 2>/dev/null)
is "a full disk is an error" "$?" 1

# Files that are no segments, or are not whole, or tell lies about who they are.
start
seg=$(ls "$T"/run/"$pid".*)
ticks=${seg##*.}
q='[.processes[].pid]'
: >"$T/run/1.1"
echo junk >"$T/run/2.2"
head -c 8192 "$seg" >"$T/run/3.3"
head -c 2629632 /dev/zero >"$T/run/4.4"
ln -s "$seg" "$T/run/5.5"
mkfifo "$T/run/6.6"
mkdir "$T/run/7.7"
cp "$seg" "$T/run/8.8"			# says another pid than its name
cp "$seg" "$T/run/99999999999999.1"
cp "$seg" "$T/run/$pid.$ticks.x"
is "only the real one is shown" "$(json)" "[$pid]"
if [ "$(id -u)" = 0 ]; then
	chown 65534 "$seg"
	is "a segment of another user's process" "$(json)" "[]"
	chown 0 "$seg"
fi
cp "$seg" "$T/whole"
for at in 0 8 12 16 20 28 32; do	# magic, version, size, ncounters, nconns, nhist, conn_size
	cp "$T/whole" "$seg"
	printf '\377\377\377\377' | dd of="$seg" bs=1 seek=$at conv=notrunc 2>/dev/null
	[ $at = 16 ] && want="[$pid]" || want="[]"
	is "wrong word at $at" "$(json)" "$want"
done
cp "$T/whole" "$seg"
truncate -s 100000 "$seg"
is "cut short" "$(json)" "[]"
end
rm -rf "$T"/run/*

# Noise wherever a reader looks: valid JSON of printable text comes out, in bounded time.
for seed in 1 2 3 4 5 6 7 8; do
	start hostile $seed
	timeout 100 "$stat" --json >"$T/out" 2>"$T/err"
	is "hostile $seed: status" "$?:$(cat "$T/err")" "0:"
	is "hostile $seed: JSON" "$(jq -r '.processes[0].pid' "$T/out" 2>&1)" "$pid"
	is "hostile $seed: no control characters" "$(tr -d ' -~\n' <"$T/out" | wc -c)" 0
	samples timeout 100 "$stat" >"$T/out"
	is "hostile $seed: OpenMetrics" "$?:$(grep -c -F "process_start_time" "$T/out")" "0:1"
	timeout 100 "$stat" "$pid" >"$T/out" 2>&1
	is "hostile $seed: table" "$?:$(tr -d ' -~\n' <"$T/out" | wc -c)" "0:0"
	timeout 100 "$stat" --procedures "$pid" >"$T/out" 2>&1
	is "hostile $seed: procedures" "$?:$(tr -d ' -~\n' <"$T/out" | wc -c)" "0:0"
	is "hostile $seed: no more of them than there are" "$(($(grep -c " v[0-9]" "$T/out") <= 62))" 1
	kill -9 "$pid"
	end 2>/dev/null
	rm -rf "$T"/run/*
done

# On a full file system a process goes on, without segment or with a shared entry.
if [ "$(id -u)" = 0 ]; then
	for kib in 4 8 12 16 24; do
		out=$(unshare -m sh -c "mount -t tmpfs -o size=${kib}k,mode=1777 none $T/run &&
			$BUILD/tests/tools/mkseg $T/run </dev/null" 2>&1)
		is "run directory with $kib KiB" "$?" 0
	done
fi
finish
