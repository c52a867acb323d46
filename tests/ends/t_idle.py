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
    """n connections between a server and a client. On each a call of size bytes was made, and some that are empty."""

    def __init__(self, size, n=N, **options):
        self.port = next(ports)
        self.server = program('idlesvc', self.port, **options)
        until(lambda: listening(self.port), 'a listener on port %d' % self.port)
        log = open('%s/crowd.log' % W, 'w+')
        self.client = subprocess.Popen([APPS + '/idlecli', str(self.port), str(n), '16', str(size)], env=environment(**options),
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True, bufsize=1)
        procs.append(self.client)
        self.hear()
        self.tell('each 4')
        same(carried(), 2 * n, 'ends that are carried')

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


def sleeps(pid):
    """How often the process has gone to sleep."""
    with open('/proc/%d/status' % pid) as f:
        return int(re.search(r'^voluntary_ctxt_switches:\s*(\d+)', f.read(), re.M)[1])


def wakeups_after_a_call(**options):
    """How often a server with few connections wakes up in a second after a call, and what an end has given back by then."""
    c = Crowd(0, 4, **options)
    for _ in range(2):	# the first time it may look at them
        time.sleep(1.2)
        before = blocks(c.server.pid, '/dev/zero')
        c.tell('calls 1 0')
        time.sleep(.05)
        n = sleeps(c.server.pid)
        time.sleep(1.2)
    return sleeps(c.server.pid) - n, before - blocks(c.server.pid, '/dev/zero')


def few_are_left_as_they_are():
    same(wakeups_after_a_call(), (0, 0), 'wake-ups, and bytes given back')


def those_that_may_not_stay_are_looked_at():
    check(wakeups_after_a_call(idle_stay=0)[0] > 0, 'nobody looks')


main([short_calls_leave_two_pages_and_the_heads, long_calls_leave_no_more, nothing_is_given_back_before_its_time,
      few_are_left_as_they_are, those_that_may_not_stay_are_looked_at])
