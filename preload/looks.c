/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernel's part of a poll() is looked at after a pause only, while our connections have
 * news at each call: where the array is long, since one look at a thousand fds takes longer
 * than an RPC call; and where the kernel's entries are nothing but listeners and the wake-up
 * fds of connections at rest, since a poll() of those takes as long as half a call, and what
 * the app is told of some microseconds later has come some microseconds later. What this
 * process itself has just done is seen at once: see rr_looks_forget(). */
#include "preload/looks.h"

#include "core/base/os.h"
#include "preload/pollrest.h"

enum {
	LOOK = 4000,		/* ns between two looks at a long array … */
	LOOK_EACH = 250,	/* … and for each fd that the kernel looks at */
	LOOK_CALM = 20000,	/* ns between two looks where nothing is urgent, at least */
	LONG = 64,		/* so many fds that the kernel looks at make an array long */
	NOTES = 8,
};

static _Atomic uint64_t notes[NOTES];	/* which array was looked at, and when (us) */

/* 24 bits that tell arrays apart. */
static uint64_t array_tag(const struct rr_work *w)
{
	return ((uintptr_t)w->fds >> 4 ^ w->n << 20) * UINT64_C(0x9e3779b97f4a7c15) >> 40;
}

/* About how many fds the kernel looks at for this array. */
static nfds_t kernels(const struct rr_work *w)
{
	return w->others + w->plain + (w->resting - w->standing) + w->set;
}

/* Is the kernel asked about nothing but listeners and connections at rest? */
static bool is_calm(const struct rr_work *w)
{
	if (!kernels(w) || w->others != w->listeners || w->plain)
		return false;
	for (const struct rr_slot *s = w->awake; s; s = s->next)
		if (s->kernel)
			return false;
	return true;
}

/* Is there a pause between two looks at an array like this one? */
static bool has_pause(const struct rr_work *w)
{
	return kernels(w) >= LONG || is_calm(w);
}

rr_time rr_looks_gap(const struct rr_work *w)
{
	rr_time gap = LOOK + LOOK_EACH * (rr_time)kernels(w);

	return is_calm(w) ? rr_max(gap, (rr_time)LOOK_CALM) : gap;
}

rr_time rr_looks_last(const struct rr_work *w)
{
	uint64_t tag = array_tag(w), word;

	if (!has_pause(w))
		return 0;
	word = atomic_load_explicit(&notes[tag % NOTES], memory_order_relaxed);
	return (word & 0xffffff) != tag ? 0 : (word >> 24) * RR_USEC;
}

bool rr_looks_recent(const struct rr_work *w)
{
	rr_time at = rr_looks_last(w);

	return at && rr_now() < at + rr_looks_gap(w);
}

void rr_looks_note(const struct rr_work *w)
{
	uint64_t tag = array_tag(w);

	if (has_pause(w))
		atomic_store_explicit(&notes[tag % NOTES], rr_now() / RR_USEC << 24 | tag,
				      memory_order_relaxed);
}

void rr_looks_forget(void)
{
	for (int i = 0; i < NOTES; i++)
		atomic_store_explicit(&notes[i], 0, memory_order_relaxed);
}
