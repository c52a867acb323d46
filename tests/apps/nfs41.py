#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""nfs41.py PORT DIR [recall [BACKPORT]]: an NFSv4.1 client (RFC 8881).

Makes a session with a back channel on its connection, and in DIR a file; writes it, reads it with all
slots in use at once (replies in any order), compares.

recall: two clients. The first opens the file and gets a delegation; the second opens it to write, and
the server calls the first, which answers and gives the delegation back. With BACKPORT it calls on another
connection, to that port, which has been put beside the session's (BIND_CONN_TO_SESSION)."""
import os
import select
import struct
import sys
import time

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rpc

NFS, NFS_VERSION, COMPOUND, CB_PROGRAM = 100003, 4, 1, 0x40000000
(CLOSE, DELEGRETURN, GETFH, LOOKUP, OPEN, PUTFH, PUTROOTFH, READ, WRITE, EXCHANGE_ID, CREATE_SESSION, DESTROY_SESSION,
 SEQUENCE, DESTROY_CLIENTID, RECLAIM_COMPLETE, BIND_CONN_TO_SESSION) = (
     4, 8, 10, 15, 18, 22, 24, 25, 38, 42, 43, 44, 53, 57, 58, 41)
CB_RECALL, CB_SEQUENCE, ERR_DELAY, READ_DELEGATION = 4, 11, 10008, 1
SKIP = {SEQUENCE: 36}   # bytes of a result, where it is not the last one
CONN_BACK_CHAN = TO_BACK = 2
ACCESS_READ, ACCESS_WRITE, ACCESS_BOTH, WANT_NO_DELEGATION = 1, 2, 3, 0x400
SLOTS, BLOCK, BLOCKS = 8, 100000, 16
STATEID = 16


def op(number, fmt="", *args, tail=b""):
    return struct.pack(">I" + fmt, number, *args) + tail


def channel(size):
    return struct.pack(">7I", 0, size, size, 4096, 16, SLOTS, 0)


def compound(xid, *ops):
    """The record of a call."""
    args = struct.pack(">3I", 0, 1, len(ops)) + b"".join(ops)
    root = struct.pack(">9I", 1, 20, 0, 0, 0, 0, 0, 0, 0)   # AUTH_SYS; and a verifier of AUTH_NONE
    return rpc.record(rpc.call(xid, NFS, NFS_VERSION, COMPOUND, args, root))


def path(names):
    """The operations that lead there from the root."""
    return [op(PUTROOTFH)] + [op(LOOKUP, tail=rpc.opaque(name)) for name in names.split(b"/") if name]


class Status(Exception):
    """An operation was not done."""


class Client:
    def __init__(self, port, name=b"nfs41", flags=CONN_BACK_CHAN):
        self.sock = rpc.connect(port)
        self.xid, self.slots, self.recalled = 0, [0] * SLOTS, []
        verifier = os.urandom(8)
        r = self.ask(op(EXCHANGE_ID, "8s", verifier,
                        tail=rpc.opaque(name) + struct.pack(">3I", 0, 0, 0)))
        self.clientid, sequence = r.u64(), r.u32()
        r = self.ask(op(CREATE_SESSION, "Q2I", self.clientid, sequence, flags,
                        tail=channel(1 << 20) + channel(4096) + struct.pack(">3I", CB_PROGRAM, 1, 0)))
        self.session = r.fixed(16)
        r.u32()
        assert r.u32() & CONN_BACK_CHAN == flags, "the back channel"
        self.ask(op(RECLAIM_COMPLETE, "I", 0), slot=0)

    def send(self, *ops, slot=None):
        if slot is not None:
            self.slots[slot] += 1
            ops = op(SEQUENCE, "16s4I", self.session, self.slots[slot], slot, SLOTS - 1, 0), *ops
        self.xid += 1
        self.sock.sendall(compound(self.xid, *ops))
        return self.xid

    def receive(self):
        """The next reply: its xid, and the result of its last operation. Calls that come first are answered."""
        while True:
            msg = rpc.receive_record(self.sock)
            xid, kind = struct.unpack_from(">2I", msg)
            if kind == rpc.REPLY:
                break
            self.called(self.sock, msg)
        r = rpc.Cursor(rpc.results_of(msg))
        r.u32()
        r.opaque()
        for left in reversed(range(r.u32())):
            number, status = r.u32(), r.u32()
            if status:
                raise Status(number, status)
            if left:
                r.fixed(SKIP.get(number, 0))
        return xid, r

    def called(self, sock, msg):
        """The server's call: nothing, or a sequence and a delegation to be given back."""
        xid, _, _, proc, args = rpc.parse_call(msg)
        if proc != COMPOUND:
            sock.sendall(rpc.record(rpc.reply(xid)))
            return
        r = rpc.Cursor(args)
        tag, _, _, count = r.opaque(), r.u32(), r.u32(), r.u32()
        results = b""
        for _ in range(count):
            number = r.u32()
            results += struct.pack(">2I", number, 0)
            if number == CB_SEQUENCE:
                session, sequence, slot, _, _ = r.fixed(16), r.u32(), r.u32(), r.u32(), r.u32()
                for _ in range(r.u32()):    # referring calls
                    r.fixed(16)
                    r.fixed(8 * r.u32())
                results += session + struct.pack(">4I", sequence, slot, 0, 0)
            else:
                assert number == CB_RECALL, f"operation {number} from the server"
                self.recalled.append(r.fixed(STATEID))
                r.u32()
                r.opaque()
        sock.sendall(rpc.record(rpc.reply(xid, struct.pack(">I", 0) + rpc.opaque(tag) +
                                          struct.pack(">I", count) + results)))

    def ask(self, *ops, slot=None):
        xid = self.send(*ops, slot=slot)
        got, r = self.receive()
        assert got == xid, "another call's reply"
        return r

    def create(self, directory, name):
        """Stateid and file handle (as an operation) of a new file."""
        owner = struct.pack(">Q", self.clientid) + rpc.opaque(b"owner")
        make = struct.pack(">4I", 1, 0, 0, 0)
        claim = struct.pack(">I", 0) + rpc.opaque(name)
        where = path(directory)
        access = ACCESS_BOTH | WANT_NO_DELEGATION
        stateid = self.ask(*where, op(OPEN, "3I", 0, access, 0, tail=owner + make + claim), slot=0).fixed(STATEID)
        r = self.ask(*where, op(LOOKUP, tail=rpc.opaque(name)), op(GETFH), slot=0)
        return stateid, op(PUTFH, tail=rpc.opaque(r.opaque()))

    def open(self, directory, name, access):
        """The result of an OPEN."""
        owner = struct.pack(">Q", self.clientid) + rpc.opaque(b"owner")
        where = path(directory)
        return self.ask(*where, op(OPEN, "3I", 0, access, 0, tail=owner + struct.pack(">2I", 0, 0) +
                                   rpc.opaque(name)), slot=0)

    def end(self):
        self.ask(op(DESTROY_SESSION, "16s", self.session))
        self.ask(op(DESTROY_CLIENTID, "Q", self.clientid))
        self.sock.close()


def read_all(c, stateid, fh):
    got = {}
    for first in range(0, BLOCKS, SLOTS):
        asked = {c.send(fh, op(READ, "16sQI", stateid, (first + s) * BLOCK, BLOCK), slot=s): first + s
                 for s in range(SLOTS)}
        while asked:
            xid, r = c.receive()
            r.u32()
            got[asked.pop(xid)] = r.opaque()
    return b"".join(got[i] for i in range(BLOCKS))


def opened(c, *args):
    """A write OPEN that the server delays as long as another has a delegation: whether it was done."""
    try:
        c.open(*args)
    except Status as e:
        assert e.args == (OPEN, ERR_DELAY), e.args
        return False
    return True


def bind(c, port):
    """A connection that the server will call back by."""
    sock = rpc.connect(port)
    sock.sendall(compound(1, op(BIND_CONN_TO_SESSION, "16s2I", c.session, TO_BACK, 0)))
    r = rpc.Cursor(rpc.results_of(rpc.receive_record(sock)))
    assert r.u32() == 0, "BIND_CONN_TO_SESSION is refused"
    r.fixed(16)     # tag, one result, its operation, its status
    assert (r.fixed(16), r.u32()) == (c.session, TO_BACK), "bound otherwise"
    return sock


def take_calls(c, fh, back):
    """What the server has called by now."""
    if not back:
        c.ask(fh, op(READ, "16sQI", bytes(STATEID), 0, 1), slot=1)
    while back and select.select([back], [], [], 0)[0]:
        c.called(back, rpc.receive_record(back))


def delegation(c, file, fh, back):
    """That of an OPEN; a server may want to know first whether it can call back."""
    for _ in range(150):
        time.sleep(0.5)
        take_calls(c, fh, back)
        r = c.open(*file, ACCESS_READ)
        stateid, _ = r.fixed(STATEID), r.fixed(4 + 8 + 8 + 4)
        r.fixed(4 * r.u32())
        if r.u32() == READ_DELEGATION:
            return r.fixed(STATEID)
        c.ask(fh, op(CLOSE, "I16s", 0, stateid), slot=0)
    return sys.exit("no delegation")


def recall(port, directory, backport=None):
    file = directory.encode(), b"shared41"
    first = Client(int(port), b"first", 0 if backport else CONN_BACK_CHAN)
    second = Client(int(backport or port), b"second")
    back = bind(first, int(backport)) if backport else None
    stateid, fh = first.create(*file)
    first.ask(fh, op(CLOSE, "I16s", 0, stateid), slot=0)
    delegated = delegation(first, file, fh, back)
    made = 0
    while not opened(second, *file, ACCESS_WRITE | WANT_NO_DELEGATION):
        made += 1
        take_calls(first, fh, back)
        if first.recalled:
            assert first.recalled[0][4:] == delegated[4:], "another delegation"
            first.ask(fh, op(DELEGRETURN, "16s", first.recalled.pop()), slot=0)
        time.sleep(0.1)
    assert made, "the write was not delayed"
    print("nfs41 delegation recalled")
    if back:
        print(f"calls {first.xid}", file=sys.stderr)


def main(port, directory, what="", *more):
    if what == "recall":
        recall(port, directory, *more)
        return
    c = Client(int(port))
    data = os.urandom(BLOCK * BLOCKS)
    stateid, fh = c.create(directory.encode(), b"new41")
    for at in range(0, len(data), BLOCK):
        r = c.ask(fh, op(WRITE, "16sQI", stateid, at, 0, tail=rpc.opaque(data[at:at + BLOCK])), slot=0)
        assert r.u32() == BLOCK
    same = read_all(c, stateid, fh) == data
    c.ask(fh, op(CLOSE, "I16s", 0, stateid), slot=0)
    c.end()
    print(f"nfs41 {len(data)} bytes {'same' if same else 'DIFFERENT'}")
    print(f"calls {c.xid}", file=sys.stderr)


if __name__ == "__main__":
    main(*sys.argv[1:])
