#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# rdmarpc-dump: what tshark makes of it, who may capture, and what the captured processes notice. In a network and with
# processes of its own.
if [ "$(id -u)" != 0 ] || ! unshare -m true 2>/dev/null; then
	echo "needs root and mount namespaces"
	exit 77
fi
[ "${1:-}" = inside ] || exec unshare -m -n -p -f --mount-proc --kill-child -- "$0" inside
. "$(dirname "$0")/lib"
for c in tshark setpriv prlimit rpcbind rpcinfo; do
	command -v $c >/dev/null || { echo "no $c"; exit 77; }
done
mount --make-rprivate / && mount -t tmpfs -o mode=755 tmpfs /run && ip link set lo up || exit 1
mkdir /run/rpcbind
chmod 755 "$T"
cp "$BUILD/librpcrdma_shim.so" "$BUILD/rdmarpc-dump" "$BUILD/apps/labsvc" "$BUILD/apps/labcli" "$T"
trap 'rm -rf "$T"' EXIT
unset XDG_RUNTIME_DIR
export RDMARPC_UPGRADE_TIMEOUT_MS=20000
dump=$T/rdmarpc-dump
A=1500 B=1501		# users
as() { u=$1; shift; setpriv --reuid="$u" --regid="$u" --clear-groups "$@"; }
rdma() { LD_PRELOAD=$T/librpcrdma_shim.so "$@"; }
. tests/lib/shark.sh
# A client may have a port by which tshark would know another protocol.
shark() { tshark -o tcp.try_heuristic_first:TRUE -o rpc.dissect_unknown_programs:TRUE "$@" 2>/dev/null; }

# A process that listens is in the run directory a moment later. Who asks for captures before finds it when he looks
# the next time only.
seen() { "$BUILD/rdmarpc-stat" "$1" >/dev/null 2>&1; }
port=20800
# serve MODE [WRAPPER...]: labsvc at $port; $server is its pid
serve() {
	mode=$1
	port=$((port + 1))
	shift
	rm -f "$T/pid"
	LD_PRELOAD=$T/librpcrdma_shim.so "$@" "$T/labsvc" "$mode" $port "$T/pid" >"$T/svc.out" 2>&1 &
	job=$!
	until_ "a server" has_listener $port
	server=$job
	until_ "the server's statistics" seen "$server"
}
end() {
	kill "$server"
	wait "$job" 2>/dev/null
}
# begin OPTION...: captures to $T/cap; a section's header there means that all processes were asked. Of labsvc if nothing
# else is said: where all are captured, a client that lives long enough to be found is shown in the server's place.
begin() {
	rm -f "$T/cap"
	case " $* " in *' -p '* | *' -C '*) ;; *) set -- -C labsvc "$@" ;; esac
	"$dump" -w "$T/cap" "$@" 2>"$T/said" &
	reader=$!
	until_ "a capture" test -s "$T/cap"
}
stop() {
	kill -TERM $reader
	wait $reader
	is "the capture's status" $? 0
}
cli() { rdma "$T/labcli" 127.0.0.1 $port "$@"; }

# sums N: of tshark's table of N counts, which is on stdin, as 1:2:3
sums() {
	awk -F"|" -v n="$1" '/ <> / { for (i = 0; i < n; i++) sum[i] += $(3 + 2 * i) }
		END { for (i = 0; i < n; i++) printf "%s%d", (i ? ":" : ""), sum[i] }'
}
# count FILTER...: for how many packets each is true, as 1:2:3. In one run, since tshark starts for longer than it reads; the
# same run leaves what shown() prints.
count() {
	filters=
	for f; do filters="$filters,$f"; done
	shark -r "$T/cap" -T fields -e rpc -e frame.comment -e infiniband.bth.opcode -e infiniband.cm.req.serviceid.dport \
		-e frame.interface_name -e frame.interface_description -e ip.src -e ip.dst -e tcp.srcport -e tcp.dstport \
		-z "io,stat,0$filters" >"$T/shown"
	sums $# <"$T/shown"
}
# shown WHICH WHAT: of the packets of the last count, in awk's words: $1 is not "" of RPC messages, $2 is the comment, and so on
shown() { awk -F'\t' "NF == 10 && $1 { print $2 }" "$T/shown"; }
# judge WHAT CALLS [REPLIES]: tshark finds so many calls, each with its reply, and nothing that it does not understand
judge() {
	is "$1: calls, replies, malformed" "$(count 'rpc.msgtyp == 0' 'rpc.msgtyp == 1 && rpc.time' \
		'_ws.malformed || tcp.analysis.flags || rpc.fragment.error')" "$2:${3:-$2}:0"
	has "$1: none dropped" "$(cat "$T/said")" " 0 packets dropped"
}
comments() { shown '$1 != ""' '$2' | sort -u; }

# --- a client and a server, in each dialect ---
for dialect in v1 v2 draft02 slides; do
	serve svcrun env RDMARPC_DIALECT=$dialect
	begin
	replies=8
	# The slides have no way for a long reply: it goes by TCP.
	[ $dialect != slides ] || replies=7
	for c in "null 5" "echo 20" "sum 100000" "big 300000"; do
		# shellcheck disable=SC2086
		RDMARPC_DIALECT=$dialect cli $c >"$T/cli.out" 2>&1
		rc=$?
		is "$dialect: $c" "$(tail -n 1 "$T/cli.out" | grep -c ok):$rc" "1:0"
	done
	stop
	judge $dialect 8 $replies
	has "$dialect: comments" "$(comments)" "labsvc[$server], server, received; carrier shm, dialect $dialect; chunks: none"
	end
done
serve svcrun
begin
cli sum 100000 >/dev/null 2>&1
stop
judge "a long call" 1
has "a long call's chunk" "$(comments)" "server, received; carrier shm, dialect v1; chunks: position-zero Read"
is "the interface" "$(shown '$1 != ""' '$5 "=" $6' | sort -u)" "rdmarpc:$server=labsvc"
is "addresses and ports" "$(shown '$1 != ""' '$7, $8, $9, $10' | sort -u | grep -c "^127.0.0.1 127.0.0.1 \($port [0-9]*\|[0-9]* $port\)\$")" 2
end

# --- as RoCEv2 ---
# judge_rdma WHAT CALLS MORE FILTER...: as judge, of RoCEv2 packets, whose checksums and numbers are right; and the filters' counts
judge_rdma() {
	what=$1 n=$2 more=$3
	shift 3
	is "$what, rdma: calls, replies, malformed, packets with right checksums and numbers, more" "$(count 'rpc.msgtyp == 0' \
		'rpc.repframe && rpc.time' '_ws.malformed || rpcordma.fragment.error' infiniband "$@")" "$n:$n:0:$(tests/tools/roce.py "$T/cap"):$more"
	has "$what, rdma: none dropped" "$(cat "$T/said")" " messages, 0 packets dropped"
}
READ='infiniband.bth.opcode == 0x0c' WRITE='infiniband.bth.opcode == 0x06 || infiniband.bth.opcode == 0x0a'
# By whom a long reply is moved: the requester pulls it, or the responder writes it into a Reply chunk.
for replies in pulled written; do
	[ $replies = pulled ] || export RDMARPC_RELIABLE_REPLIES=off RDMARPC_REPLY_CHUNK=1m
	serve svcrun
	begin --as rdma
	for c in "null 5" "echo 20" "sum 30000" "big 100000"; do
		# shellcheck disable=SC2086
		cli $c >/dev/null 2>&1
	done
	stop
	moved=2:0:0
	[ $replies = pulled ] || moved=1:1:1
	# Set up once for each connection; calls in one Send; the long call, the long reply; Reads, Writes, Reply chunks.
	judge_rdma $replies 8 12:7:1:1:$moved infiniband.mad.attributeid 'rpc.msgtyp == 0 && rpcordma.version == 1 && rpcordma.reads_count == 0' \
		'rpc.msgtyp == 0 && rpc.procedure == 2 && rpcordma.fragment.count > 20' \
		'rpc.msgtyp == 1 && rpc.procedure == 3 && rpcordma.fragment.count > 20' \
		"$READ" "$WRITE" 'rpcordma.reply_count == 1 && rpc.procedure == 3 && rpc.repframe'
	is "$replies: the port" "$(shown '$4 != ""' '$4' | sort -u)" "$(printf '0x%04x' $port)"
	has "$replies: comments" "$(shown '$3 == 12' '$2' | head -n 1)" \
		"labsvc[$server], server, received; carrier shm, dialect v1; chunks: position-zero Read"
	end
done
unset RDMARPC_RELIABLE_REPLIES RDMARPC_REPLY_CHUNK
# tshark dissects version 1: of version 2 it shows what carries it, unless the headers are rewritten.
for dialect in draft02 slides v2; do
	for as in rdma wire; do
		serve svcrun env RDMARPC_DIALECT=$dialect
		begin --as $as
		for c in "null 5" "sum 30000"; do
			# shellcheck disable=SC2086
			RDMARPC_DIALECT=$dialect cli $c >/dev/null 2>&1
		done
		stop
		if [ $dialect-$as = v2-wire ]; then
			is "v2, as it went" "$(count rpcordma _ws.malformed "$READ"):$(tests/tools/roce.py "$T/cap" | wc -l)" 0:0:1:1
			is "v2, as it went: comments" "$(shown '$3 != ""' '$2' | grep -c "header shown")" 0
		else
			is "$dialect as $as" "$(count 'rpc.repframe && rpc.program == 0x20005244' _ws.malformed):$(tests/tools/roce.py "$T/cap" | wc -l)" 6:0:1
			rewritten=0
			[ $dialect != v2 ] || rewritten=12
			is "$dialect as $as: comments" "$(shown '$1 != ""' '$2' | grep -c "dialect $dialect; chunks: .*; header shown as version 1")" $rewritten
		fi
		end
	done
done
# From the client's end, which is all that is captured.
serve svcrun
mkfifo "$T/lines"
exec 9<>"$T/lines"
: >"$T/answers"
LD_PRELOAD=$T/librpcrdma_shim.so tests/tools/rawlab.py 127.0.0.1 $port <"$T/lines" >"$T/answers" 2>&1 9>&- &
client=$!
asks() { # LINE NUMBER: it is answered by line NUMBER
	echo "$1" >&9
	until_ "an answer to $1" answered "$2"
}
answered() { [ "$(wc -l <"$T/answers")" = "$1" ]; }
taken() { find "/proc/$reader/fd" -lname '*rdmarpc-capture*' 2>/dev/null | grep -q .; }
asks "null 0" 1
until_ "the client's statistics" seen $client
begin --as rdma -p $client
asks "null 0" 2
until_ "the client's packets" taken
asks "sum 100000" 3
asks "big 100000" 4
# Both ends read at a time: tshark looks for the packet numbers of both in one list.
line=4
for size in 4000 4100 4200 4300 4400 4500 4600 4700; do
	line=$((line + 1))
	asks "echo $size" $line
done
stop
judge_rdma "the client's end, Reads" 11 16:2 "$READ" 'rpcordma.fragment.count > 20'
begin --as rdma -p $client -c 3 replies and program 0x20005244
asks "null 0" 13
until_ "the client's packets" taken
asks "big 100000" 14
asks "sum 100000" 15
wait $reader
is "replies only" "$?:$(count rpcordma.xid 'rpc.msgtyp == 1' 'rpc.msgtyp == 0')" 0:3:3:0
kill $client
exec 9>&-
wait $client 2>/dev/null
end

# --- what is shown ---
serve svcrun
begin -c 3
cli null 5 >/dev/null 2>&1
wait $reader
is "-c" "$?:$(count rpc)" 0:3
begin calls and port $port
cli null 5 >/dev/null 2>&1
stop
is "calls" "$(count rpc 'rpc.msgtyp == 1')" 5:0
begin --program portmapper
cli null 5 >/dev/null 2>&1
stop
is "another program" "$(count frame)" 0
begin program 0x20005244
cli null 5 >/dev/null 2>&1
stop
judge "this program" 5
begin port 1
cli null 1 >/dev/null 2>&1
stop
is "another port" "$(count frame)" 0
begin -s 60
cli echo 20 >/dev/null 2>&1
cli sum 100000 >/dev/null 2>&1
stop
is "-s: calls and replies are still dissected" "$(count 'rpc.msgtyp == 0' 'rpc.msgtyp == 1 && rpc.time')" 2:2
is "-s: bytes" "$(shark -r "$T/cap" -T fields -e frame.cap_len | sort -nr | head -n 1)" 104
out=$("$dump" port 2>&1)
is "half a filter" "$?:$out" "2:rdmarpc-dump: filter: 'port' of what?"
out=$("$dump" -p 2000000 -w /dev/null 2>&1)
is "no such process" "$?" 1

# Live, by a pipe: as many as tshark takes, then both end.
"$dump" -w - | shark -r - -c 4 -Y rpc -l >"$T/live" &
reader=$!
until [ -s "$T/live" ]; do cli null 2 >/dev/null 2>&1; done
wait $reader
is "live" "$(head -n 2 "$T/live" | grep -c "proc-0 \(Call\|Reply\)")" 2

# By Wireshark's own way to have others capture.
dir=$(tshark -G folders 2>/dev/null | sed -n 's/^Extcap path:[[:space:]]*//p')
mkdir "$T/extcap"
ln -s "$dump" "$T/extcap/rdmarpc"
if [ -d "$dir" ] && mount --bind "$T/extcap" "$dir"; then
	is "extcap: interfaces" "$(tshark -D 2>/dev/null | grep -c "rdmarpc\(-$server\)\? (RPC-over-RDMA: \(all processes\|labsvc\[$server\]\))")" 2
	for i in rdmarpc "rdmarpc-$server"; do
		shark -i "$i" -c 4 >"$T/live" &
		reader=$!
		while kill -0 $reader 2>/dev/null; do cli null 2 >/dev/null 2>&1; sleep 0.1; done
		wait $reader
		is "extcap: $i" "$(grep -c "proc-0 \(Call\|Reply\)" "$T/live")" 4
	done
	shark -i rdmarpc -f 'calls and program 0x20005244' -c 4 >"$T/live" &
	reader=$!
	while kill -0 $reader 2>/dev/null; do cli null 2 >/dev/null 2>&1; sleep 0.1; done
	wait $reader
	is "extcap: a capture filter" "$(grep -c "proc-0 Call" "$T/live"):$(grep -c Reply "$T/live")" 4:0
	out=$(tshark -i rdmarpc -f nonsense -c 1 2>&1)
	has "extcap: no capture filter" "$out" "filter: 'nonsense' is none of: host, port, program, calls, replies"
	shark -i rdmarpc -o extcap.rdmarpc.as:rdma -c 5 >"$T/live" &
	reader=$!
	while kill -0 $reader 2>/dev/null; do cli null 2 >/dev/null 2>&1; sleep 0.1; done
	wait $reader
	is "extcap: as rdma" "$(grep -c "CM: \|proc-0 \(Call\|Reply\)" "$T/live")" 5
	umount "$dir"
fi

# --- more than the buffer takes while its reader does not read ---
begin -B 64
cli null 1 >/dev/null 2>&1
until_ "the server's packets" taken
kill -STOP $reader
is "calls while nobody reads" "$(cli null 3000 2>/dev/null)" "null ok 3000"
kill -CONT $reader
stop
said=$(cat "$T/said") n=${said%% *} dropped=${said#*, }
dropped=${dropped%% *}
is "each is shown or counted" "$((n + dropped)):$((n > 2)):$((dropped > 0)):$(count frame)" "6002:1:1:$n"
is "and the file says how many" "$(tests/tools/totals.py "$T/cap")" "$n $dropped"
is "the others are whole" "$(count '_ws.malformed || tcp.analysis.flags || rpc.fragment.error')" 0

# --- who may, and one at a time ---
begin -p "$server"
cli null 1 >/dev/null 2>&1
until_ "the server's packets" taken
out=$("$dump" -p "$server" -w /dev/null 2>&1)
is "two readers" "$?" 1
has "two readers" "$out" "labsvc[$server]: another rdmarpc-dump captures it"
# The second reader waits for its turn.
first=$reader
"$dump" -w "$T/second" -C labsvc 2>"$T/waits" &
reader=$!
until_ "the second reader's word" grep -q "another rdmarpc-dump captures it" "$T/waits"
kill $first
wait $first
mine() { cli null 1 >/dev/null 2>&1; taken; }
until_ "the second reader's turn" mine
is "calls in its turn" "$(cli null 5 2>/dev/null)" "null ok 5"
stop
calls=$(shark -r "$T/second" -Y 'rpc.msgtyp == 0' | wc -l)
is "calls in its turn: all are there" "$((calls >= 5))" 1
is "and it has said that it waits once" "$(grep -c another "$T/waits")" 1
out=$(as $A "$dump" -p "$server" -w /dev/null 2>&1)
is "another user" "$?" 1
has "another user" "$out" "labsvc[$server]: permission denied"
end
serve svcrun setpriv --reuid=$A --regid=$A --clear-groups
out=$(as $B "$dump" -p "$server" -w /dev/null 2>&1)
is "another user's" "$?" 1
touch "$T/own"
chown $A "$T/own"
setpriv --reuid=$A --regid=$A --clear-groups "$dump" -p "$server" -w "$T/own" 2>"$T/said" &
reader=$!
until_ "a capture" test -s "$T/own"
cli null 5 >/dev/null 2>&1
kill $reader
wait $reader
mv "$T/own" "$T/cap"
judge "one's own" 5
end

# A process that cannot be captured, and then another one with its number.
serve svcrun prlimit --fsize=33554432
begin -C labsvc -B 65536
refused() { cli null 1 >/dev/null 2>&1; grep -q "RLIMIT_FSIZE" "$T/said"; }
until_ "a refusal" refused
sleep 1		# five searches
is "who has refused is not asked again" "$(grep -c RLIMIT_FSIZE "$T/said")" 1
if [ -w /proc/sys/kernel/ns_last_pid ]; then
	was=$server
	port=$((port + 1))
	end
	echo $((was - 1)) >/proc/sys/kernel/ns_last_pid
	LD_PRELOAD=$T/librpcrdma_shim.so "$T/labsvc" svcrun $port >"$T/svc.out" 2>&1 &
	server=$! job=$!
	is "the number is another's" "$server" "$was"
	until_ "a server" has_listener $port
	until_ "the other process's packets" mine
	is "calls of the other" "$(cli null 5 2>/dev/null)" "null ok 5"
	stop
	calls=$(count 'rpc.msgtyp == 0')
	is "calls of the other: all are there" "$((calls >= 5))" 1
else
	stop
fi
end

# --- what the captured notice ---
rings() { find "/proc/$server/fd" -lname '*rdmarpc-capture*' 2>/dev/null | wc -l; }
serve svcrun
cli null 1 >/dev/null 2>&1
begin
cli null 1 >/dev/null 2>&1
is "a ring" "$(rings)" 1
kill -9 $reader
wait $reader 2>/dev/null
nothing() { cli null 1 >/dev/null 2>&1; [ "$(rings)" = 0 ]; }
until_ "a dead reader's ring goes" nothing
begin
is "calls under capture" "$(cli null 200 2>/dev/null)" "null ok 200"
stop
judge "after a reader's death" 200
nothing
is "a ring that was left" "$(rings)" 0
end
serve fork
begin
is "a child for each connection" "$(cli null 20 2>/dev/null)" "null ok 20"
stop
judge "forked" 20
end

# --- rpcbind: dissectors as they are ---
LD_PRELOAD=$T/librpcrdma_shim.so rpcbind -f -w &
server=$! job=$!
until_ "rpcbind" has_listener 111
until_ "rpcbind's statistics" seen "$server"
begin -C rpcbind --program 100000
rdma rpcinfo -T tcp 127.0.0.1 100000 4 >/dev/null 2>&1
rdma rpcinfo -p 127.0.0.1 >/dev/null 2>&1
stop
said_by_tshark=$(tshark -r "$T/cap" -q -z "io,stat,0,portmap && rpc.msgtyp == 0" -z rpc,programs 2>/dev/null)
n=$(echo "$said_by_tshark" | sums 1)
is "portmap" "$((n > 0))" 1
judge "rpcbind" "$n"
has "service times" "$said_by_tshark" "Portmap(100000)  4"
both_families() {
	rdma rpcinfo -a ::1.0.111 -T tcp6 100000 4 >/dev/null 2>&1
	rdma rpcinfo -a 127.0.0.1.0.111 -T tcp 100000 4 >/dev/null 2>&1
}
for as in rpc rdma; do
	for host in ::1 127.0.0.1; do
		begin -C rpcbind --as $as host $host and port 111
		both_families
		stop
		is "host $host as $as" "$(shark -r "$T/cap" -Y rpc -T fields -e ip.src -e ipv6.src -e rpc.msgtyp | tr -d '\t' | tr '\n' ' ')" "${host}0 ${host}1 "
	done
done
is "IPv6: checksums and numbers" "$(tests/tools/roce.py "$T/cap" | wc -l)" 1

# --- NFS: data in Read and Write chunks, by rdmarpc-conform, which plays a client of other make ---
if command -v ganesha.nfsd >/dev/null; then
	mkdir -p /run/nfs /run/ganesha /run/dbus /run/recovery
	head -c 8192 /dev/zero >/run/nfs/file
	chmod 777 /run/nfs
	chmod 666 /run/nfs/file
	cat >/run/ganesha.conf <<-X
		NFS_CORE_PARAM { NFS_Port = 20190; MNT_Port = 20191; NLM_Port = 20192; Rquota_Port = 20193;
			Enable_NLM = false; Enable_RQUOTA = false; Protocols = 4; }
		NFSV4 { Grace_Period = 1; Lease_Lifetime = 5; Graceless = true; RecoveryBackend = fs; RecoveryRoot = /run/recovery; }
		NFS_KRB5 { Active_krb5 = false; }
		EXPORT { Export_Id = 1; Path = /run/nfs; Pseudo = /; Access_Type = RW; Squash = No_Root_Squash; SecType = sys;
			Protocols = 4; Transports = TCP; FSAL { Name = VFS; } }
		LOG { Default_Log_Level = FATAL; }
	X
	if [ ! -e /etc/mtab ]; then # ganesha reads it
		cp -a /etc /run/etc && ln -s /proc/self/mounts /run/etc/mtab && mount --bind /run/etc /etc
	fi
	LD_PRELOAD=$T/librpcrdma_shim.so ganesha.nfsd -F -f /run/ganesha.conf -L /run/ganesha.log -p /run/ganesha.pid >/dev/null 2>&1 &
	nfs=$!
	cases() { # NAME...
		for c; do
			"$BUILD/rdmarpc-conform" --serves=nfs4 shm://127.0.0.1:20190 "tests/conform/cases/rfc8166/$c.case" >/dev/null 2>&1 || return
		done
	}
	until_ "an NFS server" cases nfs-write-padded
	begin --as rdma -C ganesha.nfsd
	cases nfs-write-read nfs-write-padded
	stop
	# Results in Write chunks are put together in tshark's second pass only.
	nfs_has() { tshark -2 -r "$T/cap" -Y "$1" 2>/dev/null | wc -l; }
	is "NFS: checksums and numbers" "$(tests/tools/roce.py "$T/cap" | wc -l)" 1
	is "NFS: WRITEs, in a Position-Zero Read chunk and with data in a Read chunk" \
		"$(nfs_has 'nfs.opcode == 38 && rpc.msgtyp == 0 && rpcordma.fragments && !_ws.malformed')" 2
	is "NFS: a READ, its data in a Write chunk" "$(nfs_has 'nfs.opcode == 25 && rpc.repframe && rpcordma.writes_count == 1 && rpcordma.fragments && !_ws.malformed')" 1
	kill $nfs
	wait $nfs 2>/dev/null
fi
end
finish
