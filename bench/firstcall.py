#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""firstcall.py PORT threads     how long connect() and the first call take while two other threads sleep: {"first": ns}
firstcall.py PORT refused     non-blocking connections: how many of their first send()s were refused although
                              select() had said that the socket is writable, and how long it took until the
                              call was sent: {"refused": .., "p50": ns}"""
import json
import os
import select
import socket
import statistics
import sys
import threading
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tests", "lib"))
import rpc

CONNECTIONS = 200
NULL_CALL = rpc.record(rpc.call(1, 0x20005245, 1, 0))


def with_threads(port):
    for _ in range(2):
        threading.Thread(target=time.sleep, args=(5,), daemon=True).start()
    start = time.monotonic_ns()
    with socket.socket() as s:
        s.connect(("127.0.0.1", port))  # create_connection() resolves names, which imports a module: 1.5 ms of files read
        s.sendall(NULL_CALL)
        s.recv(28, socket.MSG_WAITALL)
        return time.monotonic_ns() - start


def refused(port):
    """Was the first send() refused, and how long did it take until the call was sent?"""
    with socket.socket() as s:
        s.setblocking(False)
        s.connect_ex(("127.0.0.1", port))
        select.select([], [s], [])
        start, no = time.monotonic_ns(), False
        while True:
            try:
                s.send(NULL_CALL)
                break
            except BlockingIOError:
                no = True
                select.select([], [s], [])
        took = time.monotonic_ns() - start
        select.select([s], [], [])
        s.recv(28)
        return no, took


def main(port, what):
    if what == "threads":
        print(json.dumps({"first": with_threads(port)}))
    else:
        runs = [refused(port) for _ in range(CONNECTIONS)]
        print(json.dumps({"refused": sum(no for no, _ in runs),
                          "p50": statistics.median(took for _, took in runs)}))


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2])
