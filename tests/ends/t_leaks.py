# SPDX-License-Identifier: BSD-3-Clause
# What a connection has taken it gives back: descriptors, shared mappings, and memory, of which a reference that is
# never dropped holds a piece. A thousand connections, both ends of them and their listeners in one process.
from ends import *

MANY = 1000
FEW = 100	# until whatever is kept for the next has been made

LIVES = '''
import ctypes, gc, queue
todo, done = queue.Queue(), queue.Queue()


def server():
    while True:
        s, _ = todo.get().accept()
        done.put(echo(s))


threading.Thread(target=server, daemon=True).start()


def live(n, length, end=lambda c: c.close()):
    for i in range(n):
        L = listen()
        todo.put(L)
        c = connect(L.getsockname()[1])
        ask(c, i, blob(length))
        end(c)
        c.close()
        done.get()
        L.close()


def abort(c):
    c.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))


def dup(c):
    os.close(os.dup(c.fileno()))


def polled(c):
    e = select.epoll()
    e.register(c, select.EPOLLOUT)
    if e.poll(90) != [(c.fileno(), select.EPOLLOUT)]:
        raise ValueError('cannot be written')
    p = select.poll()
    p.register(c, select.POLLOUT)
    p.poll(90000)
    select.select([], [c], [], 90)
    e.close()


def unpolled(c):
    """Closed while it is in a set, which goes later."""
    e = select.epoll()
    e.register(c, select.EPOLLIN)
    e.poll(0)
    c.close()
    e.poll(0)
    e.close()


class Malloc(ctypes.Structure):
    """struct mallinfo2"""
    _fields_ = [(n, ctypes.c_size_t) for n in 'arena ordblks smblks hblks hblkhd usmblks fsmblks uordblks fordblks keepcost'.split()]


mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Malloc


def data():
    """Kilobytes of private memory, and of pieces in use that malloc() has given out."""
    gc.collect()
    m = mallinfo()
    with open('/proc/self/status') as f:
        return next(int(line.split()[1]) for line in f if line.startswith('VmData')), (m.uordblks + m.hblkhd) >> 10
'''


def lives_without_a_trace(what, **options):
    a, n = Agent(**options), FEW
    a.do(LIVES)
    a.do('live(%d, %s)' % (FEW, what), timeout=6 * SOON)
    held = a.holds()
    # A heap grows in steps of 132 KiB, and one may come at any time: what leaks makes one each time.
    for _ in range(3):
        data = a.do('data()')
        a.do('live(%d, %s)' % (MANY, what), timeout=6 * SOON)
        n += MANY
        same(a.carried(), 2 * n, 'ends carried')
        settle(a.holds, held, 'descriptors and shared mappings')
        private, given = (now - before for now, before in zip(a.do('data()'), data))
        # A thousand of the smallest piece that is given out, half a cache line, would be 32 KiB.
        check(given < 32, '%d connections left %d KiB' % (MANY, given))
        if private < 32 or SAN:	# a sanitizer takes memory of its own for each
            return
    check(False, 'three times %d connections left memory each time, %d KiB at last' % (MANY, private))


def connections_and_their_listeners():
    lives_without_a_trace('100')


def connections_that_are_aborted():
    lives_without_a_trace('100, abort')


def connections_with_another_number():
    lives_without_a_trace('100, dup')


def connections_that_are_waited_for():
    lives_without_a_trace('100, polled')


def connections_closed_within_a_set():
    lives_without_a_trace('100, unpolled')


def connections_with_long_messages():
    lives_without_a_trace('100000')


main([fn for name, fn in list(globals().items()) if name.startswith('connections_')])
