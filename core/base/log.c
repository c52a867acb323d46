/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines of the log, put together without malloc, stdio or locale, on the caller's stack: a line
 * may be written in a signal handler or in a forked child. Where lines go is the sink's matter
 * (preload/logsink.c). */

#include "core/base/log.h"

#include <errno.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "core/base/os.h"
#include "core/base/types.h"

_Atomic int rr_log_level = RR_LOG_OFF;
static rr_log_sink *_Atomic the_sink;
static enum rr_log_level configured;
static _Atomic uint32_t followed;
static char command[17];	/* and a space; "" none */

void rr_log_setup(enum rr_log_level level, rr_log_sink *sink)
{
	configured = level;
	/* The release pairs with the load in rr_log_write(): the sink is set before lines can
	 * go to it. */
	atomic_store_explicit(&the_sink, sink, memory_order_release);
	atomic_store_explicit(&rr_log_level, sink ? level : RR_LOG_OFF, memory_order_release);
}

void rr_log_follow(uint32_t want)
{
	if (likely(want == atomic_load_explicit(&followed, memory_order_relaxed)) ||
	    want > RR_LOG_DEBUG + 1)
		return;
	atomic_store_explicit(&followed, want, memory_order_relaxed);
	if (rr_log_has_sink())
		atomic_store_explicit(&rr_log_level, want ? (int)want - 1 : (int)configured,
				      memory_order_release);
}

bool rr_log_has_sink(void)
{
	return atomic_load_explicit(&the_sink, memory_order_acquire) != NULL;
}

/* A space would end the name for whoever splits the line at spaces. */
void rr_log_name(const char *name)
{
	unsigned n = rr_fmt(command, sizeof(command) - 1, "%s", name);

	for (unsigned i = 0; i < n; i++)
		if (command[i] == ' ')
			command[i] = '_';
	if (n)
		rr_fmt(command + n, 2, " ");
}

/* --- formatting --- */

/* Where formatted text goes; what does not fit is dropped, and a byte for the NUL is always
 * left. */
struct out {
	char *buf;
	unsigned size, n;
};

static void put_char(struct out *o, char c)
{
	if (o->n + 1 < o->size)
		o->buf[o->n++] = c;
}

static void put_padding(struct out *o, char c, int n)
{
	while (n-- > 0)
		put_char(o, c);
}

/* One conversion: %[0][width][.precision][l|ll|z]verb */
struct spec {
	bool zero;
	int width;
	int precision;		/* %s: most bytes; -1: all */
	int size;		/* of the integer argument */
};

static void put_text(struct out *o, const struct spec *s, const char *text)
{
	size_t n;

	if (!text)
		text = "(null)";
	n = s->precision < 0 ? strlen(text) : strnlen(text, (size_t)s->precision);
	put_padding(o, ' ', s->width - (int)rr_min(n, (size_t)1 << 16));
	for (size_t i = 0; i < n; i++)
		put_char(o, text[i]);
}

/* Digits are made from the lowest on. Zeroes for padding stand behind the sign, spaces before
 * it. */
static void put_number(struct out *o, const struct spec *s, uint64_t v, unsigned base,
		       const char *sign, bool upper)
{
	char digits[24];
	int n = 0, len = (int)strlen(sign);

	do {
		unsigned d = (unsigned)(v % base);

		digits[n++] = (char)(d < 10 ? '0' + d : (upper ? 'A' : 'a') + d - 10);
		v /= base;
	} while (v);
	if (!s->zero)
		put_padding(o, ' ', s->width - len - n);
	while (*sign)
		put_char(o, *sign++);
	if (s->zero)
		put_padding(o, '0', s->width - len - n);
	while (n)
		put_char(o, digits[--n]);
}

struct log_args {
	va_list ap;
};

static uint64_t get_unsigned(struct log_args *a, int size)
{
	return size == 8 ? va_arg(a->ap, unsigned long long) : va_arg(a->ap, unsigned int);
}

static int64_t get_signed(struct log_args *a, int size)
{
	return size == 8 ? va_arg(a->ap, long long) : va_arg(a->ap, int);
}

/* Parses a conversion from behind its '%'; returns where its verb is. Width and precision are
 * bounded, since the sum of their digits could overflow. */
static const char *get_spec(const char *f, struct spec *s, struct log_args *a)
{
	*s = (struct spec){ .zero = *f == '0', .precision = -1, .size = sizeof(int) };
	for (; *f >= '0' && *f <= '9'; f++)
		s->width = rr_min(s->width * 10 + (*f - '0'), 1000);
	if (*f == '.') {
		s->precision = 0;
		if (*++f == '*') {
			s->precision = va_arg(a->ap, int);
			f++;
		}
		for (; *f >= '0' && *f <= '9'; f++)
			s->precision = rr_min(s->precision * 10 + (*f - '0'), 1 << 16);
	}
	if (*f == 'z') {
		s->size = sizeof(size_t);
		f++;
	}
	for (int l = 0; *f == 'l'; f++)
		s->size = ++l == 1 ? sizeof(long) : sizeof(long long);
	return f;
}

/* Writes one argument. log.h lists the verbs; %% is what is left for the default. */
static void convert(struct out *o, const struct spec *s, char verb, struct log_args *a)
{
	int64_t v;

	switch (verb) {
	case 's':
		put_text(o, s, va_arg(a->ap, const char *));
		break;
	case 'c':
		put_char(o, (char)va_arg(a->ap, int));
		break;
	case 'd':
	case 'i':
		v = get_signed(a, s->size);
		put_number(o, s, v < 0 ? -(uint64_t)v : (uint64_t)v, 10, v < 0 ? "-" : "",
			   false);
		break;
	case 'u':
		put_number(o, s, get_unsigned(a, s->size), 10, "", false);
		break;
	case 'x':
	case 'X':
		put_number(o, s, get_unsigned(a, s->size), 16, "", verb == 'X');
		break;
	case 'p':
		put_number(o, s, (uintptr_t)va_arg(a->ap, void *), 16, "0x", false);
		break;
	default:
		put_char(o, verb);	/* %% */
	}
}

unsigned rr_vfmt(char *buf, unsigned size, const char *fmt, va_list ap)
{
	struct out o = { .buf = buf, .size = size };
	struct log_args a;
	struct spec s;

	if (!size)
		return 0;
	va_copy(a.ap, ap);
	while (*fmt) {
		if (*fmt != '%') {
			put_char(&o, *fmt++);
			continue;
		}
		fmt = get_spec(fmt + 1, &s, &a);
		if (!*fmt)
			break;
		convert(&o, &s, *fmt++, &a);
	}
	va_end(a.ap);
	buf[o.n] = '\0';
	return o.n;
}

unsigned rr_fmt(char *buf, unsigned size, const char *fmt, ...)
{
	va_list ap;
	unsigned n;

	va_start(ap, fmt);
	n = rr_vfmt(buf, size, fmt, ap);
	va_end(ap);
	return n;
}

/* --- lines --- */

/* UTC by arithmetic, because localtime() takes locks and reads files, and gmtime_r() may. The
 * date is counted in years that begin in March, so that the leap day comes last. */
static unsigned put_utc(char *buf, unsigned size)
{
	struct timespec ts;
	unsigned days, secs, era, doe, yoe, doy, mp, month;

	clock_gettime(CLOCK_REALTIME, &ts);
	days = (unsigned)(ts.tv_sec / 86400) + 719468;	/* since 0000-03-01 */
	secs = (unsigned)(ts.tv_sec % 86400);
	era = days / 146097;
	doe = days % 146097;
	yoe = (doe - doe / 1460 + doe / 36524 - doe / 146096) / 365;
	doy = doe - (365 * yoe + yoe / 4 - yoe / 100);
	mp = (5 * doy + 2) / 153;
	month = mp < 10 ? mp + 3 : mp - 9;
	return rr_fmt(buf, size, "%04u-%02u-%02uT%02u:%02u:%02u.%06uZ",
		      era * 400 + yoe + (month <= 2), month, doy - (153 * mp + 2) / 5 + 1,
		      secs / 3600, secs / 60 % 60, secs % 60, (unsigned)(ts.tv_nsec / 1000));
}

/* --- how much --- */

/* Peers can cause lines, so there is a limit: RATE in a second, and BURST at once. */
#define RATE	20u
#define BURST	500u

/* each line costs 1/RATE of a second, paid in advance */
static _Atomic rr_time paid_until;
static _Atomic uint32_t left_out;

/* At level debug every line is written. */
static bool may_write(rr_time now)
{
	rr_time was = atomic_load_explicit(&paid_until, memory_order_relaxed), to;

	if (atomic_load_explicit(&rr_log_level, memory_order_relaxed) >= RR_LOG_DEBUG)
		return true;
	do {
		to = rr_max(was, now) + RR_SEC / RATE;
		if (to > now + BURST * (RR_SEC / RATE)) {
			atomic_fetch_add_explicit(&left_out, 1, memory_order_relaxed);
			return false;
		}
	} while (!atomic_compare_exchange_weak_explicit(&paid_until, &was, to,
							memory_order_relaxed,
							memory_order_relaxed));
	return true;
}

/* Says in the next line that is written how many are missing before it. */
static unsigned put_left_out(char *line, unsigned size, uint32_t n)
{
	return n ? rr_fmt(line, size, "[%u lines left out] ", n) : 0;
}

/* A line that the sink has no room for counts as left out, together with those that it would
 * have reported. Bytes that are not text become '?', so that nothing that a peer sends can look
 * like another line. */
void rr_log_vwrite(enum rr_log_level level, const char *about, const char *fmt, va_list ap)
{
	static const char *const name[] = { "off", "error", "warn", "info", "debug" };
	rr_log_sink *sink = atomic_load_explicit(&the_sink, memory_order_acquire);
	int saved = errno;
	char line[1024];
	unsigned n, at;
	uint32_t missing;

	if (!sink || !may_write(rr_now()))
		return;
	n = put_utc(line, sizeof(line));
	n += rr_fmt(line + n, sizeof(line) - n, " rdmarpc[%d] ", (int)getpid());
	at = n;
	n += rr_fmt(line + n, sizeof(line) - n, "%s%s: ", command, name[level]);
	missing = atomic_exchange_explicit(&left_out, 0, memory_order_relaxed);
	n += put_left_out(line + n, sizeof(line) - n, missing);
	n += rr_fmt(line + n, sizeof(line) - n, "%s", about);
	n += rr_vfmt(line + n, sizeof(line) - n - 1, fmt, ap);
	for (unsigned i = 0; i < n; i++)
		if ((unsigned char)line[i] < ' ' || line[i] == 0x7f)
			line[i] = '?';
	line[n++] = '\n';
	if (!sink(level, line, n, at))
		atomic_fetch_add_explicit(&left_out, missing + 1, memory_order_relaxed);
	errno = saved;
}

void rr_log_write(enum rr_log_level level, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	rr_log_vwrite(level, "", fmt, ap);
	va_end(ap);
}
