#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""watch.py [--scroll FILE] COMMAND...: runs it, which watches, on a terminal that this program plays, in a foreground job of a shell that it
plays as well. Judges the screen: 80 columns are enough, nothing wraps or scrolls, it follows the window's size, and the first screen and
the terminal's settings are as they were when the command was stopped or interrupted. Prints "ok N" for each step.
--scroll: pages through the whole, in which there must be the connections of FILE, a line "local peer" for each, and back."""
import fcntl
import os
import pty
import re
import select
import signal
import struct
import sys
import termios
import time

DEADLINE = time.monotonic() + 280


def must(ok, what):
    """Ends the test unless ok."""
    if not ok:
        sys.exit("not ok: " + what)


class Terminal:
    """What a terminal makes of the bytes, with two screens."""
    def __init__(self, rows, cols):
        self.screens, self.second, self.cursor, self.faults, self.rest = {}, False, True, [], ""
        self.entered = self.left = 0
        self.size(rows, cols)
        self.feed("$ command\r\n")

    def size(self, rows, cols):
        """The window has another size."""
        self.rows, self.cols = rows, cols
        old = self.screens
        self.screens = {s: [(list(old[s][r]) if s in old and r < len(old[s]) else [])[:cols] for r in range(rows)] for s in (False, True)}
        self.row = self.col = 0

    def text(self):
        """The lines of the screen that is seen."""
        return ["".join(row).rstrip() for row in self.screens[self.second]]

    def control(self, arg, final):
        """A control sequence."""
        line = self.screens[self.second][self.row]
        if final == "H" and not arg:
            self.row = self.col = 0
        elif final == "K" and not arg:
            if self.col == self.cols:
                self.faults.append("a full line was cut by K")
            del line[self.col:]
        elif final == "J" and not arg:
            del line[self.col:]
            for row in self.screens[self.second][self.row + 1:]:
                row.clear()
        elif arg == "?1049" and final in "hl":
            self.second = final == "h"
            self.entered += self.second
            self.left += not self.second
        elif arg == "?25" and final in "hl":
            self.cursor = final == "h"
        else:
            self.faults.append(f"unknown: {arg}{final}")

    def put(self, char):
        """A printable character, at the cursor."""
        if self.col == self.cols:
            self.faults.append("wrapped: " + self.text()[self.row])
            return
        line = self.screens[self.second][self.row]
        line.extend(" " * (self.col + 1 - len(line)))
        line[self.col] = char
        self.col += 1

    def feed(self, text):
        """Output of the command."""
        text = self.rest + text
        while text:
            m = re.match(r"\x1b\[([?0-9;]*)([A-Za-z])", text)
            if m:
                self.control(m[1], m[2])
                text = text[m.end():]
                continue
            if text[0] == "\x1b" and len(text) < 12:
                break
            if text[0] == "\r":
                self.col = 0
            elif text[0] == "\n":
                if self.row == self.rows - 1:
                    self.faults.append("scrolled")
                self.row = min(self.row + 1, self.rows - 1)
            else:
                self.put(text[0])
            text = text[1:]
        self.rest = text


def shell(argv, say, hear):
    """The session's leader: runs argv as a job in the foreground, tells by say of what becomes of it, continues it by hear."""
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    job = os.fork()
    if not job:
        os.setpgid(0, 0)
        os.tcsetpgrp(0, os.getpid())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
        os.execv(argv[0], argv)
    while True:
        status = os.waitpid(job, os.WUNTRACED)[1]
        os.tcsetpgrp(0, os.getpid())
        os.write(say, struct.pack("i", status))
        if not os.WIFSTOPPED(status):
            os._exit(0)
        os.read(hear, 1)
        os.tcsetpgrp(0, job)
        os.kill(job, signal.SIGCONT)


class Job:
    """The command on its terminal."""
    def __init__(self, argv, rows, cols):
        self.term = Terminal(rows, cols)
        self.told, say = os.pipe()
        hear, self.go = os.pipe()
        ready, start = os.pipe()
        pid, self.fd = pty.fork()
        if not pid:
            os.read(ready, 1)
            shell(argv, say, hear)
        os.close(say)
        self.resize(rows, cols)
        self.settings = termios.tcgetattr(self.fd)
        os.write(start, b"x")

    def resize(self, rows, cols):
        """Of the window."""
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, cols, 0, 0))
        self.term.size(rows, cols)

    def take(self):
        """Some output; False: there is none."""
        try:
            text = os.read(self.fd, 65536).decode() if select.select([self.fd], [], [], 0.1)[0] else ""
        except OSError:     # nobody has it open any more
            text = ""
        self.term.feed(text)
        return text != ""

    def until(self, ok, what):
        """Takes output until it looks right."""
        while not ok():
            must(time.monotonic() < DEADLINE, f"{what}: {self.term.text()}")
            self.take()

    def steady(self, what):
        """Three more frames, in which nothing is out of place."""
        self.term.faults.clear()
        for _ in range(3):
            self.take()
        must(not self.term.faults, f"{what}: {self.term.faults[:3]}")

    def status(self, what):
        """What the shell tells of it, and the output until then."""
        self.until(lambda: select.select([self.told], [], [], 0)[0], what)
        status = struct.unpack("i", os.read(self.told, 4))[0]
        while self.take():
            pass
        return status

    def is_as_before(self):
        """The first screen, its cursor, the settings."""
        t = self.term
        return not t.second and t.cursor and [x for x in t.text() if x and "^" not in x] == ["$ command"] and \
            termios.tcgetattr(self.fd) == self.settings


def full(term):
    """Is the table there, to its end?"""
    text = "\n".join(term.text())
    return term.second and "CALLS/S" in text and "peer has no shim" in text and "more lines" not in text


def main():
    """The steps."""
    job = Job(sys.argv[1:], 24, 80)
    job.until(lambda: full(job.term), "the table")
    must(not job.term.cursor, "the cursor is hidden")
    job.steady("80 columns")
    must(re.search(r"CALLS/S BYTES/S +P50 +P99$", job.term.text()[0]), "all columns are within 80")
    print("ok 80")
    job.resize(4, 50)
    job.until(lambda: re.fullmatch(r"\([0-9]+ more lines\)", job.term.text()[3]), "a smaller window")
    job.steady("a smaller window")
    print("ok smaller")
    first, second, third = job.term.text()[:3]
    os.write(job.fd, b"j")
    job.until(lambda: job.term.text()[:2] == [first, third], "a line down")
    os.write(job.fd, b"\x1b[A")
    job.until(lambda: job.term.text()[:3] == [first, second, third], "a line up, by its key")
    os.write(job.fd, b"G")
    job.until(lambda: "more lines" not in job.term.text()[3] and job.term.text()[0] == first, "to the end")
    job.steady("the end")
    os.write(job.fd, b"\x1b[5~\x1b[5~\x1b[5~\x1b[5~\x1b[5~\x1b[5~\x1b")
    job.until(lambda: job.term.text()[:3] == [first, second, third], "pages up, no further than to the top")
    os.write(job.fd, b" xyz")
    job.until(lambda: job.term.text()[0] == first and second not in job.term.text(), "a page down")
    job.steady("keys of no meaning")
    print("ok scrolled")
    job.resize(40, 130)
    job.until(lambda: full(job.term), "a larger window")
    job.steady("a larger window")
    print("ok larger")
    os.write(job.fd, b"\x1a")
    must(os.WIFSTOPPED(job.status("stopped")), "^Z stops it")
    must(job.is_as_before(), f"stopped: {job.term.text()}")
    os.write(job.go, b"x")
    job.until(lambda: full(job.term), "continued")
    print("ok stopped")
    os.write(job.fd, b"\x03")
    status = job.status("interrupted")
    must(os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGINT, f"^C ends it: {status}")
    must(job.is_as_before(), f"interrupted: {job.term.text()}")
    must(job.term.entered == job.term.left == 2, "the screens were changed twice")
    print("ok interrupted")
    job = Job(sys.argv[1:], 24, 80)
    job.until(lambda: full(job.term), "the table again")
    os.write(job.fd, b"q")
    must(job.status("quit") == 0, "q ends it")
    must(job.is_as_before(), f"quit: {job.term.text()}")
    print("ok quit")
    os.environ["TERM"] = "dumb"
    job = Job(sys.argv[1:], 24, 80)
    job.until(lambda: sum("CALLS/S" in x for x in job.term.text()) > 1, "a terminal that cannot")
    must(not job.term.entered and job.term.cursor, "it is left as it is")
    os.write(job.fd, b"\x03")
    must(os.WIFSIGNALED(job.status("interrupted")), "^C ends that")
    print("ok dumb")


def connections(job):
    """What the screen has of them: "local peer". In the middle of a drawing that may be one with digits of another."""
    text = "\n".join(job.term.text())
    return {" ".join(x) for x in re.findall(r"([0-9.]+:[0-9]+) +[<-][->] ([0-9.]+:[0-9]+)", text)}


def scroll(wanted, argv):
    """All pages, forth and back: each of these connections is on one."""
    job, seen = Job(argv, 24, 80), set()
    job.until(lambda: "more lines)" in job.term.text()[23], "the first page")
    top = job.term.text()[1]
    while "more lines)" in job.term.text()[23]:
        job.steady("a page")
        if "more lines)" not in job.term.text()[23]:    # the last one, in the middle of whose drawing we looked
            break
        page = connections(job)
        seen |= page
        os.write(job.fd, b" ")
        job.until(lambda old=page: connections(job) != old, "the next page")
    job.steady("the last page")
    seen |= connections(job)
    must(wanted <= seen, f"not shown: {sorted(wanted - seen)[:5]}")
    os.write(job.fd, b"g")
    job.until(lambda: job.term.text()[1] == top, "back to the top")
    os.write(job.fd, b"q")
    must(job.status("quit") == 0, "q ends it")
    print(f"ok {len(wanted)}")


if sys.argv[1] == "--scroll":
    with open(sys.argv[2], encoding="ascii") as f:
        scroll(set(f.read().splitlines()), sys.argv[3:])
else:
    main()
