/* SPDX-License-Identifier: BSD-3-Clause */
/* Diagnostics: what the log says of a call stack, which a played plugin walks. */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

static void *load_played(const char *path, int flags);
static int where_played(const void *addr, Dl_info *me);
static void *find_played(void *handle, const char *name);

#define dladdr(addr, me) where_played(addr, me)
#define dlopen(path, flags) load_played(path, flags)
#define dlsym(handle, name) find_played(handle, name)
#include "preload/diag_plugin.c"
#undef dladdr
#undef dlopen
#undef dlsym

static char said[500];
static int loads, plugin;
static bool none;	/* there is no plugin */
static const char *own_file = "/usr/lib/librpcrdma_shim.so";
static bool nowhere;	/* nobody knows which file this is */
static char loaded_path[100];

static int where_played(const void *addr, Dl_info *me)
{
	cr_assert_eq(addr, &rr_diag_hook);
	me->dli_fname = own_file;
	return !nowhere;
}

static void *load_played(const char *path, int flags)
{
	cr_assert(strstr(path, PLUGIN) && flags == (RTLD_NOW | RTLD_LOCAL), "%s", path);
	loads++;
	snprintf(loaded_path, sizeof(loaded_path), "%s", path);
	errno = ENOENT;
	return none ? NULL : &plugin;
}

static void walk_played(const char *skip, rr_diag_line *put)
{
	cr_assert_str_eq(skip, self);
	cr_assert(rr_guard_depth(), "what is called here is not the app's");
	put(0, "/a", 16, "f", 1);
	put(1, "/b", 32, "", 0);
	errno = ESRCH;
}

static void *find_played(void *handle, const char *name)
{
	cr_assert_eq(handle, &plugin);
	cr_assert_str_eq(name, "rr_diag_walk");
	return (void *)walk_played;
}

static bool keep(enum rr_log_level level RR_UNUSED, const char *text, unsigned len, unsigned at)
{
	size_t have = strlen(said);

	snprintf(said + have, sizeof(said) - have, "%.*s", (int)(len - at), text + at);
	return true;
}

static void begin_log(void)
{
	rr_log_setup(RR_LOG_WARN, keep);
	rr_diag_setup(true);
	errno = EXDEV;
}

TestSuite(diag_plugin, .init = begin_log);

Test(diag_plugin, each_frame_is_a_line_with_its_symbol_if_it_has_one)
{
	rr_diag("splice: EINVAL", 7);
	cr_assert(errno == EXDEV && !rr_guard_depth());
	cr_assert(strstr(said, "fd 7: splice: EINVAL; called from\n"), "%s", said);
	cr_assert(strstr(said, "  #0 /a+0x10 f+0x1\n"), "%s", said);
	cr_assert(strstr(said, "  #1 /b+0x20\n"), "%s", said);
	rr_diag("splice: EINVAL", 7);
	cr_assert_eq(loads, 1);
}

Test(diag_plugin, without_a_plugin_there_is_no_stack)
{
	none = true;
	rr_diag("fdopen", 8);
	rr_diag("fdopen", 8);
	cr_assert(errno == EXDEV && loads == 1);
	cr_assert(strstr(said, "diagnostics cannot show call stacks"), "%s", said);
	cr_assert(strstr(said, "fd 8: fdopen; called from\n") && !strstr(said, "#0"), "%s", said);
}

Test(diag_plugin, it_is_off_unless_it_is_asked_for)
{
	rr_diag_setup(false);
	rr_diag("fdopen", 8);
	cr_assert(!loads && !said[0]);
}

Test(diag_plugin, the_plugin_is_where_the_library_is)
{
	rr_diag("fdopen", 8);
	cr_assert_str_eq(loaded_path, "/usr/lib/" PLUGIN);
	cr_assert_str_eq(self, own_file);
}

Test(diag_plugin, or_where_the_loader_finds_it)
{
	own_file = "librpcrdma_shim.so";
	rr_diag("fdopen", 8);
	cr_assert_str_eq(loaded_path, PLUGIN);
}

Test(diag_plugin, who_does_not_know_its_file_has_none)
{
	nowhere = true;
	rr_diag("fdopen", 8);
	cr_assert(!loads && errno == EXDEV && !rr_guard_depth());
	cr_assert(strstr(said, "fd 8: fdopen; called from\n"), "%s", said);
}

Test(diag_plugin, nor_has_who_has_no_name)
{
	own_file = NULL;
	rr_diag("fdopen", 8);
	cr_assert(!loads && errno == EXDEV && !rr_guard_depth());
}
