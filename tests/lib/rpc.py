# SPDX-License-Identifier: BSD-3-Clause
"""ONC RPC (RFC 5531) over TCP by plain Python, for clients and servers of the tests: XDR, record marking, the headers of
calls and replies with AUTH_NONE, connections. It shares no code with libtirpc, and knows nothing of the library."""
import os
import struct

HOST = os.environ.get("LAB_ADDRESS", "127.0.0.1")   # where servers listen, and clients go
LAST = 0x80000000   # of a record mark
CALL, REPLY = 0, 1
SUCCESS, PROG_UNAVAIL, PROG_MISMATCH, PROC_UNAVAIL = 0, 1, 2, 3
CALL_HEAD, REPLY_HEAD = 40, 24


# --- XDR (RFC 4506)

def opaque(b):
    return struct.pack(">I", len(b)) + b + bytes(-len(b) % 4)


def unopaque(b):
    (n,) = struct.unpack_from(">I", b)
    return b[4:4 + n]


class Cursor:
    """Reads XDR."""
    def __init__(self, data):
        self.data, self.at = data, 0

    def fixed(self, n):
        part = self.data[self.at:self.at + n]
        assert len(part) == n, "a truncated message"
        self.at += n + -n % 4
        return part

    def u32(self):
        return struct.unpack(">I", self.fixed(4))[0]

    def u64(self):
        return struct.unpack(">Q", self.fixed(8))[0]

    def opaque(self):
        return self.fixed(self.u32())

    def rest(self):
        return self.data[self.at:]


# --- messages

def call(xid, prog, vers, proc, args=b"", auth=bytes(16)):
    """auth: credential and verifier."""
    return struct.pack(">6I", xid, CALL, 2, prog, vers, proc) + auth + args


def reply(xid, results=b"", accept=SUCCESS):
    return struct.pack(">6I", xid, REPLY, 0, 0, 0, accept) + results


def xid_of(msg):
    return struct.unpack_from(">I", msg)[0]


def parse_call(msg):
    """xid, program, version, procedure, arguments"""
    r = Cursor(msg)
    xid, kind, _, prog, vers, proc = (r.u32() for _ in range(6))
    assert kind == CALL, "no call"
    for _ in range(2):  # credential and verifier
        r.u32()
        r.opaque()
    return xid, prog, vers, proc, r.rest()


def results_of(msg):
    """Of a reply that was accepted, without error, by a server that has no verifier."""
    head = struct.unpack_from(">5I", msg, 4)
    assert head == (REPLY, 0, 0, 0, SUCCESS), f"not accepted: {head}"
    return msg[REPLY_HEAD:]


# --- records

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
    """Takes 64 KiB or twice what has come, and no more: a peer that lies may say any length."""
    buf, at = bytearray(min(n, 1 << 16)), 0
    while at < n:
        if at == len(buf):
            buf.extend(bytes(min(at, n - at)))
        with memoryview(buf) as view:
            got = sock.recv_into(view[at:at + (1 << 20)])
        if not got:
            raise EOFError(f"after {at} of {n} bytes")
        at += got
    return bytes(buf)


def receive_record(sock):
    msg, last = b"", 0
    while not last:
        (mark,) = struct.unpack(">I", receive_exactly(sock, 4))
        last = mark & LAST
        msg += receive_exactly(sock, mark & ~LAST)
    return msg


def take_record(buf):
    """A record of one fragment off the beginning of a bytearray; None: it is not there as a whole."""
    if len(buf) < 4:
        return None
    size = struct.unpack_from(">I", buf)[0] & ~LAST
    if len(buf) < 4 + size:
        return None
    msg = bytes(buf[4:4 + size])
    del buf[:4 + size]
    return msg


def ask(sock, msg):
    """Makes a call; its reply."""
    sock.sendall(record(msg))
    return receive_record(sock)


# --- connections: who needs messages alone begins in less time, without these modules

def connect(port, host=HOST):
    import socket
    return socket.create_connection((host, port))


def listen(port, backlog=64):
    import socket
    return socket.create_server((HOST, port), backlog=backlog)


def serve_connection(conn, answer):
    """answer gives the reply to a call."""
    with conn:
        try:
            while True:
                conn.sendall(record(answer(receive_record(conn))))
        except (EOFError, OSError):
            pass


def serve(listener, answerer):
    """Serves each connection in a thread, by what answerer() gives for it, for ever."""
    import threading
    while True:
        conn, _ = listener.accept()
        threading.Thread(target=serve_connection, args=(conn, answerer()), daemon=True).start()
