# SPDX-License-Identifier: BSD-3-Clause
# What a client takes from a server (abuser.c), or a user of the host from everybody, costs nobody else: third
# clients, one by plain TCP without the library and one that is carried, have all their calls answered, and as
# soon as under the same abuse by TCP alone, on the same server, a moment before. What can be counted is counted:
# the server's system calls, its memory, its descriptors.
from ends import *
import resource

SECONDS = 1	# of each measurement
NOBODY = 65534
LAB, OURS = 0x20005244, 0x20000001
MIB = 1 << 20

ABUSER = public(BUILD + '/tests/ends/abuser')

SERVERS = '''
def answer_to(r):
    """Of a call of procedure 3 with a number: so many bytes. Else what came."""
    n = struct.unpack('>I', r[40:44])[0] if r[20:24] == struct.pack('>I', 3) else -1
    return reply(xid_of(r), bytes(n) if n >= 0 else r[40:])

def echo_one(s):
    s.sendall(answer_to(read_rec(s)))

class Big(Loop):
    def answer(self, into, out):
        while (r := take_record(into)) is not None:
            out += answer_to(r)
'''

PROBE = '''
def probe(port, seconds, prog, anew, least=0):
    """Calls, on one connection or each on its own: how many, how many failed, and how long they took. So many at least,
    however long that takes."""
    took, errors, s, end = [], [], None, time.monotonic() + seconds
    while time.monotonic() < end or len(took) < least:
        start = time.monotonic()
        try:
            if s is None:
                s = connect(port)
                s.settimeout(30)
            ask(s, len(took), b'', prog=prog)
        except (OSError, EOFError, ValueError, struct.error) as e:
            errors.append(repr(e))
            s = None
        took.append(time.monotonic() - start)
        if anew and s:
            s.close()
            s = None
        time.sleep(0.002)
    took.sort()
    return dict(calls=len(took), errors=errors[:3], p50=took[len(took) // 2], p90=took[len(took) * 9 // 10],
                p99=took[len(took) * 99 // 100], most=took[-1])
'''


# --- servers: of one thread, as most are, unless the abuse would stop such a one by TCP as well ---

def lab(**options):
    """libtirpc's svc_run(), which blocks where it has to."""
    p, port = labsvc('svcrun', **options)
    return p, port, LAB


def loop(**options):
    """Never blocks."""
    return python('Big(L)', **options)


def threads(**options):
    """A thread for each connection."""
    return python('serve(L)', **options)


def python(serve, **options):
    s = Agent(**options)
    s.do(SERVERS)
    s.do('L = listen(backlog=128)')
    s.do(serve)
    return s.p, s.do('L.getsockname()[1]'), OURS


# --- what is measured ---

def abuser(name, carrier, port, connections):
    """Goes on until its stdin is closed: what is measured is measured under abuse, however long that takes."""
    p = subprocess.Popen([ABUSER, name, carrier, str(port), str(connections)], **as_user(NOBODY),
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    procs.append(p)
    return p


def system_calls(pid, seconds):
    """What the process calls in that time: name -> how often. Calls that come back with EAGAIN count, too."""
    out = '%s/strace.%d' % (W, pid)
    p = subprocess.Popen(['strace', '-c', '-f', '-o', out, '-p', str(pid)], stdin=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL)
    procs.append(p)
    time.sleep(seconds)
    p.send_signal(signal.SIGINT)
    p.wait()
    with open(out) as f:
        rows = [line.split() for line in f]
    return {r[-1]: int(r[3]) for r in rows if len(r) >= 5 and r[3].isdigit() and r[-1] != 'total'}


def memory(pid):
    """What the process has, and what the kernel keeps for its sockets: bytes."""
    with open('/proc/%d/status' % pid) as f:
        rss = sum(int(line.split()[1]) << 10 for line in f if line.startswith('VmRSS'))
    with open('/proc/net/tcp') as f:
        queues = [line.split()[4].split(':') for line in f.readlines()[1:]]
    return rss + sum(int(n, 16) for q in queues for n in q)


def mapped(pid):
    """Address space, touched or not."""
    with open('/proc/%d/statm' % pid) as f:
        return int(f.read().split()[0]) * 4096


def queued(pid):
    """Seconds that its threads have waited for a CPU, so far."""
    return sum(int(text.split()[1]) for text in tasks(pid, 'schedstat')) / 1e9


def descriptors(pid):
    return len(os.listdir('/proc/%d/fd' % pid))


class Abuse:
    """One entry of the table below."""

    def __init__(self, name, server, expect, connections=1, processes=1, anew=False, nofile=None, **options):
        self.name, self.server, self.expect = name, server, expect
        self.connections, self.processes = connections, processes
        self.anew, self.nofile, self.options = anew, nofile, options

    def run(self):
        by_tcp, by_shm = self.trial('tcp'), self.trial('shm')
        for way in by_tcp, by_shm:
            print('  ' + ', '.join('%s %s' % (k, brief(v)) for k, v in way.items()))
        for fn in self.expect:
            fn(by_tcp, by_shm)

    def trial(self, carrier):
        server, port, prog = self.server(**self.options)
        if self.nofile:
            resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (self.nofile, self.nofile))
        plain, carried = Agent(shim=False), Agent()
        for a in plain, carried:
            a.do(PROBE)
            a.do('probe(%d, 0.1, %d, False)' % (port, prog))
        counts = few_calls in self.expect or no_naps in self.expect
        seen = dict(carrier=carrier, connections=self.connections * self.processes, mem=-memory(server.pid),
                    mapped=-mapped(server.pid), fds=-descriptors(server.pid))
        peers = [abuser(self.name, carrier, port, self.connections) for _ in range(self.processes)]
        for p in peers:
            same(p.stdout.readline(), 'ready\n', 'the abuser')
        waits = queued(server.pid)
        waited = dict((k, -queued(a.p.pid)) for k, a in (('plain', plain), ('carried', carried)))
        probes = [(k, a, a.start('probe(%d, %d, %d, %r)' % (port, SECONDS, prog, self.anew)))
                  for k, a in (('plain', plain), ('carried', carried))]
        for k, a, t in probes:
            seen[k] = a.result(t)
            seen[k]['queued'] = max(waited[k] + queued(a.p.pid), 0.0) + max(queued(server.pid) - waits, 0.0)
        seen['mem'] += memory(server.pid)
        seen['fds'] += descriptors(server.pid)
        seen['mapped'] += mapped(server.pid)
        if counts:
            seen['calls'] = system_calls(server.pid, 1)
        check(server.poll() is None, 'the server died')
        seen['rounds'] = sum(int(p.communicate(timeout=SOON * SLOW)[0].split()[1]) for p in peers)
        for p in [server] + [a.p for a in (plain, carried)]:
            p.kill()
            p.wait()
        return seen


def brief(v):
    if not isinstance(v, dict):
        return v
    return ' '.join('%s %s' % (k, '%.1f ms' % (1000 * x) if isinstance(x, float) else x) for k, x in v.items())


# --- what is expected ---

def answered(tcp, shm):
    for way in tcp, shm:
        for who in 'plain', 'carried':
            check(way[who]['calls'] > 0 and not way[who]['errors'], 'under abuse by %s, of the %s client: %r' %
                  (way['carrier'], who, way[who]))


def in_time(tcp, shm):
    """Waiting for a CPU is not the peer's doing: with so much of it in all, the slowest calls can have waited so long each."""
    for who in 'plain', 'carried':
        for q, above in ('p50', 0.5), ('p90', 0.1):
            of_cpu = shm[who]['queued'] / max(1, int(above * shm[who]['calls']))
            check(shm[who][q] <= 5 * tcp[who][q] + 0.02 + of_cpu,
                  "%s of the %s client's calls: %.1f ms, under the same abuse by TCP %.1f ms; %.1f ms may be waits for a CPU" %
                  (q, who, 1000 * shm[who][q], 1000 * tcp[who][q], 1000 * of_cpu))


def no_naps(tcp, shm):
    """Nobody sleeps in a call of the app."""
    naps = shm['calls'].get('clock_nanosleep', 0)
    check(naps <= 5 * tcp['calls'].get('clock_nanosleep', 0) + 20, 'the server slept %d times a second' % naps)


def few_calls(tcp, shm):
    n, of_tcp = (sum(way['calls'].values()) for way in (shm, tcp))
    check(n <= 5 * of_tcp + 200, 'the server makes %d system calls a second, under the same abuse by TCP %d' % (n, of_tcp))


def little_memory(tcp, shm):
    if SAN:
        return	# which holds freed memory back
    most = 5 * max(tcp['mem'], 0) + (8 + 8 * shm['connections']) * MIB	# max_exposed; TCP's buffers may get as large
    check(shm['mem'] <= most, 'the server has taken %d MiB; under the same abuse by TCP %d MiB' %
          (shm['mem'] / MIB, tcp['mem'] / MIB))


def little_mapped(tcp, shm):
    """What a peer fills, its server gives back in munmap(): 512 MiB took 0.7 s; and there is RLIMIT_AS."""
    each = (shm['mapped'] - tcp['mapped']) / shm['connections']
    check(each <= 128 * MIB, 'the server maps %d MiB for each connection' % (each / MIB))


def few_descriptors(tcp, shm):
    check(shm['fds'] <= tcp['fds'] + 16, 'the server has %d descriptors more; under the same abuse by TCP %d' %
          (shm['fds'], tcp['fds']))


TABLE = [
    Abuse('accessing', lab, [answered, in_time, no_naps]),
    Abuse('accessing', lab, [answered, in_time, no_naps], processes=8),
    Abuse('credits', loop, [answered, in_time, few_calls], connections=8),
    Abuse('unpulled', loop, [answered, in_time, few_calls, little_memory], connections=4),
    Abuse('undone', loop, [answered, in_time, little_memory], connections=4),
    Abuse('half-open', lab, [answered, in_time, few_descriptors], connections=100, anew=True, nofile=256,
          upgrade_timeout_ms=500),
    Abuse('bells', lab, [answered, in_time, few_calls]),
    Abuse('large-region', lab, [answered, in_time, little_mapped], connections=3),
    Abuse('slow-bell', lab, [answered, in_time], connections=4),
    Abuse('slow-end', lab, [answered, in_time], connections=4),
    Abuse('slow-hello', lab, [answered, in_time], connections=4),
    Abuse('slow-hellos', lab, [answered, in_time], connections=4),
    Abuse('many-fds', lab, [answered, in_time, few_descriptors], connections=8, anew=True),
    Abuse('greedy', threads, [answered, in_time, little_memory]),
]


def test_of(abuse):
    def fn():
        abuse.run()
    fn.__name__ = abuse.name.replace('-', '_') + ('_%d' % abuse.processes if abuse.processes > 1 else '')
    return fn


# --- what a user does to the run directory ---

def as_nobody(code):
    """Runs Python code as a user who owns nothing."""
    p = subprocess.run(['/usr/bin/python3', '-c', 'import os\n' + code], **as_user(NOBODY),
                       capture_output=True, text=True, timeout=SOON * SLOW)
    check(p.returncode == 0, 'as nobody: ' + p.stderr)


def told(*args, seconds=20):
    """rdmarpc-stat: its status, or None if it hangs."""
    p = subprocess.Popen([BUILD + '/rdmarpc-stat', *args], env=dict(os.environ, RDMARPC_RUN_DIR=RUN),
                         stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    procs.append(p)
    try:
        p.wait(seconds * SLOW)
    except subprocess.TimeoutExpired:
        return None
    return p.returncode


def served(carried_too=True, known=True):
    """A new server and both third clients: they are served, and carried or not (if rdmarpc-stat knows of it)."""
    server, port = labsvc('svcrun')
    for shim in False, True:
        a = Agent(shim=shim)
        a.do(PROBE)
        got = a.do('probe(%d, 0, %d, True, 20)' % (port, LAB))
        check(not got['errors'], 'calls: %r' % got)
        if shim and known:
            same(a.carried() > 0, carried_too, 'carried')
    check(server.poll() is None, 'the server died')


def stop_files():
    """Whatever of that name a user puts there first, root can stop and start, and nobody else is stopped."""
    for make in ("os.mkfifo('%s')", "os.mkdir('%s')", "open('%s', 'w')", "os.symlink('/dev/null', '%s')",
                 "os.symlink('%s', '%s')" % (W + '/none', '%s')):
        stop = RUN + '/stop'
        as_nobody(make % stop)
        served()
        same(told('--stop'), 0, 'rdmarpc-stat --stop beside a stop by %s' % make)
        served(carried_too=False)
        same(told('--start'), 0, 'rdmarpc-stat --start beside a stop by %s' % make)
        served()
        check(not os.path.exists(W + '/none'), 'a symbolic link was followed')
        if os.path.isdir(stop) and not os.path.islink(stop):
            os.rmdir(stop)
        elif os.path.lexists(stop):
            os.unlink(stop)


def a_full_run_directory():
    """Before a process starts, and while it makes more connections: none fails."""
    subprocess.run(['mount', '-t', 'tmpfs', '-o', 'size=4m,mode=1777', 'tmpfs', RUN], check=True)
    fill = """
with open('%s/full', 'wb', buffering=0) as f:
    try:
        while True:
            f.write(bytes(4096))
    except OSError:
        pass
""" % RUN
    try:
        before, port = labsvc('svcrun')
        c = Agent()
        c.do(PROBE)
        c.do('ask(connect(%d), 1, prog=%d)' % (port, LAB))
        as_nobody(fill)
        c.do('many = [connect(%d) for _ in range(60)]' % port)
        c.do("[ask(s, 1, prog=%d) for s in many]" % LAB)
        check(before.poll() is None, 'the server that was there before died')
        check(os.path.getsize(RUN + '/full') > 0, 'it is full')
        served(known=False)
    finally:
        for p in procs:
            if p.poll() is None:
                p.kill()
                p.wait()
        subprocess.run(['umount', RUN], check=True)


# --- what stands between two ends ---

class IdleRelay:
    """Hands on every byte, and cuts a connection on which none has come for a while: as HAProxy, sshd, NAT."""

    def __init__(self, port, idle):
        self.to, self.idle, self.cut = port, idle, 0
        self.listener = socket.create_server(('127.0.0.1', 0))
        self.port = self.listener.getsockname()[1]
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        while True:
            c, _ = self.listener.accept()
            s = socket.create_connection(('127.0.0.1', self.to))
            threading.Thread(target=self.hand_on, args=(c, s), daemon=True).start()

    def hand_on(self, c, s):
        while True:
            there = select.select([c, s], [], [], self.idle)[0]
            got = [(a.recv(65536), b) for a, b in ((c, s), (s, c)) if a in there]
            if not got or not all(data for data, _ in got):
                self.cut += not got
                break
            for data, b in got:
                b.sendall(data)
        c.close()
        s.close()


def an_idle_relay():
    """A connection that is used all the time is not cut, and is as with TCP alone."""
    server, port = labsvc('svcrun')
    cuts = []
    for shim in False, True:
        relay = IdleRelay(port, 1)
        a = Agent(shim=shim)
        a.do(PROBE)
        got = a.do('probe(%d, 4, %d, False)' % (relay.port, LAB))
        print('  %s, cut %d' % (brief(got), relay.cut))
        cuts.append((got['errors'], relay.cut))
    same(cuts[1], cuts[0], 'errors, and connections that the relay took for idle')
    check(server.poll() is None, 'the server died')


main([test_of(a) for a in TABLE] + [stop_files, a_full_run_directory, an_idle_relay])
