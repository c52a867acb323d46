#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""An NFSv3 server over TCP that leaves out what RFC 1813 lets it leave out: bare_nfs.py NFSPORT MOUNTPORT

The file with-N has N bytes, and so has without-N, whose READ replies say nothing of its attributes. Byte i of
either is (i * 7 + (i >> 8)) & 255."""
import os
import struct
import sys
import threading

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rpc

NFS, MOUNT, BLOCK = 100003, 100005, 1 << 20
GETATTR, LOOKUP, ACCESS, READ, FSSTAT, FSINFO, PATHCONF = 1, 3, 4, 6, 18, 19, 20
OK, NOENT, NOTSUPP = 0, 2, 10004
ROOT = b"/"
pattern = bytes((i * 7 + (i >> 8)) & 255 for i in range(1 << 16))   # it repeats


def size_of(name):
    _, _, n = name.partition(b"-")
    return int(n)


def attributes(name):
    kind, mode, size = (2, 0o755, 4096) if name == ROOT else (1, 0o644, size_of(name))
    number = int.from_bytes(name[-7:], "big")
    return struct.pack(">5I2Q2I2Q6I", kind, mode, 1, 0, 0, size, size, 0, 0, 1, number, *[1000] * 6)


def some(name):
    return struct.pack(">I", 1) + attributes(name)


NONE = struct.pack(">I", 0)


def read(name, rest):
    at, count = struct.unpack_from(">QI", rest)
    data = (pattern * (count // len(pattern) + 2))[at % len(pattern):][:max(0, min(count, size_of(name) - at))]
    eof = at + len(data) >= size_of(name)
    return (NONE if name.startswith(b"without") else some(name)) + struct.pack(">2I", len(data), eof) + rpc.opaque(data)


def lookup(name, rest):
    wanted = rpc.unopaque(rest)
    if not wanted.startswith(b"with"):
        return None
    return rpc.opaque(wanted) + some(wanted) + some(name)


PROCEDURES = {
    GETATTR: lambda name, rest: attributes(name),
    LOOKUP: lookup,
    ACCESS: lambda name, rest: some(name) + rest[:4],
    READ: read,
    FSSTAT: lambda name, rest: some(name) + struct.pack(">6QI", *[1 << 30] * 6, 0),
    FSINFO: lambda name, rest: some(name) + struct.pack(">7IQ3I", BLOCK, BLOCK, 512, BLOCK, BLOCK, 512, 4096, 1 << 40,
                                                        1, 0, 0x18),
    PATHCONF: lambda name, rest: some(name) + struct.pack(">6I", 1, 255, 1, 1, 0, 1),
}


def nfs(proc, args):
    if proc == 0:
        return b""
    if proc not in PROCEDURES:
        return struct.pack(">2I", NOTSUPP, 0)
    name = rpc.unopaque(args)
    result = PROCEDURES[proc](name, args[4 + (len(name) + 3 & ~3):])
    return struct.pack(">2I", NOENT, 0) if result is None else struct.pack(">I", OK) + result


def mount(proc, args):
    return struct.pack(">I", 0) + rpc.opaque(ROOT) + struct.pack(">2I", 1, 1) if proc == 1 else b""


def answer(msg):
    xid, prog, vers, proc, args = rpc.parse_call(msg)
    if (prog, vers) not in ((NFS, 3), (MOUNT, 3)):
        return rpc.reply(xid, accept=rpc.PROG_UNAVAIL)
    return rpc.reply(xid, (nfs if prog == NFS else mount)(proc, args))


def serve(port):
    rpc.serve(rpc.listen(port), lambda: answer)


threading.Thread(target=serve, args=(int(sys.argv[2]),), daemon=True).start()
serve(int(sys.argv[1]))
