# SPDX-License-Identifier: BSD-3-Clause
# A peer that lies (liar.c): its own connections may fail in any way that ends. The process lives, gives
# everything back, and its other connection goes on unaltered.
from ends import *

SECONDS = 3 * SLOW * int(os.environ.get('ROUNDS', 1))
SEED = os.environ.get('SEED', '1')


def liar(*args):
    log = open('%s/liar.log' % W, 'w+')
    p = subprocess.Popen([BUILD + '/tests/ends/liar', *map(str, args)], stdin=subprocess.DEVNULL,
                         stdout=subprocess.PIPE, stderr=log, text=True)
    procs.append(p)
    return p


def judged(agent):
    errors = agent.stat()['errors']
    check(errors['lost'] > 5, 'no connection was lost for its lies: %r' % errors)
    for name in 'discarded', 'unknown_xid', 'err_chunk_sent', 'late_done':
        check(errors[name], '%s: nothing of the kind was sent: %r' % (name, errors))


def a_client_lies_to_threads():
    a_client_lies('serve(L)')


def a_client_lies_to_an_event_loop():
    a_client_lies('Loop(L)')


def a_client_lies(serve):
    offer = offer_bytes()
    s, c = Agent(), Agent()
    s.do('L = listen()')
    s.do(serve)
    port = s.do('L.getsockname()[1]')
    c.do('s = connect(%d)' % port)
    c.do('ask(s, 1)')
    before = s.holds()
    t = c.start('load(s)')
    p = liar('client', offer.hex(), port, SEED, SECONDS)
    out, _ = p.communicate(timeout=(SECONDS + SOON) * SLOW)
    same(p.returncode, 0, 'the liar itself')
    words = out.split()
    check(int(words[1]) > 20 and int(words[3]) > 200, 'there was little to see: ' + out)
    c.do('stop = True')
    n = c.result(t)
    check(n > 20, 'only %d calls on the other connection' % n)
    s.settles(before, 'server')
    judged(s)
    same(c.carried(), 1)


def a_server_lies():
    s, c = Agent(), Agent(negative_cache_s=0)
    s.do('L = listen()')
    c.do('s = connect(%d)' % s.do('serve(L)'))
    c.do('ask(s, 1)')
    port = next(ports)
    p = liar('server', port, SEED)
    until(lambda: listening(port), 'the liar')
    before = c.holds()
    t = c.start('load(s)')
    u = c.start('pester(%d)' % port)
    time.sleep(SECONDS)
    check(p.poll() is None, 'the liar itself died')
    c.do('stop = True')
    n = c.result(t)
    check(n > 20, 'only %d calls on the other connection' % n)
    n = c.result(u)
    check(n > 10, 'only %d connections to the liar' % n)
    c.settles(before, 'client')
    judged(c)
    same(s.carried(), 1)


main([a_client_lies_to_threads, a_client_lies_to_an_event_loop, a_server_lies])
