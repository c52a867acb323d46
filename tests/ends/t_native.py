# SPDX-License-Identifier: BSD-3-Clause
# Native peers: no offer, no TCP between. By a library for tests whose one provider is shm with a rendezvous
# like RDMA CM's (tests/native/loop.c), so that RDMA port N is something that anybody can look at:
# an AF_UNIX socket of that name.
import ends
from ends import *

ends.SHIM = public(BUILD + '/tests/native/librpcrdma_shim.so')
if os.environ.get("NATIVE_LOG"):
    os.environ.update(RDMARPC_LOG_FILE=os.environ["NATIVE_LOG"], RDMARPC_LOG_LEVEL="debug")

TCP, RDMA = 3049, 3050
SERVER = 'role=server port=%d native=%d' % (TCP, RDMA)
CLIENT = 'role=client port=%d native=%d' % (TCP, RDMA)
REQUIRE = CLIENT + ' mode=require'


def server(rules=SERVER, listen='listen(port=%d)' % TCP, **options):
    s = Agent(rules=rules, **options)
    s.do('L = ' + listen)
    return s


def client(rules=REQUIRE, **options):
    return Agent(rules=rules, **options)


def port_open():
    """Who listens there: an inode."""
    with open('/proc/net/unix') as f:
        sockets = [line.split() for line in f]
    return next((s[6] for s in sockets if s[-1] == '@rdmarpc-test-%d' % RDMA and s[3] == '00010000'), None)


def native(end):
    """Its connections that native peers have."""
    return sum(c['state'] == 'native' for c in end.stat()['list'])


def listener(end):
    """What it says of its listeners: (state, reason)."""
    return [(c['state'], c['reason']) for c in end.stat()['list'] if c['local'].endswith(':%d' % TCP) and not c['peer']]


def pair_of(s, c):
    """Connected: in both, the connection is s."""
    a = s.start('s, peer = L.accept()')
    until(port_open, 'the RDMA port')
    c.do('s = connect(%d)' % TCP)
    s.result(a)


def both(**options):
    s, c = server(**options), client(**options)
    pair_of(s, c)
    return s, c


def both_of(server_rules, client_rules):
    s, c = server(rules=server_rules), client(rules=client_rules)
    pair_of(s, c)
    return s, c


def met(**options):
    """The client has its credits."""
    s, c = both(**options)
    a = s.start('echo_one(s)')
    same(c.do('ask(s, 1)'), 0)
    s.result(a)
    return s, c


def uses(s, c):
    a = s.start('echo(s)')
    for i, n in enumerate((0, 20, 900, 5000, 70000, 200000)):
        # a procedure each: how large its replies are is learned
        same(c.do('ask(s, %d, blob(%d), proc=%d)' % (10 + i, n, 1 + i)), n)
    return a


# --- calls ---

def calls_of_all_sizes_come_in_and_are_answered():
    s, c = both()
    a = uses(s, c)
    same((native(s), native(c)), (1, 1), 'native')
    c.do('s.close()')
    same(s.result(a), 'EOF after 0 of 4 bytes')


def spoken(end):
    """What its connections with native peers speak: (dialect, version)."""
    return [(c['dialect'], c['version']) for c in end.stat()['list'] if c['state'] == 'native']


def the_rule_says_what_is_spoken():
    for dialect, version in (('v1', 1), ('v2', 2), ('draft02', 1), ('slides', 1)):
        s = server(rules=SERVER + ' dialect=' + dialect)
        c = client(rules=REQUIRE + ' dialect=' + dialect)
        pair_of(s, c)
        uses(s, c)
        same((spoken(s), spoken(c)), ([(dialect, version)], [(dialect, version)]), dialect)
        same(c.stat()['errors']['discarded'], 0, dialect)
        c.do('s.close()')
        s.kill(), c.kill()


def version_2_falls_back_to_a_peer_of_version_1():
    s, c = both_of(SERVER, REQUIRE + ' dialect=v2')
    uses(s, c)
    same((spoken(s), spoken(c)), ([('v1', 1)], [('v2', 1)]))


def a_server_of_version_2_takes_a_client_of_version_1():
    s, c = both_of(SERVER + ' dialect=v2', REQUIRE)
    uses(s, c)
    same((spoken(s), spoken(c)), ([('v2', 1)], [('v1', 1)]))


def plain_tcp_comes_in_beside_it():
    s, c, t = server(), client(), Agent(shim=False)
    s.do('serve(L)')
    until(port_open, 'the RDMA port')
    for i in range(5):
        t.do('s = connect(%d)' % TCP)
        c.do('s = connect(%d)' % TCP)
        same(t.do('ask(s, 1, blob(300))'), 300)
        same(c.do('ask(s, 1, blob(300))'), 300)
    t.do('s.close()')
    settle(lambda: (native(c), s.stat()['connections']['tcp']), (1, 5), 'carried by RDMA, and on TCP')


def so_do_upgrades():
    s, c = server(), Agent()
    s.do('serve(L)')
    c.do('s = connect(%d)' % TCP)
    same(c.do('ask(s, 1, blob(300))'), 300)
    same((native(c), c.stat()['connections']['verbs']), (0, 1))


def an_upgrade_that_did_not_come_about_is_not_tried_again_soon():
    s, c = server(test_no_route=1), Agent(test_no_route=1, upgrade_timeout_ms=3000)
    s.do('serve(L)')
    for i in range(3):
        c.do('s = connect(%d)' % TCP)
        same(c.do('ask(s, 1, blob(300))'), 300)
    same(c.stat()['upgrade']['offers_sent'], 1)
    same(c.reasons(), {'peer did not answer the offer in time': 1, 'provider cannot reach the peer': 2})


# --- how servers wait ---

def a_blocking_accept_sees_both():
    s, c, t = server(), client(), Agent(shim=False)
    for end in (c, t, c, t):
        a = s.start('s, _ = L.accept()')
        until(port_open, 'the RDMA port')
        end.do('s = connect(%d)' % TCP)
        s.result(a)
        a = s.start('echo_one(s)')
        same(end.do('ask(s, 1, blob(300))'), 300)
        s.result(a)


def poll_sees_it():
    s, c = server(), client()
    a = s.start('wait_for(L, select.POLLIN)')
    until(port_open, 'the RDMA port')
    t = c.start('s = connect(%d)' % TCP)
    same(s.result(a), 1)
    s.do('s, _ = L.accept()')
    c.result(t)
    uses(s, c)


def select_sees_it():
    s, c = server(), client()
    a = s.start('len(select.select([L], [], [], 90)[0])')
    until(port_open, 'the RDMA port')
    t = c.start('s = connect(%d)' % TCP)
    same(s.result(a), 1)
    s.do('s, _ = L.accept()')
    c.result(t)
    uses(s, c)


EPOLL = '''
def epoll(flags):
    global P
    P = select.epoll()
    P.register(L, select.EPOLLIN | flags)
def event(timeout=90):
    return [e for fd, e in P.poll(timeout) if fd == L.fileno()]
def quiet(timeout):
    import resource
    woke = lambda: resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    before = woke()
    return event(timeout), woke() - before
'''


def epoll_sees_it(flags='0'):
    s, c = server(), client()
    s.do(EPOLL)
    s.do('epoll(%s)' % flags)
    a = s.start('event()')
    until(port_open, 'the RDMA port')
    t = c.start('s = connect(%d)' % TCP)
    same(s.result(a), [1])
    s.do('s, _ = L.accept()')
    c.result(t)
    uses(s, c)
    return s, c


def so_does_an_edge():
    s, c = epoll_sees_it('select.EPOLLET')
    s.do('L.setblocking(False)')
    same(s.fails('L.accept()'), 'EAGAIN')
    same(s.do('event(0.1)'), [])
    c.start('t = connect(%d)' % TCP)
    same(s.do('event()'), [1])
    same(s.do('event(0.1)'), [], 'no second edge')


def so_does_a_oneshot_once():
    s, c = epoll_sees_it('select.EPOLLONESHOT')
    c.start('t = connect(%d)' % TCP)
    same(s.do('event(0.2)'), [])
    s.do('P.modify(L, select.EPOLLIN | select.EPOLLONESHOT)')
    same(s.do('event()'), [1])
    s.do('t, _ = L.accept()')
    c.start('u = connect(%d)' % TCP)
    events, woke = s.do('quiet(0.5)')
    same(events, [])
    check(woke < 50, 'it sleeps while nobody wants to know')


def a_loop_of_edges_serves_it():
    s, c, t = server(), client(), Agent(shim=False)
    s.do('S = Loop(L)')
    until(port_open, 'the RDMA port')
    for end in (c, t):
        end.do('s = connect(%d)' % TCP)
        for n in (10, 5000, 200000):
            same(end.do('ask(s, 1, blob(%d), proc=%d)' % (n, n)), n)
    same(native(s), 1)


def many_threads_in_accept_get_one_each():
    s, c, t = server(), client(), Agent(shim=False)
    s.do('got = []')
    s.do('''
def one():
    while True:
        s, _ = L.accept()
        got.append(1)
        echo(s)
for _ in range(4):
    threading.Thread(target=one, daemon=True).start()
''')
    until(port_open, 'the RDMA port')
    for i in range(8):
        for end in (t, c):
            end.do('s = connect(%d)' % TCP)
            same(end.do('ask(s, 1, blob(300))'), 300)
            end.do('s.close()')
    same(s.do('len(got)'), 16)


def a_listener_that_does_not_block_has_none_at_times():
    s, c = server(), client()
    s.do('L.setblocking(False)')
    same(s.fails('L.accept()'), 'EAGAIN')
    until(port_open, 'the RDMA port')
    t = c.start('s = connect(%d)' % TCP)
    same(s.do('wait_for(L, select.POLLIN)'), 1)
    s.do('s, _ = L.accept()')
    c.result(t)
    same(s.fails('L.accept()'), 'EAGAIN')
    same(s.do('s.getblocking()'), True)
    s.do('s.setblocking(True)')
    uses(s, c)


def accept_times_out():
    s = server()
    s.do("L.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('qq', 0, 100000))")
    same(s.fails('L.accept()'), 'EAGAIN')


# --- the descriptor ---

def it_has_the_peers_names_and_the_listeners_port():
    s, c = both()
    a = s.start('echo(s)')
    c.do('ask(s, 1)')
    same(s.do('peer'), ['127.0.0.1', 700])
    same(s.do('s.getpeername()'), ['127.0.0.1', 700])
    same(s.do('s.getsockname()'), ['127.0.0.1', TCP])
    same(c.do('s.getpeername()'), ['127.0.0.1', TCP])
    same(c.do('s.getsockname()[0]'), '127.0.0.1')
    shown = [x for x in s.stat()['list'] if x['state'] == 'native'][0]
    same((shown['peer'], shown['local'], shown['carrier']), ('127.0.0.1:700', '127.0.0.1:%d' % TCP, 'verbs'))


def it_is_a_tcp_socket():
    s, c = both()
    same(s.do('s.getsockopt(socket.SOL_SOCKET, socket.SO_TYPE)'), 1)
    same(s.do('s.getsockopt(socket.SOL_SOCKET, socket.SO_PROTOCOL)'), 6)
    same(s.do('s.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN)'), 0)
    for end in (s, c):
        end.do('s.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)')
        same(end.do('s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)'), 1)
        same(end.do('s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)'), 0)
    uses(s, c)


def it_has_options_of_its_listener():
    s, c = server(), client()
    s.do('L.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)')
    s.do("L.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, struct.pack('qq', 7, 0))")
    pair_of(s, c)
    same(s.do('s.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)'), 1)
    same(s.do("struct.unpack('qq', s.getsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, 16))"), [7, 0])
    same(s.do('s.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)'), 0)


def it_has_the_lowest_number():
    s, c = server(), client()
    a = s.start('s, _ = L.accept()')
    until(port_open, 'the RDMA port')
    s.do('n = os.dup(0)')
    s.do('os.close(n)')
    c.do('s = connect(%d)' % TCP)
    s.result(a)
    same(s.do('s.fileno() - n'), 0)


def a_listener_of_ipv6_has_mapped_names():
    s, c = server(listen="listen('::', port=%d, family=socket.AF_INET6)" % TCP), client()
    pair_of(s, c)
    same(s.do('peer[:2]'), ['::ffff:127.0.0.1', 700])
    same(s.do('s.getsockname()[:2]'), ['::ffff:127.0.0.1', TCP])
    uses(s, c)


def ipv6_goes_by_its_own_addresses():
    s, c = server(listen="listen('::', port=%d, family=socket.AF_INET6)" % TCP), client()
    a = s.start('s, peer = L.accept()')
    until(port_open, 'the RDMA port')
    c.do("s = connect(%d, '::1', socket.AF_INET6)" % TCP)
    s.result(a)
    same(s.do('peer[:2]'), ['::1', 700])
    same(c.do('s.getpeername()[:2]'), ['::1', TCP])
    uses(s, c)


def a_port_of_ipv4_and_one_of_ipv6_only_are_two():
    s, c = server(listen="listen('0.0.0.0', port=%d)" % TCP), client()
    s.do('M = socket.socket(socket.AF_INET6)')
    s.do('M.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)')
    s.do("M.bind(('::', %d)); M.listen()" % TCP)
    for which, to in (('L', "'127.0.0.1'"), ('M', "'::1', socket.AF_INET6")):
        a = s.start('s, peer = %s.accept()' % which)
        until(lambda: listener(s).count(('listening', '')) == (1 if which == 'L' else 2), 'the RDMA port')
        c.do('s = connect(%d, %s)' % (TCP, to))
        s.result(a)
        a = s.start('echo_one(s)')
        same(c.do('ask(s, 1, blob(300))'), 300)
        s.result(a)
        same((native(s), native(c)), (1, 1), 'native')


def a_dup_is_the_same_connection():
    s, c = both()
    s.do('t = s.dup()')
    s.do('s.close()')
    s.do('s = t')
    uses(s, c)


# --- the end ---

def a_close_is_the_peers_eof():
    for mine, other in ((0, 1), (1, 0)):
        ends_ = both()
        ends_[mine].do('s.close()')
        same(ends_[other].do('ending(s)'), 'EOF after 0')
        ends_[other].do('s.close()')
        ends_[0].do('L.close()')
        until(lambda: not port_open(), 'the RDMA port is shut')


def what_was_sent_before_the_close_is_read_first():
    s, c = both()
    c.do('s.sendall(call(1))')
    s.do("r = read_rec(s)")
    s.do("s.sendall(reply(1, b'x' * 100))")
    s.do('s.close()')
    same(c.do('len(read_rec(s))'), 124)
    same(c.do('ending(s)'), 'EOF after 0')


def closing_with_unread_bytes_says_nothing_that_a_native_peer_would_not_understand():
    s, c = both()
    c.do('s.sendall(call(1))')
    s.do('r = read_rec(s)')
    s.do("s.sendall(reply(1, b'x' * 100))")
    c.do('s.close()')   # tests/native/loop.c aborts where a note of ours is sent
    check(s.do('ending(s)') in ('EOF after 0', 'ECONNRESET'), 'it ends')
    same(c.do('1 + 1'), 2)


def writing_to_who_has_closed_fails_as_on_tcp():
    s, c = both()
    c.do('s.close()')
    same(s.do('ending(s)'), 'EOF after 0')
    same(s.do('s.send(reply(1))'), 28)
    same(s.fails('s.send(reply(1))'), 'EPIPE')


def a_sleeper_wakes_when_the_peer_is_killed():
    s, c = both()
    a = s.start('ending(s)')
    c.kill()
    check(s.result(a) in ('EOF after 0', 'ECONNRESET'), 'it ends')


def a_record_that_is_too_long_resets_it():
    s, c = both()
    a = s.start('ending(s)')
    same(c.fails('s.sendall(call(1, bytes(9 << 20)))'), 'ECONNRESET')
    check('record above the size limit' in [x['reason'] for x in c.stat()['list']], c.stat()['list'])
    c.do('s.close()')
    s.result(a)


def nothing_is_left_of_many():
    s, c = server(), client()
    s.do('serve(L)')
    until(port_open, 'the RDMA port')
    c.do('s = connect(%d)' % TCP)
    c.do('ask(s, 1)')
    c.do('s.close()')
    until(lambda: native(s) == 0, 'the server has closed it')
    before = lasting(s.holds), c.holds()
    for _ in range(20):
        c.do('s = connect(%d)' % TCP)
        c.do('ask(s, 1, blob(5000), proc=1)')
        c.do('s.close()')
    s.settles(before[0])
    c.settles(before[1])


# --- the listener ---

def it_is_shut_with_the_app_s():
    s = server()
    s.do('L.setblocking(False)')
    s.fails('L.accept()')
    until(port_open, 'the RDMA port')
    same(listener(s), [('listening', '')])
    s.do('L.close()')
    until(lambda: not port_open(), 'the RDMA port is shut')


def without_a_device_tcp_goes_on(options={'test_no_device': 1}, why='no RDMA device, or no permission to use it'):
    s = server(**options)
    s.do('serve(L)')
    until(lambda: listener(s) == [('tcp', why)], 'the reason')
    check(not port_open() or not options, 'a port')
    t = Agent(shim=False)
    t.do('s = connect(%d)' % TCP)
    same(t.do('ask(s, 1, blob(300))'), 300)
    return s


def the_port_of_another_process_is_had_when_that_ends():
    other = server(listen='listen(port=%d)' % TCP)
    other.do('L.setblocking(False)')
    other.fails('L.accept()')
    until(port_open, 'the RDMA port')
    s = Agent(rules='role=server port=%d native=%d' % (TCP + 10, RDMA))
    s.do('L = listen(port=%d)' % (TCP + 10))
    s.do('serve(L)')
    until(lambda: 'another process has the RDMA port' in [x['reason'] for x in s.stat()['list']], 'the reason')
    other.kill()
    until(port_open, 'the RDMA port')


def who_sleeps_when_the_device_goes_listens_again(serving='serve(L)'):
    """Nobody tells it that there is another, and no TCP connection wakes it."""
    s, c = server(), client()
    s.do(EPOLL)
    for line in serving.splitlines():
        s.do(line)
    until(port_open, 'the RDMA port')
    before = port_open()
    u = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    u.connect('\0rdmarpc-test-%d' % RDMA)
    u.send(b'x')
    until(lambda: port_open() not in (None, before), 'the RDMA port')
    same(listener(s), [('listening', '')])
    c.do('s = connect(%d)' % TCP)
    same(c.do('ask(s, 1, blob(300))'), 300)


def so_in_a_loop_of_edges():
    who_sleeps_when_the_device_goes_listens_again('S = Loop(L)')


def so_in_epoll(flags='0'):
    who_sleeps_when_the_device_goes_listens_again('''epoll(%s)
threading.Thread(target=lambda: event(90) and serve(L, 1), daemon=True).start()''' % flags)


def so_in_epoll_once():
    so_in_epoll('select.EPOLLONESHOT')


def so_in_poll():
    who_sleeps_when_the_device_goes_listens_again(
        'threading.Thread(target=lambda: wait_for(L, select.POLLIN, 90) and serve(L, 1), daemon=True).start()')


def a_rule_on_addresses_turns_others_away():
    s = server('role=server port=%d address=10.0.0.0/8 native=%d' % (TCP, RDMA))
    s.do('serve(L)')
    until(port_open, 'the RDMA port')
    c = client(CLIENT)
    c.do('s = connect(%d)' % TCP)	# which fails on the way, or is ended at once
    same(native(s), 0)


# --- processes ---

def a_daemon_that_forks_after_listen_has_the_port():
    s, c = server(), client()
    s.do("fork_worker('serve(L); time.sleep(100)')")
    until(port_open, 'the RDMA port')
    c.do('s = connect(%d)' % TCP)
    same(c.do('ask(s, 1, blob(300))'), 300)


ACTIVATE = '''import os, socket, sys, time
for left in range(200, -1, -1):	# the daemon of another test may still be ending
    try:
        l = socket.create_server(('127.0.0.1', %d))
        break
    except OSError:
        if not left:
            raise
        time.sleep(0.02)
os.dup2(l.fileno(), 3)
os.set_inheritable(3, True)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS='1')
os.execvp(sys.argv[1], sys.argv[1:])''' % TCP


def a_listener_that_systemd_has_opened_has_the_port():
    s, c = Agent(rules=SERVER, prefix=['/usr/bin/python3', '-c', ACTIVATE]), client()
    s.do('L = socket.socket(fileno=3)')
    pair_of(s, c)
    a = uses(s, c)
    same((native(s), native(c)), (1, 1), 'native')
    c.do('s.close()')
    same(s.result(a), 'EOF after 0 of 4 bytes')


def of_workers_on_one_listener_the_first_has_it_and_another_takes_over():
    s, c, t = server(), client(), Agent(shim=False)
    s.do('L.setblocking(False)')
    worker = '''
def loop():
    while True:
        wait_for(L, select.POLLIN, 5)
        try:
            x, _ = L.accept()
        except BlockingIOError:
            continue
        x.setblocking(True)
        threading.Thread(target=echo, args=(x,), daemon=True).start()
loop()
'''
    s.do('W = %r' % worker)
    one = s.do('fork_worker(W)')
    until(port_open, 'the RDMA port')
    s.do('fork_worker(W)')
    for end in (c, t, c):
        end.do('s = connect(%d)' % TCP)
        same(end.do('ask(s, 1, blob(300))'), 300)
    first = port_open()
    os.kill(one, signal.SIGKILL)
    until(lambda: port_open() not in (None, first), 'the RDMA port')
    c.do('s = connect(%d)' % TCP)
    same(c.do('ask(s, 1, blob(300))'), 300)


def workers_that_sleep_in_accept_leave_others_tcp_to_others():
    """The one that has the RDMA port would wait in the kernel for a connection that another has got."""
    s, c, t = server(), client(), Agent(shim=False)
    s.do("""
W = '''
while True:
    x, _ = L.accept()
    echo(x)
'''""")
    for _ in range(4):
        s.do('fork_worker(W)')
    until(port_open, 'the RDMA port')
    for _ in range(10):
        for _ in range(3):
            t.do('s = connect(%d)' % TCP)
            same(t.do('ask(s, 1, blob(300))'), 300)
            t.do('s.close()')
        c.do('s = connect(%d)' % TCP)
        same(c.do('ask(s, 1, blob(300))'), 300)
        c.do('s.close()')


PER_CONNECTION = """
def per_connection():
    while True:
        x, _ = L.accept()
        if os.fork() == 0:
            L.close()
            os._exit(0 if x.getpeername()[1] in (700, 701) and echo(x).startswith('EOF') else 1)
        x.close()
"""


def a_child_for_each_connection_serves_it():
    s, c, t = server(), client(), Agent(shim=False)
    s.do(PER_CONNECTION)
    s.start('per_connection()')
    until(port_open, 'the RDMA port')
    for i in range(3):
        c.do('s%d = connect(%d)' % (i, TCP))
        for n in (20, 5000, 200000):
            same(c.do('ask(s%d, 1, blob(%d), proc=%d)' % (i, n, n)), n)
    t.do("s = socket.socket()")
    t.do("s.bind(('127.0.0.1', 701))")
    t.do("s.connect(('127.0.0.1', %d))" % TCP)
    same(t.do('ask(s, 1, blob(300))'), 300)
    for i in range(3):
        c.do('s%d.close()' % i)
    t.do('s.close()')
    for _ in range(4):
        same(s.do('os.wait()[1]'), 0, 'a child')
    until(lambda: native(s) == 0, 'nothing is left')


def parent_and_child_share_one():
    s, c = both()
    a = s.start('echo(s)')
    same(c.do('ask(s, 1, blob(300))'), 300)
    same(c.do("forked('ask(s, 2, blob(5000), proc=1)')"), 0)
    same(c.do('ask(s, 3, blob(5000), proc=2)'), 5000)
    same(c.do("forked('s.close()')"), 0)
    same(c.do('ask(s, 4, blob(70000), proc=3)'), 70000)
    same(c.do('s.getpeername()'), ['127.0.0.1', TCP])
    same(c.do("forked('check = s.getpeername()[1] == %d or os._exit(3)')" % TCP), 0)
    same(native(c), 1)
    c.do('s.close()')
    same(s.result(a), 'EOF after 0 of 4 bytes')
    until(lambda: native(c) == 0, 'nothing is left')


def a_parent_reads_the_call_and_its_child_writes_the_reply():
    s, c = both()
    t = c.start('ask(s, 1, blob(70000), proc=1)')
    s.do('r = read_rec(s)')
    same(s.do("forked('s.sendall(reply(xid_of(r), r[40:]))')"), 0)
    same(c.result(t), 70000)
    t = c.start('ask(s, 2, blob(70000), proc=1)')
    s.do('r = read_rec(s)')
    s.do('s.sendall(reply(xid_of(r), r[40:]))')
    same(c.result(t), 70000)


def what_a_child_wrote_is_before_what_its_parent_writes_then():
    """Though the thread between them has not run since: of the parent's threads only one can."""
    cpus = sorted(os.sched_getaffinity(0))
    if len(cpus) < 2:
        raise Skipped('one CPU')
    s, c = met()
    c.do('''
def in_turn(mine, childs):
    os.sched_setaffinity(0, {mine})
    os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    child = os.fork()
    if child == 0:
        s.sendall(call(1, blob(700)))
        os._exit(0)
    os.sched_setaffinity(child, {childs})
    while os.waitpid(child, os.WNOHANG) == (0, 0):
        pass
    s.sendall(call(2, blob(700)))''')
    a = s.start('[xid_of(read_rec(s)) for _ in range(2)]')
    c.do('in_turn(%d, %d)' % tuple(cpus[:2]))
    same(s.result(a), [1, 2])


def who_forks_for_something_else_keeps_the_short_way():
    s, c = both()
    a = s.start('echo(s)')
    same(c.do('ask(s, 1, blob(300))'), 300)
    before = c.do("struct.unpack('Q', s.getsockopt(6, 11, 232)[128:136])[0]")
    same(c.do("forked('pass')"), 0)
    same(c.do('ask(s, 2, blob(5000), proc=1)'), 5000)
    same(c.do("struct.unpack('Q', s.getsockopt(6, 11, 232)[128:136])[0]") - before, 0, 'bytes by TCP')
    same(c.do("forked('ask(s, 2, blob(5000), proc=2)')"), 0)
    same(c.do('ask(s, 3, blob(5000), proc=2)'), 5000)
    check(c.do("struct.unpack('Q', s.getsockopt(6, 11, 232)[128:136])[0]") - before > 10000, 'bytes by TCP')
    c.do('s.close()')
    s.result(a)


def a_child_that_writes_no_more_still_reads():
    """Half of it is over, as by TCP; the peer hears of it when all have closed."""
    for last in 'the parent', 'a child that is killed':
        s, c = met()
        a = s.start('[read_rec(s)[40:] == blob(n) for n in (300, 70000)]')
        c.do('s.sendall(call(1, blob(300), proc=1))')
        c.do("child = fork_worker('s.sendall(call(2, blob(70000), proc=2)); s.shutdown(socket.SHUT_WR); "
             "os._exit(0 if read_rec(s)[24:] == blob(200000) else 1)')")
        same(s.result(a), [True, True])
        a = s.start('ending(s)')
        until(lambda: c.do('s.getsockopt(6, 11, 1)[0]') == 5, 'FIN_WAIT2')
        same(c.do('attempt(s.send, b"abcd")'), 'EPIPE')
        s.do('s.sendall(reply(1, blob(200000)))')
        same(c.do('os.wait()[1]'), 0, last)
        s.do('s.sendall(reply(2, blob(5000)))')
        same(c.do('read_rec(s)[24:] == blob(5000)'), True, last)
        same(native(c), 1)
        if last == 'the parent':
            c.do('s.close()')
        else:
            c.do("child = fork_worker('time.sleep(100)')")
            c.do('s.close()')
            check(a not in s.answers and not select.select([s.p.stdout], [], [], 0.3)[0], 'ended by the first')
            c.do('os.kill(child, 9); os.wait()')
        same(s.result(a), 'EOF after 0')
        until(lambda: native(c) == 0, 'nothing is left')
        s.kill()


def so_does_one_whose_parent_writes_no_more():
    """It has said so before the fork, or when there was a child already."""
    for before in True, False:
        s, c = met()
        a = s.start('read_rec(s)[40:] == blob(300)')
        c.do('s.sendall(call(1, blob(300), proc=1))')
        same(s.result(a), True)
        shut, fork = 's.shutdown(socket.SHUT_WR)', "fork_worker('os._exit(0 if read_rec(s)[24:] == blob(70000) else 1)')"
        for code in (shut, fork) if before else (fork, shut):
            c.do(code)
        time.sleep(0.2)
        s.do('s.sendall(reply(1, blob(70000)))')
        same(c.do('os.wait()[1]'), 0, before)
        a = s.start('ending(s)')
        c.do('s.close()')
        same(s.result(a), 'EOF after 0')
        until(lambda: native(c) == 0, 'nothing is left')
        s.kill()


def a_child_that_shuts_both_ways():
    s, c = both()
    a = s.start('echo(s)')
    same(c.do('ask(s, 1, blob(300))'), 300)
    same(c.do("forked('s.shutdown(socket.SHUT_RDWR); s.recv(1) and os._exit(2)')"), 0)
    same(c.do('attempt(s.send, b"abcd")'), 'EPIPE')
    same(c.do('ending(s)'), 'EOF after 0')
    c.do('s.close()')
    same(s.result(a), 'EOF after 0 of 4 bytes')
    until(lambda: native(c) == 0, 'nothing is left')


def what_the_peer_sent_before_its_end_is_read_by_a_child():
    s, c = met()
    a = s.start('[xid_of(read_rec(s)) for _ in range(25)]')
    c.do('[s.sendall(call(i, proc=1)) for i in range(25)]')
    s.result(a)
    c.do("child = fork_worker('time.sleep(0.5); n = sum(read_rec(s)[24:] == blob(250000, i) for i in range(25)); "
         "os._exit(0 if (n, ending(s)) == (25, \"EOF after 0\") else n + 1)')")
    for i in range(25):
        s.do('s.sendall(reply(%d, blob(250000, %d)))' % (i, i))
    s.do('s.close()')
    same(c.do('os.wait()[1]'), 0)


def a_descriptor_put_over_ours_after_a_fork_is_refused():
    """A thread has its number."""
    s, c = met()
    a = s.start('echo(s)')
    same(c.do("forked('ask(s, 1, blob(5000), proc=1)')"), 0)
    far = c.do("[fd for fd in map(int, os.listdir('/proc/self/fd')) if fd > 30 and attempt(os.readlink, '/proc/self/fd/%d' % fd)"
               ".startswith('socket:') and not attempt(os.fstat, fd) == 'EBADF']")
    check(far, 'there are some')
    said = [c.do('attempt(os.dup2, os.open("/dev/null", os.O_RDONLY), %d)' % fd) for fd in far]
    check('EBUSY' in said, 'refused: %r' % said)
    same(c.do('ask(s, 2, blob(70000), proc=2)'), 70000)
    c.do('s.close()')
    same(s.result(a), 'EOF after 0 of 4 bytes')


def the_peers_death_is_seen_after_a_fork_too():
    s, c = both()
    a = s.start('ending(s)')
    same(s.do("forked('pass')"), 0)
    c.kill()
    check(s.result(a) in ('EOF after 0', 'ECONNRESET'), 'it ends')


# --- those who come for nothing ---

def crowd(c, n):
    """So many connections that say nothing, all kept open; those that came about."""
    c.do('C = [attempt(connect, %d) for _ in range(%d)]' % (TCP, n), 60)
    return c.do('len([x for x in C if type(x) is not str])')


def open_ends(c):
    return c.do("sum(not select.select([x], [], [], 0)[0] for x in C)")


LOOP = 'T = Loop(L)'
HOSTS = dict(upgrade_timeout_ms=200, native_silent=4)


def who_says_nothing_makes_room_for_others():
    """However many come: there is a number that are silent, and the oldest go. Those who talk stay."""
    for serve in 'serve(L)', LOOP:
        s = server(**HOSTS)
        c, friend, late = client(upgrade_timeout_ms=20000), client(), client(upgrade_timeout_ms=20000)
        s.do(serve)
        until(port_open, 'the RDMA port')
        friend.do('s = connect(%d)' % TCP)
        same(friend.do('ask(s, 1, blob(300))'), 300)
        same(crowd(c, 16), 16, 'they come in')
        until(lambda: native(s) <= 1 + 4, 'the number')
        same(open_ends(c), 4, 'the others have heard')
        same(friend.do('ask(s, 2, blob(300))'), 300)
        late.do('s = connect(%d)' % TCP)
        same(late.do('ask(s, 3, blob(5000), proc=1)'), 5000)
        same(friend.do('ask(s, 4, blob(300))'), 300)
        check(native(s) <= 2 + 4, 'the number')
        for end in s, c, friend, late:
            end.kill()


def at_the_door():
    """Who waits there, and the door itself."""
    with open('/proc/net/unix') as f:
        return sum(line.split()[-1] == '@rdmarpc-test-%d' % RDMA for line in f)


def who_comes_in_a_crowd_while_the_server_does_nothing_is_heard():
    """More than a listener takes in one look, and more than it keeps for accept()."""
    for serve in 'serve(L)', LOOP:
        s, c = server(), client(upgrade_timeout_ms=20000)
        s.do(serve)
        until(port_open, 'the RDMA port')
        s.stop()
        c.do('def come(i):\n s = connect(%d)\n return s, ask(s, i, blob(300))' % TCP)
        c.do('from concurrent.futures import ThreadPoolExecutor')
        a = c.start('C = list(ThreadPoolExecutor(14).map(come, range(14)))')
        until(lambda: at_the_door() >= 14, 'all at the door')
        s.kill(signal.SIGCONT)
        c.result(a)
        same(c.do('[n for _, n in C]'), [300] * 14)
        same(native(s), 14)
        s.kill()
        c.kill()


def who_has_spoken_stays_though_nobody_has_listened():
    """A burst of those who come again: the server takes all of them before it reads from any."""
    s, c = server(**HOSTS), client(upgrade_timeout_ms=20000)
    a = s.start('S = [L.accept()[0] for _ in range(16)]')
    until(port_open, 'the RDMA port')
    c.do('C = []')
    for i in range(16):
        c.do('C.append(connect(%d))' % TCP)
        c.do('C[-1].sendall(call(%d, blob(300)))' % i)
        time.sleep(0.05)
    s.result(a)
    s.do('[echo_one(x) for x in S]')
    same(c.do('[xid_of(read_rec(x)) for x in C]'), list(range(16)))
    same(native(s), 16)


def while_there_is_room_nobody_goes():
    s, c = server(upgrade_timeout_ms=200), client()
    s.do('serve(L)')
    until(port_open, 'the RDMA port')
    same(crowd(c, 16), 16)
    time.sleep(0.5)
    same((native(s), open_ends(c)), (16, 16))


def who_waits_for_room_does_not_keep_the_server_busy():
    s, c = server(upgrade_timeout_ms=3000, native_silent=2), client(upgrade_timeout_ms=20000)
    s.do(EPOLL)
    for how in 'epoll(0)', 'epoll(select.EPOLLET)':
        s.do(how)
        for _ in range(2):
            t = c.start('s%d = connect(%d)' % (c.next, TCP))
            same(s.do('event()'), [1])
            s.do('x%d, _ = L.accept()' % s.next)
            c.result(t)
            s.do('L.setblocking(False); attempt(L.accept)')
        t = c.start('u = connect(%d)' % TCP)
        time.sleep(0.2)
        events, woke = s.do('quiet(1)')
        same(events, [])
        check(woke < 50, 'it sleeps: %d' % woke)
        same(s.do('event()'), [1], 'in time')
        s.do('y, _ = L.accept()')
        c.result(t)
        c.kill(), s.kill()
        s, c = server(upgrade_timeout_ms=3000, native_silent=2), client(upgrade_timeout_ms=20000)
        s.do(EPOLL)


def some_descriptors_are_left_to_others():
    s, c, t = server(native_silent=1000), client(upgrade_timeout_ms=300), Agent(shim=False)
    s.do('import resource; resource.setrlimit(resource.RLIMIT_NOFILE, (200, 200))')
    s.do('serve(L)')
    until(port_open, 'the RDMA port')
    check(crowd(c, 60) >= 20, 'they come in')
    check(native(s) <= 30, '3/4 of 200 descriptors, at 5 each: %d' % native(s))
    for i in range(20):
        t.do('s%d = connect(%d)' % (i, TCP))
        same(t.do('ask(s%d, 1, blob(300))' % i), 300)


def who_asks_and_never_comes_does_not_stay():
    """No RTU, so to say: the app has it, until the time for it is over."""
    for wait in WAYS:
        s, c = server(upgrade_timeout_ms=300), client()
        a = s.start('s, _ = L.accept()')
        until(port_open, 'the RDMA port')
        s.stop()
        c.do(NB)
        same(c.do('begin()'), 'EINPROGRESS')
        c.stop()
        s.kill(signal.SIGCONT)
        s.result(a)
        a = s.start('(%s, ending(s))[1]' % wait)
        same(s.result(a), 'ECONNRESET', wait)
        same(native(s), 0)
        c.kill(signal.SIGCONT)
        c.do('s.close()')
        c.kill(), s.kill()


def refusals_do_not_fill_the_log():
    s, c = server(log_file='stderr'), client()
    s.do('serve(L)')
    until(port_open, 'the RDMA port')
    for _ in range(300):
        x = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        x.connect('\0rdmarpc-test-%d' % RDMA)
        x.send(b'nonsense')
        same(x.recv(1), b'', 'refused')
        x.close()
    check(0 < s.log().count('refused') < 5, s.log())
    c.do('s = connect(%d)' % TCP)
    same(c.do('ask(s, 1, blob(300))'), 300)


# --- a link that is down ---

WAYS = ('1', 'wait_for(s, select.POLLIN)', 'select.select([s], [], [], 10)[0]',
        '(lambda p: (p.register(s, select.EPOLLIN), p.poll(10))[1])(select.epoll())',
        '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLET), p.poll(10))[1])(select.epoll())',
        '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLONESHOT), p.poll(10))[1])(select.epoll())')
KEEP = '''
def keep(s):
    s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)
    return s'''
links = ('%s/link.%d' % (W, i) for i in range(100))


def linked(on_client=True):
    """One end of a pair, whose link goes down with a file of that name."""
    link = next(links)
    s, c = met(test_link_down=link)
    end, other = (c, s) if on_client else (s, c)
    end.do(KEEP)
    return end, other, link


def who_keeps_alive_notices_a_dead_link():
    """Though nothing is under way but its waiting."""
    for on_client in True, False:
        for wait in WAYS:
            end, other, link = linked(on_client)
            end.do('keep(s)')
            t = end.start('(%s, ending(s))[1]' % wait)
            end.asleep()
            open(link, 'w')
            same(end.result(t), 'ETIMEDOUT', wait)
            same(end.do('attempt(s.send, call(7))'), 'EPIPE')
            end.kill()
            other.kill()


def so_it_does_by_what_it_said_before():
    """On its socket before connect(), or on the listener; there TCP_KEEPIDLE is said again."""
    for on_client in True, False:
        link = next(links)
        s, c = server(test_link_down=link), client(test_link_down=link)
        end = c if on_client else s
        end.do(KEEP)
        if not on_client:
            s.do('keep(L)')
        a = s.start('s, peer = L.accept()')
        until(port_open, 'the RDMA port')
        c.do('s = %s' % ('keep(socket.socket())' if on_client else 'socket.socket()'))
        c.do("s.connect(('127.0.0.1', %d))" % TCP)
        s.result(a)
        if not on_client:
            s.do('s.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)')
        a = s.start('echo_one(s)')
        same(c.do('ask(s, 1)'), 0)
        s.result(a)
        t = end.start('ending(s)')
        open(link, 'w')
        same(end.result(t), 'ETIMEDOUT', on_client)
        s.kill()
        c.kill()


def who_does_not_waits_on():
    end, other, link = linked()
    end.do('keep(s)')
    end.do('s.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 0)')
    t = end.start('ending(s)')
    open(link, 'w')
    check(not select.select([end.p.stdout], [], [], 2.5)[0], 'it noticed')
    other.do('s.close()')
    same(end.result(t), 'EOF after 0')


def a_link_that_answers_is_left_alone():
    end, other, link = linked()
    end.do('keep(s)')
    t = end.start('ask(s, 7, blob(500))')
    time.sleep(2.5)
    a = other.start('echo_one(s)')
    same(end.result(t), 500)
    other.result(a)


# --- connect ---

def nobody_there_is_tcp_and_remembered():
    s = Agent(shim=False)
    s.do('L = listen(port=%d)' % TCP)
    s.do('serve(L)')
    c = client(CLIENT)
    for _ in range(2):
        c.do('s = connect(%d)' % TCP)
        same(c.do('ask(s, 1, blob(300))'), 300)
        c.do('s.close()')
    same(c.stat()['upgrade']['upgrade_failures'], 1)


def a_rule_that_requires_it_refuses():
    s = Agent(shim=False)
    s.do('L = listen(port=%d)' % TCP)
    s.do('serve(L)')
    c = client()
    c.do('s = socket.socket()')
    same(c.fails("s.connect(('127.0.0.1', %d))" % TCP), 'ECONNREFUSED')
    n = server(listen='listen(port=%d)' % (TCP + 1), rules='port=%d native=%d' % (TCP + 1, RDMA))
    n.do('serve(L)')
    until(port_open, 'the RDMA port')
    c.do("s.connect(('127.0.0.1', %d))" % TCP)
    same(c.do('ask(s, 1, blob(300))'), 300)
    same(native(c), 1)


NB = '''
def begin():
    global s
    s = socket.socket()
    s.setblocking(False)
    return errno.errorcode.get(s.connect_ex(('127.0.0.1', %d)), 'done')
def again():
    return errno.errorcode.get(s.connect_ex(('127.0.0.1', %d)), 'done')
def ep_out(flags=0):
    p = select.epoll()
    p.register(s, select.EPOLLOUT | select.EPOLLIN | flags)
    import resource
    woke = lambda: resource.getrusage(resource.RUSAGE_THREAD).ru_nvcsw
    before, start = woke(), time.monotonic()
    r = sum(e for _, e in p.poll(90))
    return r if woke() - before < 50 * max(1, time.monotonic() - start) else 0
''' % (TCP, TCP)


def connecting_without_blocking(how='wait_for(s, select.POLLOUT)'):
    s, c = server(), client()
    a = s.start('s, _ = L.accept()')
    until(port_open, 'the RDMA port')
    s.stop()
    c.do(NB)
    same(c.do('begin()'), 'EINPROGRESS')
    same(c.do('again()'), 'EALREADY')
    same(c.do('wait_for(s, select.POLLOUT, 0.1)'), 0)
    t = c.start(how)
    time.sleep(0.7 if 'ep' in how else 0)	# in which it sleeps
    s.kill(signal.SIGCONT)
    check(c.result(t) & 4, 'POLLOUT')
    same(c.do('s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)'), 0)
    same(c.do('again()'), 'done')
    same(c.do('again()'), 'EISCONN')
    s.result(a)
    a = s.start('echo(s)')
    c.do('s.setblocking(True)')
    same(c.do('ask(s, 1, blob(5000), proc=1)'), 5000)
    same(native(c), 1)


def so_with_epoll():
    connecting_without_blocking('ep_out()')


def so_with_edges():
    connecting_without_blocking('ep_out(select.EPOLLET)')


def without_blocking_it_falls_back_to_tcp():
    s = Agent(shim=False)
    s.do('L = listen(port=%d)' % TCP)
    s.do('serve(L)')
    c = client(CLIENT)
    c.do(NB)
    c.do('begin()')
    same(c.do('wait_for(s, select.POLLOUT)'), 4)
    same(c.do('s.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)'), 0)
    c.do('s.setblocking(True)')
    same(c.do('ask(s, 1, blob(300))'), 300)


def who_does_not_answer_in_time_is_called_by_tcp():
    s, c = server(), client(CLIENT, upgrade_timeout_ms=300)
    s.do('L.setblocking(False)')
    s.fails('L.accept()')	# and no more: the kernel's backlog takes TCP
    c.do('s = connect(%d)' % TCP)
    same((native(c), c.do('s.getpeername()[1]')), (0, TCP))
    n = client(CLIENT, upgrade_timeout_ms=300)
    n.do(NB)
    same(n.do('begin()'), 'EINPROGRESS')
    same(n.do('wait_for(s, select.POLLOUT)'), 4)
    same(n.do('s.getpeername()[1]'), TCP)


def a_bound_socket_keeps_its_port():
    s, c = server(), client()
    a = s.start('s, _ = L.accept()')
    until(port_open, 'the RDMA port')
    c.do('s = socket.socket()')
    c.do("s.bind(('', 777))")
    c.do("s.connect(('127.0.0.1', %d))" % TCP)
    s.result(a)
    same(c.do('s.getsockname()'), ['127.0.0.1', 777])
    uses(s, c)
    c.do('t = socket.socket()')
    c.do("t.bind(('127.0.0.1', 0))")
    a = s.start('t, _ = L.accept()')
    c.do("t.connect(('127.0.0.1', %d))" % TCP)
    s.result(a)


main([fn for name, fn in list(globals().items())
      if callable(fn) and getattr(fn, '__module__', '') == '__main__' and
      fn.__code__.co_argcount == len(fn.__defaults__ or ()) and
      name not in ('server', 'client', 'port_open', 'both', 'met', 'linked')])
