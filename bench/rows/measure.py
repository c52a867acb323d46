# SPDX-License-Identifier: BSD-3-Clause
"""A measurement plays its programs with each carrier in turn, and judges rows by medians."""
import contextlib
import functools
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

    def judge(self, runs, measurement):
        """runs: for each kind, what each of its plays has measured."""
        values = {k: [r[self.metric] / self.scale for r in rs] for k, rs in runs.items()
                  if all(self.metric in r for r in rs)}
        median = {k: statistics.median(v) for k, v in values.items()}
        ratio, above = RATIOS[self.how]

        def number(kind):
            if self.against not in values:
                return ratio(None, median[kind])
            return measurement.compare(ratio, values[self.against], values[kind])

        tcp = median.get(self.against)
        measured = number(self.kind)
        met = self.how == "told" or (measured >= self.must if above else measured <= self.must)
        line = {"must": self.bound(), "measured": round(measured, 3), "unit": self.unit,
                "verdict": "ok" if met else "short", self.kind: shown(median[self.kind])}
        for kind in {TCP, self.against, "unix"} & set(median):
            line[kind] = shown(median[kind])
        if tcp and len(values[self.against]) > 1:
            line["tcp_spread"] = round(measurement.spread(values[self.against]) / tcp, 2)
        if BEFORE in median and self.kind == SHIM:
            before = number(BEFORE)
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
    told = {}   # more for the line of the first row

    @contextlib.contextmanager
    def plays(self, kinds):
        """What measures once, for each kind."""
        yield {k: functools.partial(self.play, k) for k in kinds}

    @contextlib.contextmanager
    def older_may_fail(self, kind):
        """An older revision may be unable to do what the row asks for."""
        try:
            yield
        except Failed as why:
            if kind != BEFORE:
                raise
            self.before_failed = str(why)

    def play_round(self, plays, runs):
        for kind in shuffled(runs):
            with self.older_may_fail(kind):
                runs[kind].append(plays[kind]())
            if self.before_failed:
                runs.pop(BEFORE, None)

    def run(self, rounds):
        """What each kind's plays have measured, in turn."""
        kinds = self.kinds + ((BEFORE,) if BEFORE in BUILDS and SHIM in self.kinds else ())
        with self.plays(kinds) as plays:
            runs = {k: [] for k in plays}
            return self.play_rounds(plays, runs, rounds)

    def play_rounds(self, plays, runs, rounds):
        for _ in range(rounds):
            self.play_round(plays, runs)
        return runs

    @staticmethod
    def compare(ratio, tcp, values):
        """A row's number."""
        return ratio(statistics.median(tcp), statistics.median(values))

    @staticmethod
    def spread(values):
        return max(values) - min(values)

    def judge(self, name, runs):
        """The rows' lines."""
        details = {k: {m: shown(statistics.median(r[m] for r in rs)) for m in rs[0] if all(m in r for r in rs)}
                   for k, rs in runs.items()}
        if self.before_failed:
            details["before_failed"] = self.before_failed
        more = self.told
        for suffix, row in self.rows.items():
            yield {"row": name + suffix, "label": row.label, **row.judge(runs, self), **more, "medians": details}
            details, more = {}, {}  # only the first row has them


class Pairs(Measurement):
    """A row's number is the median of what each round gives, compared with TCP in the same round: for seconds or minutes a guest may
    take 1.5 times as long for everything, and a round is shorter."""
    @staticmethod
    def compare(ratio, tcp, values):
        return statistics.median(map(ratio, tcp, values))


class Turns(Pairs):
    """A measurement whose programs stay, those of all kinds at the same time, and take turns of a fraction of a second: for calls
    that are far apart. The host of a virtual machine makes of a wake-up what it likes, for seconds at a time 0.2 ms and then 4. So
    each turn is compared with TCP's in the same round, and the row's number is the median of that; and a round counts only if
    TCP's p50 in it is at most twice what it is in a quiet one. The spread is that of the middle half.

    play(kind) is a context manager for the programs; what it yields measures a turn."""
    MOST = 3    # times the rounds asked for, until so many were quiet

    @contextlib.contextmanager
    def plays(self, kinds):
        with contextlib.ExitStack() as held:
            plays = {}
            for kind in kinds:
                with self.older_may_fail(kind):
                    plays[kind] = held.enter_context(self.play(kind))
            yield plays

    def play_rounds(self, plays, runs, rounds):
        quiet = self.until_quiet(lambda: self.play_round(plays, runs), lambda: [r["p50"] for r in runs[TCP]], rounds)
        self.told = {"rounds": len(runs[TCP]), "quiet": len(quiet)}
        return {k: [rs[i] for i in quiet] for k, rs in runs.items()}

    @classmethod
    def until_quiet(cls, play, p50, rounds):
        """Plays until so many rounds were quiet, by what p50() has of each, or too many were not. Which were."""
        for _ in range(cls.MOST * rounds):
            play()
            quiet = cls.quiet(p50())
            if len(quiet) == rounds:
                break
        return quiet

    @staticmethod
    def quiet(p50):
        """Which of these are of a quiet machine."""
        least = sorted(p50)[len(p50) // 10]
        return [i for i, p in enumerate(p50) if p <= 2 * least]

    @staticmethod
    def spread(values):
        low, _, high = statistics.quantiles(values, n=4)
        return high - low
