# SPDX-License-Identifier: BSD-3-Clause
"""Which lines each test reaches, by gcov, and how long it takes. Kept in a file, as long as no source changes."""
import concurrent.futures
import json
import os
import shutil
import subprocess

from trees import Tree, all_tests, digest, files

HERE = os.path.dirname(os.path.abspath(__file__))
SOURCES = ("core/", "preload/", "config/", "tools/", "tests/", "mk/", "Makefile")
LIMIT = 900    # seconds for one test, which has no optimizer and counts lines


class Coverage:
    def __init__(self, home, levels, jobs, say):
        self.file = os.path.join(home, "coverage.json")
        self.home, self.levels, self.jobs, self.say = home, levels, jobs, say
        self.lines = {}     # test -> file -> its lines
        self.known = {}     # file -> lines that have code
        self.seconds = {}   # test -> how long it takes
        self.doubtful = []  # tests that failed while lines were counted, which some limits of files do not bear

    def load(self, keep):
        """What was measured before, or what is measured now. KEEP: also where sources have changed since."""
        key = digest([f for f in files() if f.startswith(SOURCES)])
        old = {}
        if os.path.exists(self.file):
            with open(self.file, encoding="utf-8") as f:
                old = json.load(f)
        if not old or (old["key"] != key and not keep):
            old = {"key": key, "lines": {}, "known": {}, "seconds": {}, "doubtful": []}
        self.lines, self.seconds, self.doubtful = old["lines"], old["seconds"], old["doubtful"]
        self.known = {f: set(v) for f, v in old["known"].items()}
        self.own = old.setdefault("own", {})
        tests = all_tests(self.levels)
        missing = [t for t in tests if t.id not in self.seconds or self.own.get(t.id) != t.digest()]
        if missing:
            self.measure(missing)
            with open(self.file, "w", encoding="utf-8") as f:
                json.dump({"key": old["key"], "own": self.own, "lines": self.lines, "seconds": self.seconds, "doubtful": self.doubtful,
                           "known": {k: sorted(v) for k, v in self.known.items()}}, f)

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
            for test, (rc, took) in zip(tests, pool.map(lambda t: self.one(tree, t, preload), tests)):
                self.seconds[test.id], self.own[test.id] = took, test.digest()
                if rc != 0 and test.id not in self.doubtful:
                    self.doubtful.append(test.id)

    def one(self, tree, test, preload):
        """Exit status and seconds."""
        out = os.path.join(self.home, "gcda", test.id.replace("/", "_"))
        shutil.rmtree(out, ignore_errors=True)
        os.makedirs(out)
        os.chmod(out, 0o1777)
        rc, took, said = tree.run(test, LIMIT, GCOV_PREFIX=out, TEST_PRELOAD=preload,
                                  **({"RR_MUTATE_KILLS": "1"} if test.level == "ends" else {}))
        if rc != 0:
            with open(out + ".log", "w", encoding="utf-8") as f:
                f.write(said)
        self.lines[test.id] = self.digest(tree, out)
        shutil.rmtree(out, ignore_errors=True)
        return rc, took

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
                        self.known.setdefault(f["file"], set()).update(n["line_number"] for n in f["lines"])
                        lines.setdefault(f["file"], set()).update(n["line_number"] for n in f["lines"] if n["count"])
        return {f: sorted(v) for f, v in lines.items()}

    def tests_at(self, path, line):
        """Ids of the tests that reach it. An expression's further lines have no code of their own."""
        own = max((n for n in self.known.get(path, ()) if n <= line), default=line)
        return [t for t, seen in self.lines.items() if own in seen.get(path, ())]
