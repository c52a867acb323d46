#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""capture.py FILE CLIENT KIND...: judges captured RoCE packets by what tshark makes of them.

CLIENT is the address that calls come from. Of each KIND there must be a message, and of every message the
header must be right: version 1, credits within bounds, positions of Read chunks that fit the type, no
chunk in a reply that its call did not offer, nothing that tshark calls malformed; and every Send
is a message, or a note of the provider's own (immediate data, no bytes)."""
import collections
import subprocess
import sys

FIELDS = ["frame.number", "ip.src", "infiniband.bth.opcode", "rpcordma.xid", "rpcordma.version",
          "rpcordma.flow_control", "rpcordma.msg_type", "rpcordma.reads_count", "rpcordma.writes_count",
          "rpcordma.reply_count", "rpcordma.position", "rpcordma.rdma_handle", "rpcordma.rdma_length",
          "rpcordma.errcode", "_ws.malformed"]
FIRST, ONLY, ONLY_IMMEDIATE, ONLY_INVALIDATE = 0, 4, 5, 23     # Sends of an RC queue pair that begin a message
MSG, NOMSG, DONE, ERROR = 0, 1, 3, 4
MOST_CREDITS = 128

Message = collections.namedtuple("Message", "frame src xid version credits type reads writes reply positions handles "
                                 "lengths errcode malformed")


def numbers(text):
    return [int(x, 0) for x in text.split(",") if x]


def number(text):
    return (numbers(text) or [None])[0]


def packets(pcap):
    wanted = " || ".join(f"infiniband.bth.opcode == {n}" for n in (FIRST, ONLY, ONLY_IMMEDIATE, ONLY_INVALIDATE))
    # of what is reduced tshark's NFS wants to read the data, too
    cmd = ["tshark", "--disable-protocol", "nfs", "-r", pcap, "-Y", wanted, "-T", "fields", "-E", "separator=/t",
           "-E", "occurrence=a"]
    for field in FIELDS:
        cmd += ["-e", field]
    out = subprocess.run(cmd, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=True).stdout
    for line in out.splitlines():
        yield dict(zip(FIELDS, line.split("\t")))


def message(p):
    return Message(p["frame.number"], p["ip.src"], number(p["rpcordma.xid"]), number(p["rpcordma.version"]),
                   number(p["rpcordma.flow_control"]), number(p["rpcordma.msg_type"]),
                   number(p["rpcordma.reads_count"]) or 0, number(p["rpcordma.writes_count"]) or 0,
                   number(p["rpcordma.reply_count"]) or 0, numbers(p["rpcordma.position"]),
                   numbers(p["rpcordma.rdma_handle"]), numbers(p["rpcordma.rdma_length"]),
                   number(p["rpcordma.errcode"]), p["_ws.malformed"])


def kind(m, client):
    """What a message is, by its type and lists."""
    call = m.src == client
    if m.type in (DONE, ERROR):
        return {DONE: "pulled", ERROR: "error"}[m.type]
    if m.type == MSG:
        lists = [name for name, n in (("read", m.reads), ("write", m.writes), ("reply", m.reply)) if n]
        return ("call" if call else "answer") + "".join("+" + x for x in lists)
    if call:
        return "long-call" + ("+reply" if m.reply else "") + ("+write" if m.writes else "")
    return "reply-chunk" if m.reply else "reliable-reply" if m.reads else "nomsg"


def faults(m, call, exposed, client):
    """What is wrong with one message; call is the one that it answers, exposed the reply by Read chunk with
    its XID, or None."""
    if m.malformed:
        yield "malformed"
    if m.version != 1:
        yield f"version {m.version}"
    if not m.credits or m.credits > MOST_CREDITS:
        yield f"{m.credits} credits"
    if m.type not in (MSG, NOMSG, DONE, ERROR):
        yield f"message type {m.type}"
    if m.type == DONE and not (exposed and exposed.src != m.src):
        yield "RDMA_DONE without a reply that was there to be read"
    if m.type == MSG and 0 in m.positions:
        yield "RDMA_MSG with a Position-Zero Read chunk"
    if m.type == NOMSG and m.src == client and any(m.positions):
        yield f"RDMA_NOMSG with Read chunks at {m.positions}"
    if m.type == ERROR and m.errcode not in (1, 2):
        yield f"error {m.errcode}"
    if m.src != client and m.type != ERROR and (m.reply or m.writes):
        if not call or not set(m.handles) <= set(call.handles):
            yield "chunks that the call did not offer"
        elif m.type == NOMSG and not sum(m.lengths):
            yield "an empty Reply chunk"


def main(pcap, client, *wanted):
    seen, calls, exposed, bad = collections.Counter(), {}, {}, []
    for p in packets(pcap):
        if not p["rpcordma.version"]:
            if number(p["infiniband.bth.opcode"]) == ONLY_IMMEDIATE:
                seen["note"] += 1
            else:
                bad.append((p["frame.number"], "a Send that is no RPC-over-RDMA"))
            continue
        m = message(p)
        if m.src == client and m.type in (MSG, NOMSG):
            calls[m.xid] = m
        elif m.reads:
            exposed[m.xid] = m
        seen[kind(m, client)] += 1
        bad += [(m.frame, fault) for fault in faults(m, calls.get(m.xid), exposed.get(m.xid), client)]
    print(", ".join(f"{n} {k}" for k, n in sorted(seen.items())))
    for frame, fault in bad[:20]:
        print(f"frame {frame}: {fault}")
    missing = [k for k in wanted if not seen[k]]
    if missing:
        print(f"not seen: {', '.join(missing)}")
    return bool(bad or missing)


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
