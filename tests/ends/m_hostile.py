# SPDX-License-Identifier: BSD-3-Clause
# A peer that overwrites the memory both ends share while it speaks (hostile.c), in both roles. Its own
# connections may fail in any way that ends. The process that it is connected to lives, reports nothing, gives
# everything back, and every call of its other connection succeeds with the right bytes.
#
# Not one of t_*.py: `make check-hostile` runs it with a library that has ASan and UBSan in it, in
# HOSTILE_SECONDS (20), from SEED on. A failure is replayed by the seed that it names.
from ends import *

TESTS = 3
SECONDS = max(2, int(os.environ.get('HOSTILE_SECONDS', 20)) // TESTS)
SEED = int(os.environ.get('SEED', 0)) or 1
ENOUGH = 80	# connections to hostile servers; they read two or three calls of each
ROUNDS = 10	# at most, of hostile clients: on a busy machine most offers of one come to nothing
PEERS = 2	# at a time, since there may be no more processors
total = {}


def hostile(number, *args):
    err = open('%s/hostile.%d.log' % (W, number), 'w+')
    p = subprocess.Popen([BUILD + '/tests/ends/hostile', *map(str, args)], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=err, text=True, env=environment(shim=False))
    p.err = err.name
    procs.append(p)
    return p


def is_enough(sums):
    return all(sums.get(k, 0) > n for k, n in (('carried', 20), ('replies', 200), ('mutations', 100000)))


def finish(peers, seconds, sums):
    """Adds what they say they did."""
    for p in peers:
        out, _ = p.communicate(timeout=(seconds + SOON) * SLOW)
        with open(p.err) as f:
            same(p.returncode, 0, 'the hostile peer itself: %s' % f.read()[-2000:])
        words = out.split()
        print('  ' + out.strip())
        for k, v in zip(words[::2], words[1::2]):
            sums[k] = sums.get(k, 0) + int(v)
            total[k] = total.get(k, 0) + int(v)


def alive(agent):
    check(agent.p.poll() is None, 'it died: %s' % agent.log()[-2000:])


def hostile_clients(serve, base):
    s, c = Agent(), Agent()
    s.do('L = listen(backlog=128)')
    s.do(serve)
    port = s.do('L.getsockname()[1]')
    c.do('s = connect(%d)' % port)
    c.do('doze(s)')
    before = s.holds()
    t = c.start('load(s)')
    sums = {}
    for n in range(ROUNDS):
        if is_enough(sums):
            break
        finish([hostile(i, 'client', port, base + 1000000 * i + 50000 * n, SECONDS) for i in range(PEERS)], SECONDS, sums)
    check(is_enough(sums), 'that was too little: %r' % sums)
    alive(s)
    until(lambda: c.do('loaded') > 20, 'calls of the honest client')
    c.do('stop = True')
    print('  honest calls %d' % c.result(t))
    s.settles(before, 'server')
    same((c.carried(), c.stat()['errors']['lost']), (1, 0), 'honest client carried, lost')


def hostile_clients_of_threads():
    hostile_clients('serve(L)', SEED)


def hostile_clients_of_an_event_loop():
    hostile_clients('Loop(L)', SEED + 500000)


def hostile_servers():
    s, c = Agent(), Agent(negative_cache_s=0)
    s.do('L = listen()')
    c.do('s = connect(%d)' % s.do('serve(L)'))
    c.do('doze(s)')
    ports_ = [next(ports) for _ in range(PEERS)]
    peers = [hostile(i, 'server', port, SEED + 1000000 * i) for i, port in enumerate(ports_)]
    for port in ports_:
        until(lambda: listening(port), 'the hostile server')
    before = c.holds()
    load = c.start('load(s)')
    pests = [c.start('pester(%d)' % port) for port in ports_]
    time.sleep(SECONDS)
    until(lambda: c.do('loaded > 20 and pestered > %d' % ENOUGH) or any(p.poll() is not None for p in peers), 'all seen')
    alive(c)
    c.do('stop = True')
    print('  honest calls %d' % c.result(load))
    for t in pests:
        c.result(t)
    for p in peers:
        p.send_signal(signal.SIGTERM)
    sums = {}
    finish(peers, SECONDS, sums)
    check(is_enough(sums), 'that was too little: %r' % sums)
    c.settles(before, 'client')
    same(s.carried(), 1)


def sums():
    """A line of its own, for who wants to know how much it was."""
    print('  in all: ' + ', '.join('%s %d' % (k, v) for k, v in total.items() if k != 'seed'))


main([hostile_clients_of_threads, hostile_clients_of_an_event_loop, hostile_servers, sums])
