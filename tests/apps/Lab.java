// SPDX-License-Identifier: BSD-3-Clause
// The laboratory program (lab.x) in Java.
// Lab server PORT        a thread for each connection, streams
// Lab select PORT        one thread, a Selector
// Lab io PORT            a client on streams, that asks what is available()
// Lab nio PORT           a client on a channel that does not block, with a Selector and calls outstanding
import java.io.*;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.*;

public class Lab {
	static final int PROG = 0x20005244, LAST = 0x80000000;
	static final int[] SIZES = {0, 1, 3, 4, 100, 1000, 4096, 8192, 9000, 65535, 65536, 300000, 1048576};
	static final String HOST = System.getenv().getOrDefault("LAB_ADDRESS", "127.0.0.1");
	static final long READY_MS = 100000;	// beyond the 20 s that an upgrade may take

	static void check(boolean ok, String what) {
		if (!ok)
			throw new IllegalStateException(what);
	}

	static byte[] pattern(int n) {
		byte[] b = new byte[n];
		for (int i = 0; i < n; i++)
			b[i] = (byte) (i * 31 + (i >> 9));
		return b;
	}

	/** A record of one fragment: mark, words, opaque data if it is not null. */
	static ByteBuffer record(byte[] data, int... words) {
		int size = 4 * words.length + (data == null ? 0 : 4 + (data.length + 3) / 4 * 4);
		ByteBuffer b = ByteBuffer.allocate(4 + size);
		b.putInt(LAST | size);
		for (int w : words)
			b.putInt(w);
		if (data != null)
			b.putInt(data.length).put(data);
		return b.rewind();
	}

	static ByteBuffer call(int xid, int proc, byte[] data) {
		return record(data, xid, 0, 2, PROG, 1, proc, 0, 0, 0, 0);
	}

	static byte[] opaque(ByteBuffer b) {
		byte[] data = new byte[b.getInt()];
		b.get(data);
		return data;
	}

	/** The data that a reply echoes; its xid goes to xid[0]. */
	static byte[] echoed(ByteBuffer reply, int[] xid) {
		xid[0] = reply.getInt();
		check(reply.getInt() == 1, "a reply");
		for (int i = 0; i < 4; i++)
			check(reply.getInt() == 0, "success");
		return reply.hasRemaining() ? opaque(reply) : null;
	}

	static ByteBuffer answer(ByteBuffer call) {
		int xid = call.getInt();
		call.position(12);
		int prog = call.getInt();
		call.getInt();
		int proc = call.getInt();
		for (int i = 0; i < 2; i++) {	// credential and verifier
			call.getInt();
			opaque(call);
		}
		if (prog != PROG)
			return record(null, xid, 1, 0, 0, 0, 1);
		if (proc > 1)
			return record(null, xid, 1, 0, 0, 0, 3);
		return record(proc == 1 ? opaque(call) : null, xid, 1, 0, 0, 0, 0);
	}

	static ByteBuffer read(DataInputStream in) throws IOException {
		ByteArrayOutputStream msg = new ByteArrayOutputStream();
		int mark;
		do {
			mark = in.readInt();
			msg.write(in.readNBytes(mark & ~LAST));
		} while ((mark & LAST) == 0);
		return ByteBuffer.wrap(msg.toByteArray());
	}

	static void serve(Socket s) {
		try (s) {
			DataInputStream in = new DataInputStream(new BufferedInputStream(s.getInputStream()));
			while (true)
				s.getOutputStream().write(answer(read(in)).array());
		} catch (IOException e) {
			// the client has gone
		}
	}

	static void server(int port) throws IOException {
		ServerSocket listener = new ServerSocket(port);
		while (true) {
			Socket s = listener.accept();
			new Thread(() -> serve(s)).start();
		}
	}

	/** A connection that does not block: bytes in, records out. */
	static class Peer {
		final SocketChannel ch;
		final Deque<ByteBuffer> out = new ArrayDeque<>();
		ByteBuffer in = ByteBuffer.allocate(1 << 16);
		final ByteArrayOutputStream msg = new ByteArrayOutputStream();

		Peer(SocketChannel ch) {
			this.ch = ch;
		}

		/** Reads what is there; false at the end of the stream. */
		boolean fill() throws IOException {
			if (!in.hasRemaining())
				in = ByteBuffer.allocate(2 * in.capacity()).put(in.flip());
			return ch.read(in) >= 0;
		}

		/** A whole record, or null. */
		ByteBuffer next() {
			in.flip();
			try {
				while (in.remaining() >= 4) {
					int mark = in.getInt(in.position()), size = mark & ~LAST;
					if (in.remaining() < 4 + size)
						return null;
					msg.write(in.array(), in.position() + 4, size);
					in.position(in.position() + 4 + size);
					if ((mark & LAST) != 0) {
						ByteBuffer whole = ByteBuffer.wrap(msg.toByteArray());
						msg.reset();
						return whole;
					}
				}
				return null;
			} finally {
				in.compact();
			}
		}

		void flush(SelectionKey key) throws IOException {
			while (!out.isEmpty()) {
				ch.write(out.peek());
				if (out.peek().hasRemaining())
					break;
				out.remove();
			}
			key.interestOps(SelectionKey.OP_READ | (out.isEmpty() ? 0 : SelectionKey.OP_WRITE));
		}
	}

	static void serveKey(SelectionKey key, Selector sel) throws IOException {
		if (key.isAcceptable()) {
			SocketChannel ch = ((ServerSocketChannel) key.channel()).accept();
			ch.configureBlocking(false);
			ch.register(sel, SelectionKey.OP_READ, new Peer(ch));
			return;
		}
		Peer p = (Peer) key.attachment();
		try {
			if (key.isReadable() && !p.fill())
				throw new EOFException();
			for (ByteBuffer c; (c = p.next()) != null; )
				p.out.add(answer(c));
			p.flush(key);
		} catch (IOException e) {
			p.ch.close();
		}
	}

	static void select(int port) throws IOException {
		Selector sel = Selector.open();
		ServerSocketChannel listener = ServerSocketChannel.open().bind(new InetSocketAddress(port));
		listener.configureBlocking(false);
		listener.register(sel, SelectionKey.OP_ACCEPT);
		while (true) {
			sel.select();
			for (SelectionKey key : sel.selectedKeys())
				serveKey(key, sel);
			sel.selectedKeys().clear();
		}
	}

	static int io(int port) throws IOException {
		int calls = 0;
		int[] xid = new int[1];
		try (Socket s = new Socket(HOST, port)) {
			DataInputStream in = new DataInputStream(s.getInputStream());
			for (int n : SIZES) {
				byte[] data = pattern(n);
				s.getOutputStream().write(call(++calls, 1, data).array());
				byte first = in.readByte();
				check(in.available() > 0, "available()");	// a record of 28 bytes is written at once
				ByteBuffer rest = ByteBuffer.allocate(4).put(first).put(in.readNBytes(3)).flip();
				int mark = rest.getInt();
				ByteBuffer reply = ByteBuffer.wrap(in.readNBytes(mark & ~LAST));
				if ((mark & LAST) == 0) {
					ByteBuffer more = read(in);
					reply = ByteBuffer.allocate(reply.capacity() + more.capacity()).put(reply).put(more).flip();
				}
				check(Arrays.equals(echoed(reply, xid), data) && xid[0] == calls, "echo " + n);
			}
			check(in.available() == 0, "nothing is available()");
		}
		return calls;
	}

	static int nio(int port) throws IOException {
		Selector sel = Selector.open();
		SocketChannel ch = SocketChannel.open();
		ch.configureBlocking(false);
		Peer p = new Peer(ch);
		SelectionKey key = ch.register(sel, SelectionKey.OP_CONNECT, p);
		if (ch.connect(new InetSocketAddress(HOST, port)))
			key.interestOps(SelectionKey.OP_WRITE);
		int calls = 200, answered = 0;
		int[] xid = new int[1];
		for (int i = 0; i < calls; i++)
			p.out.add(call(i, 1, pattern(i * 150)));
		while (answered < calls) {
			check(sel.select(READY_MS) == 1, "select()");
			sel.selectedKeys().clear();
			if (key.isConnectable())
				check(ch.finishConnect(), "connected");
			if (key.isReadable())
				check(p.fill(), "end of the stream");
			for (ByteBuffer reply; (reply = p.next()) != null; answered++)
				check(Arrays.equals(echoed(reply, xid), pattern(xid[0] * 150)), "echo " + xid[0]);
			p.flush(key);
		}
		ch.close();
		return calls;
	}

	public static void main(String[] args) throws IOException {
		int port = Integer.parseInt(args[1]), calls;
		switch (args[0]) {
		case "server" -> server(port);
		case "select" -> select(port);
		default -> {
			calls = args[0].equals("io") ? io(port) : nio(port);
			System.out.println("java " + args[0] + " ok");
			System.err.println("calls " + calls);
		}
		}
	}
}
