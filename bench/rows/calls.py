# SPDX-License-Identifier: BSD-3-Clause
"""Calls on connections that are open already: latency, many threads, CPU time of calls that come now and then."""
import contextlib

from .measure import Measurement, Row, Turns
from .programs import ANYWHERE, APART, Busy, SHIM, TCP, TOGETHER, UNIX, Meter, Server, Side, Talker, app, measure

LEARNED = 8     # calls with gaps in which to spin is in vain, until an end no longer does
BUSY = 4    # processes that want all the CPU they get
ALL = (TCP, SHIM, UNIX)


def latency(label, must, what, calls, size=0, cpus=APART, busy=0, rounds=7, kinds=ALL, **options):
    def play(kind):
        with Busy(busy):
            return measure(kind, "benchcli", what, calls, size, cpus=cpus, **options)

    return Measurement(play, {"": Row(label, "p50", "less", must, "us", 1000)}, kinds, rounds)


def threads(label, must, mode, n, calls):
    def play(kind):
        return measure(kind, "benchcli", mode, n, calls)

    return Measurement(play, {"": Row(label, "per_s", "more", must, "calls/s")}, ALL)


def paced(gap, gap_us, calls, turns=40):
    """The CPU time that a call takes, at both ends together, with a gap before each call."""
    @contextlib.contextmanager
    def play(kind):
        with Side(kind) as side, Server(side, "benchsvc") as s, Talker(side, [app("benchcli"), side.address, "told"]) as client:
            client.tell(f"{LEARNED} {gap_us}")
            side.judge(True)
            meter = Meter(s.pid)

            def turn():
                run = client.tell(f"{calls} {gap_us}")
                return {"cpu_per_call": (run["cpu"] + meter.read()) / calls, "p50": run["p50"]}

            yield turn

    return Turns(play, {"": Row(f"CPU per call, both ends, every {gap}", "cpu_per_call", "less", 0.95, "us", 1000)}, ALL, turns)


MEASUREMENTS = {
    "null": latency("NULL, one CPU each, p50", 40, "null", 10000),
    "samecpu": latency("NULL, both on the same CPU", 1.3, "null", 10000, cpus=TOGETHER),
    "busy": latency(f"NULL, unpinned, {BUSY} busy processes", 1.2, "null", 5000, cpus=ANYWHERE, busy=BUSY),
    "unpinned": latency("NULL, unpinned, idle machine", 25, "null", 10000, cpus=ANYWHERE),
    "nospin": latency("NULL without spinning", 1.0, "null", 5000, kinds=(TCP, SHIM), RDMARPC_SPIN_US="0"),
    "arg64k": latency("64 KiB argument", 3.3, "arg", 2000, 65536),
    "res64k": latency("64 KiB result", 3.3, "res", 2000, 65536),
    "arg1m": latency("1 MiB argument", 1.5, "arg", 400, 1 << 20),
    "res1m": latency("1 MiB result", 1.5, "res", 400, 1 << 20),
    "threads": threads("8 threads, 8 connections", 4, "threads", 8, 5000),
    "threads64": threads("64 threads, 64 connections", 1.5, "threads", 64, 2000),
    "shared": threads("8 threads, one connection", 1.5, "shared", 8, 3000),
    "paced3s": paced("3 s", 1000000, 1, turns=12),     # the turns of the two others take as long
    "paced100ms": paced("100 ms", 100000, 6, turns=24),
    "paced10ms": paced("10 ms", 10000, 15),
    "paced1ms": paced("1 ms", 1000, 100),
    "paced200us": paced("200 us", 200, 400),
}
