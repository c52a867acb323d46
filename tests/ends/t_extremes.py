# SPDX-License-Identifier: BSD-3-Clause
# Every option of config/options.def at each of its extremes, on the server, on the client and on both, and messages of
# sizes around it: they arrive unaltered, by the provider unless this file says why not.
import os, re
from ends import *

# Agents keep the memory in which messages of 64 MiB were. In a guest the pages cost three times what all else does.
os.environ.update(MALLOC_MMAP_MAX_='0', MALLOC_TRIM_THRESHOLD_=str(1 << 32), MALLOC_ARENA_MAX='1',
                  GLIBC_TUNABLES='glibc.malloc.hugetlb=1')	# huge pages, where the system has them
ROOT = HERE + '/../..'
UNIT = {'k': 1 << 10, 'm': 1 << 20, 'g': 1 << 30}
PATH_MAX = 107

# What an option needs beside it to matter at all, or to come as far.
COMPANY = {
    'max_message': dict(memory='512m'),
    'reply_chunk': dict(reliable_replies='off', max_message='64m', memory='512m', reply_chunk_max='64m'),
    'reply_chunk_max': dict(reliable_replies='off', max_message='64m', memory='512m'),
    'reply_chunks': dict(reliable_replies='off'),
    'lenient_read_chunks': dict(reliable_replies='off'),
    'done_property': dict(dialect='v2'),
    'ccp_program': dict(dialect='draft02'), 'rdma_reads': dict(dialect='draft02'),
    'msgp_threshold': dict(dialect='draft02', msgp_align='64'),
    'msgp_align': dict(dialect='draft02', msgp_threshold='1'),
    'process_budget': dict(connection_budget='64k'),
}


def allowed():
    """(name, what is allowed), of every option, as the example says."""
    name, text = None, ''
    with open(ROOT + '/rdmarpc.conf.example') as f:
        for line in f:
            if line.startswith('#['):
                return	# rules
            if line.startswith('# Allowed: '):
                text = line[11:].strip().rstrip('.')
            m = re.match(r'#([a-z0-9_]+) =', line)
            if m:
                yield m[1], text


def extremes(text):
    if text.startswith('a path'):
        return ['', '/' + 'p' * (PATH_MAX - 1)] + (['stderr'] if 'stderr' in text else [])
    m = re.fullmatch(r'(\S+)\.\.(\S+?)(?: (us|ms|s))?', text)
    if m:
        return [m[1] + (m[3] or ''), m[2] + (m[3] or '')]
    return text.split(', ')


def number(value):
    """Of a size or a count; None: it is neither."""
    m = re.fullmatch(r'(0x[0-9a-f]+|\d+)([kmg]?)', value)
    return int(m[1], 0) * UNIT.get(m[2], 1) if m else None


def sizes(name, value):
    """Lengths of arguments and results: what they make with the headers of RPC, of RPC-over-RDMA, and a record
    mark lies below, at and above the value."""
    n = number(value)
    common = [0, 1, 4027, 4028, 4029, 70001]
    if n is None or n > 1 << 26:	# longer than any message
        return common
    heads = (0, 24, 28, 40, 44, 52, 68) if n <= 1 << 20 else (40,)
    return common + sorted({n + d - h for d in (-1, 0, 1) for h in heads if n + d - h >= 0})


def why_tcp(settings, name, value, both, server):
    """Why a connection is not carried; None: it is. `server`: only the server is set up so."""
    if server and number(settings.get('memory', '0')) > 160 * UNIT['m']:
        return 'its client does not map so much'
    if name == 'enabled' and value == 'off':
        return 'switched off'
    if name == 'mode' and value == 'tcp':
        return 'its rule says so'
    if name == 'program' and not both:
        return 'the two do not know each other'
    return None


MAY_BE_TCP = {'upgrade_timeout_ms': 'in 1 ms there may be no answer', 'offer_after': 'the first calls go by TCP'}
FULL = {'connection_budget', 'process_budget', 'memory', 'max_exposed', 'stash', 'credits', 'warm_memory'}	# make it wait
UNSEEN = {'run_dir'}	# its statistics are elsewhere


def try_one(name, value, plain, plain_port, beside=None, around=()):
    settings = {**(beside or COMPANY.get(name, {})), name: value}
    a = Agent(**settings)
    a.do('L = listen()')
    port = a.do('serve(L)')
    lengths = sizes(name, value) + [n for v in around for n in sizes(name, v)]
    for client, to, both in ((plain, port, False), (a, plain_port, False), (a, port, True)):
        what = '%s = %s, %s' % (name, value, 'both' if both else 'client' if client is a else 'server')
        before = plain.carried(), a.carried() if name not in UNSEEN else 0
        try:
            client.do('s = connect(%d)' % to)
            client.do('ask(s, 1, blob(100))')
            now = plain.carried(), a.carried() if name not in UNSEEN else 0
            here = now[0] - before[0], now[1] - before[1]
            why = why_tcp(settings, name, value, both, client is plain)
            want = (0, 0) if why else (0, 2) if both else (1, 1)
            if name in UNSEEN:
                want = want[0], 0
            if name not in MAY_BE_TCP:
                same(here, want, 'carried (%s)' % (why or 'and why not'))
            for n in lengths:
                if both or n < 1 << 24:	# the longest ones once
                    client.do('ask(s, 2, blob(%d, 3))' % n)
            client.do('burst(s, 40, 100)')
            client.do('burst(s, 4, 20000)')
            if name in FULL or beside:
                client.do('burst(s, 16, 700000)')
            client.do('s.close()')
        except Failed as e:
            raise Failed('%s: %s' % (what, e))
    a.kill()


def tests():
    plain = []

    def partner():
        if not plain or plain[0][0].p.poll() is not None:
            b = Agent()
            b.do('L = listen()')
            plain[:] = [(b, b.do('serve(L)'))]
        return plain[0]

    def test_of(name, text):
        def fn():
            for value in extremes(text):
                try_one(name, value, *partner())
        fn.__name__ = name
        fn.may_leave_sockets = name == 'offer_after'	# agents are killed: the next who listens there takes it
        return fn
    def all_of(which):
        """Of every number that one, at once."""
        def fn():
            every = {n: extremes(t)[which] for n, t in allowed() if number(extremes(t)[which]) is not None}
            every['program'] = 0x2052444d
            around = [every[n] for n in ('inline_threshold', 'stash', 'connection_budget', 'memory')]
            for value in 'on', 'off':
                try_one('reliable_replies', value, *partner(), beside=every, around=around)
        fn.__name__ = ('every_number_at_its_least', 'every_number_at_its_most')[which]
        return fn
    return [test_of(*o) for o in allowed()] + [all_of(0), all_of(1)]


def every_option_is_tried():
    with open(ROOT + '/config/options.def') as f:
        names = re.findall(r'^RR_OPTION\((\w+),', f.read(), re.M)
    same([n for n, _ in allowed()], names, 'options of rdmarpc.conf.example (make docs)')
    check(all(len(extremes(t)) > 1 for _, t in allowed()), 'an option with one value only')


main([every_option_is_tried] + tests())
