# SPDX-License-Identifier: BSD-3-Clause
# What the library adds to the system calls of an unmodified client and server (libtirpc): when a process starts, for a
# connection of one call that stays on TCP, and for one that is upgraded. Counted against the same by TCP, in the same run; never by time.
# With a sanitizer, which makes calls of its own, nothing is judged but that all of it works.
import math

from ends import *

ONE, FEW, MANY = 1, 8, 48
PACED = 40   # calls, and twice as many
# How often one waits, finds nothing, and looks whether a number is still its file's (once in a tick of the clock) is a matter of
# time: such calls are not counted, nor is what fails, unless it is meant to (preload/appmem.c).
FAILS = ('rt_sigprocmask',)
WAITS = ('poll', 'ppoll', 'sched_yield', 'newfstatat', 'fstat')


def traced(name, argv, env):
    """argv under strace: the process, and where its calls stand in the end."""
    out = '%s/%s.calls' % (W, name)
    given = [v for k in ('LD_PRELOAD', 'RDMARPC_RUN_DIR', 'RDMARPC_OFFER_AFTER') if k in env for v in ('-E', '%s=%s' % (k, env[k]))]
    plain = {k: v for k, v in env.items() if not k.startswith('RDMARPC_') and k != 'LD_PRELOAD'}
    # Where the heap begins is left to chance; at some places malloc() would trim and grow it for each connection (3 brk()).
    plain.update(MALLOC_TRIM_THRESHOLD_=str(1 << 30), MALLOC_TOP_PAD_=str(1 << 20))
    p = subprocess.Popen(['strace', '-f', '-c', '-o', out, *given, *argv], env=plain, stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, text=True)
    procs.append(p)
    return p, out


def total(out, but=WAITS):
    with open(out) as f:
        rows = [line.split() for line in f]
    return sum(int(r[3]) - (int(r[4]) if len(r) == 6 and r[-1] not in FAILS else 0) for r in rows
               if len(r) >= 5 and r[3].isdigit() and r[-1] not in (*but, 'total'))


def both(env, *what, cpus=()):
    """Where the system calls of a client that does so stand in the end, and those of its server. cpus: the client's, the
    server's."""
    on_client, on_server = (['taskset', '-c', str(n)] for n in cpus) if cpus else ([], [])
    port = next(ports)
    server, sout = traced('server', [*on_server, APPS + '/benchsvc', str(port)], env)
    same(server.stdout.readline(), 'ready\n')
    client, cout = traced('client', [*on_client, APPS + '/benchcli', str(port), *map(str, what)], env)
    client.communicate()
    same(client.returncode, 0, 'status of the client')
    with open('/proc/%d/task/%d/children' % (server.pid, server.pid)) as f:
        os.kill(int(f.read().split()[0]), signal.SIGTERM)
    server.wait()
    for n in os.listdir(RUN) if os.path.isdir(RUN) else []:
        if n.startswith('rdmarpc-on-'):	# of a server that was killed
            os.unlink('%s/%s' % (RUN, n))
    return cout, sout


def calls(connections, env, each=1):
    """Of a client that makes so many connections of so many calls each, and of its server: system calls."""
    return [total(out) for out in both(env, 'first', connections, each)]


def each(env, length):
    """What the two processes call: for each connection, and apart from those where there are several, and where there is
    one. (client, server) of each."""
    one, few, many = (calls(n, env, length) for n in (ONE, FEW, MANY))
    conn = [(m - f) / (MANY - FEW) for f, m in zip(few, many)]
    return conn, *([n - count * c for n, c in zip(got, conn)] for got, count in ((few, FEW), (one, ONE)))


def added(length, **options):
    with_us, without = each(environment(**options), length), each(environment(shim=False), length)
    return [[a - b for a, b in zip(x, y)] for x, y in zip(with_us, without)]


def fits(got, bounds):
    return all(math.floor(n) <= most for n, most in zip(got, bounds))


def at_most(got, bounds, what):
    for end, n, most in zip(('client', 'server'), got, bounds):
        print('# %s, %s: %.1f system calls more, at most %d' % (what, end, n, most))
        check(SAN or math.floor(n) <= most, '%s: %.1f system calls more at the %s, at most %d' % (what, n, end, most))


def added_at_most(rows, length=1, **options):
    """length: calls of a connection. rows: what each of added() has at most. Who comes too early for the other looks once more, on a busy machine at each
    connection: the least of three times counts."""
    for _ in range(3):
        got = added(length, **options)
        if all(fits(g, bounds) for g, (bounds, _) in zip(got, rows)):
            break
    for g, (bounds, what) in zip(got, rows):
        at_most(g, bounds, what)


def a_connection_that_stays_on_TCP_costs_little_more():
    # the server peeks at the record, in place of a poll() that is not counted here; nobody asks for what is known: the type of
    # a socket, which the client asks for once and the server twice, and the server's own name a second time
    added_at_most([((-1, -2), 'a connection of one call, by TCP'), ((53, 72), 'a process that makes connections'),
                   ((14, 66), 'a process of one call')], offer_after='auto')


def no_call_of_a_connection_costs_a_client_anything():
    # the server peeks at each record
    added_at_most([((-1, 1), 'a connection of four calls, by TCP')], length=4, offer_after='32')


# Makes so many connections, and waits in recv() for the reply to a call on each.
RECEIVER = """
import socket, sys
sys.path.insert(0, %r)
import rpc
for i in range(int(sys.argv[2])):
    with socket.create_connection(('127.0.0.1', int(sys.argv[1]))) as s:
        s.sendall(rpc.record(rpc.call(i, 1, 1, 0)))
        s.recv(28, socket.MSG_WAITALL)
""" % os.path.realpath(HERE + '/../lib')


def answers_late(listener):
    """Serves a call on each connection that comes, after its client has fallen asleep."""
    while True:
        s = listener.accept()[0]
        with s:
            read_rec(s)
            time.sleep(0.01)
            s.sendall(rec(reply(0)))


def received(n, env):
    """The system calls of a client that waits in recv() on so many connections."""
    with socket.create_server(('127.0.0.1', 0)) as listener:
        threading.Thread(target=answers_late, args=(listener,), daemon=True).start()
        p, out = traced('receiver', ['/usr/bin/python3', '-c', RECEIVER, str(listener.getsockname()[1]), str(n)], env)
        same(p.wait(), 0, 'status of the client')
    return total(out)


def who_waits_in_recv_sleeps_there():
    """A look, whether it may wait, the sleep, the receive, where TCP has the receive. Nothing is asked about signals."""
    few, many = ([received(n, env) for env in (environment(offer_after='32'), environment(shim=False))] for n in (FEW, MANY))
    conn = [(m - f) / (MANY - FEW) for f, m in zip(few, many)]
    at_most([conn[0] - conn[1]], (5,), 'a connection whose client waits in recv()')
    at_most([few[0] - few[1] - FEW * (conn[0] - conn[1])], (55,), 'a process that waits in recv()')


def an_upgrade_before_the_first_call_has_its_bound():
    added_at_most([((26, 30), 'an upgraded connection')], offer_after='0')


def an_upgrade_that_rides_along_has_its_bound():
    added_at_most([((31, 29), 'a connection whose upgrade rides along')], offer_after='1')


def a_process_without_connections_pays_for_being_loaded():
    n = []
    for shim in (True, False):
        p, out = traced('none', ['/bin/true'], environment(shim=shim))
        same(p.wait(), 0, 'status')
        n.append(total(out))
    at_most([n[0] - n[1]], (14,), 'a process without connections')


def paced(env):
    """(client, server): system calls for each of calls that come 10 ms apart, with those that wait. On one CPU the ends give
    way to each other instead, and take fewer."""
    cpus = sorted(os.sched_getaffinity(0))[:2]
    few, many = ([total(out, ()) for out in both(env, 'paced', n, 10000, cpus=cpus if len(cpus) == 2 else ())] for n in (PACED, 2 * PACED))
    return [(m - f) / PACED for f, m in zip(few, many)]


def a_call_now_and_then_takes_one_more_at_the_client():
    """The client: fstat, the bell, a sleep, the bell's receive, where TCP has three calls. The server: as many as TCP. A
    look at a number's inode that falls due in the sleep, and a sleep that ends early, come on top, but not at every call."""
    for _ in range(3):
        got = [a - b for a, b in zip(paced(environment()), paced(environment(shim=False)))]
        if fits(got, (1, 0)):
            break
    at_most(got, (1, 0), 'a call every 10 ms')


main([a_process_without_connections_pays_for_being_loaded, a_connection_that_stays_on_TCP_costs_little_more,
      no_call_of_a_connection_costs_a_client_anything, who_waits_in_recv_sleeps_there,
      an_upgrade_before_the_first_call_has_its_bound, an_upgrade_that_rides_along_has_its_bound,
      a_call_now_and_then_takes_one_more_at_the_client])
