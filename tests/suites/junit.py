#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""junit.py FILE: prints a line for each test of a report by CPython's regrtest --junit-xml: its name, and ok,
failed, or skipped."""
import sys
import xml.etree.ElementTree as ET


def verdict(case):
    """Of <testcase>: regrtest writes what went wrong, or why it was skipped, as elements in it."""
    if case.find("skipped") is not None or case.get("status") == "notrun":
        return "skipped"
    wrong = [e.tag for e in case if e.tag in ("error", "failure")]
    return "failed" if wrong or case.get("outcome") == "UNEXPECTED_SUCCESS" else "ok"


def main(path):
    seen = {}
    for case in ET.parse(path).getroot().iter("testcase"):
        name = case.get("name")
        if seen.get(name, "ok") != "failed":    # one name may come several times: subtests, retries
            seen[name] = verdict(case)
    for name, v in sorted(seen.items()):
        print(name.replace(" ", "_"), v)


main(sys.argv[1])
