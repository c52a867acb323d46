# SPDX-License-Identifier: BSD-3-Clause
"""Rows as a table, for a terminal or in Markdown."""


def cell(line, kind):
    value = line.get(kind)
    return "" if value is None else f"{value:g} {line['unit']}" if abs(value) < 1000 else f"{value:,.0f} {line['unit']}"


def spread(line):
    return f"{100 * line['tcp_spread']:.0f} %" if "tcp_spread" in line else ""


def number(value):
    return "-" if value is None else f"{value:,.2f}"


def shims(line):
    """What the row's own kind has measured, which is the shim on both ends in most rows."""
    return cell(line, next((k for k in ("client", "server") if k in line), "shim"))


def terminal(lines, before=False):
    """An arrow marks what falls short."""
    label, must = (max(len(line.get(k, "")) for line in lines) for k in ("label", "must"))
    yield (f"{'row':<{label}} {'must':>{must}} {'measured':>9} {'':<6} {'TCP':>14} {'spread':>6} {'shim':>14} {'AF_UNIX':>14}"
           + ("  now ÷ before" if before else ""))
    for line in lines:
        against = f"{number(line.get('against_before')):>14}" if before else ""
        mark = "" if line["verdict"] == "ok" else "  <-----"
        yield (f"{line['label']:<{label}} {line.get('must', ''):>{must}} {number(line.get('measured')):>9} "
               f"{line['verdict']:<6} {cell(line, 'tcp'):>14} {spread(line):>6} {shims(line):>14} "
               f"{cell(line, 'unix'):>14}{against}{mark}")


def markdown(runs, only=None):
    """runs: the lines of each of several runs, side by side; TCP, shim and AF_UNIX are of the last one."""
    yield f"| row | must | {' | '.join(f'run {i + 1}' for i in range(len(runs)))} | TCP (its spread) | shim | AF_UNIX |"
    yield "|---|---|" + "---|" * (len(runs) + 3)
    by_row = [{line["row"]: line for line in run} for run in runs]
    for name, line in by_row[-1].items():
        if only and name not in only:
            continue
        measured = (verdict(run.get(name)) for run in by_row)
        tcp = f"{cell(line, 'tcp')} ({spread(line)})" if "tcp" in line else ""
        yield f"| {line['label']} | {line.get('must', '')} | {' | '.join(measured)} | {tcp} | {shims(line)} | {cell(line, 'unix')} |"


def verdict(line):
    if not line or line.get("measured") is None:
        return "–"
    return number(line["measured"]) if line["verdict"] == "ok" else f"**{number(line['measured'])}**"
