#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Judges the counters of rdmarpc-stat --json.

judge.py clients LEG LIST CARRIED   a line of LIST for each check, with tabs between NAME EXPECT CALLS ALLOW FILE: a file with
a snapshot of its clients. Prints NAME, a tab and what is wrong for each that is not right
judge.py server LEG EXPECT ALLOW CARRIED [NAME]  snapshots, of the server, on stdin: the last of each process counts

LEG both or verbs with EXPECT carried: connections were carried (in verbs none of the client's by shared memory),
those on TCP have a reason in ALLOW (names of reasons.def, commas between), and no error was counted. The clients sent CALLS ("some": at least one)
calls; their counters are added to the file CARRIED. Over the server's processes and all clients in that
file every call sent was received, and so was every reply; and the server's counter NAME (as
messages.reverse_calls_sent) is not 0. Otherwise: TCP connections were seen, and nothing was carried."""
import json
import os
import re
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
RPCS = ("calls_sent", "calls_received", "replies_sent", "replies_received")


def read(path):
    with open(path, encoding="utf-8") as f:
        return f.read()


def reason_texts(names):
    """The texts that rdmarpc-stat prints for names of reasons.def."""
    table = read(os.path.join(HERE, "../../core/base/reasons.def"))
    texts = dict(re.findall(r'^RR_REASON\((\w+), "(.*)"\)', table, re.M))
    return {texts[n] for n in names.split(",") if n}


def documents(text):
    """All JSON documents in text, one after the other."""
    decoder, at = json.JSONDecoder(), 0
    while text[at:].strip():
        at += len(text[at:]) - len(text[at:].lstrip())
        doc, at = decoder.raw_decode(text, at)
        yield doc


def latest_processes(text):
    last = {}
    for doc in documents(text):
        for p in doc["processes"]:
            last[p["pid"], p["comm"], p["since"]] = p   # exec begins another life of a pid
    return list(last.values())


def total(processes, group, name):
    return sum(p[group][name] for p in processes)


def carried(processes):
    return total(processes, "connections", "shm") + total(processes, "connections", "verbs")


def tcp_reasons(processes):
    reasons = {}
    for p in processes:
        for text, n in p["tcp_reasons"].items():
            reasons[text] = reasons.get(text, 0) + n
    return reasons


def nothing_carried(processes):
    if carried(processes):
        return f"{carried(processes)} connections were carried, none expected"
    if any(rpcs(processes).values()):
        return f"RPCs were carried: {rpcs(processes)}"
    if not total(processes, "connections", "tcp"):
        return "the shim saw no connection"
    return ""


def stray_tcp(processes, allow):
    stray = {t: n for t, n in tcp_reasons(processes).items() if n and t not in reason_texts(allow)}
    tcp = total(processes, "connections", "tcp")
    if stray or (tcp and not allow):
        return f"{tcp} connections stayed on TCP: {stray}"
    return ""


def rpcs(processes):
    return {name: total(processes, "rpcs", name) for name in RPCS}


def errors(processes):
    counted = {name: n for p in processes for name, n in p["errors"].items() if n}
    return f"errors were counted: {counted}" if counted else ""


def judge_client(processes, leg, calls, allow, carried_file):
    sent = total(processes, "rpcs", "calls_sent")
    with open(carried_file, "a", encoding="ascii") as f:
        f.write(json.dumps(rpcs(processes)) + "\n")
    if not carried(processes):
        return stray_tcp(processes, allow) or "no connection was carried"
    if leg == "verbs" and total(processes, "connections", "shm"):
        return "a connection was carried by shared memory"
    if sent == 0 or (calls != "some" and sent != int(calls)):
        return f"rpcs.calls_sent = {sent}, {calls} expected"
    return stray_tcp(processes, allow) or errors(processes)


def judge_server(processes, allow, carried_file, name=""):
    both = rpcs(processes)
    for client in documents(read(carried_file)):
        both = {k: n + client[k] for k, n in both.items()}
    for what in ("calls", "replies"):
        sent, received = both[what + "_sent"], both[what + "_received"]
        if received != sent or not received:
            return f"server and clients sent {sent} {what}, they received {received}"
    if name and not total(processes, *name.split(".")):
        return f"{name} = 0"
    return stray_tcp(processes, allow) or errors(processes)


def carries(leg, expect):
    return leg in ("both", "verbs", "native") and expect == "carried"


def server(leg, expect, *rest):
    processes = latest_processes(sys.stdin.read())
    return judge_server(processes, *rest) if carries(leg, expect) else nothing_carried(processes)


def clients(leg, checks, carried_file):
    for line in read(checks).splitlines():
        name, expect, calls, allow, snapshot = line.split("\t")
        processes = latest_processes(read(snapshot))
        verdict = judge_client(processes, leg, calls, allow, carried_file) if carries(leg, expect) else nothing_carried(processes)
        if verdict:
            print(name, verdict, sep="\t")


if __name__ == "__main__":
    sys.exit({"server": server, "clients": clients}[sys.argv[1]](*sys.argv[2:]) or None)
