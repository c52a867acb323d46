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
PEERS = 2	# at a time, since there may be no more processors
total = {}


def hostile(number, *args):
    err = open('%s/hostile.%d.log' % (W, number), 'w+')
    p = subprocess.Popen([BUILD + '/tests/ends/hostile', *map(str, args)], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=err, text=True, env=environment(shim=False))
    p.err = err.name
    procs.append(p)
    return p


def finish(peers, seconds):
    """What they say they did, together."""
    sums = {}
    for p in peers:
        out, _ = p.communicate(timeout=(seconds + SOON) * SLOW)
        with open(p.err) as f:
            same(p.returncode, 0, 'the hostile peer itself: %s' % f.read()[-2000:])
        words = out.split()
        print('  ' + out.strip())
        for k, v in zip(words[::2], words[1::2]):
            sums[k] = sums.get(k, 0) + int(v)
    for k, v in sums.items():
        total[k] = total.get(k, 0) + v
    check(sums['carried'] > 20 and sums['replies'] > 200 and sums['mutations'] > 100000,
          'that was too little: %r' % sums)


def alive(agent):
    check(agent.p.poll() is None, 'it died: %s' % agent.log()[-2000:])


def hostile_clients(serve, base):
    s, c = Agent(), Agent()
    s.do('L = listen(backlog=128)')
    s.do(serve)
    port = s.do('L.getsockname()[1]')
    c.do('s = connect(%d)' % port)
    c.do('ask(s, 1)')
    before = s.holds()
    t = c.start('load(s)')
    peers = [hostile(i, 'client', port, base + 1000000 * i, SECONDS) for i in range(PEERS)]
    finish(peers, SECONDS)
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
    c.do('ask(s, 1)')
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
    finish(peers, SECONDS)
    c.settles(before, 'client')
    same(s.carried(), 1)


def sums():
    """A line of its own, for who wants to know how much it was."""
    print('  in all: ' + ', '.join('%s %d' % (k, v) for k, v in total.items() if k != 'seed'))


main([hostile_clients_of_threads, hostile_clients_of_an_event_loop, hostile_servers, sums])
