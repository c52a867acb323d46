#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""ceph.py DIRECTORY ADDRESS: Ceph's monitor, object store (in memory) and metadata server, for a back end of
ganesha's that has delegations, ACLs and extended attributes. When its file system is there, there is
DIRECTORY/ready, and DIRECTORY/ceph.conf is what its clients read; it lasts until SIGTERM."""

import json
import os
import signal
import subprocess
import sys
import time

import rados

directory, address = sys.argv[1:]
FSID = "6f2c3f0e-4d1b-4c58-9a57-2b1f2a3c4d5e"
OSD = "0f1e2d3c-4b5a-4697-8879-6a5b4c3d2e1f"
CONF = f"""[global]
fsid = {FSID}
mon host = v2:{address}:3300
ms bind msgr1 = false
public addr = {address}
cluster addr = {address}
auth cluster required = none
auth service required = none
auth client required = none
keyring = /dev/null
mon data = {directory}/mon
mon data avail crit = 0
mon data avail warn = 0
mon allow pool size one = true
osd data = {directory}/osd
osd objectstore = memstore
memstore device bytes = 268435456
osd pool default size = 1
osd pool default pg autoscale mode = off
crush location = root=default host=host
mds data = {directory}/mds
run dir = {directory}
admin socket =
log file = {directory}/$name.log
client acl type = posix_acl
# it stands by for nobody, so nothing needs to wait for anything
paxos propose interval = 0.05
mds beacon interval = 0.5
"""


def run(*command):
    subprocess.run(command, check=True, stdout=sys.stderr)


def stop(*_):
    sys.exit(0)


signal.signal(signal.SIGTERM, stop)
os.makedirs(directory, exist_ok=True)
for part in "mon", "osd", "mds":
    os.mkdir(f"{directory}/{part}")
os.environ["CEPH_CONF"] = f"{directory}/ceph.conf"
with open(os.environ["CEPH_CONF"], "w") as f:
    f.write(CONF)
daemons = []
try:
    run("monmaptool", "--create", "--fsid", FSID, "--addv", "a", f"[v2:{address}:3300]", f"{directory}/monmap")
    run("ceph-mon", "-i", "a", "--mkfs", "--monmap", f"{directory}/monmap")
    daemons.append(subprocess.Popen(["ceph-mon", "-i", "a", "-f"]))
    cluster = rados.Rados(conffile=os.environ["CEPH_CONF"])
    cluster.connect()

    def mon(prefix, **arguments):
        status, out, why = cluster.mon_command(json.dumps({"prefix": prefix, "format": "json", **arguments}), b"")
        if status:
            sys.exit(f"{prefix}: {why}")
        return out

    mon("osd new", uuid=OSD)
    for pool in "metadata", "data":
        mon("osd pool create", pool=pool, pg_num=1, pgp_num=1)
    mon("fs new", fs_name="fs", metadata="metadata", data="data")
    run("ceph-osd", "-i", "0", "--mkfs", "--osd-uuid", OSD)
    daemons.append(subprocess.Popen(["ceph-osd", "-i", "0", "-f"]))
    daemons.append(subprocess.Popen(["ceph-mds", "-i", "a", "-f"]))
    while not any(mds["state"] == "up:active" for fs in json.loads(mon("mds stat"))["fsmap"]["filesystems"]
                  for mds in fs["mdsmap"]["info"].values()):
        time.sleep(0.1)
    open(f"{directory}/ready", "w").close()
    while all(d.poll() is None for d in daemons):
        time.sleep(1)
    sys.exit("a daemon of Ceph has ended")
finally:
    for d in daemons:
        d.kill()
        d.wait()
