# SPDX-License-Identifier: BSD-3-Clause
# Connections that a provider carries for one process alone (verbs), and fork(): whoever uses one from another
# process has it on TCP from then on, and nothing is lost on the way. By the library of tests/native, whose provider
# is such a one.
import ends
from ends import *

ends.SHIM = public(BUILD + '/tests/native/librpcrdma_shim.so')
if os.environ.get("FORKED_LOG"):
    os.environ.update(RDMARPC_LOG_FILE=os.environ["FORKED_LOG"], RDMARPC_LOG_LEVEL="debug")


def verbs(end):
    """Connections so far by the provider, of the process and the children that have a segment of their own."""
    return sum(p['connections']['verbs'] for p in stat() if p['pid'] == end.pid)


def hatches(end):
    return end.stat()['upgrade']['hatches']


def both(**options):
    """Carried, in both s."""
    c, s = pair(**options)
    t = s.start('echo_one(s)')
    same(c.do("ask(s, 7, b'hello')"), 5)
    s.result(t)
    same((verbs(c), verbs(s)), (1, 1), 'carried')
    return c, s


def lost():
    return sum(p['errors']['lost'] for p in stat())


# --- what daemons do ---

PER_CONNECTION = """
def per_connection(n):
    for _ in range(n):
        x, _ = L.accept()
        if os.fork() == 0:
            L.close()
            os._exit(0 if echo(x).startswith('EOF') else 1)
        x.close()
    return [os.wait()[1] for _ in range(n)]
"""


def a_child_for_each_connection_has_it_by_rdma():
    """The parent closes its own at once; nothing has to go back."""
    s = Agent()
    s.do('L = listen()')
    port = s.do('L.getsockname()[1]')
    s.do(PER_CONNECTION)
    t = s.start('per_connection(4)')
    c = Agent()
    for i in range(4):
        c.do('s%d = connect(%d)' % (i, port))
        for n in (20, 5000, 200000):
            same(c.do('ask(s%d, 1, blob(%d))' % (i, n)), n)
    same(c.stat()['connections'], dict(shm=0, verbs=4, tcp=0))
    for i in range(4):
        c.do('s%d.close()' % i)
    same(s.result(t), [0] * 4)
    same(sum(p['upgrade']['hatches'] for p in stat()), 0)


def a_child_for_each_connection_whose_parent_had_begun():
    """It polls, and so has taken up the offer and perhaps the call, then leaves it to the child."""
    s = Agent()
    s.do('L = listen()')
    port = s.do('L.getsockname()[1]')
    s.do(PER_CONNECTION.replace('if os.fork()', 'wait_for(x, select.POLLIN)\n        if os.fork()'))
    t = s.start('per_connection(2)')
    c = Agent()
    for i in range(2):
        c.do('s%d = connect(%d)' % (i, port))
        for n in (20, 5000, 200000, 20):
            same(c.do('ask(s%d, 1, blob(%d))' % (i, n)), n)
    same((verbs(c), verbs(s)), (1, 1), 'the second stays on TCP')
    same((hatches(c), hatches(s)), (1, 1))
    for i in range(2):
        c.do('s%d.close()' % i)
    same(s.result(t), [0, 0])
    same(lost(), 0)


def a_parent_reads_the_calls_and_children_answer():
    """As ypserv does."""
    for n in (20, 5000, 300000):
        c, s = both()
        for i in range(3):
            t = c.start('ask(s, %d, blob(%d))' % (i, n))
            s.do('r = read_rec(s)')
            same(s.do("forked('s.sendall(reply(xid_of(r), r[40:]))')"), 0)
            same(c.result(t), n)
        t = s.start('echo(s)')
        same(c.do('ask(s, 9, blob(%d))' % n), n)
        same(hatches(s), 1)
        c.do('s.close()')
        same(s.result(t), 'EOF after 0 of 4 bytes')
    same(lost(), 0)


def parent_and_child_of_a_client_ask_in_turn():
    c, s = both()
    t = s.start('echo(s)')
    for i, n in enumerate((300, 70000, 1, 300000)):
        same(c.do('ask(s, 1, blob(%d))' % n), n)
        same(c.do("forked('ask(s, 2, blob(%d)); ask(s, 3, blob(%d))')" % (n, n)), 0)
    same((hatches(c), hatches(s)), (1, 1))
    c.do('s.close()')
    same(s.result(t), 'EOF after 0 of 4 bytes')
    same(lost(), 0)


def both_ends_are_used_by_children():
    c, s = both()
    s.do("fork_worker('echo(s); os._exit(0)')")
    s.do('s.close()')
    for n in (300, 70000):
        same(c.do("forked('ask(s, 2, blob(%d))')" % n), 0)
    same(c.do('ask(s, 3, blob(100))'), 100)
    c.do('s.close()')
    same(s.do('os.wait()[1]'), 0)
    same(lost(), 0)


def prefork():
    """Workers of one connection, each with records of its own; the parent, too."""
    c, s = both()
    t = s.start('echo(s)')
    c.do('''
import fcntl, tempfile
def worker(i):
    with open(name) as f:
        for k in range(5):
            fcntl.flock(f, fcntl.LOCK_EX)
            ask(s, i * 100 + k, blob(1000 * i * k + i))
            fcntl.flock(f, fcntl.LOCK_UN)
name = tempfile.mkstemp()[1]
def workers():
    for i in range(4):
        if os.fork() == 0:
            try:
                worker(i)
                os._exit(0)
            finally:
                traceback.print_exc()
                os._exit(1)
    worker(9)
    ends = [os.wait()[1] for _ in range(4)]
    os.unlink(name)
    return ends
''')
    ends = c.do('workers()', 30)
    check(ends == [0] * 4, 'the workers: %r %s' % (ends, c.log()))
    c.do('s.close()')
    same(s.result(t), 'EOF after 0 of 4 bytes')
    same(lost(), 0)


def end_and_leave_it_to_a_child(c, how):
    """fork(), and the parent ends by exit(); or by daemon(). The child asks when it is alone, and closes it."""
    c.do('''
import ctypes, tempfile
back = tempfile.mkstemp()[1]
def raw_daemon():
    # A fork that Python is not told of: a thread that waits for its lock meanwhile would have the child wait
    # for that thread to take it, and there is none. This lets them have it, and end: then nobody wants it.
    sys.setswitchinterval(1000)
    libc = ctypes.PyDLL(None)
    while len(os.listdir('/proc/self/task')) > 2 + hasattr(libc, '__tsan_init'):    # which has a thread of its own
        time.sleep(0.05)
    return libc.daemon(1, 1)
def daemon(how):
    parent = os.getpid()
    if (raw_daemon() if how == 'daemon' else os.fork()) == 0:
        while os.getppid() == parent:
            time.sleep(0.1)
        try:
            said = '%d' % ask(s, 2, blob(70000))
        except Exception as e:
            said = repr(e)
        with open(back, 'w') as f:
            f.write(said)
        s.close()
        os._exit(0)
    ctypes.CDLL(None).exit(0)
''')
    name = c.do('back')
    c.start('daemon(%r)' % how)
    same(c.p.wait(SOON), 0)

    def said():
        with open(name) as f:
            return f.read()
    until(said, 'the child says something')
    same(said(), '70000')
    os.unlink(name)


def a_daemon_goes_on_with_what_its_parent_had(how='exit'):
    c, s = both()
    t = s.start('echo(s)')
    end_and_leave_it_to_a_child(c, how)
    same(s.result(t), 'EOF after 0 of 4 bytes')


def so_does_one_made_by_daemon():
    a_daemon_goes_on_with_what_its_parent_had('daemon')


# --- what must not cost the connection its carrier ---

def who_forks_for_something_else_keeps_it():
    c, s = both()
    t = s.start('echo(s)')
    same(c.do("forked('pass')"), 0)
    same(c.do("forked('s.close()')"), 0)
    same(c.do("import subprocess; subprocess.run('true', preexec_fn=os.getpid).returncode"), None)
    for n in (300, 70000):
        same(c.do('ask(s, 2, blob(%d))' % n), n)
    same((hatches(c), hatches(s)), (0, 0))
    c.do('s.close()')
    same(s.result(t), 'EOF after 0 of 4 bytes')


def its_end_does_not_wait_for_who_was_forked_and_is_something_else_now():
    c, s = both()
    t = s.start('echo(s)')
    c.do("import subprocess; p = subprocess.Popen(['sleep', '100'], preexec_fn=os.getpid)")
    c.do('s.close()')
    same(s.result(t), 'EOF after 0 of 4 bytes')
    c.do('p.kill()')
    same(lost(), 0)


# --- what is under way ---

def what_was_sent_before_the_child_looked_arrives():
    """More than the ring holds, of all kinds, and then TCP; in order."""
    for closes in True, False:
        c, s = both()
        c.do('ns = [100] * 20 + [90000, 5, 4000, 60000] * 3')
        w = c.start('[s.sendall(call(i, blob(n, i))) for i, n in enumerate(ns)] and 0')
        time.sleep(0.2)
        s.do('ns = %r' % c.do('ns'))
        s.do('''
def reads():
    for i, n in enumerate(ns + [7]):
        r = read_rec(s)
        if xid_of(r) != i or r[40:] != blob(n, i):
            print('record', i, xid_of(r), len(r), file=sys.stderr)
            os._exit(2)
    os._exit(0)''')
        s.do("fork_worker('reads()')")
        if closes:
            s.do('s.close()')
        c.result(w)
        c.do('s.sendall(call(%d, blob(7, %d)))' % (len(c.do('ns')), len(c.do('ns'))))
        same(s.do('os.wait()[1]'), 0)
    same(lost(), 0)


def half_a_record_of_the_parents_is_finished_by_the_child():
    c, s = both()
    t = s.start('xid_of(read_rec(s))')
    for n in (500, 200000):
        for cut in (2, 30, 400):
            c.do('b = call(%d, blob(%d))' % (n, n))
            c.do('s.sendall(b[:%d])' % cut)
            same(c.do("forked('s.sendall(b[%d:])')" % cut), 0)
            same(s.result(t), n)
            t = s.start('xid_of(read_rec(s))')
    same(hatches(c), 1)


def so_it_is_when_the_parent_ends():
    for n in (500, 200000):
        for cut in (2, 30, 400):
            c, s = both()
            c.do(END)
            t = s.start('xid_of(read_rec(s)), ending(s)')
            c.do('b = call(%d, blob(%d))' % (n, n))
            c.do('s.sendall(b[:%d]); x = socket.socket(fileno=os.dup2(s.fileno(), 700)); s.close()' % cut)
            c.start("end('x.sendall(b[%d:]); x.close()')" % cut)
            same(c.p.wait(SOON), 0)
            same(s.result(t), [n, 'EOF after 0'], (n, cut))
    same(lost(), 0)


def a_long_reply_that_is_still_to_be_fetched():
    """The server answers, forks, closes; the client is slow."""
    c, s = both()
    c.do('s.sendall(call(5, b""))')
    s.do('r = read_rec(s)')
    s.do('s.sendall(reply(5, blob(300000)))')
    s.do("fork_worker('echo(s); os._exit(0)')")
    s.do('s.close()')
    time.sleep(0.3)
    same(c.do('read_rec(s)[24:] == blob(300000)'), True)
    same(c.do('ask(s, 6, blob(100))'), 100)
    c.do('s.close()')
    same(s.do('os.wait()[1]'), 0)
    same(lost(), 0)


# --- waiting ---

def every_way_to_wait_in_a_child():
    for wait in ('1', 'wait_for(s, select.POLLIN)', 'select.select([s], [], [])',
                 '(lambda p: (p.register(s, select.EPOLLIN), p.poll()))(select.epoll())',
                 '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLET), p.poll()))(select.epoll())',
                 '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLONESHOT), p.poll()))(select.epoll())'):
        c, s = both()
        s.do("fork_worker('[(%s, echo_one(s)) for _ in range(4)]; os._exit(0)')" % wait)
        s.do('s.close()')
        for n in (20, 90000, 20, 300000):
            same(c.do('ask(s, 1, blob(%d))' % n), n, wait)
            time.sleep(0.05)
        same(s.do('os.wait()[1]'), 0)
    same(lost(), 0)


def what_came_by_rdma_is_told_though_the_rest_comes_by_tcp():
    """The child asks for it, and waits when all of it has been done."""
    for wait in ('wait_for(s, select.POLLIN)', 'select.select([s], [], [], 90)[0]',
                 '(lambda p: (p.register(s, select.EPOLLIN), p.poll(90))[1])(select.epoll())',
                 '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLONESHOT), p.poll(90))[1])(select.epoll())'):
        c, s = both()
        t = c.start('ask(s, 1, blob(500))')
        s.do('wait_for(s, select.POLLIN)')
        s.do("fork_worker('attempt(s.recv, 1, socket.MSG_DONTWAIT | socket.MSG_PEEK); time.sleep(0.3); "
             "os._exit(1 if not %s else echo_one(s) or 0)')" % wait)
        same(c.result(t), 500, wait)
        same(s.do('os.wait()[1]'), 0, wait)
    same(lost(), 0)


def who_begins_to_read_when_it_was_asked_to_go_back_does_first():
    """Its own direction: it sleeps in the kernel then, and hears nothing."""
    c, s = both()
    c.do("fork_worker('s.recv(1)')")
    time.sleep(0.3)
    s.start('s.recv(1)')
    settle(lambda: hatches(s), 1, 'back')
    same(lost(), 0)


def a_parent_asleep_on_what_its_child_writes_to():
    """What the peer then sends wakes it, whichever way it comes."""
    for wait in ('1', 'wait_for(s, select.POLLIN)', 'select.select([s], [], [])',
                 '(lambda p: (p.register(s, select.EPOLLIN), p.poll()))(select.epoll())'):
        c, s = both()
        t = c.start('ask(s, 1, blob(500)), ask(s, 2, blob(500))')
        s.do('r = read_rec(s)')
        s.do("fork_worker('time.sleep(0.2); s.sendall(reply(1, blob(500))); os._exit(0)')")
        a = s.start('(%s, echo_one(s))[1]' % wait)
        s.result(a)
        same(c.result(t), [500, 500])
    same(lost(), 0)


def a_non_blocking_child():
    c, s = both()
    t = s.start('echo(s)')
    c.do('s.setblocking(False)')
    same(c.do("forked('[ask_nb(s, n, blob(n)) for n in (10, 5000, 300000)]')"), 0)
    c.do('[ask_nb(s, n, blob(n)) for n in (10, 5000, 300000)] and 0')
    c.do('s.close()')
    s.result(t)
    same(lost(), 0)

# --- behind the hatch, that a record above the limit has opened ---

WAYS = ('1', 'wait_for(s, select.POLLIN)', 'select.select([s], [], [], 90)[0]',
        '(lambda p: (p.register(s, select.EPOLLIN), p.poll(90))[1])(select.epoll())',
        '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLET), p.poll(90))[1])(select.epoll())',
        '(lambda p: (p.register(s, select.EPOLLIN | select.EPOLLONESHOT), p.poll(90))[1])(select.epoll())')
LIMIT = 65536


def behind(who='client'):
    """A record of who's was above the limit: both directions have gone back to TCP."""
    c, s = both(max_message=LIMIT)
    n, m = (LIMIT, 9) if who == 'client' else (9, LIMIT)
    t = s.start('(read_rec(s), s.sendall(reply(1, blob(%d))))[1]' % m)
    c.do('s.sendall(call(1, blob(%d)))' % n)
    same(c.do('len(read_rec(s))'), 24 + m)
    s.result(t)
    return c, s


def a_peer_asleep_behind_the_hatch_hears_the_child():
    """In the kernel it would not hear that it is to go back, too."""
    for who in 'client', 'server':
        for wait in WAYS:
            c, s = behind(who)
            t = s.start('(%s, echo_one(s))[1]' % wait)
            s.asleep()
            c.do("child = fork_worker('read_rec(s); os._exit(0)')")
            settle(lambda: hatches(s), 1, wait)
            c.do('s.sendall(call(2, blob(70)))')
            s.result(t)
            same(c.do('os.wait()[1]'), 0, wait)
    same(lost(), 0)


def so_it_does_what_ends_with_its_parent():
    for who in 'client', 'server':
        for how in 'exit', 'daemon':
            c, s = behind(who)
            t = s.start('echo(s)')
            s.asleep()
            end_and_leave_it_to_a_child(c, how)
            same(s.result(t), 'EOF after 0 of 4 bytes')
    same(lost(), 0)


def what_was_back_already_outlives_its_owner():
    """Killed as it is: there was nothing left for it to do."""
    for who in 'client', 'server':
        c, s = behind(who)
        t = s.start('echo(s)')
        c.do("said, go = os.pipe(), os.pipe()")
        c.do("fork_worker('os.read(go[0], 1); os.write(said[1], str(attempt(ask, s, 3, blob(300))).encode()); os._exit(0)')")
        said, go = (os.open('/proc/%d/fd/%d' % (c.pid, c.do(fd)), mode)
                    for fd, mode in (('said[0]', os.O_RDONLY), ('go[1]', os.O_WRONLY)))
        c.kill()
        os.write(go, b'x')
        check(select.select([said], [], [], SOON)[0], 'the child waits')
        same(os.read(said, 100).decode(), '300', who)
        same(s.result(t), 'EOF after 0 of 4 bytes')


def what_the_other_direction_had_under_way_arrives():
    """A long reply that is still to be fetched, and half of one that is being written."""
    for n in 500, 200000:
        for cut in (2, 30, 400):
            c, s = both(max_message=300000)
            c.do('s.sendall(call(1) + call(2))')
            s.do('read_rec(s), read_rec(s)')
            s.do('s.sendall(reply(1, blob(250000)))')
            s.do('b = reply(2, blob(%d)); s.sendall(b[:%d])' % (n, cut))
            t = s.start('(read_rec(s), s.sendall(b[%d:]), echo(s))[2]' % cut)
            c.do('s.sendall(call(3, blob(400000)))')
            settle(lambda: hatches(s), 1, (n, cut))
            same(c.do('read_rec(s)[24:] == blob(250000), read_rec(s)[24:] == blob(%d)' % n), [True, True], (n, cut))
            same(c.do("forked('ask(s, 4, blob(500))')"), 0)
            c.do('s.close()')
            same(s.result(t), 'EOF after 0 of 4 bytes', (n, cut))
    same(lost(), 0)


def both_leave_records_above_the_limit_to_children():
    for _ in range(3):
        c, s = both(max_message=LIMIT)
        ends = [(end, end.start("forked('w = fork_worker(\"s.sendall(call(5, blob(300000))); os._exit(0)\"); "
                                "read_rec(s)[40:] == blob(300000) or os._exit(2); os.waitpid(w, 0)')"))
                for end in (c, s)]
        for end, t in ends:
            same(end.result(t), 0)
    same(lost(), 0)


END = """
import ctypes
def end(code):
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.1)
        exec(code, G)
        s.close()
        os._exit(0)
    ctypes.CDLL(None).exit(0)
"""


def both_owners_end_at_once():
    for make in both, behind:
        for _ in range(3):
            c, s = make()
            name = c.do('name', 1) if c.do(END + "import tempfile\nname = tempfile.mkstemp()[1]") else c.do('name')
            for end in c, s:
                end.do(END)
                end.do('name = %r' % name)
            c.start("end('said = str(ask(s, 1, blob(70000))); open(name, \"w\").write(said)')")
            s.start("end('echo_one(s)')")
            for end in c, s:
                same(end.p.wait(SOON), 0)
            until(lambda: os.path.getsize(name), make.__name__)
            with open(name) as f:
                same(f.read(), '70000')
            os.unlink(name)
    same(lost(), 0)


def a_peer_that_writes_no_more():
    """Half of it is over when it goes back."""
    for make in both, behind:
        for ends_first in False, True:
            c, s = make()
            c.do(END)
            s.do('s.shutdown(socket.SHUT_WR)')
            t = s.start('(read_rec(s)[40:] == blob(500), ending(s))')
            if ends_first:
                c.start("end('s.sendall(call(1, blob(500)))')")
                same(c.p.wait(SOON), 0)
            else:
                same(c.do("""forked('ending(s) == "EOF after 0" or os._exit(2); s.sendall(call(1, blob(500)))')"""), 0)
                c.do('s.close()')
            same(s.result(t), [True, 'EOF after 0'], (make.__name__, ends_first))
    same(lost(), 0)


# --- the end ---

def the_last_close_ends_it():
    c, s = both()
    t = c.start('ending(s)')
    s.do("go = os.pipe()")
    s.do("fork_worker('os.read(go[0], 1); s.close(); time.sleep(100)')")
    s.do('s.close()')
    time.sleep(0.2)
    check(t not in c.answers and not select.select([c.p.stdout], [], [], 0)[0], 'ended by the first')
    s.do("os.write(go[1], b'x')")
    same(c.result(t), 'EOF after 0')
    same(lost(), 0)


def a_child_shuts_it_down():
    c, s = both()
    t = s.start('ending(s)')
    same(c.do("forked('s.shutdown(socket.SHUT_WR)')"), 0)
    same(s.result(t), 'EOF after 0')
    same(c.do('attempt(s.send, b"1234")'), 'EPIPE')
    s.do('s.close()')
    same(c.do('ending(s)'), 'EOF after 0')


def so_it_does_and_reads_on():
    c, s = both()
    t = s.start('(read_rec(s)[40:] == blob(70000), ending(s))')
    c.do("fork_worker('s.sendall(call(1, blob(70000))); s.shutdown(socket.SHUT_WR); "
         "os._exit(0 if read_rec(s)[24:] == blob(200000) else 1)')")
    same(s.result(t), [True, 'EOF after 0'])
    same(c.do('attempt(s.send, b"1234")'), 'EPIPE')
    s.do('s.sendall(reply(1, blob(200000)))')
    same(c.do('os.wait()[1]'), 0)
    s.do('s.sendall(reply(2, blob(500)))')
    same(c.do('read_rec(s)[24:] == blob(500)'), True)
    s.do('s.close()')
    same(c.do('ending(s)'), 'EOF after 0')
    same(lost(), 0)


def the_owner_is_killed():
    c, s = both()
    s.do('''
said, go = os.pipe(), os.pipe()
def waits():
    os.read(go[0], 1)
    os.write(said[1], str([attempt(s.recv, 10), attempt(ending, s)]).encode())
    time.sleep(100)
''')
    s.do("child = fork_worker('waits()')")
    r = s.do('[os.getpid(), said[0], go[1]]')
    got = os.open('/proc/%d/fd/%d' % (r[0], r[1]), os.O_RDONLY)
    go = os.open('/proc/%d/fd/%d' % (r[0], r[2]), os.O_WRONLY)
    s.kill()
    os.write(go, b'x')
    check(select.select([got], [], [], SOON)[0], 'the child waits')
    said = os.read(got, 100).decode()
    check(said in ("['ECONNRESET', 'EOF after 0']", "['ECONNRESET', 'ECONNRESET']"), said)
    check(c.do('ending(s)') in ('EOF after 0', 'ECONNRESET'), 'the peer')


def the_peers_death_is_seen_by_a_child():
    c, s = both()
    s.do("child = fork_worker('os._exit(0 if ending(s) in (\"EOF after 0\", \"ECONNRESET\") else 1)')")
    time.sleep(0.2)
    c.kill()
    same(s.do('os.wait()[1]'), 0)
    check(s.do('ending(s)') in ('EOF after 0', 'ECONNRESET'), 'the parent')


def unread_is_a_reset():
    c, s = both()
    c.do('s.sendall(call(1, blob(100)))')
    s.do("fork_worker('wait_for(s, select.POLLIN); s.close(); os._exit(0)')")
    s.do('s.close()')
    s.do('os.wait()')
    same(c.do('ending(s)'), 'ECONNRESET')


def nothing_is_left_of_it():
    c, s = both()
    before = s.fds()
    for i in range(3):
        same(s.do("forked('attempt(s.recv, 4, socket.MSG_DONTWAIT)')"), 0)
    t = s.start('echo(s)')
    same(c.do('ask(s, 1, blob(100))'), 100)
    c.do('s.close()')
    s.result(t)
    # the door stays; the connection's two are gone
    settle(s.fds, before - 2 + 2, "the owner's descriptors")


# --- what comes after ---

def its_next_connections_are_such_that_children_can_use_them():
    c, s = both()
    t = s.start('echo(s)')
    same(c.do("forked('ask(s, 1, blob(10))')"), 0)
    port = s.do('L.getsockname()[1]')
    a = s.start('x, _ = L.accept()')
    c.do('x = connect(%d)' % port)
    s.result(a)
    a = s.start('echo_one(x)')
    same(c.do('ask(x, 1, blob(10))'), 10)
    s.result(a)
    same(c.reasons(), {'used by a process that cannot share it': 1})
    c.do('s.close()')
    s.result(t)


main([fn for name, fn in list(globals().items())
      if callable(fn) and getattr(fn, '__module__', '') == '__main__' and
      fn.__code__.co_argcount == len(fn.__defaults__ or ()) and
      name not in ('both', 'behind', 'lost')])
