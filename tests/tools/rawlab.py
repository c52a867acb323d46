#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rawlab.py HOST PORT: a client of tests/apps/lab.x that makes a call for each line that it reads, "PROCEDURE BYTES", says what
length the answer had, and stays until its input ends."""
import socket
import struct
import sys

server = socket.create_connection((sys.argv[1], int(sys.argv[2])))


def take(n):
    got = b""
    while len(got) < n:
        more = server.recv(n - len(got))
        if not more:
            sys.exit("the server has closed the connection")
        got += more
    return got


def arguments(proc, size):
    if proc == "null":
        return 0, b""
    if proc == "echo":
        return 1, struct.pack(">I", size) + b"e" * size
    if proc == "sum":
        return 2, struct.pack(">I", size // 4) + b"\0\0\0\1" * (size // 4)
    return 3, struct.pack(">I", size)


for xid, line in enumerate(sys.stdin, 1):
    name, bytes_ = line.split()
    proc, args = arguments(name, int(bytes_) & ~3)
    msg = struct.pack(">10I", xid, 0, 2, 0x20005244, 1, proc, 0, 0, 0, 0) + args
    server.sendall(struct.pack(">I", 1 << 31 | len(msg)) + msg)
    print(name, len(take(struct.unpack(">I", take(4))[0] & 0x7fffffff)), flush=True)
