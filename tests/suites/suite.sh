#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# suite.sh NAME: runs one suite in the namespaces that it finds itself in, with TRY_PRELOAD in all of the
# suite's programs; prints its results, one "name verdict" a line (ok, failed, skipped), sorted. 77: it is not installed.
HERE=$(cd "$(dirname "$0")" && pwd)
ip link set lo up || exit 1
mount --make-rprivate / && mount -t tmpfs -o mode=1777 tmpfs /run || exit 1
W=/run/suite
mkdir $W && cd $W || exit 1
export TMPDIR=$W	# both legs run at the same time

try() { env ${TRY_PRELOAD:+LD_PRELOAD="$TRY_PRELOAD"} "$@"; }
need() { for c; do command -v "$c" >/dev/null || { echo "$c is not installed"; exit 77; }; done; }
verdict() { if "${@:2}" >>$W/out 2>&1; then echo "$1 ok"; else echo "$1 failed"; fi; }
await() { # PORT
	for ((i = 0; i < 100; i++)); do
		ss -Hltn "sport = :$1" | grep -q . && return
		sleep 0.1
	done
}

# Debian's interpreter and its own tests. vsock tests need a hypervisor, and hang without. Those of asyncio that are about tasks
# and have no connection are left out: a third of its time.
cpython() { # MODULE
	[ -d /usr/lib/python3.11/test ] || { echo "libpython3.11-testsuite is not installed"; exit 77; }
	local module without=()
	for module in tasks futures futures2 locks pep492 queues runners taskgroups timeouts waitfor; do
		without+=(-i "*.test_asyncio.test_$module.*")
	done
	verdict "$1" try /usr/bin/python3.11 -m test -v --tempdir $W -u network -i '*VSOCK*' -i '*Network*' "${without[@]}" \
		--junit-xml $W/report "$1"
	/usr/bin/python3 "$HERE/junit.py" $W/report
	tail -n 40 $W/out >&2
}

stress() {
	need stress-ng
	for s in sock poll epoll dup fork; do
		verdict "$s" try stress-ng --"$s" 1 -t 2 --verify --temp-path $W
	done
	grep -E 'fail:|error' $W/out >&2 || true
}

redis() {
	need redis-server redis-benchmark redis-cli
	try redis-server --port 20600 --save '' --dir $W --logfile $W/log &
	await 20600
	verdict benchmark try redis-benchmark -p 20600 -n 3000 -c 20 -q
	verdict pipelined try redis-benchmark -p 20600 -n 20000 -c 10 -P 16 -t set,get,incr -q
	verdict store try redis-cli -p 20600 set key "$(head -c 50000 /dev/zero | tr '\0' x)"
	verdict fetch test "$(try redis-cli -p 20600 get key | wc -c)" = 50001
	try redis-cli -p 20600 shutdown nosave
	tail $W/log >&2
}

nginx_suite() {
	need nginx ab curl
	mkdir www
	head -c 3000000 /dev/urandom >www/large
	echo small >www/small
	cat >nginx.conf <<X
daemon off; pid $W/pid; error_log $W/error.log; worker_processes 2;
events { worker_connections 256; }
http { access_log off; sendfile on; keepalive_requests 100000;
	client_body_temp_path $W/b; proxy_temp_path $W/p; fastcgi_temp_path $W/f;
	uwsgi_temp_path $W/u; scgi_temp_path $W/s;
	server { listen 20601; root $W/www; }
	server { listen 20602; location / { proxy_pass http://127.0.0.1:20601; } } }
X
	chmod 755 $W www
	try nginx -c $W/nginx.conf -p $W &
	await 20602
	for port in 20601 20602; do
		verdict curl-$port try curl -sf -o got "http://127.0.0.1:$port/large"
		verdict same-$port cmp got www/large
		verdict ab-$port try ab -q -n 1000 -c 10 "http://127.0.0.1:$port/small"
		verdict ab-keepalive-$port try ab -q -k -n 5000 -c 10 "http://127.0.0.1:$port/small"
	done
	verdict no-failed-requests test "$(grep -c 'Failed requests: *0$' $W/out)" = 4
	kill "$(cat pid)"
	tail $W/error.log >&2
}

# The server takes the next test when it has ended the last one, which it says, a little after the client has gone.
iperf() {
	need iperf3
	: >$W/server
	try iperf3 -s -p 20603 --forceflush >>$W/server 2>&1 &
	n=0
	for how in one: parallel:-P4 reverse:-R both-ways:--bidir zerocopy:-Z; do
		n=$((n + 1))
		for ((i = 0; i < 300; i++)); do
			[ "$(grep -c '^Server listening' $W/server)" -lt $n ] || break
			sleep 0.1
		done
		verdict ${how%%:*} try iperf3 -c 127.0.0.1 -p 20603 -t 1 ${how#*:}
	done
	grep error $W/out >&2 || true
}

case $1 in
cpython-*) cpython "test_${1#cpython-}" ;;
stress-ng) stress ;;
redis) redis ;;
nginx) nginx_suite ;;
iperf3) iperf ;;
*) echo "no suite $1" >&2; exit 64 ;;
esac | sort
exit "${PIPESTATUS[0]}"
