#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""vxi11.py PORT: an instrument's VXI-11 core channel (create_link, device_write, device_read,
destroy_link), registered with rpcbind. *IDN? is answered with its name, WAVE? with 60,000 bytes."""
import os
import socket
import struct
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "lib"))
import rpc

PROG, VERS = 0x0607AF, 1
CREATE_LINK, WRITE, READ, DESTROY_LINK = 10, 11, 12, 23
END, IO_TIMEOUT = 4, 15
NAME = b"rdmarpc,laboratory,1,0\n"
PMAP, PMAP_SET, TCP = 100000, 1, 6


def answer_to(command):
    return {b"*IDN?": NAME, b"WAVE?": bytes(b"0123456789" * 6000)}.get(command.strip(), b"")


class Link:
    """What a connection has yet to read."""
    def __init__(self):
        self.pending = b""

    def perform(self, proc, args):
        if proc == CREATE_LINK:
            return struct.pack(">4I", 0, 1, 0, 65536)
        if proc == WRITE:
            data = rpc.unopaque(args[16:])
            self.pending = answer_to(data)
            return struct.pack(">2I", 0, len(data))
        if proc == READ:
            (size,) = struct.unpack_from(">I", args, 4)
            part, self.pending = self.pending[:size], self.pending[size:]
            if not part:
                return struct.pack(">2I", IO_TIMEOUT, 0) + rpc.opaque(b"")
            return struct.pack(">2I", 0, 0 if self.pending else END) + rpc.opaque(part)
        if proc == DESTROY_LINK:
            return struct.pack(">I", 0)
        return b""

    def answer(self, msg):
        xid, prog, _, proc, args = rpc.parse_call(msg)
        if prog != PROG:
            return rpc.reply(xid, accept=rpc.PROG_UNAVAIL)
        return rpc.reply(xid, self.perform(proc, args))


def register(port):
    """PMAPPROC_SET, which rpcbind takes from a reserved port of this host."""
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 1001))
        sock.connect(("127.0.0.1", 111))
        args = struct.pack(">4I", PROG, VERS, TCP, port)
        reply = rpc.ask(sock, rpc.call(1, PMAP, 2, PMAP_SET, args))
        assert rpc.results_of(reply) == struct.pack(">I", 1), "rpcbind refused"


def main(port):
    listener = rpc.listen(port)
    register(port)
    rpc.serve(listener, lambda: Link().answer)


if __name__ == "__main__":
    main(int(sys.argv[1]))
