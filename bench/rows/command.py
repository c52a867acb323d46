# SPDX-License-Identifier: BSD-3-Clause
"""The command line of bench/run and bench/real."""
import argparse
import json
import os
import platform
import signal
import subprocess
import sys
import time

from . import programs, table


def revision():
    out = subprocess.run(["git", "-C", programs.ROOT, "describe", "--always", "--dirty"],
                         capture_output=True, text=True, check=False).stdout
    return out.strip() or "unknown"


HALT_POLL = "/sys/module/haltpoll/parameters/guest_halt_poll_ns"
GOVERNOR = "/sys/devices/system/cpu/cpuidle/current_governor"


def halt_poll_ns():
    """How long an idle CPU of a virtual machine looks for work before it halts, at most; None: Linux's governor for that is
    not in use."""
    try:
        with open(GOVERNOR, encoding="ascii") as f:
            if f.read().strip() != "haltpoll":
                return None
        with open(HALT_POLL, encoding="ascii") as f:
            return int(f.read())
    except OSError:
        return None


def run(name, measurement, args):
    """Runs a measurement, and prints and returns the lines of its rows."""
    rounds = args.rounds or max(1, measurement.rounds // 2 if args.quick else measurement.rounds)
    start = time.monotonic()
    try:
        lines = list(measurement.judge(name, measurement.run(rounds)))
    except (programs.Failed, OSError, subprocess.CalledProcessError) as e:
        lines = [{"row": name + suffix, "label": row.label, "must": row.bound(), "measured": None, "unit": row.unit,
                  "verdict": "failed", "why": str(e)} for suffix, row in measurement.rows.items()]
    lines[0]["seconds"] = round(time.monotonic() - start, 1)
    for line in lines:
        print(json.dumps(line), flush=True)
    return lines


def arguments(measurements, text):
    args = argparse.ArgumentParser(description=text, formatter_class=argparse.RawDescriptionHelpFormatter)
    args.add_argument("--quick", action="store_true", help="half of the rounds, without the rows that take minutes")
    args.add_argument("--rounds", type=int, help="how many rounds each row has")
    args.add_argument("--rows", help=f"only these, with commas between them, of: {', '.join(measurements)}")
    args.add_argument("--before", metavar="BUILD", help="a build directory of another revision to compare with")
    args = args.parse_args()
    args.rows = args.rows.split(",") if args.rows else [n for n, m in measurements.items() if not (args.quick and m.slow)]
    for name in args.rows:
        if name not in measurements:
            sys.exit(f"there is no row {name}; rows are {', '.join(measurements)}")
    return args


def main(measurements, text):
    args = arguments(measurements, text)
    if args.before:
        programs.BUILDS[programs.BEFORE] = os.path.realpath(args.before)
    for build in set(programs.BUILDS.values()):
        if not os.path.exists(programs.library(build)):
            sys.exit(f"there is no {programs.library(build)}")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))     # so that programs are ended, too
    programs.limit_files(programs.OPEN_FILES)
    start, load = time.monotonic(), os.getloadavg()[0]
    lines = [line for name in args.rows for line in run(name, measurements[name], args)]
    print("\n" + "\n".join(table.terminal(lines, bool(args.before))) + "\n")
    print(json.dumps({"bench": 1, "revision": revision(), "date": time.strftime("%F %T"), "machine": platform.machine(),
                      "kernel": platform.release(), "cpus": len(programs.CPUS), "load_before": round(load, 2),
                      "halt_poll_ns": halt_poll_ns(),
                      "seconds": round(time.monotonic() - start), "rows": lines}))
    sys.exit(any(line["verdict"] == "failed" for line in lines))
