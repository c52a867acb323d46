# SPDX-License-Identifier: BSD-3-Clause
# Who spins, and who does not: counted, not timed. Both ends are processes, pinned or not, by profile.
from ends import *

CALLS = 300


def counted(*ends):
    """What the ends together have counted: calls, spins."""
    flow = [e.stat()['flow'] for e in ends]
    return (sum(e.stat()['rpcs']['calls_received'] for e in ends), sum(f['spins'] for f in flow),
            sum(f['spun_ns'] for f in flow))


def play(cpus, clients=1, **options):
    """Calls one after the other, the server on the first of cpus, the client on the last."""
    def on(cpu):
        return ('taskset', '-c', str(cpu))

    s, c = Agent(prefix=on(cpus[0]), **options), Agent(prefix=on(cpus[-1]), **options)
    s.do('L = listen()')
    port = s.do('serve(L)')
    for i in range(clients):
        c.do('s%d = connect(%d)' % (i, port))
        c.do('ask(s%d, 1)' % i)
    same(c.carried(), clients, 'carried')
    for n in [c.start('[ask(s%d, i) for i in range(%d)] and 0' % (i, CALLS)) for i in range(clients)]:
        c.result(n)
    calls, spins, spun = counted(c, s)
    check(calls >= CALLS * clients, 'only %d calls were counted' % calls)
    return spins, spun


def cpus(n):
    have = sorted(os.sched_getaffinity(0))
    if len(have) < n:
        raise Skipped('takes %d CPUs' % n)
    return have[:n]


def nobody_spins_on_one_cpu():
    for profile in 'balanced', 'latency', 'thrift':
        spins, spun = play(cpus(1), profile=profile)
        check(spins <= 8, '%s: %d spins in %d calls: each end may not know the other yet' % (profile, spins, CALLS))


def ends_on_two_cpus_do():
    spins, spun = play(cpus(2), profile='latency')
    check(spins > CALLS / 2 and spun, 'no more than %d spins in %d calls' % (spins, CALLS))


def thrift_never_does():
    same(play(cpus(2), profile='thrift'), (0, 0))


def spin_us_0_says_the_same():
    same(play(cpus(2), spin_us=0, profile='latency'), (0, 0))


def many_threads_on_one_cpu_do_not_spin_either():
    spins, spun = play(cpus(1), clients=16, profile='balanced')
    check(spins <= 8 * 16, '%d spins in %d calls' % (spins, 16 * CALLS))


main([nobody_spins_on_one_cpu, ends_on_two_cpus_do, thrift_never_does, spin_us_0_says_the_same,
      many_threads_on_one_cpu_do_not_spin_either])
