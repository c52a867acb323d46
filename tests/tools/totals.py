#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""totals.py FILE: what a pcapng file's interface statistics say, all interfaces together: packets received, packets dropped."""
import struct
import sys

INTERFACE_STATISTICS, IFRECV, IFDROP = 5, 4, 5


def main():
    with open(sys.argv[1], "rb") as f:
        data = f.read()
    at, sums = 0, {IFRECV: 0, IFDROP: 0}
    while at < len(data):
        kind, size = struct.unpack_from("<II", data, at)
        option = at + 20
        while kind == INTERFACE_STATISTICS and option < at + size - 4:
            code, length = struct.unpack_from("<HH", data, option)
            if code in sums:
                sums[code] += struct.unpack_from("<Q", data, option + 4)[0]
            option += 4 + (length + 3) // 4 * 4
        at += size
    print(sums[IFRECV], sums[IFDROP])


main()
