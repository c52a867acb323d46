# SPDX-License-Identifier: BSD-3-Clause
# An application that does what it is told: a line with the tuple (id, code) on stdin, an answer (id, value or None,
# error or None) on stdout with the value of the code, or what it raised. Every line runs in a thread of its own,
# so that a call may block. Started by ends.py, with the library or without; it knows nothing of it.
import _socket, _thread, errno, fcntl, os, select, struct, sys, time

# By names that no line of a test gives to something else.
from rpc import LAST, PROG_UNAVAIL, call as put_call, reply as put_reply, take_record, xid_of
from rpc import receive_exactly as read_n, receive_record as read_rec, record as rec

OURS = 0x20000001
PERIOD = 65521	# of a blob's bytes; a prime, so that those of another page, or of another piece of 2^n bytes, are others


class Later:
    """A module that few processes of the tests need, and whose import would take each a good part of its start. What
    is given with it is there at once."""

    def __init__(self, name, **given):
        self.name = name
        self.__dict__.update(given)

    def __getattr__(self, what):
        return getattr(__import__(self.name), what)


class Socket(_socket.socket):
    """What the tests use of the class in Python's module of that name, whose import takes a third of a process's start."""

    def like(self, fd):
        return Socket(self.family, self.type, self.proto, fd)

    def accept(self):
        fd, peer = self._accept()
        return self.like(fd), peer

    def dup(self):
        return self.like(_socket.dup(self.fileno()))

    def set_inheritable(self, yes):
        os.set_inheritable(self.fileno(), yes)


ctypes, random, signal, termios, threading, traceback = map(Later, ('ctypes', 'random', 'signal', 'termios', 'threading', 'traceback'))
socket = Later('socket', **{**vars(_socket), 'socket': Socket})


def call(xid, body=b'', prog=OURS, proc=0):
    return rec(put_call(xid, prog, 1, proc, body))


def reply(xid, body=b''):
    return rec(put_reply(xid, body))


def blob(n, seed=0):
    some = random.Random(seed).randbytes(min(n, PERIOD))
    return (some * (n // PERIOD + 1))[:n]


def listen(host='127.0.0.1', port=0, family=socket.AF_INET, backlog=16):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind((host, port))
    s.listen(backlog)
    return s


def connect(port, host='127.0.0.1', family=socket.AF_INET):
    s = socket.socket(family, socket.SOCK_STREAM)
    s.connect((host, port))
    return s


def check_echo(r, xid, body):
    """Is it the reply of a server that echoes?"""
    if xid_of(r) != xid:
        raise ValueError('reply to %x, not %x' % (xid_of(r), xid))
    if len(r) != 24 + len(body) or not r.endswith(body):
        raise ValueError('%d bytes came back as %d others' % (len(body), len(r) - 24))


def ask(s, xid, body=b'', **kw):
    """One call; the length of the reply's body. The servers here echo."""
    s.sendall(call(xid, body, **kw))
    check_echo(read_rec(s), xid, body)
    return len(body)


def pipes():
    return sum(os.readlink(e.path).startswith('pipe:') for e in os.scandir('/proc/self/fd') if os.path.islink(e.path))


def doze(s):
    """Calls with pauses, until the connection has all descriptors that it ever will: ends that sleep get a pipe each. Which
    of them sleeps when is chance, so they may give up before."""
    had, more = pipes(), 5
    for i in range(200):
        time.sleep(0.006)
        ask(s, i)
        more -= pipes() == had + 2  # the other end has yet to take one
        if not more:
            return


def burst(s, n, length):
    """n calls of this length, written at once by one thread and answered meanwhile."""
    body = blob(length, n)
    t = threading.Thread(target=s.sendall, args=(b''.join(call(i, body) for i in range(n)),))
    t.start()
    for i in range(n):
        if read_rec(s) != reply(i, body)[4:]:
            raise ValueError('reply %d of %d' % (i, n))
    t.join()
    return n


strangers = 0	# calls to programs that are not ours


def echo_one(s):
    """Serves a call; one to another program is told so, as every RPC server does."""
    global strangers
    r = read_rec(s)
    if struct.unpack('>I', r[12:16])[0] != OURS:
        strangers += 1
        return s.sendall(rec(put_reply(xid_of(r), accept=PROG_UNAVAIL)))
    s.sendall(reply(xid_of(r), r[40:]))


def echo(s):
    """Serves a connection until it ends; how it ended."""
    try:
        while True:
            echo_one(s)
    except EOFError as e:
        return 'EOF ' + str(e)
    except OSError as e:
        return errno.errorcode[e.errno]
    except struct.error:
        return 'nonsense'
    finally:
        s.close()


def echo_all(listener, n=1 << 30):
    """Serves every connection, each in a thread."""
    for _ in range(n):
        s, _ = listener.accept()
        _thread.start_new_thread(echo, (s,))


def serve(listener, n=1 << 30):
    """In the background."""
    _thread.start_new_thread(echo_all, (listener, n))
    return listener.getsockname()[1]


given = None


def give_one(s):
    """Answers a call with as many bytes as it asks for."""
    r = read_rec(s)
    s.sendall(reply(xid_of(r), bytes(struct.unpack('>I', r[40:44])[0])))


def give(s):
    try:
        while True:
            give_one(s)
    except (EOFError, OSError):
        s.close()


def give_all(listener):
    global given
    while True:
        given, _ = listener.accept()
        _thread.start_new_thread(give, (given,))


def taken(s, xid, n):
    """A reply of n bytes; how many came."""
    s.sendall(call(xid, struct.pack('>I', n)))
    r = read_rec(s)
    if r != reply(xid, bytes(n))[4:]:
        raise ValueError('%d bytes, not the reply' % len(r))
    return len(r) - 24


def greed(s, n):
    """Asks for replies of n bytes until no more calls are taken, and reads none; how many."""
    asked = 0
    s.settimeout(1)
    try:
        while True:
            s.sendall(call(asked, struct.pack('>I', n)))
            asked += 1
    except TimeoutError:
        return asked


def pushed(s, n):
    """Calls of n bytes until no more are taken; how many were, whole."""
    asked, body = 0, bytes(n)
    s.settimeout(1)
    try:
        while True:
            s.sendall(call(asked, body))
            asked += 1
    except TimeoutError:
        return asked


class Loop:
    """An echoing server of one thread, edge-triggered: never blocks, closes whom it does not understand."""

    def __init__(self, listener):
        self.p = select.epoll()
        self.listener = listener
        self.conns = {}
        listener.setblocking(False)
        self.p.register(listener, select.EPOLLIN)
        _thread.start_new_thread(self.run, ())

    def run(self):
        while True:
            for fd, _ in self.p.poll():
                if fd == self.listener.fileno():
                    self.take()
                else:
                    self.serve(fd)

    def take(self):
        s, _ = self.listener.accept()
        s.setblocking(False)
        self.conns[s.fileno()] = s, bytearray(), bytearray()
        self.p.register(s, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)

    def serve(self, fd):
        s, into, out = self.conns[fd]
        try:
            while True:
                got = s.recv(65536)
                if not got:
                    raise EOFError
                into += got
                self.answer(into, out)
        except BlockingIOError:
            pass
        except (OSError, EOFError, struct.error):
            del self.conns[fd]
            return s.close()
        try:
            while out:
                del out[:s.send(out)]
        except BlockingIOError:
            pass
        except OSError:
            del self.conns[fd]
            s.close()

    def answer(self, into, out):
        while len(into) >= 4:
            mark, = struct.unpack('>I', into[:4])
            if not mark & LAST or mark & ~LAST > 1 << 25:
                raise EOFError
            r = take_record(into)
            if r is None:
                return
            out += reply(xid_of(r), r[40:])


stop = False
loaded = pestered = 0


def load(s, most=100000):
    """Calls of all sizes on s until stop; how many. Every reply must be right, and in time."""
    global loaded
    n = 0
    s.settimeout(90)
    while not stop:
        n += 1
        ask(s, n, blob(random.Random(n).choice((0, 100, 1000, 5000, most)), n))
        loaded += 1
    return n


def pester(port):
    """Connections to a peer that lies, until stop; how many. Whatever comes back is all right, if it
    comes or fails."""
    global pestered
    n = 0
    while not stop:
        n += 1
        pestered += 1
        s = connect(port)
        s.settimeout(0.2)
        try:
            for i in range(20):
                ask(s, i, blob((10, 20000)[i % 2]))
        except (OSError, ValueError, EOFError, struct.error):
            pass
        s.close()
    return n


def wait_for(s, bits, timeout=90):
    """poll() for one: what it says."""
    p = select.poll()
    p.register(s, bits)
    return sum(e for _, e in p.poll(timeout * 1000))


def send_nb(s, data):
    """All of it on a non-blocking socket; how often it had to wait."""
    waits = 0
    while data:
        try:
            data = data[s.send(data):]
        except BlockingIOError:
            waits += 1
            if not wait_for(s, select.POLLOUT) & select.POLLOUT:
                raise TimeoutError('no POLLOUT')
    return waits


def read_nb(s):
    """A record from a non-blocking socket."""
    b = bytearray()
    while True:
        try:
            got = s.recv(65536)
            if not got:
                raise EOFError('after %d' % len(b))
            b += got
        except BlockingIOError:
            if not wait_for(s, select.POLLIN):
                raise TimeoutError('no POLLIN')
        if len(b) >= 4 and len(b) >= 4 + (struct.unpack('>I', b[:4])[0] & ~LAST):
            return bytes(b[4:])


def ask_nb(s, xid, body=b''):
    waits = send_nb(s, call(xid, body))
    check_echo(read_nb(s), xid, body)
    return waits


def inq(s):
    return struct.unpack('i', fcntl.ioctl(s, termios.FIONREAD, bytes(4)))[0]


def ending(s, written=None):
    """What reading to the end comes to. written: bytes that what is read must be the beginning of."""
    try:
        n = 0
        while True:
            got = s.recv(65536)
            if not got:
                return 'EOF after %d' % n
            if written is not None and got != written[n:n + len(got)]:
                return 'other bytes after %d' % n
            n += len(got)
    except OSError as e:
        return errno.errorcode[e.errno]


def attempt(fn, *args):
    try:
        return fn(*args)
    except OSError as e:
        return errno.errorcode[e.errno]
    except EOFError:
        return 'EOF'


def fork_worker(code):
    """A child that runs code, until it is killed with this process's group."""
    pid = os.fork()
    if pid == 0:
        try:
            exec(code, G)
        finally:
            os._exit(1)
    return pid


def forked(code):
    """Runs code in a child; its exit status."""
    pid = os.fork()
    if pid == 0:
        try:
            exec(code, G)
            os._exit(0)
        finally:
            traceback.print_exc()
            os._exit(1)
    return os.waitpid(pid, 0)[1]


def sigpipe():
    """From now on it kills. (Python's own function works in the main thread only.)"""
    ctypes.CDLL(None).signal(int(signal.SIGPIPE), None)


def rss():
    with open('/proc/self/status') as f:
        for line in f:
            if line.startswith('VmRSS'):
                return int(line.split()[1])


lock = _thread.allocate_lock()
G = globals()


def plain(value):
    """What a test is told of a value: lists for tuples, nothing for what is no data."""
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)	# a constant of a module has a name, too
    if value is None or isinstance(value, (bool, float, str)):
        return value
    raise TypeError


def tell(ident, value=None, error=None):
    with lock:
        os.write(out, (repr((ident, value, error)) + '\n').encode())


def run(ident, code):
    try:
        try:
            value = eval(compile(code, 'driver', 'eval'), G)
        except SyntaxError:
            exec(compile(code, 'driver', 'exec'), G)
            value = None
        try:
            value = plain(value)
        except TypeError:
            value = None
        tell(ident, value)
    except OSError as e:
        tell(ident, error=errno.errorcode.get(e.errno, str(e)))
    except BaseException as e:
        traceback.print_exc()
        tell(ident, error='%s: %s' % (type(e).__name__, e))


def main():
    for line in iter(sys.stdin.readline, ''):
        _thread.start_new_thread(run, eval(line))
    os._exit(0)


if __name__ == '__main__':
    out = os.dup(1)
    os.dup2(2, 1)
    main()
