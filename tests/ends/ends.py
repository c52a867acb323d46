# SPDX-License-Identifier: BSD-3-Clause
# For the t_*.py beside this file: processes with and without the library, told step by step what
# to do (agent.py); a relay that holds, splits and keeps bytes; what the library says of itself.
import ast, json, os, py_compile, re, select, shutil, signal, socket, struct, subprocess, sys, tempfile, threading, time, traceback

HERE = os.path.dirname(os.path.abspath(__file__))
BUILD = os.path.abspath(os.environ.get('BUILD', HERE + '/../../build'))
APPS = BUILD + '/apps'
W = tempfile.mkdtemp(prefix='ends.', dir='/run')
RUN = W + '/rdmarpc'
REGIONS = 8	# pairs of regions that a process keeps, at most
SOON = 100	# seconds within which anything that does not hang has happened, on a slow and busy machine
os.chmod(W, 0o755)


def public(path):
    """A copy that other users reach too, wherever we are."""
    return shutil.copy(path, W)


SHIM = public(BUILD + '/librpcrdma_shim.so')
# Compiled once: hundreds of processes begin with them.
AGENT = py_compile.compile(HERE + '/agent.py', cfile=W + '/agent.pyc')
py_compile.compile(HERE + '/../lib/rpc.py', cfile=W + '/rpc.pyc')	# which it imports
SUPP = public(HERE + '/../san/tsan.supp')

sys.path[:0] = [HERE, HERE + '/../lib']
from agent import blob, call, read_n, read_rec, rec, reply, xid_of  # noqa: E402,F401


def sanitizer():
    """What a library that was built with a sanitizer needs, behind itself, in programs that were not."""
    needed = subprocess.run(['readelf', '-d', SHIM], capture_output=True, text=True).stdout
    libs = []
    for name in ('libasan', 'libubsan', 'libtsan'):
        if name in needed:
            p = subprocess.run(['cc', '-print-file-name=%s.so' % name], capture_output=True, text=True)
            libs.append(os.path.realpath(p.stdout.strip()))
    return libs


SAN = sanitizer()
SLOW = 3 if SAN else 1


def number_options():
    """Least and most of each option that is a number: the library leaves out what lies outside, and says so in its log only."""
    with open(HERE + '/../../rdmarpc.conf.example') as f:
        text = f.read()
    return {m[3]: (int(m[1]), int(m[2]))
            for m in re.finditer(r'# Allowed: (?:\w+, )?(\d+)\.\.(\d+)(?: ms| us| s)?\.\n#(\w+) =', text)}


NUMBERS = number_options()


def environment(shim=True, **options):
    env = dict(os.environ)
    if shim:
        env['RDMARPC_UPGRADE_TIMEOUT_MS'] = '60000'	# whoever answers may have to wait for a CPU
        env['RDMARPC_OFFER_AFTER'] = '0'	# carried from the first byte, unless a test says otherwise
        env['LD_PRELOAD'] = ' '.join([SHIM] + SAN + os.environ.get('TEST_PRELOAD', '').split())
        env['RDMARPC_RUN_DIR'] = RUN
        if SAN:
            env['ASAN_OPTIONS'] = 'detect_leaks=0:log_path=%s/san:verify_asan_link_order=0' % W
            env['UBSAN_OPTIONS'] = 'log_path=%s/san:print_stacktrace=1' % W
            env['TSAN_OPTIONS'] = ('log_path=%s/san:die_after_fork=0:ignore_noninstrumented_modules=1:suppressions=%s' %
                                   (W, SUPP))
    for k, v in options.items():
        if k in NUMBERS and str(v).isdigit():
            least, most = NUMBERS[k]
            check(least <= int(v) <= most, '%s=%s is not within %d..%d' % (k, v, least, most))
        env['RDMARPC_' + k.upper()] = str(v)
    return env


class Failed(Exception):
    pass


class Skipped(Exception):
    pass


def check(ok, text):
    if not ok:
        raise Failed(text)


def same(got, want, what=''):
    check(got == want, '%s: %r, expected %r' % (what, got, want))


procs = []


def as_user(user):
    """For Popen(): to be that one alone, or who we are for None. Unlike a preexec_fn it leaves
    vfork() to those who stay who they are: a fork() of this process is dear."""
    return {} if user is None else {'user': user, 'group': user, 'extra_groups': []}


class Agent:
    """A process that runs agent.py. do() waits for the answer, start() and wait() do it in two."""

    def __init__(self, shim=True, prefix=(), user=None, **options):
        self.err = open('%s/agent.%d.log' % (W, len(procs)), 'w+')
        self.p = subprocess.Popen(list(prefix) + ['/usr/bin/python3', '-S', '-E', '-u', AGENT],
                                  stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self.err,
                                  env=environment(shim, **options),
                                  start_new_session=True, **as_user(user))
        procs.append(self.p)
        self.next = 0
        self.answers = {}
        self.buf = b''

    @property
    def pid(self):
        return self.p.pid

    def start(self, code):
        self.next += 1
        self.p.stdin.write((repr((self.next, code)) + '\n').encode())
        self.p.stdin.flush()
        return self.next

    def wait(self, ident, timeout=SOON):
        end = time.monotonic() + timeout * SLOW
        while ident not in self.answers:
            left = end - time.monotonic()
            if left <= 0 or not select.select([self.p.stdout], [], [], left)[0]:
                raise Failed('no answer within %s s: it hangs' % timeout)
            got = os.read(self.p.stdout.fileno(), 65536)
            if not got:
                raise Failed('the process died with status %r: %s' % (self.p.wait(), self.log()[-2000:]))
            self.buf += got
            *lines, self.buf = self.buf.split(b'\n')
            for line in lines:
                of, *said = ast.literal_eval(line.decode())
                self.answers[of] = said
        return self.answers.pop(ident)

    def result(self, ident, timeout=SOON):
        value, error = self.wait(ident, timeout)
        if error is not None:
            raise Failed('%s\n%s' % (error, self.log()[-1500:]))
        return value

    def do(self, code, timeout=SOON):
        return self.result(self.start(code), timeout)

    def fails(self, code, timeout=SOON):
        """The error's name."""
        value, error = self.wait(self.start(code), timeout)
        check(error is not None, 'no error from %s, but %r' % (code, value))
        return error

    def log(self):
        self.err.flush()
        with open(self.err.name) as f:
            return f.read()

    def kill(self, sig=signal.SIGKILL):
        self.p.send_signal(sig)
        if sig == signal.SIGKILL:
            self.p.wait()

    def stop(self):
        """Holds it, until it is killed or continued: when this returns, it has stopped."""
        self.p.send_signal(signal.SIGSTOP)
        until(lambda: set(self.threads()) == {'T'}, 'stopped')

    # --- what it has ---

    def fds(self):
        return len(os.listdir('/proc/%d/fd' % self.pid))

    def maps(self):
        """Its shared mappings, but the statistics."""
        with open('/proc/%d/maps' % self.pid) as f:
            return sum(1 for line in f if line.split()[1] == 'rw-s' and RUN not in line)

    def holds(self):
        return self.fds(), self.maps()

    def settles(self, before, what='survivor'):
        """Waits until it holds what it held before, but for what is kept for the next connection: a descriptor (less, if
        that is taken by now). The mapping of one share, if it had been kept before, goes with the fork (less), and so do the
        regions that are kept."""
        fds, maps = before
        same(self.do("forked('pass')"), 0)
        kept = [(fds - less, maps + more) for less in (0, 1) for more in (-1, 0)]
        settle(lambda: before if self.holds() in kept else self.holds(), before, what + "'s descriptors and mappings")

    def threads(self):
        """Their states."""
        return (text.rsplit(')', 1)[1].split()[0] for text in tasks(self.pid, 'stat'))

    def asleep(self):
        """Waits until none of its threads runs any more (a spinning one does)."""
        until(lambda: set(self.threads()) == {'S'}, 'all asleep')
        time.sleep(0.01)

    # --- what the library says ---

    def stat(self):
        for p in stat():
            if p['pid'] == self.pid:
                return p
        raise Failed('rdmarpc-stat does not know process %d' % self.pid)

    def carried(self):
        """How many of its connections so far; none if it never had one."""
        return carried_by(self)[0]

    def reasons(self):
        """Of its connections on TCP: reason -> how many."""
        return {k: v for k, v in self.stat()['tcp_reasons'].items() if v}


def tasks(pid, name):
    """What the file of that name says of each of its threads."""
    for t in os.listdir('/proc/%d/task' % pid):
        try:
            with open('/proc/%d/task/%s/%s' % (pid, t, name)) as f:
                yield f.read()
        except (FileNotFoundError, ProcessLookupError):
            pass	# it has just ended: before it was opened, or after


def settle(fn, want, what, timeout=SOON):
    """Looks again and again, less often the longer it waits: to look costs more than to sleep."""
    end = time.monotonic() + timeout * SLOW
    nap = 0.01
    while fn() != want:
        check(time.monotonic() < end, '%s: %r, expected %r' % (what, fn(), want))
        time.sleep(nap)
        nap = min(1.25 * nap, 0.1)


def until(fn, what):
    settle(lambda: bool(fn()), True, what)


def lasting(fn):
    """Its value, once it has not changed for a while."""
    seen = []
    while len(seen) < 10 or len(set(seen[-10:])) > 1:
        seen.append(fn())
        time.sleep(0.02)
    return seen[-1]


def carried():
    """How many ends of all processes of this test."""
    return sum(p['connections']['shm'] for p in stat())


def carried_by(*agents):
    """How many connections of each, as a tuple. The tool runs once for all."""
    known = stat()
    return tuple(sum(p['connections']['shm'] for p in known if p['pid'] == a.pid) for a in agents)


def stat(*args):
    env = dict(os.environ, RDMARPC_RUN_DIR=RUN)
    p = subprocess.run([BUILD + '/rdmarpc-stat', *(args or ['--json', '--list'])], env=env,
                       capture_output=True, text=True)
    check(p.returncode == 0, 'rdmarpc-stat: ' + p.stderr)
    return json.loads(p.stdout)['processes'] if not args else p.stdout


def program(*argv, shim=True, sigpipe=False, **options):
    """One of build/apps, in the background. It ignores SIGPIPE, as daemons do, unless told otherwise."""
    log = open('%s/program.%d.log' % (W, len(procs)), 'w')
    p = subprocess.Popen([APPS + '/' + argv[0], *map(str, argv[1:])], env=environment(shim, **options),
                         stdin=subprocess.DEVNULL, stdout=log, stderr=log, restore_signals=sigpipe,
                         start_new_session=True)
    p.log = log.name
    procs.append(p)
    return p


ports = iter(range(21000, 30000))


def labsvc(mode='svcrun', **options):
    """The laboratory server, listening: process and port."""
    port = next(ports)
    p = program('labsvc', mode, port, **options)
    until(lambda: listening(port), 'a listener on port %d' % port)
    return p, port


def listening(port):
    with open('/proc/net/tcp') as f:
        return any(line.split()[1].endswith(':%04X' % port) and line.split()[3] == '0A'
                   for line in f.readlines()[1:])


def labcli(port, *args, shim=True, timeout=SOON, **options):
    """Runs the laboratory client to its end: its output."""
    p = subprocess.run([APPS + '/labcli', '127.0.0.1', str(port), *map(str, args)],
                       env=environment(shim, **options), capture_output=True, text=True,
                       timeout=timeout * SLOW)
    check(p.returncode == 0, 'labcli %s: status %d, %s%s' % (args, p.returncode, p.stdout, p.stderr))
    return p.stdout


def pair(**options):
    """A client and a server, connected; nothing was written. In both, the connection is s."""
    c, s = Agent(**options), Agent(**options)
    s.do('L = listen()')
    port = s.do('L.getsockname()[1]')
    a = s.start('s, _ = L.accept()')
    c.do('s = connect(%d)' % port)
    s.result(a)
    return c, s


def carried_pair(**options):
    c, s = pair(**options)
    a = s.start('echo_one(s)')
    same(c.do("ask(s, 7, b'hello')"), 5)
    s.result(a)
    same(carried_by(c, s), (1, 1), 'carried')
    return c, s


class Relay:
    """Between a client and a server on TCP, in this process: hold() keeps the server's bytes back,
    piece() hands some of them on, go() lets all flow."""

    def __init__(self, port):
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        self.to = port
        self.held = b''
        self.holding = True
        self.lock = threading.Lock()
        self.up = b''
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        self.c, _ = self.listener.accept()
        self.c.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.s = socket.create_connection(('127.0.0.1', self.to))
        threading.Thread(target=self.down, daemon=True).start()
        try:
            while True:
                b = self.c.recv(65536)
                if not b:
                    return self.s.shutdown(socket.SHUT_WR)
                self.up += b
                self.s.sendall(b)
        except OSError:
            pass

    def down(self):
        try:
            while True:
                b = self.s.recv(65536)
                if not b:
                    return self.c.shutdown(socket.SHUT_WR)
                with self.lock:
                    self.held += b
                if not self.holding:
                    self.piece()
        except OSError:
            pass

    def piece(self, n=None):
        with self.lock:
            b, self.held = self.held[:n], self.held[n:] if n is not None else b''
            self.c.sendall(b)

    def go(self):
        self.holding = False
        self.piece()


def offer_bytes():
    """What a client with the library sends first."""
    s = Agent()
    s.do('L = listen()')
    r = Relay(s.do('serve(L)'))
    c = Agent()
    c.do('s = connect(%d)' % r.port)
    t = c.start('ask(s, 5, blob(100))')
    until(lambda: len(r.up) >= 100, 'an offer')
    offer = r.up
    r.go()
    c.result(t)
    return offer


# --- running ---------------------------------------------------------------------------------

def clean():
    """After each test: its processes are gone, and nothing of them is left but statistics."""
    if 'RR_MUTATE_KILLS' in os.environ:	# scripts/mutate wants to know what they have done
        for p in procs:
            if p.poll() is None:
                p.send_signal(signal.SIGUSR1)
        time.sleep(1)
    for p in procs:
        if p.poll() is None:
            p.kill()
            p.wait()
        try:
            os.killpg(p.pid, signal.SIGKILL)	# its children
        except ProcessLookupError:
            pass
    procs.clear()
    names = os.listdir(RUN) if os.path.isdir(RUN) else []
    for n in names:
        os.unlink(RUN + '/' + n)
    left = [n for n in names if n.startswith('rdmarpc-')]
    shm = os.listdir('/dev/shm')
    san = [n for n in os.listdir(W) if n.startswith('san')]
    text = ''
    for n in san:
        with open(W + '/' + n) as f:
            text += f.read()[:3000]
        os.unlink(W + '/' + n)
    check(not san, 'sanitizer: ' + text)
    check(not shm, 'left in /dev/shm: %r' % shm)
    return left


def chosen(tests, names):
    """Those that one of the names is a part of; all if there are none. A name that fits none of them is a mistake."""
    for a in names:
        if not any(a in fn.__name__ for fn in tests):
            print('1..1\nFAIL %s: there is no such test' % a)
            sys.exit(3)
    return [fn for fn in tests if not names or any(a in fn.__name__ for a in names)]


def main(tests, argv=sys.argv[1:]):
    failed = 0
    tests = chosen(tests, argv)
    print('1..%d' % len(tests), flush=True)
    for fn in tests:
        start, why, text, skip = time.monotonic(), None, '', None
        os.makedirs(RUN, exist_ok=True)
        os.chmod(RUN, 0o1777)
        try:
            fn()
        except Skipped as e:
            skip = e
        except Failed as e:
            why = str(e)
            text = traceback.format_exc()
        except Exception:
            why = traceback.format_exc()
        try:
            left = clean()
            if not getattr(fn, 'may_leave_sockets', False) and left and not why:
                why = 'left in the run directory: %r' % left
        except Failed as e:
            why = (why or '') + str(e)
        took = time.monotonic() - start
        print('%s %s%s' % ('FAIL' if why else 'SKIP' if skip else 'PASS', fn.__name__,
                           ': %s' % skip if skip else '' if took < 1 else ' (%.1f s)' % took))
        if why:
            print(why)
            print('\n'.join(line for line in text.split('\n') if '/t_' in line)[:2000])
        sys.stdout.flush()
        failed += why is not None
    sys.exit(3 if failed else 0)	# 1 is Python's own
