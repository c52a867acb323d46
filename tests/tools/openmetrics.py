#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""openmetrics.py: judges OpenMetrics 1.0 text on standard input, and prints each sample as NAME{LABELS} VALUE, labels sorted
and unescaped. Strict where scrapers differ: only counters, gauges and histograms; every family has TYPE, then HELP, then its samples
and no other's; no series twice; metadata, labels and numbers in the letters that the standard gives them."""
import re
import sys

NAME = r"[a-zA-Z_][a-zA-Z0-9_]*"
SUFFIXES = {"counter": ["_total"], "gauge": [""], "histogram": ["_bucket", "_count", "_sum"]}
LABEL = re.compile(rf'({NAME})="((?:[^"\\\n]|\\[\\"n])*)"')
NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?(e[+-]?[0-9]+)?|\+Inf")


class Bad(Exception):
    """What is wrong with the text."""


def must(ok, what):
    """Complains unless ok."""
    if not ok:
        raise Bad(what)


def unescaped(text):
    """A label's value without its backslashes."""
    return re.sub(r'\\([\\"n])', lambda m: "\n" if m[1] == "n" else m[1], text)


def labels_of(text):
    """The labels between braces."""
    labels, at = {}, 0
    while at < len(text):
        m = LABEL.match(text, at)
        must(m, f"labels: {text[at:]}")
        must(m[1] not in labels, f"label {m[1]} twice")
        labels[m[1]] = unescaped(m[2])
        at = m.end()
        must(at == len(text) or text[at] == ",", f"labels: {text[at:]}")
        at += 1
        must(at != len(text), "a comma behind the last label")
    return labels


def sample_of(line):
    """Name, labels and value of a sample's line."""
    m = re.match(rf'({NAME})(?:\{{((?:[^"}}]|"(?:[^"\\]|\\.)*")*)\}})? (\S+)$', line)
    must(m, "neither metadata nor a sample")
    must(NUMBER.fullmatch(m[3]), f"number: {m[3]}")
    return m[1], labels_of(m[2] or ""), m[3]


class Histogram:
    """The buckets of one series: in order, never fewer, +Inf last and equal to the count."""
    def __init__(self):
        self.le, self.count, self.seen = float("-inf"), 0, []

    def add(self, suffix, le, value):
        """A sample of it."""
        if suffix == "_bucket":
            must(not self.seen, "a bucket behind count or sum")
            must(float(le) > self.le, f"bucket {le} out of order")
            must(int(value) >= self.count, f"bucket {le} is less than the one before")
            self.le, self.count = float(le), int(value)
        else:
            must(self.le == float("inf"), f"{suffix} before +Inf")
            must(suffix != "_count" or int(value) == self.count, "the count is not that of +Inf")
            self.seen.append(suffix)

    def end(self):
        """All of it was there."""
        must(sorted(self.seen) == ["_count", "_sum"], "a histogram without +Inf, count or sum")


class Family:
    """A metric family, from its TYPE on."""
    def __init__(self, name, kind):
        must(kind in SUFFIXES, f"type {kind}")
        must(not name.endswith(("_total", "_bucket", "_count", "_sum", "_created", "_info")), f"name {name}")
        self.name, self.kind, self.help, self.series, self.histograms = name, kind, False, set(), {}

    def add(self, name, labels, value):
        """A sample of it."""
        suffix = name[len(self.name):]
        must(name.startswith(self.name) and suffix in SUFFIXES[self.kind], f"{name} within {self.name}, a {self.kind}")
        must(self.help, "a sample before HELP")
        series = (suffix, tuple(sorted(labels.items())))
        must(series not in self.series, "a series twice")
        self.series.add(series)
        must(self.kind == "gauge" or float(value) >= 0, "below 0")
        if self.kind != "histogram":
            must("le" not in labels, "le outside of a histogram")
            return
        must(("le" in labels) == (suffix == "_bucket"), "le belongs to buckets")
        must(suffix == "_sum" or value.isdigit(), f"count {value}")
        key = tuple(sorted((k, v) for k, v in labels.items() if k != "le"))
        if key not in self.histograms:
            self.end()
        self.histograms.setdefault(key, Histogram()).add(suffix, labels.get("le"), value)

    def end(self):
        """Nothing more comes of it, or of the series before."""
        for h in self.histograms.values():
            h.end()


def judge(text, out):
    """All lines; samples go to out."""
    must(text.endswith("# EOF\n"), "does not end with # EOF")
    family, names = None, set()
    for line in text[:-len("# EOF\n")].split("\n")[:-1]:
        meta = re.match(rf"# (TYPE|HELP) ({NAME}) (.+)$", line)
        try:
            if meta and meta[1] == "TYPE":
                must(meta[2] not in names, "a family twice")
                if family:
                    family.end()
                names.add(meta[2])
                family = Family(meta[2], meta[3])
            elif meta:
                must(family and meta[2] == family.name and not family.help and not family.series, "HELP out of place")
                must(re.fullmatch(r'(?:[^"\\]|\\[\\"n])*', meta[3]), "HELP with what needs a backslash")
                family.help = True
            else:
                name, labels, value = sample_of(line)
                must(family, "a sample before TYPE")
                family.add(name, labels, value)
                out.append(f"{name}{{{','.join(f'{k}={v!r}' for k, v in sorted(labels.items()))}}} {value}")
        except Bad as e:
            raise Bad(f"{e}: {line}") from e
    if family:
        family.end()


def main():
    """Status 0: it is as it must be."""
    out = []
    try:
        judge(sys.stdin.buffer.read().decode("utf-8"), out)
    except (Bad, ValueError) as e:
        sys.exit(f"not OpenMetrics: {e}")
    print("\n".join(out))


main()
