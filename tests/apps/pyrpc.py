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
import threading
import time

HOST = os.environ.get("LAB_ADDRESS", "127.0.0.1")
PROG, NULL, ECHO, SUM, BIG, SLEEP = 0x20005244, 0, 1, 2, 3, 4
LAST = 0x80000000
SIZES = [0, 1, 3, 4, 100, 1000, 3996, 4096, 8192, 9000, 16384, 65535, 65536, 65537, 262144, 1048576]


# --- XDR and record marking

def opaque(b):
    return struct.pack(">I", len(b)) + b + bytes(-len(b) % 4)


def unopaque(b):
    (n,) = struct.unpack_from(">I", b)
    return b[4:4 + n]


def call(xid, proc, args=b"", prog=PROG, vers=1):
    return struct.pack(">10I", xid, 0, 2, prog, vers, proc, 0, 0, 0, 0) + args


def record(msg, fragment=0):
    """The message as a record, of fragments of so many bytes."""
    if not fragment:
        return struct.pack(">I", LAST | len(msg)) + msg
    out = b""
    for at in range(0, len(msg), fragment):
        part = msg[at:at + fragment]
        last = LAST if at + fragment >= len(msg) else 0
        out += struct.pack(">I", last | len(part)) + part
    return out


def receive_exactly(sock, n):
    buf = bytearray(n)
    view, at = memoryview(buf), 0
    while at < n:
        got = sock.recv_into(view[at:])
        if not got:
            raise EOFError
        at += got
    return bytes(buf)


def receive_record(sock):
    msg = b""
    while True:
        (mark,) = struct.unpack(">I", receive_exactly(sock, 4))
        msg += receive_exactly(sock, mark & ~LAST)
        if mark & LAST:
            return msg


async def read_record(reader):
    msg = b""
    while True:
        (mark,) = struct.unpack(">I", await reader.readexactly(4))
        msg += await reader.readexactly(mark & ~LAST)
        if mark & LAST:
            return msg


# --- the server

def parse(msg):
    """xid, message type, RPC version, program, version, procedure, arguments of a call"""
    *head, _, cred = struct.unpack_from(">8I", msg)
    at = 32 + (cred + 3 & ~3)
    _, verf = struct.unpack_from(">2I", msg, at)
    return *head, msg[at + 8 + (verf + 3 & ~3):]


def answer(msg):
    xid, _, _, prog, vers, proc, args = parse(msg)
    head = struct.pack(">5I", xid, 1, 0, 0, 0)
    if prog != PROG:
        return head + struct.pack(">I", 1)
    if vers != 1:
        return head + struct.pack(">3I", 2, 1, 1)
    done = head + struct.pack(">I", 0)
    if proc == NULL:
        return done
    if proc == ECHO:
        return done + opaque(unopaque(args))
    (n,) = struct.unpack_from(">I", args) if args else (0,)
    if proc == SUM:
        return done + struct.pack(">q", sum(struct.unpack_from(f">{n}i", args, 4)))
    if proc == BIG:
        return done + opaque(bytes((i * 7 + (i >> 8)) & 255 for i in range(n)))
    if proc == SLEEP:
        time.sleep(n / 1000)
        return done + args[:4]
    return head + struct.pack(">I", 3)


def serve_connection(conn, answer=answer):
    with conn:
        try:
            while True:
                conn.sendall(record(answer(receive_record(conn))))
        except (EOFError, OSError):
            pass


def serve_threads(port):
    listener = socket.create_server((HOST, port), backlog=64)
    while True:
        conn, _ = listener.accept()
        threading.Thread(target=serve_connection, args=(conn,), daemon=True).start()


async def serve_asyncio(port):
    async def one(reader, writer):
        try:
            while True:
                writer.write(record(answer(await read_record(reader))))
                await writer.drain()
        except (asyncio.IncompleteReadError, OSError):
            writer.close()

    server = await asyncio.start_server(one, HOST, port)
    await server.serve_forever()


# --- clients: each returns the number of calls that it made

def client_blocking(port, fragment=0):
    calls = 0
    with socket.create_connection((HOST, port)) as sock:
        def ask(proc, args):
            nonlocal calls
            calls += 1
            sock.sendall(record(call(calls, proc, args), fragment))
            reply = receive_record(sock)
            assert struct.unpack_from(">6I", reply) == (calls, 1, 0, 0, 0, 0)
            return reply[24:]

        for n in SIZES:
            data = random.randbytes(n)
            assert unopaque(ask(ECHO, opaque(data))) == data, n
        for n in (10, 1000, 200000):
            ints = [random.randint(-2**31, 2**31 - 1) for _ in range(n)]
            (got,) = struct.unpack(">q", ask(SUM, struct.pack(f">I{n}i", n, *ints)))
            assert got == sum(ints)
    return calls


def client_fragments(port):
    return client_blocking(port, 1000)


async def asyncio_client(port):
    """300 calls outstanding."""
    reader, writer = await asyncio.open_connection(HOST, port)
    want = {}
    for i in range(300):
        want[i] = random.randbytes(i * 397 % 30000)
        writer.write(record(call(i, ECHO, opaque(want[i]))))

    async def take_replies():
        while want:
            reply = await read_record(reader)
            (xid,) = struct.unpack_from(">I", reply)
            assert unopaque(reply[24:]) == want.pop(xid)

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
    sock.connect_ex((HOST, port))
    sel = selectors.PollSelector()
    sel.register(sock, selectors.EVENT_WRITE)
    sel.select(5)
    assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) == 0
    out = b"".join(record(call(1000 + i, ECHO, opaque(payload(i)))) for i in range(200))
    got, answered = b"", 0
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
        while len(got) >= 4:
            size = struct.unpack_from(">I", got)[0] & ~LAST
            if len(got) < 4 + size:
                break
            reply, got = got[4:4 + size], got[4 + size:]
            assert unopaque(reply[24:]) == payload(struct.unpack_from(">I", reply)[0] - 1000)
            answered += 1
    sock.close()
    return 200


def mnt(port, path):
    with socket.create_connection((HOST, port)) as sock:
        sock.sendall(record(call(77, 1, opaque(path.encode()), prog=100005, vers=3)))
        print("mnt status", struct.unpack_from(">I", receive_record(sock), 24)[0])
    return 1


def main(role, port, what):
    if role == "server":
        if what == "asyncio":
            asyncio.run(serve_asyncio(int(port)))
        serve_threads(int(port))
    if role == "mnt":
        calls = mnt(int(port), what)
    else:
        calls = globals()[f"client_{what}"](int(port))
        print(f"py {what} ok")
    print(f"calls {calls}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
