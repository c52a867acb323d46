/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef RR_TWOPEERS_INT_H
#define RR_TWOPEERS_INT_H

/* What the files of twopeers share.
 *
 *   twopeers.c  set-up, time, the app          tp_msgs.c   messages and their bytes
 *   tp_ops.c    what an engine wants done      tp_pulls.c  what is under way
 *   tp_bufs.c   memory */

#include "tests/lib/twopeers.h"

/* twopeers.c */
bool tp_percent(struct tp *tp, uint32_t n);
void tp_wrong(struct tp *tp, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* tp_msgs.c */
void tp_noise(void);	/* before the first message */
uint64_t tp_word(uint64_t seed, uint32_t i);
/* The message's length; len is what tp_send() takes. */
void tp_measure(struct tp_msg *m, uint32_t len);
void tp_make(const struct tp_msg *m, uint8_t *at);
bool tp_same(const struct tp_msg *m, const uint8_t *at);
void tp_push(struct tp *tp, struct tp_queue *q, const struct tp_msg *m);

/* tp_bufs.c */
uint32_t tp_blocks(uint32_t len);
uint32_t tp_buf_new(struct tp_peer *p, uint32_t len);	/* RR_BUF_NONE: not now */
void tp_buf_put(struct tp_peer *p, uint32_t b);

/* tp_pulls.c */
struct tp_pend *tp_pend_new(struct tp_peer *p, uint32_t id);
uint64_t tp_cookie(const struct tp_peer *p, const struct tp_pend *d);
void tp_posted(struct tp_peer *p, struct tp_pend *d, int rc);	/* what a post call returned */
void tp_pend_end(struct tp_peer *p, struct tp_pend *d);	/* one completion less, or all is posted */
void tp_pull_begin(struct tp_peer *p, const struct rr_op *op);
void tp_pull_compose(struct tp_peer *p, const struct rr_op *op);
struct tp_pull *tp_pull_find(struct tp_peer *p, uint32_t id);
void tp_pull_progress(struct tp_peer *p, struct tp_pull *u);
void tp_pull_end(struct tp_peer *p, struct tp_pull *u);
void tp_pull_feed(struct tp_peer *p);	/* the first of those without memory */

/* tp_ops.c */
void tp_run(struct tp_peer *p);

#endif
