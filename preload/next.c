/* SPDX-License-Identifier: BSD-3-Clause */
/* Looks names up in the tables that the dynamic linker uses. The objects from this library to
 * libc have been there since the program began and stay, so their list is read without a lock;
 * what dlopen() brings is behind them. */

#include "preload/next.h"

#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <sys/auxv.h>

#include "core/base/compiler.h"

#define WORD_BITS	(8 * sizeof(ElfW(Addr)))
/* In the version of a symbol: it is not the default. */
#define HIDDEN		0x8000u

/* What an object tells of its symbols. */
struct symbols {
	const ElfW(Sym) *sym;
	const char *str;
	const ElfW(Half) *version;	/* NULL: it has none */
	const uint32_t *hash;		/* NULL: no DT_GNU_HASH */
	bool is_libc;
};

/* The program's own headers name the list of all objects, as they do for debuggers (DT_DEBUG).
 * NULL: they do not, or do not say where they lie themselves (PT_PHDR, which comes first), and
 * with that where the program does. */
static const struct link_map *all_objects(void)
{
	const ElfW(Phdr) *ph = (const void *)getauxval(AT_PHDR);
	const ElfW(Dyn) *dyn = NULL;
	unsigned long n = getauxval(AT_PHNUM);
	bool known = false;
	ElfW(Addr) at = 0;

	for (unsigned long i = 0; ph && i < n; i++) {
		if (ph[i].p_type == PT_PHDR) {
			at = (ElfW(Addr))ph - ph[i].p_vaddr;
			known = true;
		} else if (ph[i].p_type == PT_DYNAMIC && known) {
			dyn = (const void *)(at + ph[i].p_vaddr);
		}
	}
	for (; dyn && dyn->d_tag != DT_NULL; dyn++)
		if (dyn->d_tag == DT_DEBUG && dyn->d_un.d_ptr)
			return ((const struct r_debug *)dyn->d_un.d_ptr)->r_map;
	return NULL;
}

static const struct link_map *_Atomic kept_behind;

/* The objects behind this library, in the order of look-ups. */
static const struct link_map *objects_behind(void)
{
	const struct link_map *m = atomic_load_explicit(&kept_behind, memory_order_relaxed);

	if (likely(m != NULL))
		return m;
	for (m = all_objects(); m && m->l_ld != _DYNAMIC; m = m->l_next)
		;
	m = m ? m->l_next : NULL;
	atomic_store_explicit(&kept_behind, m, memory_order_relaxed);
	return m;
}

/* libc changes most objects' pointers into addresses, but not all. */
static const void *pointer(const struct link_map *m, uintptr_t p)
{
	return (const void *)(p < m->l_addr ? p + m->l_addr : p);
}

static struct symbols symbols_of(const struct link_map *m)
{
	struct symbols s = { 0 };
	size_t name = 0;

	for (const ElfW(Dyn) *d = m->l_ld; d->d_tag != DT_NULL; d++) {
		if (d->d_tag == DT_SYMTAB)
			s.sym = pointer(m, d->d_un.d_ptr);
		else if (d->d_tag == DT_STRTAB)
			s.str = pointer(m, d->d_un.d_ptr);
		else if (d->d_tag == DT_VERSYM)
			s.version = pointer(m, d->d_un.d_ptr);
		else if (d->d_tag == DT_GNU_HASH)
			s.hash = pointer(m, d->d_un.d_ptr);
		else if (d->d_tag == DT_SONAME)
			name = d->d_un.d_val;
	}
	s.is_libc = name && !strcmp(s.str + name, "libc.so.6");
	return s;
}

static uint32_t hash_of(const char *name)
{
	uint32_t h = 5381;

	for (; *name; name++)
		h = h * 33 + (unsigned char)*name;
	return h;
}

static bool is_it(const struct symbols *s, uint32_t i, const char *name)
{
	unsigned type = ELF64_ST_TYPE(s->sym[i].st_info);	/* the same in both classes */

	return s->sym[i].st_shndx != SHN_UNDEF && s->sym[i].st_value &&
	       (type == STT_NOTYPE || type == STT_FUNC || type == STT_GNU_IFUNC) &&
	       (!s->version || !(s->version[i] & HIDDEN)) &&
	       !strcmp(s->str + s->sym[i].st_name, name);
}

/* The symbol of that name and hash; NULL: the object does not define it. The table begins with
 * four words: how many chains there are, the first symbol that is in one, how many words the
 * filter has (a power of two), and the shift of its second bit. */
static const ElfW(Sym) *find(const struct symbols *s, const char *name, uint32_t hash)
{
	const uint32_t *t = s->hash;
	const ElfW(Addr) *filter = (const void *)(t + 4);
	const uint32_t *first = (const void *)(filter + t[2]), *chain = first + t[0];
	ElfW(Addr) word;

	if (!t[0] || !t[2])
		return NULL;
	word = filter[hash / WORD_BITS & (t[2] - 1)];
	if (!(word >> hash % WORD_BITS & word >> (hash >> t[3]) % WORD_BITS & 1))
		return NULL;
	for (uint32_t i = first[hash % t[0]]; i >= t[1]; i++) {
		uint32_t h = chain[i - t[1]];	/* the lowest bit: it is the last one */

		if ((h | 1) == (hash | 1) && is_it(s, i, name))
			return &s->sym[i];
		if (h & 1)
			break;
	}
	return NULL;
}

static RR_NOINLINE void *by_dlsym(const char *name)
{
	int saved = errno;
	void *next = dlsym(RTLD_NEXT, name);

	errno = saved;
	return next;
}

void *rr_next(const char *name)
{
	const struct link_map *m = objects_behind();
	uint32_t hash = hash_of(name);

	for (; m; m = m->l_next) {
		struct symbols s = symbols_of(m);
		const ElfW(Sym) *sym = s.hash ? find(&s, name, hash) : NULL;

		if (!s.hash || (sym && ELF64_ST_TYPE(sym->st_info) == STT_GNU_IFUNC))
			break;
		if (sym)
			return (void *)(m->l_addr + sym->st_value);
		if (s.is_libc)
			return NULL;
	}
	return by_dlsym(name);
}
