/* SPDX-License-Identifier: BSD-3-Clause */
/* A look-up of our own finds what dlsym(RTLD_NEXT) finds, and leaves dlerror() and errno alone. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <stdio.h>
#include <sys/auxv.h>

#include "preload/libc.h"

static int asked;	/* of dlsym(), by the code under test */

static const void *headers;	/* of the program; NULL: its own */
static unsigned long nheaders;

#define dlsym(handle, name)	(asked++, (dlsym)(handle, name))
#define getauxval(what) \
	(headers && (what) == AT_PHDR ? (unsigned long)headers : headers ? nheaders : (getauxval)(what))
#include "preload/next.c"
#undef dlsym
#undef getauxval

TestSuite(next, .timeout = 60);

static void assert_same(const char *name)
{
	void *found = rr_next(name);

	cr_assert_eq(found, (dlsym)(RTLD_NEXT, name), "%s", name);
}

Test(next, each_name_of_ours_is_found_where_dlsym_finds_it)
{
#define RR_CALL(ret, name, params, args, fallback) assert_same(#name);
#define RR_VCALL(ret, name, vparams, params, args, last, fallback) assert_same(#name);
#define RR_TWICE(ret, name, fallback) assert_same(#name);
#include "preload/calls.def"
	cr_assert_eq(asked, 0);
	cr_assert(rr_next("socket") && rr_next("poll"));
}

/* realpath() has an older version under the same name, and pthread_cond_wait() has, too. */
Test(next, of_versions_it_is_the_default)
{
	assert_same("realpath");
	assert_same("pthread_cond_wait");
	assert_same("nanosleep");
	cr_assert_eq(asked, 0);
}

/* Where the choice is the processor's, libc makes it. */
Test(next, what_is_chosen_when_it_is_bound_is_left_to_libc)
{
	assert_same("memcpy");
	cr_assert_eq(asked, 1);
}

Test(next, a_name_that_nobody_has_is_not_found_and_nobody_is_told)
{
	cr_assert_null(dlopen("librr-no-such-library.so.9", RTLD_NOW));
	errno = ENOLCK;
	cr_assert_null(rr_next("rr_no_such_function"));
	cr_assert_null(rr_next(""));
	cr_assert_neq(rr_next("writev"), NULL);
	cr_assert_eq(errno, ENOLCK);
	cr_assert_eq(asked, 0);
	cr_assert_neq(dlerror(), NULL, "it is the app's to read");
}

/* A variable of that name is none. */
Test(next, only_functions_are_found)
{
	cr_assert_null(rr_next("environ"));
	cr_assert_null(rr_next("errno"));
}

/* They must say where they lie: an address of another's, taken for the program's, is nobody's. */
Test(next, headers_that_tell_nothing_are_left_alone)
{
	ElfW(Dyn) none[] = { { DT_NEEDED, { 1 } }, { DT_DEBUG, { 0 } }, { DT_NULL, { 0 } } };
	ElfW(Phdr) ph[] = {
		{ .p_type = PT_LOAD, .p_vaddr = 0x1000 },
		{ .p_type = PT_DYNAMIC, .p_vaddr = 0x2000 },
		{ .p_type = PT_NULL },
	};

	headers = ph;
	nheaders = 3;
	cr_assert_null(all_objects(), "no PT_PHDR");
	ph[0] = (ElfW(Phdr)){ .p_type = PT_PHDR };
	nheaders = 1;
	cr_assert_null(all_objects(), "no PT_DYNAMIC");
	nheaders = 3;
	ph[1].p_vaddr = (ElfW(Addr))none - (ElfW(Addr))ph;
	cr_assert_null(all_objects(), "not filled in");
	assert_same("recvmsg");
	cr_assert_eq(asked, 1);
	headers = NULL;
	cr_assert_not_null(all_objects());
}

/* --- objects made up --- */

/* One with a single symbol, whose hash table has one chain and one word of filter. */
static struct {
	ElfW(Sym) sym[2];
	char str[32];
	ElfW(Half) version[2];
	struct {
		uint32_t head[4];
		ElfW(Addr) filter;
		uint32_t bucket, chain;
	} hash;
	ElfW(Dyn) dyn[6];
	struct link_map map;
} own;

/* Puts the object between us and libc: its function `name` is this one. */
static void put_between(const char *name, unsigned type, unsigned version)
{
	static const struct link_map *behind;
	uint32_t h = hash_of(name);

	if (!behind)
		behind = objects_behind();
	own.sym[1] = (ElfW(Sym)){ .st_name = 1, .st_info = (unsigned char)(STB_GLOBAL << 4 | type), .st_shndx = 1,
				  .st_value = 0x100 };
	snprintf(own.str + 1, sizeof(own.str) - 1, "%s", name);
	own.version[1] = (ElfW(Half))version;
	own.hash.head[0] = own.hash.head[1] = own.hash.head[2] = 1;
	own.hash.head[3] = 6;
	own.hash.filter = (ElfW(Addr))1 << h % WORD_BITS | (ElfW(Addr))1 << (h >> 6) % WORD_BITS;
	own.hash.bucket = 1;
	own.hash.chain = h | 1;
	own.map.l_addr = 0x1000;
	own.dyn[0] = (ElfW(Dyn)){ DT_SYMTAB, { (ElfW(Addr))own.sym } };
	own.dyn[1] = (ElfW(Dyn)){ DT_STRTAB, { (ElfW(Addr))own.str } };
	own.dyn[2] = (ElfW(Dyn)){ DT_VERSYM, { (ElfW(Addr))own.version } };
	own.dyn[3] = (ElfW(Dyn)){ DT_GNU_HASH, { (ElfW(Addr))&own.hash } };
	own.dyn[4] = (ElfW(Dyn)){ DT_NULL, { 0 } };
	own.map.l_ld = own.dyn;
	own.map.l_next = (struct link_map *)behind;
	atomic_store(&kept_behind, &own.map);
}

Test(next, an_object_in_between_comes_first)
{
	put_between("recvmsg", STT_FUNC, 2);
	cr_assert_eq(rr_next("recvmsg"), (void *)0x1100);
	assert_same("sendmsg");
	own.version[1] = 1;	/* as in an object without versions of its own that uses others' */
	cr_assert_eq(rr_next("recvmsg"), (void *)0x1100);
	own.hash.head[0] = 0;
	cr_assert_neq(rr_next("recvmsg"), (void *)0x1100, "a table without chains");
	own.hash.head[0] = 1;
	own.dyn[2].d_tag = DT_DEBUG;
	cr_assert_eq(rr_next("recvmsg"), (void *)0x1100, "without a table of versions all count");
	cr_assert_eq(asked, 0);
}

Test(next, what_is_hidden_undefined_or_no_function_is_not_it)
{
	void *libcs = rr_next("recvmsg");

	put_between("recvmsg", STT_FUNC, 2 | HIDDEN);
	cr_assert_eq(rr_next("recvmsg"), libcs);
	put_between("recvmsg", STT_OBJECT, 2);
	cr_assert_eq(rr_next("recvmsg"), libcs);
	put_between("recvmsg", STT_FUNC, 2);
	own.sym[1].st_shndx = SHN_UNDEF;
	cr_assert_eq(rr_next("recvmsg"), libcs);
	cr_assert_eq(asked, 0);
}

/* Its look-up is dlsym()'s then. */
Test(next, an_object_with_another_kind_of_table_is_asked_by_dlsym)
{
	put_between("recvmsg", STT_FUNC, 2);
	own.dyn[3].d_tag = DT_HASH;
	assert_same("recvmsg");
	cr_assert_eq(asked, 1);
	errno = ENOLCK;
	assert_same("sendmsg");
	cr_assert_eq(asked, 2);
	cr_assert_eq(errno, ENOLCK);
}
