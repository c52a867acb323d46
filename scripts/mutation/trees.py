# SPDX-License-Identifier: BSD-3-Clause
"""Copies of the work tree, in which mutants are built, and the tests that run there."""
import glob
import hashlib
import os
import shutil
import subprocess
import time

# The levels, the cheapest first. Those that are not among the usual ones take minutes.
USUAL = ["unit", "oracle", "fuzz-replay", "sim", "stress", "preload", "differ", "tools"]
LEVELS = USUAL + ["ends", "conform"]
DIFFER_SEEDS = 3
# Where a mutant may do what it likes: only its own directories can be written to.
SANDBOX = """
mount --make-rprivate / && mount --bind "$1" "$1" && mount -o remount,bind,ro / &&
mount -t tmpfs -o mode=1777 tmpfs /tmp && mount -t tmpfs -o mode=755 tmpfs /run &&
mount -t tmpfs -o mode=1777 tmpfs /dev/shm && ip link set lo up && cd "$2" || exit 125
ulimit -S -f 2000000
shift 2
exec "$@"
"""
NO_SANDBOX = 125


def files(root="."):
    """What git knows of the work tree, or would."""
    out = subprocess.run(["git", "ls-files", "-co", "--exclude-standard", "-z"], cwd=root, capture_output=True, check=True).stdout
    return sorted(f for f in out.decode().split("\0") if f and os.path.isfile(os.path.join(root, f)))


def digest(names):
    h = hashlib.sha256()
    for name in names:
        with open(name, "rb") as f:
            h.update(name.encode() + b"\0" + hashlib.sha256(f.read()).digest())
    return h.hexdigest()


class Test:
    """One program of one level. TARGETS are built first; COMMAND says by its exit status whether all is well."""

    def __init__(self, level, name, targets, command, **env):
        self.level, self.name, self.targets, self.command, self.env = level, name, targets, command, env

    @property
    def id(self):
        return f"{self.level}/{self.name}"

    def digest(self):
        """Of its own source: another one may reach other lines."""
        return digest(sorted(glob.glob(f"tests/*/{self.name.split('/')[0]}.*")))


def names(pattern):
    return sorted(os.path.splitext(os.path.basename(p))[0] for p in glob.glob(pattern))


def all_tests(levels):
    """Of these levels, in the order of LEVELS."""
    found = []
    for level, where in (("unit", "unit/test_"), ("oracle", "oracle/oracle_"), ("fuzz-replay", "fuzz/fuzz_"), ("sim", "sim/sim_"),
                         ("stress", "stress/stress_")):
        for name in names(f"tests/{where}*.c"):
            binary = f"build/{'mini/' if level == 'unit' else ''}tests/{where.split('/', maxsplit=1)[0]}/{name}"
            found.append(Test(level, name, [binary], ["scripts/run-tests", binary], SIM_RPCS="240000"))
    shim = ["build/librpcrdma_shim.so", "build/rdmarpc-stat"]
    for name in names("tests/preload/p_*.c"):
        for leg in ("idle", "carried", "crossing"):
            found.append(Test("preload", f"{name}/{leg}", shim + [f"build/tests/preload/{name}"], ["tests/preload/run", name],
                              LEGS=leg, PRELOAD_TIMEOUT="300"))
    for seed in range(1, DIFFER_SEEDS + 1):
        found.append(Test("differ", str(seed), shim + ["build/tests/preload/d_calls"], ["tests/preload/differ", str(seed)], DIFFER="0"))
    whole = ["all", "apps", "build/tests/tools/mkseg", "build/tests/tools/rpcpair", "build/tests/tools/rpcreg",
             "build/tests/native/librpcrdma_shim.so"]
    for name in names("tests/tools/test_*.sh"):
        found.append(Test("tools", name, whole, ["scripts/run-tests", f"tests/tools/{name}.sh"]))
    peers = ["build/tests/ends/liar", "build/tests/ends/greedy", "build/tests/ends/abuser"]
    for name in names("tests/ends/t_*.py"):
        found.append(Test("ends", name, whole + peers, ["tests/ends/run", f"{name}.py"]))
    found.append(Test("conform", "all", whole + ["build/tests/conform/rdmarpc-conform", "build/tests/conform/rawcall"], ["tests/conform/run"]))
    return sorted((t for t in found if t.level in levels), key=lambda t: LEVELS.index(t.level))


class Tree:
    """A copy with a build directory of its own."""

    def __init__(self, home, name, make_flags):
        self.home, self.path, self.flags = home, os.path.join(home, name), make_flags

    def sync(self):
        """Makes it what the work tree is; times are kept, so that only what has changed is built again. The object of a
        mutant that was on trial when a run was ended is newer than its source, which is put right here. So are those of
        tests that include a source that a mutant was written to: it is made new, since they were built of the mutant."""
        for was in glob.glob(os.path.join(self.path, "build/obj/**/*.was"), recursive=True):
            shutil.move(was, was.removesuffix(".was"))
            os.utime(was.removesuffix(".was"))
        want = set(files())
        for root, dirs, here in os.walk(self.path):
            if root == self.path:
                dirs[:] = [d for d in dirs if d != "build"]
            for f in here:
                path = os.path.join(root, f)
                if os.path.relpath(path, self.path) not in want:
                    os.unlink(path)
        for f in want:
            to = os.path.join(self.path, f)
            os.makedirs(os.path.dirname(to), exist_ok=True)
            a, b = os.stat(f), os.stat(to) if os.path.exists(to) else None
            if not b or (a.st_size, a.st_mtime_ns) != (b.st_size, b.st_mtime_ns):
                shutil.copy2(f, to)
                if b and b.st_mtime_ns > a.st_mtime_ns:
                    os.utime(to)

    def make(self, *targets, jobs=1, limit=1800):
        """False where it does not compile; what make says is in self.said."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS")) and k not in ("BUILD", "SAN", "LTO", "CFLAGS")}
        # The small harness takes a tenth of Criterion's time for a test program, and most mutants are put to dozens of them.
        done = subprocess.run(["make", "-s", f"-j{jobs}", "BUILD=build", "HARNESS=mini", "LTO=", "WARN=-w", *self.flags, *targets], cwd=self.path,
                              env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", timeout=limit)
        self.said = done.stdout
        return done.returncode == 0

    def run(self, test, limit, **more):
        """Exit status (None: it took too long), seconds, and what it printed."""
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RDMARPC_", "MAKE", "MFLAGS")) and k not in ("SAN", "PROFILE")}
        env.update(test.env, BUILD="build", **more)
        start = time.monotonic()
        p = subprocess.Popen(["timeout", "-k", "3", str(int(limit)), "unshare", "-n", "-m", "-p", "-f", "--mount-proc", "--kill-child", "bash", "-c",
                              SANDBOX, "-", self.home, self.path, *test.command], env=env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
        out = p.communicate()[0]
        rc = None if p.returncode in (124, 137) else p.returncode
        if rc == NO_SANDBOX:
            raise SystemExit(f"scripts/mutate: no namespaces to run tests in: {out}")
        return rc, time.monotonic() - start, out
