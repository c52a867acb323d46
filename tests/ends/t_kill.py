# SPDX-License-Identifier: BSD-3-Clause
# kill -9 of either end at each step of a connection's life: the other sees it end, does not hang,
# gives everything back, and its next connection works.
import random

from ends import *

BIG = 1 << 20
GONE = ('ECONNRESET', 'EPIPE', 'EOF')


def ended(what):
    check(isinstance(what, str) and what.startswith(GONE), 'the end of the connection was seen as %r' % (what,))


def works(a, b):
    """A new connection from a to b is carried."""
    before = a.carried()
    port = b.do('L.getsockname()[1]')
    t = b.start('echo(L.accept()[0])')
    a.do('n = connect(%d)' % port)
    same(a.do('ask(n, 99, blob(5000))'), 5000)
    a.do('n.close()')
    check(b.result(t).startswith('EOF'), 'end of the next connection')
    same(a.carried(), before + 1, 'the next connection is carried')


def survivor_client(c, before):
    c.do('s.close()')
    c.settles(before, 'client')
    other = Agent()
    other.do('L = listen()')
    works(c, other)


def survivor_server(s, before):
    s.do('s.close()')
    s.settles(before, 'server')
    works(Agent(), s)


def opened():
    """A connection, and what each end held before it."""
    c, s = Agent(upgrade_timeout_ms=20000), Agent()
    s.do('L = listen()')
    # statistics, and one descriptor for all epoll sets, are there from the first time on
    t = s.start('x = L.accept()[0]; echo_one(x)')
    c.do('x = connect(%d)' % s.do('L.getsockname()[1]'))
    c.do('ask(x, 1)')
    s.result(t)
    for end in c, s:
        end.do('p = select.epoll(); p.register(x); p.poll(0); p.close(); x.close()')
    before = c.holds(), s.holds()
    t = s.start('s, _ = L.accept()')
    c.do('s = connect(%d)' % s.do('L.getsockname()[1]'))
    s.result(t)
    return c, s, *before


def opened_and_carried():
    c, s, cb, sb = opened()
    t = s.start('echo_one(s)')
    c.do('ask(s, 2)')
    s.result(t)
    return c, s, cb, sb


# --- the upgrade ---

def client_dies_before_the_offer():
    c, s, _, before = opened()
    c.kill()
    ended(s.do('ending(s)'))
    survivor_server(s, before)


def server_dies_before_the_offer():
    c, s, before, _ = opened()
    s.kill()
    ended(c.do('attempt(ask, s, 3)'))
    survivor_client(c, before)


def unread():
    """Bytes that the kernel holds for any TCP connection here."""
    with open('/proc/net/tcp') as f:
        return sum(int(line.split()[4].split(':')[1], 16) for line in f.readlines()[1:]
                   if line.split()[3] != '0A')


def offered():
    """The client waits for an answer that the server is too busy to give."""
    c, s, cb, sb = opened()
    t = c.start('attempt(ask, s, 3)')
    until(unread, 'the offer')
    return c, s, cb, sb, t


def swept(s):
    """The rendezvous of one that was killed within the handshake goes when it is old."""
    for n in os.listdir(RUN):
        if n.startswith('rdmarpc-'):
            os.utime(RUN + '/' + n, (1, 1))
    works(Agent(), s)
    same([n for n in os.listdir(RUN) if n.startswith('rdmarpc-')], [], 'sockets in the run directory')


def client_dies_after_the_offer():
    c, s, _, before, _ = offered()
    c.kill()
    ended(s.do('ending(s)'))
    s.do('s.close()')
    s.settles(before)
    swept(s)


def server_dies_after_the_offer():
    c, s, before, _, t = offered()
    s.kill()
    ended(c.result(t))
    survivor_client(c, before)


def answered():
    """The server has answered; the client has not looked."""
    c, s, cb, sb, t = offered()
    c.stop()
    s.do('select.select([s], [], [], 0)')
    until(unread, 'the answer')
    return c, s, cb, sb, t


def client_dies_after_the_answer():
    c, s, _, before, _ = answered()
    c.kill()
    ended(s.do('ending(s)'))
    s.do('s.close()')
    s.settles(before)
    swept(s)


def server_dies_after_the_answer():
    c, s, before, _, t = answered()
    s.kill()
    c.kill(signal.SIGCONT)
    ended(c.result(t))
    survivor_client(c, before)


def joined():
    """The client has joined and sent; the server has not looked."""
    c, s, cb, sb, t = answered()
    s.stop()
    c.kill(signal.SIGCONT)
    until(c.carried, 'the connection is carried')
    return c, s, cb, sb, t


def client_dies_while_joining():
    c, s, _, before, _ = joined()
    c.kill()
    s.kill(signal.SIGCONT)
    ended(s.do('echo(s)'))
    survivor_server(s, before)


def server_dies_while_joining():
    c, s, before, _, t = joined()
    s.kill()
    ended(c.result(t))
    survivor_client(c, before)


# --- carried ---

WAYS = {
    'read': 'ending(s)',
    'poll': '(lambda p: (p.register(s, select.POLLIN), p.poll(), ending(s)))(select.poll())[2]',
    'select': '(select.select([s], [], []), ending(s))[1]',
    'epoll': '(lambda p: (p.register(s, select.EPOLLIN), p.poll(), p.close(), ending(s)))(select.epoll())[3]',
    'timeout': '(s.settimeout(60), ending(s))[1]',
}


def either_dies(step=lambda victim, other: None, see='ending(s)', judge=ended):
    for who in 'client', 'server':
        c, s, cb, sb = opened_and_carried()
        victim, other = (c, s) if who == 'client' else (s, c)
        step(victim, other)
        t = other.start(see)
        time.sleep(0.02)
        victim.kill()
        judge(other.result(t))
        if who == 'client':
            survivor_server(s, sb)
        else:
            survivor_client(c, cb)


def an_end_dies_while_the_other_sleeps():
    for see in WAYS.values():
        either_dies(see=see)


def an_end_dies_before_the_other_looks():
    def idle(victim, _):
        victim.kill()
    either_dies(step=idle)


def an_end_dies_within_a_record():
    """No more is delivered than was written, as by TCP: what could be read before the end of the record, or nothing."""
    def half(victim, _):
        victim.do('s.sendall(call(5, blob(%d))[:%d])' % (BIG, BIG // 2))

    def no_more(end):
        ended(end)
        check(end == 'ECONNRESET' or 0 <= int(end.removeprefix('EOF after ')) <= BIG // 2, end)
    either_dies(half, 'ending(s, call(5, blob(%d)))' % BIG, no_more)


def an_end_dies_with_a_call_that_was_not_pulled():
    """What write() has taken outlives the writer; a call goes from either end."""
    def expose(victim, _):
        victim.do('s.sendall(call(5, blob(%d, 1)))' % BIG)
        victim.kill()

    def whole(end):
        same(end, [True, 'EOF after 0'], 'the call, then the end')
    either_dies(expose, '[read_rec(s)[40:] == blob(%d, 1), ending(s)]' % BIG, whole)


def a_message_and_its_senders_death_are_seen_together():
    """By one that slept meanwhile: the message is whole all the same."""
    for size in 100, BIG:
        def expose(victim, other):
            t = other.start('select.select([s], [], [])')
            other.asleep()
            other.stop()
            victim.do('s.sendall(call(5, blob(%d, 1)))' % size)
            victim.kill()
            other.kill(signal.SIGCONT)
            other.result(t)

        def whole(end):
            same(end, [True, 'EOF after 0'], 'the call, then the end')
        either_dies(expose, '[read_rec(s)[40:] == blob(%d, 1), ending(s)]' % size, whole)


def an_end_dies_with_a_reply_that_was_not_pulled():
    def expose(victim, other):
        other.do('s.sendall(call(9))')
        victim.do('read_rec(s)')
        victim.do('s.sendall(reply(9, blob(%d, 2)))' % BIG)
        victim.kill()

    def whole(end):
        same(end, [True, 'EOF after 0'], 'the reply, then the end')
    either_dies(expose, '[read_rec(s)[24:] == blob(%d, 2), ending(s)]' % BIG, whole)


def an_end_dies_that_should_have_pulled():
    """The survivor's exposed memory comes back with the connection."""
    def expose(victim, other):
        other.do('s.sendall(call(5, blob(%d)))' % BIG)
    either_dies(expose)


def an_end_dies_while_the_other_is_blocked_in_write():
    """Nobody reads: the writer sleeps for room when its peer dies."""
    more = '''[s.sendall(call(i, blob(200000))) for i in range(1000)]'''
    for who in 'client', 'server':
        c, s, cb, sb = opened_and_carried()
        victim, other = (c, s) if who == 'client' else (s, c)
        t = other.start(more)
        time.sleep(0.2)
        victim.kill()
        ended(other.wait(t)[1])
        (survivor_server if who == 'client' else survivor_client)(other, sb if who == 'client' else cb)


def an_end_dies_while_its_message_is_pulled():
    """It was written, so it arrives: the rest is read when the writer is gone."""
    for who, head, msg in ('client', 40, 'call(5, %s)'), ('server', 24, 'reply(5, %s)'):
        c, s, cb, sb = opened_and_carried()
        victim, other = (c, s) if who == 'client' else (s, c)
        if who == 'server':
            other.do('s.sendall(call(5))')
            victim.do('read_rec(s)')
        victim.do('s.sendall(%s)' % (msg % 'blob(%d, 3)' % BIG))
        other.do('half = read_n(s, %d)' % (BIG // 2))
        victim.kill()
        time.sleep(0.02)
        same(other.do('[(half + read_n(s, %d + 4 - %d))[%d:] == blob(%d, 3), ending(s)]' %
                      (BIG + head, BIG // 2, head + 4, BIG)), [True, 'EOF after 0'], 'the rest, then the end')
        (survivor_server if who == 'client' else survivor_client)(other, sb if who == 'client' else cb)


def a_client_dies_while_its_call_is_executed():
    """The reply is taken, as by a TCP that has yet to hear of the reset: whoever does not ignore
    SIGPIPE lives by that. Also when call and death are seen together."""
    for shim in False, True:
        for together in False, True:
            c, s = pair(shim=shim)
            s.do('sigpipe()')
            t = s.start('echo_one(s)')
            c.do('ask(s, 2)')
            s.result(t)
            t = s.start('select.select([s], [], []), read_rec(s)')
            s.asleep()
            if together:
                s.stop()
            c.do('s.sendall(call(5))')
            if not together:
                s.result(t)
            c.kill()
            if together:
                s.kill(signal.SIGCONT)
                s.result(t)
            same(s.do('s.send(reply(5, blob(100)))'), 128, 'the reply to a client that is gone')
            ended(s.do('ending(s)'))


def the_server_dies_while_it_executes():
    c, s, before, _ = opened_and_carried()
    t = c.start('attempt(ask, s, 3)')
    s.do('read_rec(s)')
    s.kill()
    ended(c.result(t))
    survivor_client(c, before)


# --- at random, under load ---

ROUNDS = int(os.environ.get('ROUNDS', 1))
LOADS = (('threads', 4), ('pipeline', 400), ('big', 3000000), ('batch', 20000), ('sizes',))


def holds(pid):
    with open('/proc/%d/maps' % pid) as f:
        return len(os.listdir('/proc/%d/fd' % pid)), f.read().count(' rw-s ')


def closed_and_holds(pid, port):
    """When it has closed all connections to that port."""
    def connected():
        with open('/proc/net/tcp') as f:
            return any(line.split()[1].endswith(':%04X' % port) and line.split()[3] not in ('0A', '06')
                       for line in f.readlines()[1:])
    until(lambda: not connected(), 'the last connection is closed')
    return lasting(lambda: holds(pid))


def kill_clients(loads, rounds, **how):
    rng = random.Random(4)
    server, port = labsvc('svcrun', **how)
    same(labcli(port, 'null', 5), 'null ok 5\n')
    before = closed_and_holds(server.pid, port)
    for i in range(rounds * ROUNDS):
        p = program('labcli', '127.0.0.1', port, *rng.choice(loads))
        time.sleep(rng.random() * 0.06 * SLOW)
        p.kill()
        p.wait()
        check(server.poll() is None, 'round %d, %s: the server died: %r' % (i, p.args[3:], server.poll()))
    same(labcli(port, 'sizes'), 'sizes ok\n')
    fds, maps = before
    kept = [(fds, maps + 2 * n) for n in range(-REGIONS, REGIONS + 1)]
    settle(lambda: before if holds(server.pid) in kept else holds(server.pid), before, "the server's descriptors and mappings")
    dead = [n for n in os.listdir(RUN) if not n.startswith('rdmarpc-')]
    check(len(dead) <= 80, 'segments of the dead: %d' % len(dead))


def clients_die_at_random():
    kill_clients(LOADS, 100)


def clients_of_a_server_that_does_not_ignore_SIGPIPE_die_at_random():
    """A reply in one write never kills a server on TCP."""
    kill_clients((('threads', 4),), 60, sigpipe=True)


def servers_die_at_random():
    """A child per connection is killed while its client is at it: the client ends, with an error."""
    rng = random.Random(5)
    server, port = labsvc('fork')
    for i in range(20 * ROUNDS):
        p = program('labcli', '127.0.0.1', port, *rng.choice(LOADS))
        end = time.monotonic() + SOON * SLOW
        while p.poll() is None:
            time.sleep(rng.random() * 0.06 * SLOW)
            for child in children(server.pid):
                try:
                    os.kill(child, signal.SIGKILL)
                except ProcessLookupError:
                    pass	# it has just ended
            check(time.monotonic() < end, 'round %d: %s hangs' % (i, ' '.join(p.args[3:])))
    same(labcli(port, 'sizes'), 'sizes ok\n')


def children(pid):
    with open('/proc/%d/task/%d/children' % (pid, pid)) as f:
        return [int(x) for x in f.read().split()]


for fn in (client_dies_after_the_offer, client_dies_after_the_answer, client_dies_while_joining,
           clients_die_at_random, servers_die_at_random, clients_of_a_server_that_does_not_ignore_SIGPIPE_die_at_random):
    fn.may_leave_sockets = True
main([
    client_dies_before_the_offer, server_dies_before_the_offer, client_dies_after_the_offer,
    server_dies_after_the_offer, client_dies_after_the_answer, server_dies_after_the_answer,
    client_dies_while_joining, server_dies_while_joining, an_end_dies_while_the_other_sleeps,
    an_end_dies_before_the_other_looks, an_end_dies_within_a_record,
    an_end_dies_with_a_call_that_was_not_pulled, an_end_dies_with_a_reply_that_was_not_pulled,
    a_message_and_its_senders_death_are_seen_together,
    an_end_dies_that_should_have_pulled, an_end_dies_while_its_message_is_pulled,
    a_client_dies_while_its_call_is_executed, the_server_dies_while_it_executes,
    an_end_dies_while_the_other_is_blocked_in_write, clients_die_at_random,
    clients_of_a_server_that_does_not_ignore_SIGPIPE_die_at_random, servers_die_at_random,
])
