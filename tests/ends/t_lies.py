# SPDX-License-Identifier: BSD-3-Clause
# A peer that lies (liar.c): its own connections may fail in any way that ends. The process lives, gives
# everything back, and its other connection goes on unaltered.
from ends import *

SECONDS = 3 * SLOW * int(os.environ.get('ROUNDS', 1))	# and more, until all that is judged was seen
SEED = int(os.environ.get('SEED', 1))
KINDS = 'discarded', 'unknown_xid', 'err_chunk_sent', 'late_done'


def liar(*args):
    log = open('%s/liar.log' % W, 'w+')
    p = subprocess.Popen([BUILD + '/tests/ends/liar', *map(str, args)], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=log, text=True)
    procs.append(p)
    return p


def seen(agent):
    """Has the liar said enough of every kind?"""
    errors = agent.stat()['errors']
    return errors['lost'] > 5 and all(errors[k] for k in KINDS)


def a_client_lies_to_threads():
    a_client_lies('serve(L)')


def a_client_lies_to_an_event_loop():
    a_client_lies('Loop(L)')


def a_client_lies(serve):
    s, c = Agent(), Agent()
    s.do('L = listen()')
    s.do(serve)
    port = s.do('L.getsockname()[1]')
    c.do('s = connect(%d)' % port)
    c.do('doze(s)')
    before = s.holds()
    t = c.start('load(s)')
    connections = messages = 0

    def lies(seed):
        nonlocal connections, messages
        p = liar('client', port, seed, SECONDS)
        out, _ = p.communicate(timeout=(SECONDS + SOON) * SLOW)
        same(p.returncode, 0, 'the liar itself')
        words = out.split()
        connections += int(words[1])
        messages += int(words[3])
        return connections > 20 and messages > 200 and seen(s) and c.do('loaded') > 20
    check(any(lies(SEED + 1000 * i) for i in range(30)), 'not all was seen: %d connections, %d messages, %r' %
          (connections, messages, s.stat()['errors']))
    c.do('stop = True')
    c.result(t)
    s.settles(before, 'server')
    same(c.carried(), 1)


def a_server_lies():
    s, c = Agent(), Agent(negative_cache_s=0)
    s.do('L = listen()')
    c.do('s = connect(%d)' % s.do('serve(L)'))
    c.do('doze(s)')
    port = next(ports)
    p = liar('server', port, SEED)
    until(lambda: listening(port), 'the liar')
    before = c.holds()
    t = c.start('load(s)')
    u = c.start('pester(%d)' % port)
    time.sleep(SECONDS)
    until(lambda: seen(c) and c.do('loaded > 20 and pestered > 10') or p.poll() is not None,
          'all was seen, of %r' % (KINDS,))
    check(p.poll() is None, 'the liar itself died')
    c.do('stop = True')
    c.result(t)
    c.result(u)
    c.settles(before, 'client')
    same(s.carried(), 1)


main([a_client_lies_to_threads, a_client_lies_to_an_event_loop, a_server_lies])
