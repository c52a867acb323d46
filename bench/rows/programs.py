# SPDX-License-Identifier: BSD-3-Clause
"""Starts the programs of the benchmark: with or without the library, on a CPU of their own or anywhere."""
import json
import os
import resource
import select
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = os.path.realpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
BUILD = os.path.realpath(os.path.join(ROOT, os.environ.get("BUILD", "build")))
CPUS = sorted(os.sched_getaffinity(0))
SERVER_CPU, CLIENT_CPU = CPUS[0], CPUS[-1]
APART, TOGETHER, ANYWHERE = (SERVER_CPU, CLIENT_CPU), (CLIENT_CPU, CLIENT_CPU), (None, None)
OPEN_FILES = 16384  # with a limit of 4,096 a server keeps so many free that only 1,532 of 2,000 connections were carried
LIMIT = 180     # s, for each program

# Who has the library. "before" is like "shim", with the library of another build.
TCP, SHIM, UNIX, CLIENT_ONLY, SERVER_ONLY, BEFORE = "tcp", "shim", "unix", "client", "server", "before"
BUILDS = {SHIM: BUILD, CLIENT_ONLY: BUILD, SERVER_ONLY: BUILD}


class Failed(Exception):
    """A row could not be measured."""


def app(name):
    return os.path.join(BUILD, "apps", name)


def library(build):
    return os.path.join(build, "librpcrdma_shim.so")


def hard_limit():
    return resource.getrlimit(resource.RLIMIT_NOFILE)[1]


def limit_files(n):
    """For this process, and so for programs that it starts."""
    hard = hard_limit()
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(n, hard), hard))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def pinned(cpu, argv):
    """cpu None: wherever the kernel likes."""
    return argv if cpu is None else ["taskset", "-c", str(cpu), *argv]


def cpu_ns(pid):
    """CPU time of all threads of a process, by its own clock (MAKE_PROCESS_CPUCLOCK of the kernel)."""
    return time.clock_gettime_ns((~pid << 3) | 2)


class Meter:
    """CPU time of a process since it was last asked: what the process does between two turns is not lost."""

    def __init__(self, pid):
        self.pid, self.last = pid, cpu_ns(pid)

    def read(self):
        before, self.last = self.last, cpu_ns(self.pid)
        return self.last - before


# The run directory is in memory, as /run is: on a disk's file system a process's first page of statistics takes 0.9 ms.
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None


class Side:
    """A server and its clients: the environment of each, where the server listens, what the library counts."""

    def __init__(self, kind, common=None, **options):
        """common: variables of every program, whoever has the library."""
        self.kind = kind
        self.dir = tempfile.mkdtemp(prefix="rdmarpc-bench.", dir=MEMORY)
        self.address = f"{self.dir}/socket" if kind == UNIX else str(free_port())
        self.plain = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | (common or {})
        build = BUILDS.get(kind, BUILD)
        loaded = self.plain | {"LD_PRELOAD": library(build), "RDMARPC_RUN_DIR": self.dir} | options
        self.server_env = loaded if kind in (SHIM, BEFORE, SERVER_ONLY) else self.plain
        self.client_env = loaded if kind in (SHIM, BEFORE, CLIENT_ONLY) else self.plain
        self.stat = os.path.join(build, "rdmarpc-stat")

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        shutil.rmtree(self.dir, ignore_errors=True)

    def processes(self):
        out = subprocess.run([self.stat, "--json"], env=self.plain | {"RDMARPC_RUN_DIR": self.dir},
                             capture_output=True, text=True, check=True).stdout
        return json.loads(out)["processes"]

    def carried(self):
        """Connections carried, of all programs together."""
        return sum(p["connections"]["shm"] for p in self.processes())

    def demand(self, connections, clients):
        """Fails unless so many connections of each of these processes are carried. The server is not asked: releases
        before 0.2 count 4,095 carried connections of a process at most."""
        if self.kind not in (SHIM, BEFORE):
            return
        carried = {p["pid"]: p["connections"]["shm"] for p in self.processes()}
        counts = [carried.get(pid, 0) for pid in clients]
        if min(counts) < connections:
            why = [f"{p['comm']} {k}: {n}" for p in self.processes() for k, n in p["tcp_reasons"].items()]
            raise Failed(f"{self.kind}: {counts} connections are carried, not {connections} each; {', '.join(why)}")

    def judge(self, carried):
        """Fails unless connections were carried (True) or none was (False); None: that is the library's choice."""
        if self.kind in (SHIM, BEFORE) and carried is not None and bool(self.carried()) != carried:
            raise Failed("nothing was carried" if carried else "something was carried")


class Busy:
    """Processes that compute for ever, at default nice."""

    def __init__(self, n):
        self.procs = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(n)]

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for p in self.procs:
            p.kill()
            p.wait()


class Server:
    """A server on its CPU. It has said that it is ready."""

    def __init__(self, side, name, cpu=SERVER_CPU):
        self.proc = subprocess.Popen(pinned(cpu, [app(name), side.address]), env=side.server_env,
                                     stdout=subprocess.PIPE, text=True)
        self.pid = self.proc.pid
        try:
            if self.proc.stdout.readline() != "ready\n":
                raise Failed(f"{name} does not start")
        except BaseException:   # a signal that ends us, too
            self.__exit__()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.proc.kill()
        self.proc.wait()
        self.proc.stdout.close()


def run_client(side, server, argv, cpu=CLIENT_CPU):
    """Runs a client to its end and returns the JSON that it prints."""
    env = side.client_env | {"BENCH_SERVER": str(server.pid)}
    try:
        run = subprocess.run(pinned(cpu, argv), env=env, capture_output=True, text=True, timeout=LIMIT)
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(argv[1:])} hangs") from None
    if run.returncode:
        raise Failed(f"{os.path.basename(argv[0])}: {run.stderr.strip()[-200:]}")
    return json.loads(run.stdout)


def measure(kind, client, *args, server="benchsvc", cpus=APART, carried=True, common=None, **options):
    """Runs a client once against a fresh server, on these CPUs, and returns the client's JSON."""
    with Side(kind, common, **options) as side, Server(side, server, cpus[0]) as s:
        result = run_client(side, s, [app(client), side.address, *map(str, args)], cpus[1])
        side.judge(carried)
        return result


class Talker:
    """A client that does what it is told line by line, and answers each line with a line of JSON."""

    def __init__(self, side, argv, cpu=CLIENT_CPU):
        self.proc = subprocess.Popen(pinned(cpu, argv), env=side.client_env, text=True, bufsize=1,
                                     stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.pid = self.proc.pid

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        self.proc.stdin.close()
        self.proc.stdout.close()
        self.proc.kill()
        self.proc.wait()

    def hear(self):
        """Each answer is one line, so nothing is left in our buffer when select() waits for the next."""
        if not select.select([self.proc.stdout], [], [], LIMIT)[0]:
            raise Failed("the client hangs")
        line = self.proc.stdout.readline()
        if not line:
            raise Failed("the client ended")
        return json.loads(line)

    def tell(self, line):
        self.proc.stdin.write(line + "\n")
        return self.hear()
