# SPDX-License-Identifier: BSD-3-Clause
# Calls that nobody answers, or too late, or twice: libtirpc's batching, clients that give up waiting,
# in either direction. Many thousands: no deadlock, no credit and no memory is lost by them.
from ends import *

N = int(os.environ.get('ROUNDS', 1))

SILENT = '''
def silent(s, n):
    """Reads n calls without a word; their bytes are right."""
    for i in range(n):
        r = read_rec(s)
        if xid_of(r) != i or r[40:] != blob(len(r) - 40, len(r)):
            raise ValueError('call %d: xid %d, %d bytes' % (i, xid_of(r), len(r)))
    return n

def batch(s, n, *sizes):
    """n calls that nobody answers, gathered as libtirpc does."""
    out, bodies = bytearray(), {k: blob(k, k + 40) for k in sizes}
    for i in range(n):
        out += call(i, bodies[sizes[i % len(sizes)]])
        if len(out) > 8000:
            s.sendall(out)
            out.clear()
    s.sendall(out)
'''


def told(**options):
    c, s = carried_pair(**options)
    for end in c, s:
        end.do(SILENT)
    return c, s


def answered(c, s):
    """The connection is as good as new: more calls at once than there are credits, all answered."""
    t = s.start('[echo_one(s) for _ in range(200)]')
    u = c.start('[read_rec(s)[24:] == blob(300, i) for i in range(200)]')
    c.do('[s.sendall(call(i, blob(300, i))) for i in range(200)]')
    same(c.result(u), [True] * 200, 'calls after those without an answer')
    s.result(t)
    t = s.start('echo_one(s)')
    c.do('ask(s, 1, blob(2000000))')
    s.result(t)
    same(carried_by(c, s), (1, 1))
    for end in c, s:
        errors = end.stat()['errors']
        same((errors['lost'], end.stat()['upgrade']['hatches']), (0, 0), 'lost, back to TCP')


def batches_of_libtirpc():
    """labcli's own check: the server got every call, in order."""
    for mode in 'svcrun', 'poll', 'epoll':
        server, port = labsvc(mode)
        same(labcli(port, 'batch', 20000 * N), 'batch %d ok\n' % (20000 * N))
        same(labcli(port, 'sizes'), 'sizes ok\n')
    same(sum(p['errors']['lost'] for p in stat()), 0, 'lost connections')


def short_calls_without_an_answer():
    c, s = told()
    t = s.start('silent(s, %d)' % (20000 * N))
    c.do('batch(s, %d, 0, 40, 400)' % (20000 * N), 30)
    same(s.result(t), 20000 * N)
    answered(c, s)


def long_calls_without_an_answer():
    """Each is exposed memory, many times as much as there is."""
    c, s = told()
    t = s.start('silent(s, %d)' % (3000 * N))
    c.do('batch(s, %d, 20000, 100, 70000)' % (3000 * N), 30)
    same(s.result(t), 3000 * N)
    answered(c, s)


def a_non_blocking_client():
    c, s = told()
    c.do('s.setblocking(False)')
    t = s.start('silent(s, %d)' % (3000 * N))
    c.do('b = blob(20000, 20040)')
    c.do('[send_nb(s, call(i, b)) for i in range(%d)]' % (3000 * N), 30)
    same(s.result(t), 3000 * N)
    c.do('s.setblocking(True)')
    answered(c, s)


def a_server_that_is_slow_to_read():
    """The client is stopped by what the connection can hold, and by nothing else."""
    c, s = told(memory='1m', max_message='512k')
    t = c.start('batch(s, 2000, 100, 20000)')
    time.sleep(0.2)
    c.asleep()
    u = s.start('silent(s, 2000)')
    c.result(t)
    same(s.result(u), 2000)
    same(carried_by(c, s), (1, 1))


def calls_of_the_server_without_an_answer():
    """Against the direction of the connection there are few credits."""
    c, s = told()
    for sizes, n in ('100', 5000 * N), ('100, 20000', 1000 * N):
        t = c.start('silent(s, %d)' % n)
        s.do('batch(s, %d, %s)' % (n, sizes), 30)
        same(c.result(t), n)
    answered(c, s)
    t = c.start('echo_one(s)')
    s.do('ask(s, 5, blob(300))')
    c.result(t)


def both_directions_at_once():
    c, s = told()
    reads = [(end, end.start('silent(s, 3000)')) for end in (c, s)]
    writes = [(end, end.start('batch(s, 3000, 100, 9000, 0)')) for end in (c, s)]
    for end, t in writes + reads:
        end.result(t)
    answered(c, s)


# --- answers that come when nobody waits for them any more ---

LATE = '''
def impatient(s, n, size):
    """Calls whose answer comes after the next call, as after a time-out: libtirpc skips it."""
    for i in range(n):
        s.sendall(call(2 * i, blob(size, i)) + call(2 * i + 1, blob(size, i)))
        while True:
            r = read_rec(s)
            if r[24:] != blob(size, i):
                raise ValueError('%d bytes are wrong' % len(r))
            if xid_of(r) == 2 * i + 1:
                break
    return n
'''


def late_answers_are_read_and_thrown_away():
    c, s = told()
    c.do(LATE)
    t = s.start('echo(s)')
    for size, n in (100, 3000 * N), (20000, 500 * N):
        c.do('impatient(s, %d, %d)' % (n, size), 30)
    c.do('s.close()')
    check(s.result(t).startswith('EOF after 0'), 'the end')
    same(c.stat()['errors']['lost'], 0)


def a_client_that_gives_up_closes():
    """Its connection goes with all that was under way, again and again; the server gives all back."""
    s = Agent()
    s.do('L = listen()')
    port = s.do('serve(L)')
    c = Agent()
    c.do('s = connect(%d)' % port)
    c.do('ask(s, 1, blob(20000))')
    c.do('doze(s)')
    before = s.holds(), c.holds()
    for size in 100, 20000:
        for i in range(40 * N):
            c.do('t = connect(%d)' % port)
            c.do('[t.sendall(call(i, blob(%d))) for i in range(30)]' % size)
            c.do('t.close()')
    c.do('ask(s, 2, blob(20000))')
    s.settles(before[0], 'server')
    c.settles(before[1], 'client')


def answers_out_of_order_and_some_never():
    c, s = told()
    n = 2000 * N
    t = s.start('''
held = []
for i in range(%d):
    r = read_rec(s)
    if i %% 3:
        held.append((xid_of(r), r[40:]))
    if len(held) == 50:
        random.shuffle(held)
        s.sendall(b''.join(reply(*h) for h in held))
        held.clear()
s.sendall(b''.join(reply(*h) for h in held))
''' % n)
    u = c.start('''sorted(xid_of(r) for r in (read_rec(s) for _ in range(%d)) if r[24:] == blob(r[3] * 40, xid_of(r)))
''' % sum(1 for i in range(n) if i % 3))
    c.do('[s.sendall(call(i, blob((i & 255) * 40, i))) for i in range(%d)]' % n, 30)
    same(c.result(u), [i for i in range(n) if i % 3], 'calls answered')
    s.result(t)
    answered(c, s)


def answers_that_nobody_asked_for():
    """Twice the same, or to no call: the client reads what it would read from TCP."""
    seen = []
    for shim in False, True:
        c, s = pair(shim=shim)
        t = s.start('echo_one(s)')
        c.do('ask(s, 1, b"abcd")')
        s.result(t)
        c.do('[s.sendall(call(i)) for i in range(10)]')
        s.do('[read_rec(s) for i in range(10)]')
        t = c.start('[(xid_of(r), len(r)) for r in (read_rec(s) for _ in range(210))]')
        s.do('[s.sendall(reply(i, blob(n))) for i in (3, 3, 77, 5, 3) for n in (10, 9000)]')
        s.do('[s.sendall(reply(i, blob(10))) for i in range(200)]')
        seen.append(c.result(t))
    same(seen[1], seen[0], 'what the client read')
    answered(c, s)


def memory_does_not_grow():
    if SAN:
        raise Skipped('the sanitizer holds freed memory back')
    c, s = told()
    rss = []
    for n in 3000, 6000 * N:
        t = s.start('silent(s, %d)' % n)
        c.do('batch(s, %d, 100, 20000)' % n, 30)
        s.result(t)
        rss.append((c.do('rss()'), s.do('rss()')))
    before, after = rss
    check(after[0] < before[0] + 20000 and after[1] < before[1] + 20000, 'KiB: %r, then %r' % (before, after))


main([fn for name, fn in list(globals().items())
      if callable(fn) and getattr(fn, '__module__', '') == '__main__' and fn.__code__.co_argcount == 0 and
      name != 'told'])
