# SPDX-License-Identifier: BSD-3-Clause
# Clients that ask for much and read nothing: what that costs the server, beside the same greed over TCP in the
# same run; and that another client is served meanwhile.
from ends import *

LENGTH = 120000
MIB = 1 << 20
SMALL = 2 * MIB		# Python's own threads, tables of a connection, rings
SO_MEMINFO = 55


def memory(agent):
    """Bytes: its private ones (but for a sanitizer, which keeps what was freed), and those of what it shares
    with its peers, whoever has touched them."""
    total, seen = 0, set()
    if not SAN:
        with open('/proc/%d/smaps_rollup' % agent.pid) as f:
            total += sum(int(line.split()[1]) << 10 for line in f if line.startswith('Anonymous'))
    d = '/proc/%d/map_files/' % agent.pid
    for n in os.listdir(d):
        try:
            if os.readlink(d + n).split(' ')[0] in ('/memfd:rdmarpc', '/dev/zero'):
                st = os.stat(d + n)
                if st.st_ino not in seen:
                    seen.add(st.st_ino)
                    total += st.st_blocks * 512
        except FileNotFoundError:
            pass
    return total


def server(**options):
    """Answers every call with as many bytes as it asks for."""
    s = Agent(**options)
    s.do('L = listen(backlog=64)')
    s.do('threading.Thread(target=give_all, args=(L,), daemon=True).start()')
    return s, s.do('L.getsockname()[1]')


def greedy(port, n):
    log = open('%s/greedy.log' % W, 'w+')
    p = subprocess.Popen([BUILD + '/tests/ends/greedy', str(port), str(n), str(LENGTH)],
                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
    procs.append(p)
    word = p.stdout.readline().split()
    check(word[:1] == ['full'], 'the greedy client: %r, status %r' % (word, p.poll()))
    check(int(word[1]) >= n, 'only %s calls were taken' % word[1])
    return p


def over_tcp():
    """What the same costs there: what lies in the buffers of both sockets."""
    s, port = server(shim=False)
    c = Agent(shim=False)
    c.do('s = connect(%d)' % port)
    c.do('greed(s, %d)' % LENGTH)

    def inside(a, name):
        rmem, _, _, _, _, queued = struct.unpack('6I', bytes.fromhex(
            a.do('%s.getsockopt(socket.SOL_SOCKET, %d, 24).hex()' % (name, SO_MEMINFO))))
        return rmem + queued
    cost = lasting(lambda: inside(s, 'given') + inside(c, 's'))
    check(cost > MIB, 'over TCP only %d bytes wait: the test tests nothing' % cost)
    return cost


def one_costs_what_it_costs_over_tcp():
    tcp = over_tcp()
    s, port = server()
    before = lasting(lambda: memory(s))
    p = greedy(port, 1)
    cost = lasting(lambda: memory(s)) - before
    print('# one greedy client: %.1f MiB, over TCP %.1f MiB' % (cost / MIB, tcp / MIB))
    check(cost <= 2 * tcp + SMALL, '%d bytes, over TCP %d' % (cost, tcp))
    same(s.carried(), 1)
    p.stdin.close()
    same(p.wait(), 0)
    until(lambda: memory(s) <= before + SMALL, 'memory is given back: %d, was %d' % (memory(s), before))


def calls_that_nobody_reads(shim):
    """What a client holds of calls whose server never reads, and that was carried."""
    s, c = Agent(shim=shim), Agent(shim=shim)
    s.do('L = listen()')
    a = s.start('s, _ = L.accept()')
    c.do('s = connect(%d)' % s.do('L.getsockname()[1]'))
    s.result(a)
    a = s.start('echo_one(s)')
    c.do('ask(s, 1)')
    s.result(a)
    if shim:
        same(c.carried(), 1)
    before = lasting(lambda: memory(c))
    calls = c.do('pushed(s, %d)' % LENGTH)
    check(calls > 2, 'only %d calls were taken' % calls)
    return calls * LENGTH, lasting(lambda: memory(c)) - before


def a_server_that_reads_nothing():
    tcp, _ = calls_that_nobody_reads(False)
    carried, cost = calls_that_nobody_reads(True)
    print('# taken of who is not read: %.1f MiB, over TCP %.1f MiB; for %.1f MiB' % (carried / MIB, tcp / MIB, cost / MIB))
    check(cost <= 2 * tcp + SMALL, '%d bytes, over TCP %d' % (cost, tcp))


def many_share_the_process_budget():
    n, budget = 24, 8 * MIB
    s, port = server(process_budget=budget)
    c = Agent()
    c.do('s = connect(%d)' % port)
    c.do('taken(s, 1, 1000)')
    before = lasting(lambda: memory(s))
    greedy(port, n)
    cost = lasting(lambda: memory(s)) - before
    print('# %d greedy clients: %.1f MiB, of a budget of %d' % (n, cost / MIB, budget / MIB))
    least = (64 << 10) + 2 * LENGTH + (512 << 10)	# two replies, one of them in Python; two small rings and tables
    check(cost <= budget * 3 // 2 + n * least + SMALL, '%d bytes for %d clients' % (cost, n))
    same(s.carried(), n + 1)
    for size in (10, 5000, LENGTH, MIB, 4 * MIB):
        same(c.do('taken(s, %d, %d)' % (size, size)), size)
    same(c.carried(), 1)
    check(memory(s) - before <= budget * 3 // 2 + n * least + 5 * MIB + SMALL, 'after the other client: %d' % memory(s))


main([one_costs_what_it_costs_over_tcp, a_server_that_reads_nothing, many_share_the_process_budget])
