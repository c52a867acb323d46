#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""A GlusterFS client on libgfapi.

gfapi.py HOST VOLUME LOG rw          writes a file of 5 MB, reads it back and compares
gfapi.py HOST VOLUME LOG callback    changes an option of the volume while it is connected: glusterd then
                                     calls back on the client's connection"""
import ctypes
import os
import subprocess
import sys
import time

LIBRARY = "libgfapi.so.0"
TOTAL, STEP = 5000000, 1000000


def library():
    api = ctypes.CDLL(LIBRARY, use_errno=True)
    for name in ("glfs_new", "glfs_creat", "glfs_open"):
        getattr(api, name).restype = ctypes.c_void_p
    for name in ("glfs_write", "glfs_read"):
        getattr(api, name).restype = ctypes.c_ssize_t
    return api


def need(ok, what):
    if not ok:
        print(f"{what}: {os.strerror(ctypes.get_errno())}")
        sys.stdout.flush()
        os._exit(1)


def mount(api, host, volume, log):
    fs = ctypes.c_void_p(api.glfs_new(volume.encode()))
    need(fs, "glfs_new")
    need(api.glfs_set_volfile_server(fs, b"tcp", host.encode(), 24007) == 0, "volfile server")
    need(api.glfs_set_logging(fs, log.encode(), 7) == 0, "logging")
    need(api.glfs_init(fs) == 0, "glfs_init")
    return fs


def read_write(api, fs):
    data = os.urandom(TOTAL)
    fd = ctypes.c_void_p(api.glfs_creat(fs, b"/file", os.O_RDWR, 0o644))
    need(fd, "creat")
    for at in range(0, TOTAL, STEP):
        need(api.glfs_write(fd, data[at:at + STEP], ctypes.c_size_t(STEP), 0) == STEP, "write")
    need(api.glfs_close(fd) == 0, "close")
    fd = ctypes.c_void_p(api.glfs_open(fs, b"/file", os.O_RDONLY))
    need(fd, "open")
    got, room = b"", ctypes.create_string_buffer(STEP)
    while len(got) < TOTAL:
        n = api.glfs_read(fd, room, ctypes.c_size_t(STEP), 0)
        need(n > 0, "read")
        got += room.raw[:n]
    need(api.glfs_close(fd) == 0, "close")
    print(f"gfapi {TOTAL} bytes {'same' if got == data else 'DIFFERENT'}")


def callback(volume, log):
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    before = os.path.getsize(log)
    subprocess.run(["gluster", "--mode=script", "volume", "set", volume, "performance.cache-size", "48MB"],
                   env=env, check=True, stdout=subprocess.DEVNULL)
    for _ in range(900):
        with open(log, encoding="utf-8", errors="replace") as f:
            f.seek(before)
            if "option cache-size using set value 48MB" in f.read():
                print("gfapi was called back")
                return
        time.sleep(0.1)
    print("gfapi was not called back")


def main(host, volume, log, mode):
    api = library()
    fs = mount(api, host, volume, log)
    if mode == "rw":
        read_write(api, fs)
    else:
        callback(volume, log)
    sys.stdout.flush()
    time.sleep(5)       # for what comes after glfs_close(), also on a busy machine
    os._exit(0)         # glfs_fini() takes seconds


if __name__ == "__main__":
    main(*sys.argv[1:])
