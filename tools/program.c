/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds a program and tells whether it will load the library. Static, set-user-ID, musl and Go
 * programs are recognized. The file is read and not run; what its headers say is bounded by
 * what pread() returns. Between this look and exec the file may change: then the loader says
 * what is wrong. */

#include "tools/program.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "core/base/compiler.h"

#define MAX_SCRIPTS 4	/* interpreters that are scripts themselves */

/* --- finding --- */

/* May the file be executed? Returns 0, or the exit status that a shell would give, and the
 * reason in *why. */
static int cannot_run(const char *path, const char **why)
{
	struct stat st;

	if (stat(path, &st)) {
		*why = strerror(errno);
		return errno == ENOENT || errno == ENOTDIR ? RR_EXIT_MISSING : RR_EXIT_CANNOT;
	}
	if (S_ISDIR(st.st_mode))
		errno = EISDIR;
	else if (!S_ISREG(st.st_mode))
		errno = EACCES;
	else if (!access(path, X_OK))
		return 0;
	*why = strerror(errno);
	return RR_EXIT_CANNOT;
}

/* Like a shell, goes on with the next directory if a file may not be executed, but remembers
 * that it saw one: the message is then about that. An empty entry of PATH is the current
 * directory. */
int rr_program_find(const char *name, char *path, size_t size, const char **why)
{
	const char *dirs = getenv("PATH"), *first_why = NULL;
	int first = 0;

	if (strchr(name, '/')) {
		snprintf(path, size, "%s", name);
		return cannot_run(path, why);
	}
	for (dirs = dirs ? dirs : "/bin:/usr/bin"; *name; dirs++) {
		size_t n = strcspn(dirs, ":");

		snprintf(path, size, "%.*s%s%s", (int)n, dirs, n ? "/" : "", name);
		if (!cannot_run(path, why))
			return 0;
		if (!access(path, F_OK) && !first) {	/* it exists, but we may not run it */
			first = RR_EXIT_CANNOT;
			first_why = *why;
		}
		dirs += n;
		if (!*dirs)
			break;
	}
	*why = first ? first_why : "no such program in PATH";
	return first ? first : RR_EXIT_MISSING;
}

/* --- looking inside --- */

struct image {
	unsigned char ident[EI_NIDENT];
	unsigned machine;
	char loader[128];	/* its dynamic loader; "": none */
	bool go;		/* has the note that Go's linker leaves */
};

/* Copies the fields of a 32-bit header that are used here to a 64-bit one. Headers of the other
 * byte order are not converted; such a program cannot run here anyway. */
static void widen(const Elf32_Ehdr *from, Elf64_Ehdr *to)
{
	to->e_machine = from->e_machine;
	to->e_phoff = from->e_phoff;
	to->e_phentsize = from->e_phentsize;
	to->e_phnum = from->e_phnum;
}

/* Reads program header i, of either class. Returns false beyond the end of the file. */
static bool read_phdr(int fd, const Elf64_Ehdr *e, unsigned i, Elf64_Phdr *to)
{
	uint64_t at = e->e_phoff + (uint64_t)i * e->e_phentsize;
	Elf32_Phdr n;

	if (e->e_ident[EI_CLASS] != ELFCLASS32)
		return pread(fd, to, sizeof(*to), (off_t)at) == sizeof(*to);
	if (pread(fd, &n, sizeof(n), (off_t)at) != sizeof(n))
		return false;
	*to = (Elf64_Phdr){ .p_type = n.p_type, .p_offset = n.p_offset,
			    .p_filesz = n.p_filesz };
	return true;
}

/* Is a note of Go among those of the segment? Notes are a header, a name and a description,
 * each padded to four bytes; their sizes are the file's own, and a nonsense size ends the walk
 * at the segment's end. */
static bool has_go_note(int fd, const Elf64_Phdr *p)
{
	struct { Elf64_Nhdr h; char name[4]; } note;
	uint64_t end = p->p_offset + p->p_filesz;

	for (uint64_t at = p->p_offset; at + sizeof(note) <= end;) {
		if (pread(fd, &note, sizeof(note), (off_t)at) != sizeof(note))
			return false;
		if (note.h.n_namesz == 4 && !memcmp(note.name, "Go\0", 4))
			return true;
		at += sizeof(note.h) + ((note.h.n_namesz + UINT64_C(3)) & ~UINT64_C(3)) +
		      ((note.h.n_descsz + UINT64_C(3)) & ~UINT64_C(3));
	}
	return false;
}

/* Reads the headers. Returns false if the file is not ELF. An interpreter that cannot be read
 * is noted as "?", since the program is not static at least. */
static bool read_image(int fd, struct image *im)
{
	union { Elf64_Ehdr w; Elf32_Ehdr n; } h = { 0 };
	Elf64_Ehdr e;
	Elf64_Phdr p;

	memset(im, 0, sizeof(*im));
	if (pread(fd, &h, sizeof(h), 0) < (ssize_t)sizeof(h.n) ||
	    memcmp(h.w.e_ident, ELFMAG, SELFMAG))
		return false;
	memcpy(im->ident, h.w.e_ident, EI_NIDENT);
	e = h.w;
	if (im->ident[EI_CLASS] == ELFCLASS32)
		widen(&h.n, &e);
	im->machine = e.e_machine;
	for (unsigned i = 0; i < e.e_phnum && read_phdr(fd, &e, i, &p); i++) {
		if (p.p_type == PT_NOTE)
			im->go |= has_go_note(fd, &p);
		if (p.p_type == PT_INTERP &&
		    pread(fd, im->loader, rr_min(p.p_filesz, sizeof(im->loader) - 1),
			  (off_t)p.p_offset) <= 0)
			strcpy(im->loader, "?");
	}
	return true;
}

/* Can the loader of one map the other: the same word size, byte order and machine? */
static bool same_kind(const struct image *a, const struct image *b)
{
	return a->ident[EI_CLASS] == b->ident[EI_CLASS] &&
	       a->ident[EI_DATA] == b->ident[EI_DATA] && a->machine == b->machine;
}

static const char *class_of(const struct image *im)
{
	return im->ident[EI_CLASS] == ELFCLASS32 ? "32-bit" : "64-bit";
}

/* Would the kernel start it with more rights than ours? Then the loader ignores LD_PRELOAD.
 * Returns why, or NULL. */
static const char *elevated(int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return NULL;
	if ((st.st_mode & S_ISUID) && st.st_uid != getuid())
		return "set-user-ID";
	if ((st.st_mode & S_ISGID) && (st.st_mode & S_IXGRP) && st.st_gid != getgid())
		return "set-group-ID";
	if (getuid() != 0 && fgetxattr(fd, "security.capability", NULL, 0) > 0)
		return "given capabilities by its file";
	return NULL;
}

/* Judges an ELF program and the library for it. The tests are ordered by what would happen:
 * nothing could be preloaded, the wrong libc, LD_PRELOAD ignored, a library that does not
 * fit. */
static int check_elf(int fd, const char *path, const struct image *im, const char *library,
		     char *why, size_t size)
{
	const char *rights = elevated(fd);
	struct image lib;
	int lfd;

	if (!*im->loader) {
		snprintf(why, size, "%s is statically linked: no library can be preloaded",
			 path);
		return RR_EXIT_CANNOT;
	}
	if (strstr(im->loader, "/ld-musl")) {
		snprintf(why, size, "%s is a program of musl (%s): the library needs glibc",
			 path, im->loader);
		return RR_EXIT_CANNOT;
	}
	if (rights) {
		snprintf(why, size, "%s is %s: the loader ignores LD_PRELOAD for it", path,
			 rights);
		return RR_EXIT_CANNOT;
	}
	if (im->go)
		snprintf(why, size,
			 "%s is a Go program: what it sends by its own runtime stays "
			 "on TCP, unseen by any preloaded library", path);
	if (!library)
		return 0;
	lfd = open(library, O_RDONLY | O_CLOEXEC);
	if (lfd < 0 || !read_image(lfd, &lib)) {
		snprintf(why, size, "%s is not a library", library);
		if (lfd >= 0)
			close(lfd);
		return RR_EXIT_OURS;
	}
	close(lfd);
	if (same_kind(im, &lib))
		return 0;
	snprintf(why, size, "%s is a %s program of machine %u, but %s is %s of machine %u",
		 path, class_of(im), im->machine, library, class_of(&lib), lib.machine);
	return RR_EXIT_CANNOT;
}

/* Writes the interpreter of the #! line at fd to out; for a script without one /bin/sh, as
 * with execvp(3). Returns false if the file is not text, which a zero byte in its beginning
 * shows. */
static bool interpreter(int fd, char *out, size_t size)
{
	char buf[256] = "";
	ssize_t n = pread(fd, buf, sizeof(buf) - 1, 0);
	char *p = buf + 2;

	if (n < 0 || memchr(buf, '\0', (size_t)n))
		return false;
	if (strncmp(buf, "#!", 2)) {
		snprintf(out, size, "/bin/sh");
		return true;
	}
	p += strspn(p, " \t");
	p[strcspn(p, " \t\r\n")] = '\0';
	snprintf(out, size, "%s", p);
	return true;
}

/* Follows #! lines until it comes to an ELF file: that is the process into which the library
 * has to get. The kernel follows a bounded number as well. */
int rr_program_check(const char *path, const char *library, char *why, size_t size)
{
	char here[PATH_MAX], next[PATH_MAX];
	const char *error;
	struct image im;
	int fd, rc;

	*why = '\0';
	snprintf(here, sizeof(here), "%s", path);
	for (int depth = 0; depth <= MAX_SCRIPTS; depth++) {
		rc = cannot_run(here, &error);
		if (rc) {
			snprintf(why, size, "%s%s%s: %s", here,
				 depth ? ", the interpreter of " : "",
				 depth ? path : "", error);
			return depth ? RR_EXIT_CANNOT : rc;
		}
		fd = open(here, O_RDONLY | O_CLOEXEC);
		if (fd < 0)
			return 0;	/* it may be run but not read, so nothing can be said */
		if (read_image(fd, &im)) {
			rc = check_elf(fd, here, &im, library, why, size);
			close(fd);
			return rc;
		}
		if (!interpreter(fd, next, sizeof(next))) {
			close(fd);
			snprintf(why, size, "%s is neither a program nor a script", here);
			return RR_EXIT_CANNOT;
		}
		close(fd);
		memcpy(here, next, sizeof(here));
	}
	snprintf(why, size, "%s: too many interpreters", path);
	return RR_EXIT_CANNOT;
}
