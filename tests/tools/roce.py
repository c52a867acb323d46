#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""roce.py FILE: judges RoCEv2 packets in pcapng by what tshark does not look at: their checksums, and the numbers of each queue
pair's packets. Prints a line for each fault, last how many packets there were."""
import struct
import sys
import zlib

READ, READ_FIRST, READ_ONLY, DATAGRAM = 0x0c, 0x0d, 0x10, 0x64
MTU = 4096


def packets(path):
    with open(path, "rb") as f:
        data = f.read()
    at = 0
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == 6:
            have = struct.unpack_from("<I", data, at + 20)[0]
            yield data[at + 28:at + 28 + have]
        at += size


def icrc(packet):
    """IBA, volume 1, 7.8.1, and annex A17: what routers change counts as ones."""
    p = bytearray(packet[:-4])
    if p[0] >> 4 == 4:
        ip, ones = 20, [1, 8, 10, 11]
    else:
        ip, ones = 40, [1, 2, 3, 7]
        p[0] |= 0x0f
    for i in ones + [ip + 6, ip + 7, ip + 12]:
        p[i] = 0xff
    return struct.pack("<I", zlib.crc32(b"\xff" * 8 + p))


def main():
    requests, responses, count = {}, {}, 0    # by the queue pair that they go to: the next number
    for n, p in enumerate(packets(sys.argv[1]), 1):
        count = n
        if p[-4:] != icrc(p):
            print(f"packet {n}: its checksum")
        bth = p[28 if p[0] >> 4 == 4 else 48:]
        op, qp, psn = bth[0], int.from_bytes(bth[5:8], "big"), int.from_bytes(bth[9:12], "big")
        if op == DATAGRAM:
            continue
        if READ_FIRST <= op <= READ_ONLY:
            if responses.get(qp) != psn:
                print(f"packet {n}: response {psn}, not {responses.get(qp)}")
            responses[qp] = psn + 1
            continue
        if requests.setdefault(qp, psn) != psn:
            print(f"packet {n}: number {psn}, not {requests[qp]}")
        length = int.from_bytes(bth[24:28], "big") if op == READ else 0
        requests[qp] = psn + max(1, -(-length // MTU))
        if op == READ:
            responses[qp ^ 1] = psn    # both queue pairs of a connection differ in the last bit
    print(count)


main()
