/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CAPTURE_ABI_H
#define RR_CAPTURE_ABI_H

/* What rdmarpc-dump and a process of which it captures share: a desk in the process's
 * statistics segment, where the reader asks; and a ring of the process's, in which it finds
 * packets. Fixed-width, the same for 32- and 64-bit programs. Neither side trusts what the
 * other writes.
 *
 * The reader writes the wishes, then `ask`. The process makes the ring, a memfd whose size is
 * sealed, at its next message and says by which descriptor of its own it has it. The reader
 * opens that one by way of /proc/PID/fd, which the kernel allows to the process's owner and to
 * root; takes a write lock on its first byte (F_OFD_SETLK), which tells the process that the
 * reader lives; gives the ring all of its memory, and sets `open`. */

#include <stdatomic.h>
#include <stdint.h>

#define RR_CAP_MAGIC 0x72726d6361700a01ull /* says endianness too */
#define RR_CAP_VERSION 1u
#define RR_CAP_MEMFD "rdmarpc-capture" /* name of the memfd */
#define RR_CAP_ORDER_MIN 16u           /* a ring of 64 KiB ... */
#define RR_CAP_ORDER_MAX 28u           /* ... to 256 MiB */
#define RR_CAP_FIRST (1024u * 1024)    /* of it has memory before the reader has come */
#define RR_CAP_HEAD 4096u              /* bytes of struct rr_cap_ring, before the packets */

enum rr_cap_wish {
	RR_CAP_RDMA = 1, /* transport messages whole; no records that are in them anyway */
};

/* In the statistics segment. */
struct rr_cap_desk {
	_Atomic uint32_t version; /* of this, by the process: 0 it cannot be asked */
	_Atomic uint32_t ask; /* the reader's: any number but 0, others than before; 0: captures
			       * nothing. The process writes 0 when it ends a capture */
	_Atomic uint32_t order;   /* of the ring's size, a power of two */
	_Atomic uint32_t snaplen; /* bytes of a message or record; 0 all */
	_Atomic uint32_t wishes;  /* enum rr_cap_wish */
	_Atomic uint32_t given;   /* the process's: the `ask` that it has answered last ... */
	_Atomic int32_t fd;       /* ... with a ring at this descriptor, or -errno */
	uint32_t pad;
};

/* The first page of a ring. */
struct rr_cap_ring {
	_Atomic uint64_t magic; /* written last */
	uint32_t version;
	uint32_t size; /* bytes of packets behind RR_CAP_HEAD */
	uint8_t pad0[48];
	_Atomic uint64_t tail; /* the reader's: free-running, it has zeroed all before it */
	_Atomic uint32_t open; /* the reader's: 1 it is here; 2 it has left */
	uint8_t pad1[52];
	_Atomic uint64_t head;    /* the processes': free-running */
	_Atomic uint64_t dropped; /* packets for which there was no room */
	_Atomic uint32_t ended;   /* 1: the process has let go of it */
};

enum rr_cap_kind {
	RR_CAP_RECORD = 1, /* an RPC message, as the app sees it but for record marks */
	RR_CAP_MESSAGE,    /* a transport message: header and what follows it */
};

enum rr_cap_flag {
	RR_CAP_OUT = 1,    /* sent by this process; else received */
	RR_CAP_SERVER = 2, /* its end was accepted; else connected */
	RR_CAP_NATIVE = 4, /* the peer has no library */
};

/* A packet. Its bytes may go round the ring's end; `commit` never does. */
struct rr_cap_packet {
	_Atomic uint64_t commit; /* 0 not complete; else bytes in the ring, a multiple of 8, or
				    RR_CAP_VOID */
	uint64_t ns;             /* CLOCK_REALTIME */
	uint32_t len, captured;  /* payload: bytes there were, and bytes that follow */
	int32_t pid;             /* in the PID namespace of the process */
	uint32_t recv_size; /* a message: longest Send that this process takes, ... */
	uint32_t send_size; /* ... that its peer takes; 0 not said */
	uint32_t pad;
	uint8_t kind, flags;      /* enum rr_cap_kind, rr_cap_flag */
	uint8_t carrier, dialect; /* enum rr_carrier, rr_dialect */
	uint16_t port[2];         /* our end's, the peer's */
	uint8_t addr[2][16];      /* IPv4 as mapped */
};
#define RR_CAP_VOID 1u /* bit of `commit`: nothing of it is meant */

_Static_assert(sizeof(struct rr_cap_desk) == 32, "the same on every ABI");
_Static_assert(sizeof(struct rr_cap_packet) == 80, "the same on every ABI");
_Static_assert(sizeof(struct rr_cap_ring) <= RR_CAP_HEAD, "one page");

#endif
