/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_CAPTURE_ABI_H
#define RR_CAPTURE_ABI_H

/* What rdmarpc-dump shares with a process that it captures: a desk in the process's statistics
 * segment, where the reader asks, and a ring made by the process, which holds the packets.
 * Fixed-width, the same for 32- and 64-bit programs. Neither side trusts what the other writes.
 *
 * The reader writes its wishes and then `ask`. At its next message the process makes the ring,
 * a memfd whose size is sealed, and says which of its descriptors it is. The reader opens that
 * descriptor through /proc/PID/fd, which the kernel allows to the process's owner and to root.
 * It takes a write lock on the ring's first byte (F_OFD_SETLK), which tells the process that
 * the reader lives, allocates all memory of the ring, and sets `open`. */

#include <stdatomic.h>
#include <stdint.h>

#define RR_CAP_MAGIC 0x72726d6361700a01ull /* says endianness too */
#define RR_CAP_VERSION 1u
#define RR_CAP_MEMFD "rdmarpc-capture" /* name of the memfd */
#define RR_CAP_ORDER_MIN 16u           /* a ring of 64 KiB ... */
#define RR_CAP_ORDER_MAX 28u           /* ... to 256 MiB */
#define RR_CAP_FIRST (1024u * 1024)    /* has memory before the reader has come */
#define RR_CAP_HEAD 4096u              /* bytes of struct rr_cap_ring, before the packets */

enum rr_cap_wish {
	RR_CAP_RDMA = 1, /* whole transport messages, and no records that are in those anyway */
};

/* In the statistics segment. */
struct rr_cap_desk {
	_Atomic uint32_t version; /* of this structure, set by the process; 0: no captures */
	/* set by the reader: any new number but 0, or 0 to end. The process writes 0 when it
	 * ends a capture */
	_Atomic uint32_t ask;
	_Atomic uint32_t order;   /* log2 of the ring's size */
	_Atomic uint32_t snaplen; /* bytes wanted of each message or record; 0: all */
	_Atomic uint32_t wishes;  /* enum rr_cap_wish */
	_Atomic uint32_t given;   /* set by the process: the `ask` that it answered last ... */
	_Atomic int32_t fd;       /* ... with a ring at this descriptor, or -errno */
	uint32_t pad;
};

/* The first page of a ring. */
struct rr_cap_ring {
	_Atomic uint64_t magic; /* written last */
	uint32_t version;
	uint32_t size; /* bytes for packets, after RR_CAP_HEAD */
	uint8_t pad0[48];
	_Atomic uint64_t tail; /* set by the reader, free-running; all before it is zeroed */
	_Atomic uint32_t open; /* set by the reader: 1: it has come; 2: it has left */
	uint8_t pad1[52];
	_Atomic uint64_t head;    /* set by the processes, free-running */
	_Atomic uint64_t dropped; /* packets for which there was no room */
	_Atomic uint32_t ended;   /* 1: the process has given the ring up */
};

enum rr_cap_kind {
	RR_CAP_RECORD = 1, /* an RPC message, as the app sees it without record marks */
	RR_CAP_MESSAGE,    /* a transport message: its header and what follows */
};

enum rr_cap_flag {
	RR_CAP_OUT = 1,    /* sent by this process; else received */
	RR_CAP_SERVER = 2, /* its end was accepted; else connected */
	RR_CAP_NATIVE = 4, /* the peer has no library */
};

/* A packet. Its bytes may wrap around the end of the ring, but `commit` never does. */
struct rr_cap_packet {
	/* 0: not complete; else bytes in the ring, a multiple of 8, perhaps with RR_CAP_VOID */
	_Atomic uint64_t commit;
	uint64_t ns;             /* CLOCK_REALTIME */
	uint32_t len, captured;  /* payload: its length, and how much of it follows */
	int32_t pid;             /* in the PID namespace of the process */
	uint32_t recv_size; /* for a message: the longest Send that this process receives ... */
	uint32_t send_size; /* ... and that its peer receives; 0: not known */
	uint32_t pad;
	uint8_t kind, flags;      /* enum rr_cap_kind, rr_cap_flag */
	uint8_t carrier, dialect; /* enum rr_carrier, rr_dialect */
	uint16_t port[2];         /* our end's, the peer's */
	uint8_t addr[2][16];      /* IPv4 as mapped */
};
#define RR_CAP_VOID 1u /* bit of `commit`: ignore the packet */

_Static_assert(sizeof(struct rr_cap_desk) == 32, "the same on every ABI");
_Static_assert(sizeof(struct rr_cap_packet) == 80, "the same on every ABI");
_Static_assert(sizeof(struct rr_cap_ring) <= RR_CAP_HEAD, "one page");

#endif
