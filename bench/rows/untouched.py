# SPDX-License-Identifier: BSD-3-Clause
"""What the library must leave alone: TCP that is not RPC, and programs that have no connection."""
import json
import statistics
import subprocess

from .measure import Measurement, Row
from .programs import BUILDS, CLIENT_CPU, app, library, measure, pinned

PAIRS = 5   # runs in a play, since single runs differ by more than the library may cost


def pingpong(kind):
    """A round trip that is not RPC: with the library loaded, nothing may be carried."""
    runs = [measure(kind, "pingpong", 4000, server="pingpong", carried=False)["p50"] for _ in range(PAIRS)]
    return {"p50": statistics.median(runs)}


def exec_true(kind):
    env = [f"LD_PRELOAD={library(BUILDS[kind])}"] if kind in BUILDS else []
    out = subprocess.run(pinned(CLIENT_CPU, [app("exectime"), "200", *env, "/bin/true"]),
                         capture_output=True, text=True, check=True).stdout
    return json.loads(out)


MEASUREMENTS = {
    "pingpong": Measurement(pingpong, {"": Row("TCP that is not RPC", "p50", "less", 0.97, "us", 1000)}),
    "exec": Measurement(exec_true, {"": Row("exec of /bin/true", "p50", "added", 150, "us", 1000)}),
}
