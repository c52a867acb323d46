# SPDX-License-Identifier: BSD-3-Clause
"""Many connections, of which one is active or none."""
import contextlib
import time

from .measure import Measurement, Row, Turns
from .programs import SHIM, TCP, UNIX, Meter, Server, Side, Talker, app, cpu_ns

TRIED = 64      # calls on a process's first connection: by then it is carried
SETTLED = 5     # ... and then on each
TRIMMED = 450   # calls 10 ms apart, until the memory of a thousand idle connections is given back: an end does that while it waits


def settle(client):
    """Makes so many calls that all connections of the client are carried, if they can be."""
    client.tell(f"calls {TRIED} 0")
    client.tell(f"each {SETTLED}")


def held(side, client, n):
    """Makes sure that all n connections of the client are carried, which the row is about, and lets them become idle."""
    settle(client)
    side.demand(n, [client.pid])
    time.sleep(1.5)     # until they are idle, also by the library's own measure
    client.tell(f"calls {TRIMMED if n > 100 else TRIED} 10000")


@contextlib.contextmanager
def crowd(kind, server, n):
    """A server, and a client with n connections, which are carried and idle."""
    with Side(kind) as side, Server(side, server) as s, Talker(side, [app("idlecli"), side.address, str(n), "1"]) as client:
        client.hear()
        held(side, client, n)
        yield s, client


def one_active(server, n, calls=15):
    """n idle connections; on one of them calls that are 10 ms apart."""
    @contextlib.contextmanager
    def play(kind):
        with crowd(kind, server, n) as (s, client):
            meter = Meter(s.pid)

            def turn():
                run = client.tell(f"calls {calls} 10000")
                return {"p50": run["p50"], "server_cpu": meter.read() / calls, "client_cpu": run["cpu"] / calls}

            yield turn
    return play


def opening(kind):
    """A thousand connections, a call on each, which stay open."""
    with Side(kind) as side, Server(side, "benchsvc"), Talker(side, [app("idlecli"), side.address, "1000", "1"]) as client:
        return client.hear()


def active(what, server, n):
    name = f"{what}, {n:,} idle, a call per 10 ms"
    return Turns(one_active(server, n), {
        "": Row(f"{name}: p50", "p50", "less", 1.0, "us", 1000),
        ".cpu": Row(f"{name}: server CPU", "server_cpu", "less", 0.9, "us", 1000)}, (TCP, SHIM, UNIX), rounds=40)


def back_to_back(what, server, n, calls=5000):
    """Calls back to back on one of n connections."""
    def play(kind):
        with crowd(kind, server, n) as (_, client):
            return client.tell(f"calls {calls} 0")

    return Measurement(play, {"": Row(f"{what}, {n:,} idle, back to back: p50", "p50", "less", 2, "us", 1000)},
                       (TCP, SHIM, UNIX), rounds=5)


def memory_kib(pid):
    """Private memory of this process, and its part of the memory that it shares with others."""
    fields = {}
    with open(f"/proc/{pid}/smaps_rollup", encoding="ascii") as f:
        for line in f.readlines()[1:]:
            name, value = line.split()[:2]
            fields[name.rstrip(":")] = int(value)
    return fields["Pss_Anon"] + fields["Pss_Shmem"]


def resting(kind, n, size):
    """KiB of both processes with n connections, and CPU ns that they take in 5 s of idling."""
    with Side(kind) as side, Server(side, "idlesvc") as s, \
            Talker(side, [app("idlecli"), side.address, str(n), "1", str(size)]) as client:
        client.hear()
        settle(client)
        pids = (s.pid, client.pid)
        time.sleep(5)
        kib = sum(map(memory_kib, pids))
        cpu = -sum(map(cpu_ns, pids))
        time.sleep(5)
        cpu += sum(map(cpu_ns, pids))
        side.demand(n, [client.pid])
        return kib, cpu


def memory(kind):
    n = 2000
    base, _ = resting(kind, 1, 4)
    kib, cpu = resting(kind, n, 1 << 20)
    return {"kib": (kib - base) / n, "cpu": cpu}


MEASUREMENTS = {
    "idle12": back_to_back("svc_run", "benchsvc", 12),
    "epoll12": back_to_back("epoll", "idlesvc", 12),
    "idle100": active("svc_run", "benchsvc", 100),
    "idle1000": active("svc_run", "benchsvc", 1000),
    "idle1000.burst": back_to_back("svc_run", "benchsvc", 1000, 2000),
    "opening": Measurement(opening, {"": Row("opening 1,000 connections under svc_run, each", "open", "less", 0.9, "us", 1000)},
                           (TCP, SHIM, UNIX), rounds=31),
    "epoll1000": active("epoll", "idlesvc", 1000),
    "memory": Measurement(memory, {
        "": Row("idle connection of 2,000, both ends", "kib", "alone", 64, "KiB"),
        ".cpu": Row("... CPU in 5 s of idling", "cpu", "alone", 10, "ms", 1e6)}, rounds=1, slow=True),
}
