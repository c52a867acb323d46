# SPDX-License-Identifier: BSD-3-Clause
# Limits on what a process may have (file sizes, descriptors), set before it starts, afterwards, or in a
# forked child: the library does without, and no call of it sends the app a signal. SIGXFSZ kills here, as it
# does where nobody asks for anything else; that nothing is delivered to a handler either is in tests/unit.
from ends import *

LIMITS = (0, 512, 1024, 102400, 2048000)	# bytes; ulimit -f 0, 1 (of sh and of bash), 100, 2000
LOG = W + '/log'
# What a sanitizer writes to a file at its own start: ThreadSanitizer maps 512 KiB of it.
SAN_WRITES = 524288 if any('libtsan' in lib for lib in SAN) else len(SAN)
KILLS = 'ctypes.CDLL(None).signal(int(signal.SIGXFSZ), None)'


def limit(n):
    return 'import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (%d, %d))' % (n, n)


def agent(**options):
    if os.path.exists(LOG):
        os.unlink(LOG)
    a = Agent(log_file=LOG, log_level='debug', **options)
    a.do(KILLS)
    return a


def speaks(c, s, port, size=9000):
    """A new connection answers, by whatever it is carried."""
    t = s.start('echo_one(L.accept()[0])')
    c.do('n = connect(%d)' % port)
    same(c.do('ask(n, 3, blob(%d))' % size), size)
    s.result(t)


def plain(c, s, port):
    """A connection that is no RPC, accepted by s."""
    t = s.start('a = L.accept()[0]; a.sendall(read_n(a, 5)); a.close()')
    c.do("n = connect(%d); n.sendall(b'hello')" % port)
    same(c.do('read_n(n, 5).decode()'), 'hello')
    s.result(t)


def before_start():
    """Of either end, and of both."""
    for n in (n for n in LIMITS if n >= SAN_WRITES):
        small = dict(prefix=('prlimit', '--fsize=%d' % n))
        for cs, ss in ((small, {}), ({}, small), (small, small)):
            c, s = agent(**cs), agent(**ss)
            s.do('L = listen()')
            port = s.do('L.getsockname()[1]')
            speaks(c, s, port)
            speaks(c, s, port, 100000)
            plain(c, s, port)


def while_it_runs():
    """Carried connections go on; new ones are on TCP where their memory would be too large a file."""
    for n in LIMITS:
        c, s = agent(), agent()
        s.do('L = listen()')
        port = s.do('L.getsockname()[1]')
        t = s.start('e = L.accept()[0]; echo_one(e)')
        c.do('k = connect(%d)' % port)
        c.do('ask(k, 1, blob(5000))')
        s.result(t)
        same(carried_by(c, s), (1, 1))
        for end in c, s:
            end.do(limit(n))
        t = s.start('echo_one(e)')
        same(c.do('ask(k, 2, blob(100000))'), 100000)
        s.result(t)
        same(carried_by(c, s), (1, 1))
        speaks(c, s, port)
        same(carried_by(c, s), (1, 1), 'with a limit of %d' % n)
        plain(c, s, port)


def in_a_child():
    """As a sandbox does: the child may not make a file grow, and only serves a socket."""
    for n in LIMITS:
        for first in '', "echo_one(a)\n":
            c, s = agent(), agent()
            s.do('L = listen()')
            port = s.do('L.getsockname()[1]')
            t = s.start('forked(%r)' % (limit(n) + "\na = L.accept()[0]\n" + first + "a.sendall(read_n(a, 5))"))
            c.do('n = connect(%d)' % port)
            if first:
                c.do('ask(n, 3, blob(5000))')
                c.do("n.sendall(rec(b'x'))")
                same(c.do('read_n(n, 5).hex()'), '8000000178')
            else:
                c.do("n.sendall(b'hello')")
                same(c.do('read_n(n, 5).decode()'), 'hello')
            same(s.result(t), 0, 'the status of the child')


def the_log_at_its_end():
    """A log that is full already."""
    size = 5000 + SAN_WRITES
    with open(LOG, 'w') as f:
        f.write('x' * size)
    for n in (size - 1000, size, size + 10):
        c = Agent(log_file=LOG, log_level='debug', prefix=('prlimit', '--fsize=%d' % n))
        c.do(KILLS)
        s = Agent()
        s.do('L = listen()')
        speaks(c, s, s.do('L.getsockname()[1]'))
        same(os.path.getsize(LOG), size)
    os.unlink(LOG)


# --- descriptors ---

FREE = 'f = os.dup(0); os.close(f); f'


def numbers_are_the_apps():
    """What a program gets as its lowest free number is what it gets without the library."""
    got = []
    for shim in False, True:
        a = Agent(shim=shim)
        before = a.do(FREE)
        a.do('L = listen()')
        got.append((before, a.do('L.fileno()'), a.do(FREE)))
    same(got[0], got[1])


def alive(a):
    return any(p['pid'] == a.pid and p['alive'] and p['verified'] for p in stat())


def close_loops_leave_it_alive():
    """Also where they are loops, and where a number is taken by dup2()."""
    # ours begin at 40 in a process with threads, as the agent is, and higher in others
    ways = ('os.closerange(40, 70000)', 'ctypes.CDLL(None).closefrom(40)',
            'ctypes.CDLL(None).close_range(40, 0xffffffff, 0)',
            '[ctypes.CDLL(None).close(i) for i in range(40, 5000)]',
            '[os.close(os.dup2(0, i)) for i in range(40, 1000)]')
    for way in ways:
        a, c = Agent(), Agent()
        a.do('L = listen()')
        check(alive(a), 'alive before')
        n = a.fds()
        a.do(way)
        check(alive(a), 'not alive after ' + way)
        same(a.fds(), n, way)
        speaks(c, a, a.do('L.getsockname()[1]'))
        same(carried_by(c, a), (1, 1))


def many_connections_leave_the_app_the_low_numbers():
    """In a process with threads, too. select(), and svc_fdset of libtirpc, handle those below 1,024 only."""
    n = 700
    c, s = Agent(), Agent()
    for a in c, s:
        a.do('import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (5000, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))')
        a.do('all = []')
    s.do('L = listen()')
    t = s.start('for _ in range(%d): all.append(L.accept()[0]); echo_one(all[-1])' % n)
    c.do("for i in range(%d): all.append(connect(%d)); ask(all[-1], i, b'x')" % (n, s.do('L.getsockname()[1]')))
    s.result(t)
    for a in c, s:
        same(a.carried(), n)
        highest = a.do('max(s.fileno() for s in all)')
        check(highest < 1000, '%d connections, of which one is number %d' % (n, highest))


def a_child_has_its_own():
    """And its parent's is closed in it, whether it has one or not."""
    a = Agent()
    a.do('L = listen()')
    fds = a.do('sorted(map(int, os.listdir("/proc/self/fd")))')
    ours = [f for f in fds if f >= 40]
    same(len(ours), 1, 'one descriptor of the library')
    same(a.do('forked("os._exit(sum(int(f) >= 40 for f in os.listdir(\\"/proc/self/fd\\")))")'), 0)
    check(alive(a), 'the parent lives on')


main([fn for name, fn in list(globals().items())
      if callable(fn) and getattr(fn, '__module__', '') == '__main__' and fn.__code__.co_argcount == 0 and
      name != 'agent'])
