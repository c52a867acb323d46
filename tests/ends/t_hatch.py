# SPDX-License-Identifier: BSD-3-Clause
# Back to TCP at a record boundary: records above the limit, and what is no RPC, by either end, at
# once by both, within a load, with a reader asleep; and how such connections end.
from ends import *

LIMIT = 65536
GONE = ('ECONNRESET', 'EPIPE', 'EOF')


def small(**options):
    return carried_pair(max_message=LIMIT, **options)


def hatches(*ends):
    return tuple(end.stat()['upgrade']['hatches'] for end in ends)


def exchange(c, s, n, xid=20):
    t = s.start('echo_one(s)')
    c.do('ask(s, %d, blob(%d, 3))' % (xid, n))
    s.result(t)


def a_call_above_the_limit():
    """It, and everything after it; and only in its direction."""
    c, s = small()
    exchange(c, s, 60000)
    same(hatches(c, s), (0, 0))
    t = s.start('(len(read_rec(s)), s.sendall(reply(1, blob(100))))[0]')
    c.do('s.sendall(call(1, blob(%d)))' % LIMIT)
    same(s.result(t), LIMIT + 40)
    same(c.do('read_rec(s)[24:] == blob(100)'), True)
    same(hatches(c, s), (1, 0))
    for n in 0, 100, 5000, 60000:
        exchange(c, s, n)
    same(hatches(c, s), (1, 0))
    exchange(c, s, 3000000)
    same(hatches(c, s), (1, 1))
    same(c.stat()['list'][0]['state'], 'draining')


def a_reply_above_the_limit():
    c, s = small()
    for n in 70000, 100, 1000000:
        c.do('s.sendall(call(1))')
        s.do('(read_rec(s), s.sendall(reply(1, blob(%d))))[1]' % n)
        same(c.do('read_rec(s)[24:] == blob(%d)' % n), True, n)
        same(hatches(c, s), (0, 1))
    exchange(c, s, 70000)
    same(hatches(c, s), (1, 1))


def the_lower_limit_counts():
    for limits in (LIMIT, '1m'), ('1m', LIMIT):
        c, s = Agent(max_message=limits[0]), Agent(max_message=limits[1])
        s.do('L = listen()')
        t = s.start('s, _ = L.accept()')
        c.do('s = connect(%d)' % s.do('L.getsockname()[1]'))
        s.result(t)
        exchange(c, s, 60000)
        same(hatches(c, s), (0, 0))
        exchange(c, s, 200000)
        same(hatches(c, s), (1, 1))
        same(carried_by(c, s), (1, 1))


def the_lengths_around_the_limit():
    """Carried or not, what arrives is what was sent."""
    for n in range(LIMIT - 40 - 3, LIMIT - 40 + 4):
        c, s = small()
        exchange(c, s, n)
        same(hatches(c, s)[0], int(n + 40 > LIMIT), n)


def a_record_of_many_fragments():
    """Some were collected when the limit is passed: they go first; also in pieces, at every border."""
    parts = 'b"".join(struct.pack(">I", (i == %d) << 31 | %d) + b[i * %d:(i + 1) * %d] for i in range(%d))'
    for size, count in (30000, 4), (65536, 3), (8900, 30), (100, 900):
        for piece in 1 << 30, 8192, 4093:
            c, s = small()
            t = s.start('[echo_one(s), echo_one(s)]')
            c.do('b = call(5, blob(%d))[4:]' % (size * count - 40))
            c.do('b = %s + call(6, b"abcd")' % (parts % (count - 1, size, size, size, count)))
            c.do('[s.sendall(b[i:i + %d]) for i in range(0, len(b), %d)]' % (piece, piece))
            same(c.do('read_rec(s)[24:] == blob(%d)' % (size * count - 40)), True, (size, count, piece))
            same(c.do('read_rec(s)[24:] == b"abcd"'), True)
            s.result(t)
            same(hatches(c, s), (1, 1), (size, count, piece))
            c.kill()
            s.kill()


def what_is_no_RPC():
    """It arrives, as it is: the connection is the app's."""
    for b in b'\x80\0\0\x04abcd', b'\x80\0\0\0', b'\x80\0\0\x28' + bytes(40), b'\0\0\0\0\x80\0\0\x02hi':
        c, s = small()
        c.do('s.sendall(bytes(%r) + call(3, blob(200)))' % list(b))
        if b[0]:
            same(bytes(s.do('list(read_n(s, %d))' % len(b))), b)
        else:
            same(bytes(s.do('list(read_rec(s))')), b'hi')
        s.do('echo_one(s)')
        same(c.do('read_rec(s)[24:] == blob(200)'), True)
        same(hatches(c, s), (1, 0), b)


# --- under load ---

PIPE = '''
def sizes(n, seed, big):
    r = random.Random(seed)
    return [r.choice((0, 50, 3000, 5000, 20000, big)) for _ in range(n)]

def writer(s, ns):
    for i, n in enumerate(ns):
        s.sendall(call(i, blob(n, i)))

def reader(s, ns):
    for i, n in enumerate(ns):
        r = read_rec(s)
        if xid_of(r) != i or r[24:] != blob(n, i):
            raise ValueError('reply %d: xid %d, %d bytes, expected %d' % (i, xid_of(r), len(r) - 24, n))
    return len(ns)
'''


def within_a_load():
    """Hundreds of calls under way when it happens, in either direction; none is lost or overtaken."""
    for big, many in (66000, 200), (400000, 100):
        for seed in range(3):
            c, s = small()
            c.do(PIPE)
            c.do('ns = sizes(%d, %d, %d)' % (many, seed, big))
            t = s.start('echo(s)')
            r = c.start('reader(s, ns)')
            c.do('writer(s, ns)', 30)
            same(c.result(r), many)
            same(hatches(c, s), (1, 1))
            c.do('s.close()')
            check(s.result(t).startswith('EOF after 0'), 'the end')


def both_at_once():
    """Each end is requester and responder."""
    for seed in range(3):
        c, s = small()
        for end in c, s:
            end.do(PIPE)
            end.do('ns = sizes(60, %d, 90000)' % (seed + (end is s)))
            end.do('other = sizes(60, %d, 90000)' % (seed + (end is c)))
            end.do('''
def calls(s, ns):
    for i, n in enumerate(ns):
        r = read_rec(s)
        if xid_of(r) != i or r[40:] != blob(n, i):
            raise ValueError('call %d: xid %d, %d bytes, expected %d' % (i, xid_of(r), len(r) - 40, n))
    return len(ns)''')
        reads = [(end, end.start('calls(s, other)')) for end in (c, s)]
        for end in c, s:
            end.start('writer(s, ns)')
        for end, t in reads:
            same(end.result(t), 60)


def a_peer_that_does_not_read_yet():
    """The connection is full when the record comes that cannot be carried."""
    c, s = small()
    c.do(PIPE)
    c.do('ns = [50000] * 400 + [100000] + [10, 70000] * 5')
    r = c.start('reader(s, ns)')
    w = c.start('writer(s, ns)')
    time.sleep(0.3)
    t = s.start('[echo_one(s) for _ in range(411)]')
    c.result(w)
    same(c.result(r), 411)
    s.result(t)
    same(hatches(c, s), (1, 1))


def a_non_blocking_writer():
    c, s = small()
    c.do('s.setblocking(False)')
    t = s.start('echo(s)')
    for i, n in enumerate((100, 60000, 70000, 0, 2000000, 5)):
        c.do('ask_nb(s, %d, blob(%d))' % (i, n))
    same(hatches(c, s), (1, 1))
    c.do('s.close()')
    s.result(t)


def unmodified_programs():
    for mode in 'svcrun', 'epoll', 'fork':
        _, port = labsvc(mode, max_message=LIMIT)
        for args, want in ((('sizes',), 'sizes ok\n'), (('sum', 100000), 'sum 100000 ok\n'),
                           (('big', 1000000), 'big 1000000 ok\n'), (('fork',), 'parent ok child ok parent ok\n')):
            same(labcli(port, *args, max_message=LIMIT), want, mode)
        check(sum(p['upgrade']['hatches'] for p in stat()) >= 4, 'there was no hatch')
        same(sum(p['errors']['lost'] for p in stat()), 0, 'lost connections')


# --- sleeping and ending ---

def a_reader_asleep():
    for wait in ('1', 'wait_for(s, select.POLLIN)', 'select.select([s], [], [])',
                 '(lambda p: (p.register(s, select.EPOLLIN), p.poll()))(select.epoll())',
                 '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLET), p.poll()))(select.epoll())'):
        c, s = small()
        for _ in range(2):
            t = s.start('(%s, read_rec(s)[40:] == blob(90000))[1]' % wait)
            s.asleep()
            c.do('s.sendall(call(1, blob(90000)))')
            same(s.result(t), True, wait)
        same(hatches(c, s), (1, 0))


def the_end_after_it():
    """Of either direction, in order or by death; and nothing is left."""
    for who in 'both', 'client', 'server':
        for how in 'close', 'shutdown', 'kill':
            c, s = small()
            exchange(c, s, 70000 if who == 'both' else 10)
            if who == 'client':
                t = s.start('len(read_rec(s))')
                c.do('s.sendall(call(1, blob(70000)))')
                s.result(t)
            elif who == 'server':
                t = c.start('len(read_rec(s))')
                s.do('s.sendall(reply(1, blob(70000)))')
                c.result(t)
            t = s.start('ending(s)')
            s.asleep()
            if how == 'close':
                c.do('s.close()')
            elif how == 'shutdown':
                c.do('s.shutdown(socket.SHUT_WR)')
            else:
                c.kill()
            end = s.result(t)
            check(end == 'EOF after 0' or how == 'kill' and end == 'ECONNRESET', (who, how, end))
            if how == 'shutdown':
                s.do('s.sendall(reply(9, blob(3000)))')
                same(c.do('read_rec(s)[24:] == blob(3000)'), True)
                c.do('s.close()')
            s.do('s.close()')
            settle(lambda: s.maps() <= 1, True, 'no shared mappings, but for the share that is kept')


WAYS = ('1', 'wait_for(s, select.POLLIN)', 'select.select([s], [], [], 10)[0]',
        '(lambda p: (p.register(s, select.EPOLLIN), p.poll(10))[1])(select.epoll())',
        '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLET), p.poll(10))[1])(select.epoll())',
        '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLONESHOT), p.poll(10))[1])(select.epoll())')


def one_way(who):
    """Of two ends the first's direction is TCP, the other's is not."""
    c, s = small()
    t = s.start('len(read_rec(s))')
    c.do('s.sendall(call(1, blob(%d)))' % (70000 if who == 'client' else 100))
    s.result(t)
    s.do('s.sendall(reply(1, blob(%d)))' % (70000 if who == 'server' else 100))
    c.do('read_rec(s)')
    same(hatches(c, s), (1, 0) if who == 'client' else (0, 1))
    return (c, s) if who == 'client' else (s, c)


def become_another(end):
    """exec, and the socket stays open in what that makes."""
    end.do('s.set_inheritable(True)')
    end.start('os.execv("/bin/sleep", ["sleep", "100"])')


def a_process_that_execs():
    """The memory is gone and the socket is not: no message of the peer's can arrive any more, nor of its own."""
    for who in 'client', 'server':
        for tcp in True, False:
            for wait in WAYS:
                a, b = one_way(who)
                a, b = (a, b) if tcp else (b, a)
                t = b.start('(%s, ending(s))[1]' % wait)
                b.asleep()
                become_another(a)
                same(b.result(t), 'ECONNRESET', (who, tcp, wait))
                same(b.do('attempt(s.send, call(1))'), 'EPIPE')
                b.do('s.close()')
                a.kill()
                b.kill()


def a_writer_to_one_that_execs():
    """As to a peer that died: at most one write succeeds."""
    for who in 'client', 'server':
        a, b = one_way(who)
        become_another(a)
        until(lambda: open('/proc/%d/comm' % a.pid).read() == 'sleep\n', 'exec')
        b.do('attempt(s.send, call(1))')
        same(b.do('ending(s)'), 'ECONNRESET', who)
        same(b.do('attempt(s.send, call(1))'), 'EPIPE', who)
        a.kill()
        b.kill()


def what_was_sent_before_it_execs_is_read():
    for who in 'client', 'server':
        a, b = one_way(who)
        a.do('s.sendall(b"".join(call(i, blob(1000, i)) for i in range(30)))')
        become_another(a)
        time.sleep(0.5)
        b.do('n = sum(read_rec(s)[40:] == blob(1000, i) for i in range(30))')
        same((b.do('n'), b.do('ending(s)')), (30, 'ECONNRESET'), who)
        a.kill()
        b.kill()


def so_it_is_before_it_closes():
    """More than the peer's socket has room for: the FIN comes late."""
    for who in 'client', 'server':
        a, b = one_way(who)
        t = a.start('[s.sendall(call(i, blob(100000, i))) for i in range(100)] and s.close()')
        b.do('n = 0')
        b.start('wait_for(s, select.POLLRDHUP)')	# so that it hears of what the provider loses
        while not select.select([a.p.stdout], [], [], 0.02)[0]:
            b.do('n += read_rec(s)[40:] == blob(100000, n)')
        a.result(t)
        n = b.do('n')
        check(n < 90, 'all was read: %d' % n)
        time.sleep(0.3)
        b.do('n += sum(read_rec(s)[40:] == blob(100000, i) for i in range(n, 100))')
        check(b.do('ending(s)') in ('EOF after 0', 'ECONNRESET'), who)
        same(b.do('n'), 100, who)
        a.kill()
        b.kill()


def an_end_dies_with_the_record_half_written():
    c, s = small()
    t = s.start('ending(s)')
    c.do('s.sendall(call(1, blob(200000))[:100000])')
    c.kill()
    check(s.result(t) in ('EOF after 100000', 'ECONNRESET'), 'what TCP has brought, then the end')


main([fn for name, fn in list(globals().items())
      if callable(fn) and getattr(fn, '__module__', '') == '__main__' and fn.__code__.co_argcount == 0 and
      name not in ('small', 'hatches')])
