# SPDX-License-Identifier: BSD-3-Clause
# Connections that were used and are idle: what they keep, of a server on epoll and of its client; counted in pages.
from ends import *

N = 200
PAGE = 4096
KEPT = 16 << 10		# bytes of an end, at most


def blocks(pid, what):
    """Bytes of memory behind its mappings of such files, whoever has touched them."""
    total, seen, d = 0, set(), '/proc/%d/map_files/' % pid
    for n in os.listdir(d):
        try:
            if os.readlink(d + n).split(' ')[0] == what:
                st = os.stat(d + n)
                if st.st_ino not in seen:
                    seen.add(st.st_ino)
                    total += st.st_blocks * 512
        except FileNotFoundError:
            pass
    return total


class Crowd:
    """N connections between a server and a client. On each a call of size bytes was made, and some that are empty."""

    def __init__(self, size, **options):
        self.port = next(ports)
        self.server = program('idlesvc', self.port, **options)
        until(lambda: listening(self.port), 'a listener on port %d' % self.port)
        log = open('%s/crowd.log' % W, 'w+')
        self.client = subprocess.Popen([APPS + '/idlecli', str(self.port), str(N), '16', str(size)], env=environment(**options),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1)
        procs.append(self.client)
        self.hear()
        self.tell('each 4')
        same(carried(), 2 * N, 'ends that are carried')

    def hear(self):
        check(self.client.stdout.readline().startswith('{'), 'the client ended: status %r' % self.client.poll())

    def tell(self, line):
        self.client.stdin.write(line + '\n')
        self.hear()

    def kept(self):
        """Bytes of an end: its own tables, and the half of what both map. A process gives back when its threads come by."""
        self.tell('calls 1 0')
        ends = [blocks(p.pid, '/dev/zero') for p in (self.server, self.client)]
        return (max(ends) + blocks(self.server.pid, '/memfd:rdmarpc') // 2) // N

    def gives_back(self):
        before = self.kept()
        settle(lambda: self.kept() <= KEPT, True, 'an end kept %d bytes, and keeps %d' % (before, self.kept()))
        self.tell('each 2')	# and all of them can be used


def short_calls_leave_two_pages_and_the_heads():
    Crowd(2000).gives_back()


def long_calls_leave_no_more():
    Crowd(300000).gives_back()


def nothing_is_given_back_before_its_time():
    """The measure of the others: it sees what connections in use need."""
    c = Crowd(300000, idle_trim_ms=3600000, warm_memory='1g')
    check(c.kept() > KEPT, 'an end in use keeps %d bytes' % c.kept())


main([short_calls_leave_two_pages_and_the_heads, long_calls_leave_no_more, nothing_is_given_back_before_its_time])
