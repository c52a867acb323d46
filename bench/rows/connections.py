# SPDX-License-Identifier: BSD-3-Clause
"""What it costs to begin: one-call connections, one-call processes, the first call of each kind of program."""
import os
import statistics
import sys

from .measure import Measurement, Pairs, Row, shuffled
from .programs import (CLIENT_ONLY, SERVER_ONLY, SHIM, TCP, UNIX, ROOT, Server, Side, app,
                       hard_limit, limit_files, measure, OPEN_FILES, run_client)

FIRSTCALL = os.path.join(ROOT, "bench", "firstcall.py")
CALLS = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)  # calls per connection, tried for where it breaks even
# A connection takes 60 us in one run and 90 in the next, with TCP alone, on a guest whose host decides how long an idle CPU waits for
# work: TCP's spread says so.
ROUNDS = 61
# libtirpc's server gives its heap back to the kernel at each connection or at none, by chance: in a third of all runs by TCP, too. A
# connection takes twice the time then, so the medians of 61 rounds were 0.94, 0.82 and 0.59 of TCP's for one library.
HELD_HEAP = {"MALLOC_TRIM_THRESHOLD_": str(1 << 30), "MALLOC_TOP_PAD_": str(1 << 20)}
PAIRS = 21      # runs of each, with TCP and with the library in turn, since single runs differ by more than 3 %


def short_lived(connections, calls):
    """So many connections, one after the other, of so many calls each. Whether they are carried is the library's choice."""
    return lambda kind: measure(kind, "benchcli", "first", connections, calls, carried=None, common=HELD_HEAP)


def break_even(_kind):
    """The least number of calls per connection from which on the library is no slower than TCP (within 3 %)."""
    least = None
    for calls in reversed(CALLS):
        play = short_lived(400, calls)
        pairs = [{kind: play(kind)["per_s"] for kind in shuffled((TCP, SHIM))} for _ in range(PAIRS)]
        if statistics.median(p[SHIM] / p[TCP] for p in pairs) < 0.97:
            break
        least = calls
    return {"calls": least or 2 * CALLS[-1]}


def one_process(kind, calls=1):
    """A process for each call, like rpcinfo, or for a few."""
    with Side(kind) as side, Server(side, "benchsvc") as s:
        variables = [f"{k}={v}" for k, v in side.client_env.items()
                     if k in ("LD_PRELOAD", "RDMARPC_RUN_DIR", "LAB_ADDRESS")]
        with Side(TCP) as starter:  # exectime itself runs without the library
            return run_client(starter, s, [app("exectime"), "100", *variables, app("benchcli"), side.address, "first", "1", str(calls)])


def python_client(what, times):
    """The medians of so many processes. They have the highest limit of descriptors, as daemons do, because the library must
    not be slower where many are allowed."""
    def play(kind):
        limit_files(hard_limit())
        try:
            with Side(kind) as side, Server(side, "benchsvc") as s:
                runs = [run_client(side, s, [sys.executable, FIRSTCALL, side.address, what]) for _ in range(times)]
        finally:
            limit_files(OPEN_FILES)
        return {m: statistics.median(r[m] for r in runs) for m in runs[0]}
    return play


def first_call(kind):
    return measure(kind, "benchcli", "first", 200, 1, carried=None)


MEASUREMENTS = {
    "connect": Pairs(short_lived(1000, 1), {
        "": Row("connect + NULL + close", "per_s", "more", 0.95, "/s"),
        ".client": Row("... library on the client only", "per_s", "more", 0.97, "/s", kind=CLIENT_ONLY),
        ".server": Row("... library on the server only", "per_s", "more", 0.97, "/s", kind=SERVER_ONLY),
    }, (TCP, SHIM, CLIENT_ONLY, SERVER_ONLY, UNIX), ROUNDS),
    **{f"calls{n}": Pairs(short_lived(400, n), {"": Row(f"connect + {n} NULLs + close", "per_s", "more", 0.95, "/s")},
                          (TCP, SHIM, UNIX), ROUNDS // 2) for n in (4, 8, 16)},
    "process": Pairs(one_process, {"": Row("a process per call", "p50", "less", 0.9, "us", 1000)}, (TCP, SHIM, UNIX),
                     rounds=15),
    "process4": Pairs(lambda kind: one_process(kind, 4), {"": Row("... of four calls", "p50", "less", 0.9, "us", 1000)},
                      (TCP, SHIM, UNIX), rounds=15),
    "breakeven": Measurement(break_even, {"": Row("calls per connection to break even", "calls", "alone", 4, "calls")},
                             (SHIM,), rounds=1),
    "pyfirst": Measurement(python_client("threads", 10), {
        "": Row("first call, two other threads (Python)", "first", "added", 0.1, "ms", 1e6)}),
    "refused": Measurement(python_client("refused", 1), {
        "": Row("first send() refused, of 200", "refused", "alone", 0, "times"),
        ".wait": Row("... and what it took", "p50", "added", 50, "us", 1000)}, rounds=3),
    "first": Measurement(first_call, {"": Row("first call on a new connection", "p50", "added", 1, "ms", 1e6)}),
}
