#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""gfload.py HOST VOLUME LOG read|stat SECONDS: operations of libgfapi, back to back; prints "OPERATIONS SECONDS"."""
import ctypes
import os
import sys
import time

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../tests/apps"))
# pylint: disable=wrong-import-position
from gfapi import library, mount, need

BLOCK, BLOCKS = 4096, 256


def main(host, volume, log, what, seconds):
    api = library()
    fs = mount(api, host, volume, log)
    buf, stat = ctypes.create_string_buffer(BLOCK * BLOCKS), ctypes.create_string_buffer(1024)
    fd = ctypes.c_void_p(api.glfs_creat(fs, b"/load", os.O_RDWR, 0o644))
    need(fd, "creat")
    need(api.glfs_write(fd, buf, ctypes.c_size_t(BLOCK * BLOCKS), 0) == BLOCK * BLOCKS, "write")
    api.glfs_pread.restype = ctypes.c_ssize_t
    start = now = time.monotonic()
    done = 0
    while now < start + float(seconds):
        if what == "read":
            at = ctypes.c_int64(done % BLOCKS * BLOCK)
            need(api.glfs_pread(fd, buf, ctypes.c_size_t(BLOCK), at, 0, None) == BLOCK, "read")
        else:
            need(api.glfs_stat(fs, b"/load", stat) == 0, "stat")
        done, now = done + 1, time.monotonic()
    print(done, f"{now - start:.3f}")
    sys.stdout.flush()
    os._exit(0)     # glfs_fini() takes seconds


if __name__ == "__main__":
    main(*sys.argv[1:])
