# SPDX-License-Identifier: BSD-3-Clause
"""As many connections as a process may have descriptors for: what they cost while they are idle."""
import contextlib
import statistics
import time

from .idle import settle
from .measure import Measurement, Row, Turns, shuffled
from .programs import OPEN_FILES, SHIM, TCP, Server, Side, Talker, app, cpu_ns, hard_limit, limit_files

CLIENTS = 4         # processes
MOST = 10000
FEW = 12
RESERVE = 1024      # descriptors that the library leaves to the app
IDLE = 4            # s, until the library has given back what idle connections need not have
WATCHED = 5         # s …
WINDOWS = 3         # … so many times, of which the median counts: a guest may take 4 ms of CPU for each wake-up, for seconds
TURNS = 20          # of a few and of many connections, compared in pairs


def memory(pid):
    """KiB of this process: private memory and its part of shared memory; page tables."""
    fields = {}
    for name in ("smaps_rollup", "status"):
        with open(f"/proc/{pid}/{name}", encoding="ascii") as f:
            for line in f:
                name, _, value = line.partition(":")
                if value.rstrip().endswith("kB"):
                    fields[name] = int(value.split()[0])
    return {"pages": fields["Pss_Anon"] + fields["Pss_Shmem"], "tables": fields["VmPTE"]}


def crowd_size():
    """Each carried connection needs two descriptors of the server."""
    return min(MOST, (hard_limit() - RESERVE - 64) // 2)


class Crowd:
    """A server and its clients with n connections in all, each of which was used and is idle."""

    def __init__(self, kind, server, n, clients):
        with contextlib.ExitStack() as stack:
            self.side = stack.enter_context(Side(kind))
            self.server = stack.enter_context(Server(self.side, server))
            argv = [app("idlecli"), self.side.address, str(n // clients), "32", "2000"]
            self.clients = [stack.enter_context(Talker(self.side, argv)) for _ in range(clients)]
            self.opened = [c.hear()["open"] for c in self.clients]
            for c in self.clients:
                settle(c)
            self.side.demand(n // clients, [c.pid for c in self.clients])
            for _ in range(2):      # a client gives memory back only while it is in calls that the library sees
                time.sleep(IDLE)
                for c in self.clients:
                    c.tell("calls 5 100000")
            self.stack = stack.pop_all()

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.stack.close()

    def memory(self):
        """Of the server; of all clients together."""
        each = [memory(c.pid) for c in self.clients]
        return memory(self.server.pid), {k: sum(m[k] for m in each) for k in each[0]}

    def cpu(self):
        return sum(cpu_ns(p) for p in (self.server.pid, *(c.pid for c in self.clients)))

    def idle_cpu(self):
        """What it takes, by the median of some windows."""
        at = [self.cpu()]
        for _ in range(WINDOWS):
            time.sleep(WATCHED)
            at.append(self.cpu())
        return statistics.median(after - before for before, after in zip(at, at[1:]))

    def latency(self):
        """Of some calls of one of its clients, one per 10 ms."""
        return self.clients[0].tell("calls 15 10000")["p50"]


def in_turns(few, crowd):
    """The latency with a few connections, with many, and the median of their ratio in the quiet ones of some rounds (class
    Turns)."""
    rounds = []
    quiet = Turns.until_quiet(lambda: rounds.append({c: c.latency() for c in shuffled((few, crowd))}),
                              lambda: [r[few] for r in rounds], TURNS)
    rounds = [rounds[i] for i in quiet]
    return {"p50_few": statistics.median(r[few] for r in rounds), "p50_many": statistics.median(r[crowd] for r in rounds),
            "slower": statistics.median(r[crowd] / r[few] for r in rounds), "quiet": len(quiet)}


def many(server):
    def play(kind):
        few, n = FEW, crowd_size() // CLIENTS * CLIENTS
        limit_files(hard_limit())
        try:
            with Crowd(kind, server, few, CLIENTS) as some, Crowd(kind, server, n, CLIENTS) as all_of_them:
                base, now = some.memory(), all_of_them.memory()
                cpu = all_of_them.idle_cpu()
                latency = in_turns(some, all_of_them)
                opened = max(all_of_them.opened)
        finally:
            limit_files(OPEN_FILES)
        each = [{k: (after[k] - before[k]) / (n - few) for k in after} for before, after in zip(base, now)]
        parts = {f"{end}_{k}": v for end, m in zip(("server", "client"), each) for k, v in m.items()}
        return {**{k: max(m[k] for m in each) for k in each[0]}, "cpu": cpu, **latency,
                "connections": n, "open": opened, **parts}
    return play


def rows(what):
    return {"": Row(f"{what}, {crowd_size():,} idle: memory of an end beyond TCP's", "pages", "added", 16, "KiB"),
            ".tables": Row("... page tables of an end", "tables", "told", 0, "KiB"),
            ".cpu": Row(f"... CPU in {WATCHED} s", "cpu", "alone", 10, "ms", 1e6),
            ".p50": Row(f"... a call per 10 ms, to that with {FEW}", "slower", "alone", 1.2, "times")}


MEASUREMENTS = {
    "many": Measurement(many("idlesvc"), rows("epoll"), (TCP, SHIM), rounds=1, slow=True),
    "manysvc": Measurement(many("benchsvc"), rows("svc_run"), (TCP, SHIM), rounds=1, slow=True),
}
