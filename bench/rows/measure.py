# SPDX-License-Identifier: BSD-3-Clause
"""A measurement plays its programs with each carrier in turn, and judges rows by medians."""
import random
import statistics
from dataclasses import dataclass
from typing import Callable

from .programs import BEFORE, BUILDS, SHIM, TCP, Failed

# How a row's number is computed from TCP's median and the shim's, and whether a larger number is better.
RATIOS = {"less": (lambda tcp, shim: tcp / shim, True),     # of times: how many times shorter
          "more": (lambda tcp, shim: shim / tcp, True),     # of rates: how many times higher
          "added": (lambda tcp, shim: shim - tcp, False),
          "alone": (lambda tcp, shim: shim, False),         # TCP has no such figure
          "told": (lambda tcp, shim: shim, False)}          # likewise, and there is no bound


@dataclass
class Row:
    """must: the bound, a least or a greatest number. scale: what the metric is divided by to get its unit."""
    label: str
    metric: str
    how: str
    must: float
    unit: str
    scale: float = 1
    kind: str = SHIM
    against: str = TCP

    def bound(self):
        if self.how == "told":
            return ""
        unit = {"less": " x", "more": " x"}.get(self.how, f" {self.unit}")
        return f"{'>=' if RATIOS[self.how][1] else '<='} {self.must:g}{unit}"

    def judge(self, runs):
        """runs: for each kind, what each of its plays has measured."""
        values = {k: [r[self.metric] / self.scale for r in rs] for k, rs in runs.items()
                  if all(self.metric in r for r in rs)}
        median = {k: statistics.median(v) for k, v in values.items()}
        ratio, above = RATIOS[self.how]
        tcp = median.get(self.against)
        measured = ratio(tcp, median[self.kind])
        met = self.how == "told" or (measured >= self.must if above else measured <= self.must)
        line = {"must": self.bound(), "measured": round(measured, 3), "unit": self.unit,
                "verdict": "ok" if met else "short", self.kind: shown(median[self.kind])}
        for kind in {TCP, self.against, "unix"} & set(median):
            line[kind] = shown(median[kind])
        if tcp and len(values[self.against]) > 1:
            line["tcp_spread"] = round((max(values[self.against]) - min(values[self.against])) / tcp, 2)
        if BEFORE in median and self.kind == SHIM:
            before = ratio(tcp, median[BEFORE])
            better = (measured, before) if above else (before, measured)
            line.update(before=round(before, 3), against_before=round(better[0] / better[1], 3) if better[1] else None)
        return line


def shown(value):
    return round(value, 3 if abs(value) < 10 else 1 if abs(value) < 1000 else 0)


def shuffled(kinds):
    """The kinds in another order each time. What ran before tells on what runs next, since an idle CPU looks the longer for work,
    the more often that has paid: always behind AF_UNIX, TCP made 11,100 connections a second in half of the rounds, else in a third."""
    return random.sample(list(kinds), len(kinds))


@dataclass
class Measurement:
    """play(kind) measures once. rows: by suffix of the measurement's name. rounds: half as many with --quick. slow: left out
    with --quick. before_failed: why the revision before could not be measured, if it could not."""
    play: Callable
    rows: dict
    kinds: tuple = (TCP, SHIM)
    rounds: int = 7
    slow: bool = False
    before_failed: str = ""

    def run(self, rounds):
        """What each kind's plays have measured, in turn."""
        kinds = self.kinds + ((BEFORE,) if BEFORE in BUILDS and SHIM in self.kinds else ())
        runs = {k: [] for k in kinds}
        for _ in range(rounds):
            for kind in shuffled(runs):
                try:
                    runs[kind].append(self.play(kind))
                except Failed as why:
                    if kind != BEFORE:  # an older revision may be unable to do what the row asks for
                        raise
                    del runs[kind]
                    self.before_failed = str(why)
        return runs

    def judge(self, name, runs):
        """The rows' lines."""
        details = {k: {m: shown(statistics.median(r[m] for r in rs)) for m in rs[0] if all(m in r for r in rs)}
                   for k, rs in runs.items()}
        if self.before_failed:
            details["before_failed"] = self.before_failed
        for suffix, row in self.rows.items():
            yield {"row": name + suffix, "label": row.label, **row.judge(runs), "medians": details}
            details = {}    # only the first row has them
