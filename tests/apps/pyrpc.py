#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""The laboratory program (lab.x) in plain Python, an RPC peer that shares no code with libtirpc.

pyrpc.py server PORT threads|asyncio
pyrpc.py client PORT blocking|fragments|asyncio|nonblocking
pyrpc.py mnt PORT PATH        MOUNT version 3, MNT: prints the status
"""
import asyncio
import os
import random
import selectors
import socket
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rpc

PROG, VERS, NULL, ECHO, SUM, BIG, SLEEP = 0x20005244, 1, 0, 1, 2, 3, 4
SIZES = [0, 1, 3, 4, 100, 1000, 3996, 4096, 8192, 9000, 16384, 65535, 65536, 65537, 262144, 1048576]


def call(xid, proc, args):
    return rpc.call(xid, PROG, VERS, proc, args)


async def read_record(reader):
    msg, last = b"", 0
    while not last:
        (mark,) = struct.unpack(">I", await reader.readexactly(4))
        last = mark & rpc.LAST
        msg += await reader.readexactly(mark & ~rpc.LAST)
    return msg


# --- the server

def answer(msg):
    xid, prog, vers, proc, args = rpc.parse_call(msg)
    if prog != PROG:
        return rpc.reply(xid, accept=rpc.PROG_UNAVAIL)
    if vers != VERS:
        return rpc.reply(xid, struct.pack(">2I", VERS, VERS), rpc.PROG_MISMATCH)
    if proc == NULL:
        return rpc.reply(xid)
    if proc == ECHO:
        return rpc.reply(xid, rpc.opaque(rpc.unopaque(args)))
    (n,) = struct.unpack_from(">I", args) if args else (0,)
    if proc == SUM:
        return rpc.reply(xid, struct.pack(">q", sum(struct.unpack_from(f">{n}i", args, 4))))
    if proc == BIG:
        return rpc.reply(xid, rpc.opaque(bytes((i * 7 + (i >> 8)) & 255 for i in range(n))))
    if proc == SLEEP:
        time.sleep(n / 1000)
        return rpc.reply(xid, args[:4])
    return rpc.reply(xid, accept=rpc.PROC_UNAVAIL)


async def serve_asyncio(port):
    async def one(reader, writer):
        try:
            while True:
                writer.write(rpc.record(answer(await read_record(reader))))
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    server = await asyncio.start_server(one, rpc.HOST, port)
    await server.serve_forever()


# --- clients: each returns the number of calls that it made

def client_blocking(port, fragment=0):
    calls = 0
    with rpc.connect(port) as sock:
        def ask(proc, args):
            nonlocal calls
            calls += 1
            sock.sendall(rpc.record(call(calls, proc, args), fragment))
            reply = rpc.receive_record(sock)
            assert rpc.xid_of(reply) == calls
            return rpc.results_of(reply)

        for n in SIZES:
            data = random.randbytes(n)
            assert rpc.unopaque(ask(ECHO, rpc.opaque(data))) == data, n
        for n in (10, 1000, 200000):
            ints = [random.randint(-2**31, 2**31 - 1) for _ in range(n)]
            (got,) = struct.unpack(">q", ask(SUM, struct.pack(f">I{n}i", n, *ints)))
            assert got == sum(ints)
    return calls


def client_fragments(port):
    return client_blocking(port, 1000)


async def asyncio_client(port):
    """300 calls outstanding."""
    reader, writer = await asyncio.open_connection(rpc.HOST, port)
    want = {}
    for i in range(300):
        want[i] = random.randbytes(i * 397 % 30000)
        writer.write(rpc.record(call(i, ECHO, rpc.opaque(want[i]))))

    async def take_replies():
        while want:
            reply = await read_record(reader)
            assert rpc.unopaque(rpc.results_of(reply)) == want.pop(rpc.xid_of(reply))

    await asyncio.gather(take_replies(), writer.drain())
    writer.close()
    await writer.wait_closed()
    return 300


def client_asyncio(port):
    return asyncio.run(asyncio_client(port))


def client_nonblocking(port):
    """connect() in progress, poll, short writes and reads, 200 calls outstanding."""
    def payload(i):
        return bytes([i & 255]) * (i * 100)

    sock = socket.socket()
    sock.setblocking(False)
    sock.connect_ex((rpc.HOST, port))
    sel = selectors.PollSelector()
    sel.register(sock, selectors.EVENT_WRITE)
    sel.select(5)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    out = b"".join(rpc.record(call(1000 + i, ECHO, rpc.opaque(payload(i)))) for i in range(200))
    got, answered = bytearray(), 0
    while answered < 200:
        sel.modify(sock, selectors.EVENT_READ | (selectors.EVENT_WRITE if out else 0))
        for _, events in sel.select(5):
            if events & selectors.EVENT_WRITE:
                try:
                    out = out[sock.send(out[:7000]):]
                except BlockingIOError:
                    pass
            if events & selectors.EVENT_READ:
                try:
                    data = sock.recv(5000)
                except BlockingIOError:
                    continue
                assert data
                got += data
        while reply := rpc.take_record(got):
            assert rpc.unopaque(rpc.results_of(reply)) == payload(rpc.xid_of(reply) - 1000)
            answered += 1
    sock.close()
    return 200


def mnt(port, path):
    with rpc.connect(port) as sock:
        reply = rpc.ask(sock, rpc.call(77, 100005, 3, 1, rpc.opaque(path.encode())))
        print("mnt status", struct.unpack_from(">I", rpc.results_of(reply))[0])
    return 1


def main(role, port, what):
    if role == "server":
        if what == "asyncio":
            asyncio.run(serve_asyncio(int(port)))
        rpc.serve(rpc.listen(int(port)), lambda: answer)
    if role == "mnt":
        calls = mnt(int(port), what)
    else:
        calls = globals()[f"client_{what}"](int(port))
        print(f"py {what} ok")
    print(f"calls {calls}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
