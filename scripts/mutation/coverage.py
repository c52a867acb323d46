# SPDX-License-Identifier: BSD-3-Clause
"""Which lines each test reaches, by gcov, and how long it takes. Kept in a file, as long as no source changes."""
import concurrent.futures
import json
import os
import shutil
import subprocess
import threading
import time

from trees import Tree, all_tests, digest, files

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("core/", "preload/", "config/", "tools/", "tests/", "mk/", "Makefile")
SAVE_EVERY = 20    # seconds
LIMIT = 900    # seconds for one test, which has no optimizer and counts lines


class Coverage:
    def __init__(self, home, levels, jobs, say):
        self.file = os.path.join(home, "coverage.json")
        self.home, self.levels, self.jobs, self.say = home, levels, jobs, say
        self.lines = {}     # test -> file -> its lines
        self.known = {}     # file -> lines that have code
        self.seconds = {}   # test -> how long it takes
        self.lock = threading.Lock()    # of self.known, which all tests add to
        self.doubtful = []  # tests that failed while lines were counted: some limit the size of files
        self.failing = []   # those of them that fail without that, too
        self.partial = []   # those that do not

    def load(self, keep):
        """What was measured before, or what is measured now. KEEP: also where sources have changed since."""
        self.key = digest([f for f in files() if f.startswith(SOURCES)])
        old = {}
        if os.path.exists(self.file):
            with open(self.file, encoding="utf-8") as f:
                old = json.load(f)
        if not old or (old["key"] != self.key and not keep):
            old = {"key": self.key, "lines": {}, "known": {}, "seconds": {}}
        self.lines, self.seconds = old["lines"], old["seconds"]
        self.doubtful, self.failing, self.partial = (old.setdefault(k, []) for k in ("doubtful", "failing", "partial"))
        self.known = {f: set(v) for f, v in old["known"].items()}
        self.own, self.key = old.setdefault("own", {}), old["key"]
        tests = all_tests(self.levels)
        missing = [t for t in tests if t.id not in self.seconds or self.own.get(t.id) != t.digest()]
        if missing:
            self.measure(missing)

    def save(self):
        """Whole or not at all: what one test took minutes for is not lost when a later one is interrupted."""
        with self.lock:
            known = {k: sorted(v) for k, v in self.known.items()}
        with open(self.file + ".new", "w", encoding="utf-8") as f:
            json.dump({"key": self.key, "own": self.own, "lines": self.lines, "seconds": self.seconds, "doubtful": self.doubtful,
                       "failing": self.failing, "partial": self.partial, "known": known}, f)
        os.replace(self.file + ".new", self.file)

    def measure(self, tests):
        # What is mapped for a moment or runs in a thread counts, too: atomically.
        cflags = "-O0 -g --coverage -fprofile-update=atomic"
        init, preload = os.path.join(self.home, "dump.o"), os.path.join(self.home, "dump.so")
        os.makedirs(self.home, exist_ok=True)
        cc = ["gcc", "-O1", "-fPIC", os.path.join(HERE, "dump.c")]
        subprocess.run([*cc, "-c", "-o", init], check=True)
        subprocess.run([*cc, "-DEXIT", "-shared", "-o", preload], check=True)
        tree = Tree(self.home, "coverage", [f"CFLAGS={cflags}", f"LDSAN=--coverage {init}"])
        tree.sync()
        self.say(f"building for coverage, then {len(tests)} tests")
        if not tree.make(*sorted({t for test in tests for t in test.targets}), jobs=self.jobs):
            raise SystemExit(f"scripts/mutate: does not build for coverage:\n{tree.said[-2000:]}")
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            running = {pool.submit(self.one, tree, t, preload): t for t in tests}
            saved = time.monotonic()
            for done in concurrent.futures.as_completed(running):
                test = running[done]
                rc, took, self.lines[test.id] = done.result()
                self.seconds[test.id], self.own[test.id] = took, test.digest()
                for of in (self.doubtful, self.failing, self.partial):
                    if test.id in of:
                        of.remove(test.id)
                if rc != 0:
                    self.doubtful.append(test.id)
                if time.monotonic() - saved > SAVE_EVERY:
                    self.save()
                    saved = time.monotonic()
        self.save()

    def settle(self, tree, tests):
        """Those tests of which nobody knows yet whether they pass where no lines are counted are run so, in TREE."""
        doubtful = [t for t in tests if t.id in self.doubtful]
        with concurrent.futures.ThreadPoolExecutor(self.jobs) as pool:
            for t, (rc, _, _) in zip(doubtful, pool.map(lambda t: tree.run(t, 30 + 6 * self.seconds[t.id]), doubtful)):
                self.doubtful.remove(t.id)
                (self.partial if rc == 0 else self.failing).append(t.id)
                self.save()

    def one(self, tree, test, preload):
        """Exit status, seconds, and the lines of each file."""
        out = os.path.join(self.home, "gcda", test.id.replace("/", "_"))
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        os.chmod(out, 0o1777)
        rc, took, said = tree.run(test, LIMIT, GCOV_PREFIX=out, TEST_PRELOAD=preload,
                                  **({"RR_MUTATE_KILLS": "1"} if test.level == "ends" else {}))
        if rc != 0:
            with open(out + ".log", "w", encoding="utf-8") as f:
                f.write(said)
        lines = self.digest(tree, out)
        shutil.rmtree(out, ignore_errors=True)
        return rc, took, lines

    def digest(self, tree, out):
        """The lines that gcov counts in what one test has left."""
        counted = []
        for root, _, here in os.walk(out):
            for f in here:
                if f.endswith(".gcda"):
                    path = os.path.join(root, f)
                    note = os.path.join("/", os.path.relpath(path, out))[:-4] + "gcno"
                    if os.path.exists(note):
                        os.symlink(note, path[:-4] + "gcno")
                        counted.append(path)
        lines = {}
        for at in range(0, len(counted), 50):
            done = subprocess.run(["gcov", "-t", "-j", *counted[at:at + 50]], cwd=tree.path, capture_output=True, text=True, check=False)
            for doc in done.stdout.splitlines():
                for f in json.loads(doc)["files"] if doc.startswith("{") else ():
                    if f["file"].startswith(("core/", "preload/", "config/", "tools/")) and f["file"].endswith(".c"):
                        with self.lock:
                            self.known.setdefault(f["file"], set()).update(n["line_number"] for n in f["lines"])
                        lines.setdefault(f["file"], set()).update(n["line_number"] for n in f["lines"] if n["count"])
        return {f: sorted(v) for f, v in lines.items()}

    def tests_at(self, path, line):
        """Ids of the tests that reach it, and of those that may. An expression's further lines have no code of their own."""
        own = max((n for n in self.known.get(path, ()) if n <= line), default=line)
        reach = {t for t, seen in self.lines.items() if own in seen.get(path, ())}
        return reach, {t for t, seen in self.lines.items() if t not in reach and path in seen and self.is_vague(t, path)}

    def tests_of_data(self, path):
        """Those that reach any line of its folder: a table has no lines of its own, nor need its file have any."""
        return {t for t, seen in self.lines.items() if any(os.path.dirname(f) == os.path.dirname(path) for f in seen)}

    def is_vague(self, test, path):
        """Has not everything been counted? Not what comes behind a failure, nor what a program did that was killed or has
        become another: those of tools/ are."""
        return test in self.partial or (test.startswith("tools/") and path.startswith("tools/"))
