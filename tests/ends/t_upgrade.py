# SPDX-License-Identifier: BSD-3-Clause
# The upgrade and its failures: an end without the library, a server that is busy, closes or declines,
# every way to fork a server, what is not RPC, address families, namespaces, the negative cache.
from ends import *

NO_SHIM, CACHED, NO_OFFER = 'peer has no shim', 'peer had no shim a moment ago', 'peer made no offer'
LATE, CLOSED = 'peer did not answer the offer in time', 'peer closed on the offer'


def server(**options):
    """An echoing server, and its port."""
    s = Agent(**options)
    s.do('L = listen()')
    return s, s.do('serve(L)')


def uses(c, port, n=3, name='s', ask='ask'):
    """A new connection, used; the calls' bytes came back unaltered."""
    c.do('%s = connect(%d)' % (name, port))
    for i in range(n):
        c.do('%s(%s, %d, blob(%d))' % (ask, name, 10 + i, (20, 70000, 0)[i % 3]))


def stays(end, reason, n=1):
    same((end.carried(), end.reasons()), (0, {reason: n}), 'carried, and why not')


def tells_of_no_offer(s):
    """A server looks on for one as long as few calls have come, so it says so of a connection that has ended."""
    settle(lambda: (s.carried(), s.reasons()), (0, {NO_OFFER: 1}), 'carried, and why not')


def had_no_offer(s, c):
    c.do('s.close()')
    tells_of_no_offer(s)


# --- who has the library ---

def both_have_it():
    s, port = server()
    c = Agent()
    uses(c, port)
    same(carried_by(c, s), (1, 1))


def the_server_does_not():
    s, port = server(shim=False)
    c = Agent()
    uses(c, port)
    stays(c, NO_SHIM)
    same(s.do('strangers'), 1, 'calls that the server did not know')


def the_client_does_not():
    s, port = server()
    c = Agent(shim=False)
    uses(c, port)
    had_no_offer(s, c)


def the_server_is_libtirpcs():
    """Not ours on either end of the byte stream: what labsvc says to an offer, and what labcli does."""
    _, port = labsvc('svcrun', shim=False)
    c = Agent()
    same(labcli(port, 'sizes'), 'sizes ok\n')
    same(labcli(port, 'pipeline', 300), 'pipeline 300 bad 0\n')
    same(carried(), 0, 'carried')


def the_server_has_another_program_number():
    s, port = server(program=0x30000000)
    c = Agent()
    uses(c, port)
    stays(c, NO_SHIM)
    had_no_offer(s, c)


def a_rule_requires_it():
    s, port = server(shim=False)
    c = Agent(mode='require')
    c.do('s = connect(%d)' % port)
    same(c.fails("ask(s, 1)"), 'ECONNREFUSED')
    s, port = server()
    uses(c, port)
    same(c.carried(), 1)


# --- the negative cache ---

def a_server_without_it_is_not_asked_again():
    s, port = server(shim=False)
    c = Agent()
    for i in range(4):
        uses(c, port, name='s%d' % i)
    same(s.do('strangers'), 1, 'calls that the server did not know')
    same(c.reasons(), {NO_SHIM: 1, CACHED: 3})


def another_port_is_asked():
    c = Agent()
    uses(c, server(shim=False)[1])
    uses(c, server()[1])
    same(c.carried(), 1)


def the_cache_can_be_off():
    s, port = server(shim=False)
    c = Agent(negative_cache_s=0)
    for i in range(3):
        uses(c, port, name='s%d' % i)
    same(s.do('strangers'), 3, 'calls that the server did not know')


def the_cache_forgets():
    s, port = server(shim=False)
    c = Agent(negative_cache_s=1)
    uses(c, port)
    time.sleep(1.1)
    uses(c, port, name='s2')
    same(c.reasons(), {NO_SHIM: 2})


def where_there_is_no_device_nothing_is_loaded_for_one():
    if os.path.exists('/dev/infiniband/rdma_cm'):
        raise Skipped('there is one')
    public(BUILD + '/librpcrdma_verbs.so')
    subprocess.run(['ip', 'addr', 'add', '10.98.0.1/32', 'dev', 'lo'], check=True)
    s = Agent()
    port = s.do("serve(listen('0.0.0.0'))")
    c = Agent()
    for host in '127.0.0.1', '10.98.0.1':
        c.do('s = connect(%d, %r)' % (port, host))
        same(c.do('ask(s, 1, blob(10))'), 10)
    for end in c, s:
        with open('/proc/%d/maps' % end.pid) as f:
            text = f.read()
        check('librpcrdma_shim' in text and not any(n in text for n in ('verbs', 'rdmacm')), 'loaded')


SHORT = '''
import resource
def short(s):
    with open('/proc/self/statm') as f:
        now = int(f.read().split()[0]) * 4096
    resource.setrlimit(resource.RLIMIT_AS, (now + (256 << 10),) * 2)
    return s'''


def there_is_no_memory_for_it():
    """Either end says so; and, the other, that it was declined."""
    if SAN:
        raise Skipped('a sanitizer needs memory itself')
    s, port = server()
    c = Agent()
    c.do('L = listen()')	# it has its statistics, which take memory, too
    c.do(SHORT)
    same(c.do('ask(short(connect(%d)), 1, blob(50))' % port), 50)
    stays(c, 'out of memory')
    tells_of_no_offer(s)
    s, c = Agent(), Agent()
    s.do(SHORT)
    s.do('L = listen()')
    t = s.start('echo_one(short(L.accept()[0]))')
    c.do('s = connect(%d)' % s.do('L.getsockname()[1]'))
    same(c.do('ask(s, 1, blob(50))'), 50)
    s.result(t)
    stays(c, 'peer declined')
    stays(s, 'out of memory')


def a_forked_child_knows_what_its_parent_learnt():
    s, port = server(shim=False)
    c = Agent()
    uses(c, port)
    same(c.do('forked("""x = connect(%d); ask(x, 1, b"abcd")""")' % port), 0)
    same(s.do('strangers'), 1, 'calls that the server did not know')


# --- a server that takes its time ---

def the_server_is_busy_for_less_than_the_timeout():
    for ask in 'ask', 'ask_nb':
        c, s = pair(upgrade_timeout_ms=20000)
        c.do('s.setblocking(%s)' % (ask == 'ask'))
        t = c.start('%s(s, 5, blob(3000))' % ask)
        time.sleep(0.4)
        s.do('echo_one(s)')
        c.result(t)
        same(carried_by(c, s), (1, 1), ask)


def gives_up(c):
    """Waits until the client has, and its call has gone by TCP."""
    until(lambda: any(p['pid'] == c.pid and p['tcp_reasons'].get(LATE) for p in stat()), 'it gives up')


def the_server_is_busy_for_longer():
    """The call goes by TCP, and the answer that comes too late is nobody's."""
    for ask in 'ask', 'ask_nb':
        c, s = pair(upgrade_timeout_ms=100)
        c.do('s.setblocking(%s)' % (ask == 'ask'))
        t = c.start('%s(s, 5, blob(3000))' % ask)
        gives_up(c)
        s.do('[echo_one(s)]')
        c.result(t)
        t = s.start('[echo_one(s), echo_one(s)]')
        c.do('%s(s, 6, blob(70000))' % ask)
        c.do('%s(s, 7)' % ask)
        s.result(t)
        stays(c, LATE)
        stays(s, 'provider cannot reach the peer')


def a_late_answer_does_not_count():
    """Neither for readiness nor for FIONREAD, nor in pieces."""
    s, port = server(bypass_proxies='on')
    r = Relay(port)
    c = Agent(upgrade_timeout_ms=100)
    c.do('s = connect(%d)' % r.port)
    t = c.start('ask(s, 5, blob(100))')
    until(lambda: r.held, 'the answer')
    gives_up(c)
    for _ in range(60):
        r.piece(1)
        same(c.do('wait_for(s, select.POLLIN, 0)'), 0, 'readiness')
    same(c.do('inq(s)'), 0, 'FIONREAD')
    r.go()
    c.result(t)
    c.do('ask(s, 6, blob(3000))')
    stays(c, LATE)


def the_answer_comes_in_pieces():
    s, port = server(bypass_proxies='on')
    r = Relay(port)
    c = Agent(upgrade_timeout_ms=20000)
    c.do('s = connect(%d)' % r.port)
    t = c.start('ask(s, 5, blob(100))')
    until(lambda: r.held, 'the answer')
    for n in 1, 2, 3, 5, 10, 17:
        r.piece(n)
        time.sleep(0.01)
    r.go()
    c.result(t)
    same(carried_by(c, s), (1, 1))


def an_answer_from_a_server_without_it_comes_in_pieces():
    s, port = server(shim=False)
    r = Relay(port)
    c = Agent(upgrade_timeout_ms=20000)
    c.do('s = connect(%d)' % r.port)
    t = c.start('ask(s, 5, blob(100))')
    until(lambda: r.held, 'the answer')
    for _ in range(10):
        r.piece(2)
        time.sleep(0.002)
    r.go()
    c.result(t)
    stays(c, NO_SHIM)


def half_an_offer_is_the_apps():
    """A server must not wait for the rest for ever: it may have other connections to serve."""
    offer = offer_bytes()
    s, raw, reads = Agent(), [], []
    s.do('L = listen()')
    for i, n in enumerate((2, 8, 30, len(offer) - 1)):
        t = s.start('s%d, _ = L.accept()' % i)
        raw.append(socket.create_connection(('127.0.0.1', s.do('L.getsockname()[1]'))))
        s.result(t)
        raw[i].sendall(offer[:n])
        reads.append((n, s.start('list(read_n(s%d, %d))' % (i, n))))
    for n, t in reads:
        same(bytes(s.result(t)), offer[:n], 'what the server reads')
    same(s.carried(), 0)


def half_an_offer_is_not_the_apps_at_once():
    offer = offer_bytes()
    s, port = server()
    took = 1
    while took > 0.9:	# else it was, and rightly
        raw = socket.create_connection(('127.0.0.1', port))
        start = time.monotonic()
        for i in range(0, len(offer), 60):
            raw.sendall(offer[i:i + 60])
            time.sleep(0.01)
        took = time.monotonic() - start
    raw.settimeout(SOON * SLOW)
    check(read_rec(raw)[20:24] == bytes(4), 'an offer in pieces was not answered')


# --- a server that closes on the offer ---

CLOSER = '''
def closer(l, how):
    while True:
        s, _ = l.accept()
        def one(s=s):
            try:
                r = read_rec(s)
                if struct.unpack('>I', r[12:16])[0] == OURS:
                    s.sendall(reply(xid_of(r), r[40:]))
                    return echo(s)
                global strangers
                strangers += 1
            except EOFError:
                pass
            if how == 'reset':
                s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
            if how == 'last':
                l.shutdown(socket.SHUT_RD)
            s.close()
        threading.Thread(target=one, daemon=True).start()
'''


def closing_server(how):
    s = Agent(shim=False)
    s.do(CLOSER)
    s.do('L = listen()')
    port = s.do('L.getsockname()[1]')
    s.start('closer(L, %r)' % how)
    return s, port


def the_server_closes_on_the_offer():
    for how in 'close', 'reset':
        for ask in 'ask', 'ask_nb':
            s, port = closing_server(how)
            c = Agent()
            c.do('s = socket.socket()')
            c.do('s.bind(("127.0.0.1", %d))' % next(ports))
            c.do('s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)')
            c.do('s.connect(("127.0.0.1", %d))' % port)
            c.do('s.setblocking(%s)' % (ask == 'ask'))
            c.do('before = s.getsockname()')
            for i in range(3):
                c.do('%s(s, %d, blob(5000))' % (ask, i))
            same(c.do('before == s.getsockname()'), True, 'the same port')
            same(c.do('s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)'), 1, 'options')
            stays(c, CLOSED)
            c.do('t = connect(%d)' % port)
            c.do('ask(t, 9)')
            same(s.do('strangers'), 1, 'offers')


def the_server_closes_on_everything():
    """What the app sees is what it sees without the library."""
    seen = []
    for shim in False, True:
        s = Agent(shim=False)
        s.do('L = listen()')
        port = s.do('L.getsockname()[1]')
        s.start('[L.accept()[0].close() for i in range(9)]')
        c = Agent(shim=shim)
        c.do('s = connect(%d)' % port)
        time.sleep(0.05)
        seen.append(c.do('attempt(ask, s, 1) in ("EOF", "ECONNRESET", "EPIPE")'))
    same(seen, [True, True])


def the_server_closes_and_takes_no_second_connection():
    s, port = closing_server('last')
    c = Agent()
    c.do('s = connect(%d)' % port)
    got = c.do('attempt(ask, s, 1)')
    check(got in ('EOF', 'ECONNRESET', 'EPIPE', 'ECONNREFUSED', 'ENOTCONN'), got)


# --- non-blocking clients ---

def a_non_blocking_write_is_not_taken_before_the_verdict():
    c, s = pair(upgrade_timeout_ms=20000)
    c.do('s.setblocking(False)')
    same(c.fails('s.send(call(1, blob(100)))'), 'EAGAIN')
    for _ in range(3):
        same(c.do('wait_for(s, select.POLLOUT, 0.02)'), 0, 'POLLOUT before the verdict')
        same(c.fails('s.send(call(1, blob(100)))'), 'EAGAIN')
    t = s.start('echo_one(s)')
    same(c.do('wait_for(s, select.POLLOUT)'), select.POLLOUT)
    c.do('ask_nb(s, 1, blob(100))')
    s.result(t)
    same(carried_by(c, s), (1, 1))


def every_way_to_wait_for_the_verdict():
    ways = {
        'poll': 'wait_for(s, select.POLLOUT)',
        'select': 'select.select([], [s], [], 90)[1] == [s]',
        'epoll': '(lambda p: (p.register(s, select.EPOLLOUT), p.poll(90)))(select.epoll())[1] != []',
        'edge': '(lambda p: (p.register(s, select.EPOLLOUT | select.EPOLLET), p.poll(90)))(select.epoll())[1] != []',
    }
    for name, wait in ways.items():
        c, s = pair(upgrade_timeout_ms=20000)
        c.do('s.setblocking(False)')
        same(c.fails('s.send(call(1, blob(100)))'), 'EAGAIN', name)
        w = c.start(wait)
        c.asleep()
        t = s.start('echo_one(s)')
        check(c.result(w), name)
        c.do('ask_nb(s, 1, blob(100))')
        s.result(t)
        same(carried_by(c, s), (1, 1), name)


def a_connect_in_progress():
    for shim in False, True:
        s, port = server()
        c = Agent(shim=shim)
        c.do('s = socket.socket(); s.setblocking(False)')
        same(c.do('s.connect_ex(("127.0.0.1", %d)) in (0, errno.EINPROGRESS)' % port), True)
        same(c.do('wait_for(s, select.POLLOUT)'), select.POLLOUT)
        same(c.do('s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)'), 0)
        c.do('ask_nb(s, 1, blob(70000))')
        same(c.carried(), int(shim))
        c.do('x = socket.socket(); x.setblocking(False)')
        same(c.do('x.connect_ex(("127.0.0.1", 1)) in (errno.ECONNREFUSED, errno.EINPROGRESS)'), True)
        c.do('wait_for(x, select.POLLOUT)')
        check(c.fails('x.send(call(1))') in ('EPIPE', 'ECONNREFUSED'), 'a refused connection')


def the_first_write_is_split():
    """Whatever the first write holds, the stream arrives unaltered."""
    for n, carried in (4, 0), (15, 0), (16, 1), (44, 1), (100, 1), (2000, 1):
        c, s = pair()
        t = s.start('[echo_one(s), echo_one(s)]')
        c.do('m = call(1, blob(1500)) + call(2, blob(300))')
        c.do('(s.send(m[:%d]), s.sendall(m[%d:]))' % (n, n))
        same(c.do('[read_rec(s)[24:], read_rec(s)[24:]] == [blob(1500), blob(300)]'), True, n)
        s.result(t)
        same(carried_by(c, s), (carried, carried), n)


# --- forms of servers ---

def every_way_to_wait_for_an_offer():
    """A server that sleeps when the offer comes is not woken by it for nothing."""
    for wait in ('1', 'wait_for(s, select.POLLIN)', 'select.select([s], [], [])',
                 '(lambda p: (p.register(s, select.EPOLLIN), p.poll()))(select.epoll())',
                 '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLET), p.poll()))(select.epoll())'):
        c, s = pair()
        same(s.do('s.setblocking(False)'), None)
        if wait == '1':
            s.do('s.setblocking(True)')
        t = s.start('(%s, s.recv(44) == call(1, blob(500))[:44], s.setblocking(True))[1]' % wait)
        s.asleep()
        c.do('s.sendall(call(1, blob(500)))')
        same(s.result(t), True, wait)
        same(s.do('read_n(s, 500) == blob(500)'), True, wait)
        same(carried_by(c, s), (1, 1), wait)


def a_server_forks_for_each_connection():
    server_of('fork')


def a_server_becomes_a_daemon():
    server_of('daemon')


def server_of(mode):
    _, port = labsvc(mode)
    for command, want in (('sizes',), 'sizes ok\n'), (('threads', 4), 'threads 4 calls 800 bad 0\n'), \
            (('conns', 8), 'conns 8 bad 0\n'):
        same(labcli(port, *command), want)
    same(carried(), 2 * (1 + 4 + 8), 'carried, both ends')


def workers_share_a_listener():
    s = Agent()
    s.do('L = listen()')
    for _ in range(3):
        s.do('fork_worker("echo_all(L)")')
    port = s.do('L.getsockname()[1]')
    c = Agent()
    for i in range(12):
        uses(c, port, name='s%d' % i)
    same(c.carried(), 12)
    same(carried(), 24, 'carried, both ends')


def a_connection_is_accepted_before_and_used_after_a_fork():
    c, s = pair()
    s.do('fork_worker("echo(s)")')
    s.do('s.close()')
    for i in range(5):
        c.do('ask(s, %d, blob(20000))' % i)
    same(c.carried(), 1)


def a_client_connects_before_and_asks_after_a_fork():
    s, port = server()
    c = Agent()
    c.do('s = connect(%d)' % port)
    same(c.do('forked("""ask(s, 1, blob(9000))""")'), 0)
    same(carried(), 2, 'carried, both ends')


# --- what is not RPC ---

def other_bytes_are_left_alone():
    blobs = (b'GET / HTTP/1.0\r\nHost: a.example\r\n\r\n', b'x', bytes(64), b'\x80\x00\x00\x28' + bytes(200),
             bytes(range(256)) * 300)
    s = Agent()
    s.do('L = listen()')
    port = s.do('L.getsockname()[1]')
    c = Agent()
    uses(c, server()[1], name='rpc')
    for i, b in enumerate(blobs):
        t = s.start('s, _ = L.accept()')
        c.do('s = connect(%d)' % port)
        s.result(t)
        c.do('s.sendall(bytes(%r))' % list(b))
        same(bytes(s.do('list(read_n(s, %d))' % len(b))), b, 'what arrived')
        s.do('s.sendall(b"and back")')
        same(c.do('read_n(s, 8) == b"and back"'), True)
        c.do('ask(rpc, %d, blob(20))' % (100 + i))
        same(s.do('inq(s)'), 0, 'more than what was sent')
    same(c.reasons(), {'not ONC RPC': 4, 'first write too short to judge': 1})
    same(c.carried(), 1)


def a_server_that_speaks_first():
    """Whether the client reads that before it writes or not."""
    for first in True, False:
        c, s = pair()
        s.do('s.sendall(b"220 hello\\r\\n")')
        if first:
            same(c.do('read_n(s, 11) == b"220 hello\\r\\n"'), True)
        c.do('s.sendall(call(1, blob(100)))')
        if not first:
            same(c.do('read_n(s, 11) == b"220 hello\\r\\n"'), True)
        s.do('echo_one(s)')
        same(c.do('read_rec(s)[24:] == blob(100)'), True)
        same(c.reasons(), {'the server spoke first': 1})
        same(s.do('strangers'), 0, 'offers')


def rpc_with_TLS_is_left_alone():
    c, s = pair()
    c.do('s.sendall(rec(struct.pack(">10I", 1, 0, 2, 0x20000001, 1, 0, 7, 0, 0, 0)))')
    same(len(s.do('list(read_rec(s))')), 40)
    same(c.reasons(), {'RPC-with-TLS': 1})


# --- addresses, users, namespaces ---

def families():
    """What the names of both ends are, is what they are without the library."""
    v4, v6 = "'127.0.0.1'", "'::1'"
    for bind, family, to, tofamily in (("''", 'AF_INET', v4, 'AF_INET'), ("'::1'", 'AF_INET6', v6, 'AF_INET6'),
                                       ("'::'", 'AF_INET6', v4, 'AF_INET'), ("'::'", 'AF_INET6', v6, 'AF_INET6'),
                                       ("'::'", 'AF_INET6', "'::ffff:127.0.0.1'", 'AF_INET6')):
        names = []
        for shim in False, True:
            c, s = Agent(shim=shim), Agent(shim=shim)
            s.do('L = listen(%s, family=socket.%s)' % (bind, family))
            t = s.start('s, peer = L.accept()')
            c.do('s = connect(%d, %s, socket.%s)' % (s.do('L.getsockname()[1]'), to, tofamily))
            s.result(t)
            t = s.start('echo_one(s)')
            c.do('ask(s, 1, blob(9000))')
            s.result(t)
            names.append((s.do('s.getpeername()[0]'), s.do('peer[0]'), s.do('s.getsockname()[0]'),
                          c.do('s.getpeername()[0]'), c.do('s.getsockname()[0]')))
            same(carried_by(c, s), (shim, shim), to)
        same(names[1], names[0], 'names')


def users_differ():
    for who in (None, 1000), (1000, None), (1000, 1001):
        c, s = Agent(user=who[0]), Agent(user=who[1])
        s.do('L = listen()')
        uses(c, s.do('serve(L)'))
        same(carried_by(c, s), (1, 1), who)


def no_link():
    subprocess.run(['ip', 'link', 'delete', 'v0'], check=True)


def elsewhere(**options):
    """A server in a network of its own, at 10.9.0.2."""
    s = Agent(prefix=['unshare', '-n'], **options)
    s.do('1')
    for command in ('link add v0 type veth peer name v1 netns %d' % s.pid, 'address add 10.9.0.1/24 dev v0',
                    'link set v0 up'):
        subprocess.run(['ip', *command.split()], check=True)
    for command in 'address add 10.9.0.2/24 dev v1', 'link set v1 up':
        subprocess.run(['nsenter', '-t', str(s.pid), '-n', 'ip', *command.split()], check=True)
    s.do("L = listen('10.9.0.2')")
    return s, s.do('serve(L)')


def networks_differ():
    """There abstract names do not reach: the socket in the run directory does."""
    s, port = elsewhere()
    c = Agent()
    c.do("s = connect(%d, '10.9.0.2')" % port)
    c.do('ask(s, 1, blob(9000))')
    same(carried_by(c, s), (1, 1))
    no_link()


def networks_and_run_directories_differ():
    """The server cannot come to the client, and says so."""
    other = W + '/other'
    os.makedirs(other, exist_ok=True)
    os.chmod(other, 0o1777)
    s, port = elsewhere(run_dir=other)
    c = Agent(verbs='off')
    for i in range(3):
        c.do("s%d = connect(%d, '10.9.0.2')" % (i, port))
        c.do('ask(s%d, 1, blob(9000))' % i)
    why = 'one host without a run directory in common, and no RDMA device'
    same((c.carried(), c.reasons()), (0, {why: 1, CACHED: 2}))
    no_link()


def nobody_waits(**options):
    s, port = elsewhere(offer_after='auto', **options)
    c = Agent(offer_after='auto')
    c.do("s = connect(%d, '10.9.0.2')" % port)
    c.do('[ask(s, i, blob(9000)) for i in range(70)] and 0')
    no_link()
    return c, s


def networks_differ_and_nobody_waits():
    """With offers that ride along: the socket in the run directory shows the server."""
    c, s = nobody_waits()
    same(carried_by(c, s), (1, 1))
    same((c.reasons(), s.reasons()), ({}, {}), 'calls before the offer make no connection on TCP')


def networks_and_run_directories_differ_and_nobody_waits():
    """... and without it nobody is asked."""
    other = W + '/unknown'
    os.makedirs(other, exist_ok=True)
    os.chmod(other, 0o1777)
    c, _ = nobody_waits(run_dir=other)
    stays(c, 'server not asked, since it is not known to have the library')


networks_differ_and_nobody_waits.may_leave_sockets = True


def the_first_upgrade_of_a_process_waits_until_it_pays():
    """Nothing is known of what one costs: the offer goes with the 14th to 48th call. After that, with the second."""
    s, port = server(offer_after='auto')
    c = Agent(offer_after='auto')
    c.do("s = connect(%d)" % port)
    c.do('[ask(s, i, blob(100)) for i in range(13)] and 0')
    same([x['reason'] for x in c.stat()['list']], ['too few calls so far to be worth an upgrade'])
    c.do('[ask(s, i, blob(100)) for i in range(13, 70)] and 0')
    same(carried_by(c, s), (1, 1))
    c.do("t = connect(%d)" % port)
    c.do('[ask(t, i, blob(100)) for i in range(5)] and 0')
    same(carried_by(c, s), (2, 2))


the_first_upgrade_of_a_process_waits_until_it_pays.may_leave_sockets = True


def only_run_directories_differ():
    other = W + '/another'
    os.makedirs(other, exist_ok=True)
    os.chmod(other, 0o1777)
    _, port = server(run_dir=other)
    c = Agent()
    uses(c, port)
    same(c.carried(), 1)


main([fn for name, fn in list(globals().items())
      if callable(fn) and getattr(fn, '__module__', '') == '__main__' and fn.__code__.co_argcount == 0 and
      name not in ('offer_bytes', 'server', 'elsewhere', 'nobody_waits', 'no_link')])
