#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""rawlab.py HOST PORT: a client of tests/apps/lab.x that makes a call for each line that it reads, "PROCEDURE BYTES", says what
length the answer had, and stays until its input ends."""
import os
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rpc

PROG, VERS = 0x20005244, 1


def arguments(proc, size):
    if proc == "null":
        return 0, b""
    if proc == "echo":
        return 1, struct.pack(">I", size) + b"e" * size
    if proc == "sum":
        return 2, struct.pack(">I", size // 4) + b"\0\0\0\1" * (size // 4)
    return 3, struct.pack(">I", size)


server = rpc.connect(int(sys.argv[2]), sys.argv[1])
for xid, line in enumerate(sys.stdin, 1):
    name, size = line.split()
    proc, args = arguments(name, int(size) & ~3)
    print(name, len(rpc.ask(server, rpc.call(xid, PROG, VERS, proc, args))), flush=True)
