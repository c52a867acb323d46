# SPDX-License-Identifier: BSD-3-Clause
"""Real programs, as tests/apps starts them: operations a second, and the CPU time of an operation in all processes."""
import json
import os
import re
import subprocess

from .measure import Measurement, Row
from .programs import BUILD, BUILDS, ROOT, Failed

PLACES = {"unpinned": "unpinned", "pinned": "pinned", "busy": "busy machine"}
LIMIT = 600     # s, for a case with all of its loads
# What a load must reach: as much as TCP, less what TCP itself varies by. Some loads must reach more.
LEVEL = 0.95
MUST = {"getattr.busy": 1.1, "read.busy": 1.1, "create.busy": 1.1, "read8.unpinned": 1.2}


def documents(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def play(case):
    def run(kind):
        build = os.path.relpath(BUILDS.get(kind, BUILD), ROOT)
        env = {k: v for k, v in os.environ.items() if not re.match("LD_PRELOAD|RDMARPC_", k)}
        env |= {"LEG": "both" if kind in BUILDS else "tcp", "BUILD": build}
        try:
            out = subprocess.run([os.path.join(ROOT, "bench", "apps", f"{case}.sh")], env=env, text=True,
                                 capture_output=True, timeout=LIMIT)
        except subprocess.TimeoutExpired:
            raise Failed(f"{case} hangs") from None
        if out.returncode:
            raise Failed(f"{case}: {(out.stdout + out.stderr).strip()[-300:]}")
        result, carried = {}, {}
        for doc in documents(out.stdout):
            carried = doc.get("carried", carried)
            if "load" in doc:
                result |= {doc["load"]: doc["ops_per_s"], doc["load"] + ".cpu": doc["cpu_us"]}
        if any(n > 0 for n in carried.values()) != (kind in BUILDS):
            raise Failed(f"{case}, {kind}: carried {carried}")
        return result | carried
    return run


def case(name, loads):
    """loads: by name, what they do."""
    rows = {}
    for load, label in loads.items():
        for place, where in PLACES.items():
            key = f"{load}.{place}"
            rows[f".{key}"] = Row(f"{label}, {where}", key, "more", MUST.get(key, LEVEL), "/s")
            rows[f".{key}.cpu"] = Row("... CPU of an operation", f"{key}.cpu", "less", LEVEL, "us")
    return Measurement(play(name), rows, rounds=3)


MEASUREMENTS = {
    "nfs": case("nfs", {"getattr": "NFS getattr", "read": "NFS 4 KiB read", "read8": "NFS 4 KiB read, depth 8",
                        "create": "NFS create"}),
    "rpcbind": case("rpcbind", {"getport": "rpcbind GETPORT", "rpcinfo": "rpcinfo, a process each"}),
    "kadmin": case("kadmin", {"getprinc": "kadmin getprinc"}),
    "yp": case("yp", {"ypcat": "ypcat of 500 entries, a process each"}),
    "gluster": case("gluster", {"gfread": "gfapi 4 KiB read", "gfstat": "gfapi stat"}),
}
