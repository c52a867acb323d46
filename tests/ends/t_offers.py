# SPDX-License-Identifier: BSD-3-Clause
# Who makes an offer and is never heard of again; who comes late; and what stands between the two ends of a TCP
# connection. What a server can do for its honest clients meanwhile is what it can do without the library.
from ends import *

ELSEWHERE, ABANDONED = 'the two ends see different addresses (a proxy or NAT)', 'the answer was not taken up in time'
LIMIT, SILENT, HONEST = 256, 150, 60
OURS = 3	# descriptors that the library has for the process

LIMITED = '''
import resource
resource.setrlimit(resource.RLIMIT_NOFILE, (%d, %d))
L = listen(backlog=512)
''' % (LIMIT, LIMIT)

MANY = '''
def many(port, n):
    """n connections, on which a call is begun and no more; how many are refused."""
    global all
    all = []
    bad = 0
    for i in range(n):
        s = connect(port)
        s.setblocking(False)
        try:
            s.send(call(i, blob(100)))
        except BlockingIOError:
            pass
        except OSError:
            bad += 1
        all.append(s)
    return bad

def asked(n):
    """How many of those are answered, if they go on now."""
    good = 0
    for i, s in enumerate(all[:n]):
        ask_nb(s, i, blob(100))
        good += 1
    return good
'''


def crowd(shim):
    """A server with few descriptors, and clients that have made an offer each, and stopped."""
    s, c = Agent(shim=shim, upgrade_timeout_ms=1000), Agent(shim=shim)
    s.do(LIMITED)
    s.do('Loop(L)')
    port = s.do('L.getsockname()[1]')
    c.do(MANY)
    base = s.fds()
    s.stop()
    same(c.do('many(%d, %d)' % (port, SILENT)), 0, 'refused')
    c.stop()
    s.p.send_signal(signal.SIGCONT)
    until(lambda: s.fds() >= base + SILENT, 'all are accepted')
    if shim:
        until(lambda: s.stat()['upgrade']['offers_received'] >= SILENT, 'all offers are read')
    return s, c, port, base


def served(port):
    """How many clients without the library get an answer, all connected at once."""
    good, held = 0, []
    for i in range(HONEST):
        x = socket.create_connection(('127.0.0.1', port))
        x.settimeout(SOON * SLOW)
        held.append(x)
        try:
            x.sendall(call(i, blob(50)))
            good += read_rec(x)[24:] == blob(50)
        except (OSError, EOFError):
            break
    return good


def silent_offers_take_nothing_from_other_clients():
    got = []
    for shim in False, True:
        s, c, port, base = crowd(shim)
        got.append(served(port))
        c.kill()
    same(got, [HONEST, HONEST], 'clients served, without the library and with it')


def silent_offers_cost_what_silent_connections_do_when_their_time_is_over():
    s, c, port, base = crowd(True)
    time.sleep(1.1)
    x = socket.create_connection(('127.0.0.1', port))
    until(lambda: s.fds() <= base + SILENT + 1 + OURS, "one for each")
    reasons = s.reasons()
    check(reasons.get(ABANDONED, 0) > 60, reasons)
    x.close()
    c.kill()
    until(lambda: s.fds() <= base + OURS, 'none is left')


def the_server_sleeps_and_nobody_else_comes():
    s, c, port, base = crowd(True)
    until(lambda: s.fds() <= base + SILENT + OURS, 'one for each')
    c.kill()


def those_who_come_late_go_on_by_TCP():
    s, c, port, base = crowd(True)
    until(lambda: s.fds() <= base + SILENT + OURS, 'one for each')
    c.p.send_signal(signal.SIGCONT)
    same(c.do('asked(%d)' % SILENT), SILENT, 'answered')
    same(carried_by(c, s), (0, 0))
    check(c.reasons().get(ABANDONED, 0) > 60, c.reasons())
    check(sum(c.reasons().values()) == SILENT, c.reasons())


def those_who_come_just_in_time_lose_nothing():
    """The server's patience ends at about the time at which the clients go on: each connection works, by whichever."""
    both = [0, 0]
    for wait in 0.5, 0.92, 0.96, 1, 1.04, 1.3:
        s, c = Agent(upgrade_timeout_ms=1000), Agent()
        s.do('L = listen(backlog=512)')
        s.do('Loop(L)')
        c.do(MANY)
        port, base = s.do('L.getsockname()[1]'), s.fds()
        s.stop()
        c.do('many(%d, 40)' % port)
        c.stop()
        s.p.send_signal(signal.SIGCONT)
        until(lambda: s.fds() >= base + 40, 'all are accepted')
        time.sleep(wait)
        c.p.send_signal(signal.SIGCONT)
        same(c.do('asked(40)'), 40, 'answered')
        same(c.carried(), s.carried(), 'carried, at both ends')
        both[0] += c.carried()
        both[1] += 40 - c.carried()
        c.kill()
        s.kill()
    check(all(both) or SLOW > 1, 'carried, not carried: %r' % both)


class Between:
    """A relay that ends connections of which it has heard nothing for so many seconds."""

    def __init__(self, port, limit):
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port, self.to, self.limit, self.cut = self.listener.getsockname()[1], port, limit, 0
        threading.Thread(target=self.take, daemon=True).start()

    def take(self):
        while True:
            c, _ = self.listener.accept()
            threading.Thread(target=self.carry, args=(c, socket.create_connection(('127.0.0.1', self.to))),
                             daemon=True).start()

    def carry(self, a, b):
        try:
            while True:
                ready = select.select([a, b], [], [], self.limit)[0]
                if not ready:
                    self.cut += 1
                for s in ready:
                    got = s.recv(65536)
                    if not got:
                        ready = []
                    (b if s is a else a).sendall(got)
                if not ready:
                    break
        except OSError:
            pass
        a.close()
        b.close()


BUSY = '''
def busy(s, seconds):
    """Calls without a pause; how many."""
    n, end = 0, time.monotonic() + seconds
    while time.monotonic() < end:
        n += 1
        ask(s, n, blob(200))
        time.sleep(0.02)
    return n
'''


def a_relay_is_not_bypassed():
    s, c = Agent(), Agent()
    s.do('L = listen()')
    r = Between(s.do('serve(L)'), 1)
    c.do(BUSY)
    c.do('s = connect(%d)' % r.port)
    check(c.do('busy(s, 3)') > 10, 'calls through the relay')
    same(r.cut, 0, 'connections that the relay found idle')
    for end in c, s:
        same((end.carried(), end.reasons()), (0, {ELSEWHERE: 1}))


def a_relay_is_bypassed_where_the_option_says_so():
    s, c = Agent(bypass_proxies='on'), Agent()
    s.do('L = listen()')
    r = Between(s.do('serve(L)'), 60)
    c.do('s = connect(%d)' % r.port)
    c.do('ask(s, 1, blob(3000))')
    same(carried_by(c, s), (1, 1))


RELAY = '''
def relay(listener, port):
    a, _ = listener.accept()
    b = connect(port)
    def one(x, y):
        while True:
            got = x.recv(65536)
            if not got:
                return y.shutdown(socket.SHUT_WR)
            y.sendall(got)
    threading.Thread(target=one, args=(a, b), daemon=True).start()
    threading.Thread(target=one, args=(b, a), daemon=True).start()
'''


def a_relay_with_the_library_is_two_connections():
    s, c, r = Agent(), Agent(), Agent()
    s.do('L = listen()')
    port = s.do('serve(L)')
    r.do(RELAY)
    r.do('L = listen()')
    t = r.start('relay(L, %d)' % port)
    c.do('s = connect(%d)' % r.do('L.getsockname()[1]'))
    c.do('s.sendall(call(5, blob(3000)))')
    r.result(t)
    same(c.do('read_rec(s)[24:] == blob(3000)'), True)
    same((c.carried(), r.carried(), s.carried()), (1, 2, 1))


def forwarded(to):
    """A port that the kernel translates to another."""
    port = next(ports)
    rules = ('table ip nat { chain out { type nat hook output priority -100 ; ip daddr 127.0.0.1 tcp dport %d '
             'counter dnat to 127.0.0.1:%d ; } ; }' % (port, to))
    try:
        subprocess.run(['nft', rules], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        raise Skipped('no nftables')
    return port


def a_forwarded_port_is_not_bypassed():
    s, c = Agent(), Agent()
    s.do('L = listen()')
    port = forwarded(s.do('serve(L)'))
    c.do('s = connect(%d)' % port)
    c.do('ask(s, 1, blob(3000))')
    for end in c, s:
        same((end.carried(), end.reasons()), (0, {ELSEWHERE: 1}))


def strangers_are_told_no_in_44_bytes():
    """And nothing in it is the same for two servers, or two connections, but that."""
    s = Agent()
    s.do('L = listen()')
    port = s.do('serve(L)')
    offer = offer_bytes()
    for _ in range(2):
        x = socket.create_connection(('127.0.0.1', port))
        x.settimeout(SOON * SLOW)
        x.sendall(offer)
        no = read_rec(x)
        same((len(no), no[4:]), (40, struct.pack('>5I', 1, 0, 0, 0, 0) + b'rdmarpc\n' + struct.pack('>II', 2, 3)))


def asking(offer):
    """The offer, with the field by which rdmarpc-check asks."""
    offer = offer + struct.pack('>HHI', 23, 4, 1)
    return struct.pack('>I', 0x80000000 | len(offer) - 4) + offer[4:]


def refused(port, offer):
    """The fields of the answer that declines it."""
    x = socket.create_connection(('127.0.0.1', port))
    x.settimeout(SOON * SLOW)
    x.sendall(offer)
    no, at, fields = read_rec(x), 40, {}
    same(no[24:40], b'rdmarpc\n' + struct.pack('>II', 2, 3))
    while at < len(no):
        tag, n = struct.unpack_from('>HH', no, at)
        fields[tag] = no[at + 4:at + 4 + n]
        at += 4 + n + -n % 4
    return fields


def who_asks_is_told_the_release_and_why_unless_the_option_is_off():
    offer = offer_bytes()
    s, mute = Agent(), Agent(tell_peer='off')
    for a in s, mute:
        a.do('L = listen()')
    port = s.do('serve(L)')
    told = refused(port, asking(offer))
    same(sorted(told), [1, 6, 7], 'token, release, what is lacking')
    same(told[1], offer[60:76], 'the token of the offer')
    check(told[6].decode() == s.stat()['release'], told)
    same(told[7][0], 1, 'shm')
    same(refused(port, offer), {}, 'who does not ask')
    same(refused(mute.do('serve(L)'), asking(offer)), {}, 'tell_peer is off')


def where_upgrades_are_stopped_strangers_see_the_app_alone():
    s = Agent()
    s.do('L = listen()')
    port = s.do('serve(L)')
    offer = offer_bytes()
    with open(RUN + '/stop', 'w'):
        pass
    for shim in False, True:
        t = Agent(shim=shim)
        t.do('L = listen()')
        x = socket.create_connection(('127.0.0.1', t.do('serve(L)')))
        x.settimeout(SOON * SLOW)
        x.sendall(offer)
        same(read_rec(x)[4:], struct.pack('>5I', 1, 0, 0, 0, 1), 'PROG_UNAVAIL')
        same(t.do('strangers'), 1)


def evidence():
    return {f for f in os.listdir(RUN) if f.startswith('rdmarpc-on-')}


def age(name):
    os.utime(RUN + '/' + name, (1, 1))


def evidence_of_who_was_killed_is_swept():
    """By the next server; that of a living one stays, and what is none of ours."""
    dead, alive = Agent(offer_after='auto'), Agent(offer_after='auto')
    dead.do('L = listen()')
    port = dead.do('L.getsockname()[1]')
    dead_has = evidence()
    same([f.split('-')[2] for f in dead_has], [str(port)], 'a server is seen')
    alive.do('L = listen()')
    alive_has = evidence() - dead_has
    same(len(alive_has), 1, 'and another')
    strange = RUN + '/rdmarpc-on-1-0.0.0.0.save', RUN + '/rdmarpc-on-2-0.0.0.0'
    for name in strange:
        open(name, 'w').close()
    dead.kill()
    for f in evidence():
        age(f)
    third = Agent(offer_after='auto')
    third.do('L = listen()')
    left = evidence()
    same(dead_has & left, set(), 'of who was killed')
    same(alive_has & left, alive_has, 'of who lives')
    for name in strange:
        check(os.path.exists(name), 'a file that is no socket is gone')
        os.unlink(name)
    alive.do('L.close()')
    third.do('L.close()')
    same(evidence(), set(), 'nobody listens')


def evidence_that_is_new_is_left():
    """Its server may be about to bind it."""
    dead = Agent(offer_after='auto')
    dead.do('L = listen()')
    has = evidence()
    dead.kill()
    other = Agent(offer_after='auto')
    other.do('L = listen()')
    check(has and has <= evidence(), 'it is gone within a minute')
    other.do('L.close()')
    for f in has:
        os.unlink(RUN + '/' + f)


for fn in (silent_offers_take_nothing_from_other_clients, the_server_sleeps_and_nobody_else_comes,
           silent_offers_cost_what_silent_connections_do_when_their_time_is_over):
    fn.may_leave_sockets = True	# clients are killed within their offers
del fn

main([fn for name, fn in list(globals().items())
      if callable(fn) and getattr(fn, '__module__', '') == '__main__' and hasattr(fn, '__code__') and
      fn.__code__.co_argcount == 0])
