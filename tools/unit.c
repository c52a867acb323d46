/* SPDX-License-Identifier: BSD-3-Clause */
/* Writes systemd drop-ins: /etc/systemd/system/NAME.service.d/rdmarpc.conf. What the service's
 * own unit restricts is read from its files; what the library needs beside that is added where
 * it is safe. systemd itself is not asked, so this works in an image that is not running, below
 * --root. */
#include "tools/unit.h"

#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tools/program.h"

#define MARK "# Written by rdmarpc-run --unit"
#define VARIABLES 64
#define DEVICE "/dev/infiniband/rdma_cm"

static struct {
	const char *name, *value;
} variables[VARIABLES];
static unsigned nvariables;

/* What the unit's files say that matters here. */
struct unit_facts {
	bool found;
	bool families; /* RestrictAddressFamilies= lists what is allowed … */
	bool allows_unix, allows_netlink; /* … and these are among it */
	bool denies_unix;
	bool private_devices;
	bool strict, dynamic_user; /* either: /run cannot be written to */
	char preload[256]; /* the unit's own LD_PRELOAD=, or that of a file that it names */
};

/* Where the unit's files are looked for, and the library by which its programs are judged. */
struct unit_place {
	const char *root, *unit, *library;
};

/* Prints a message about the unit; returns the exit status for a failure. */
static int say(const char *name, const char *what)
{
	fprintf(stderr, "rdmarpc-run: --unit %s: %s\n", name, what);
	return RR_EXIT_OURS;
}

/* More than VARIABLES are left out; there are fewer options. */
void rr_unit_variable(const char *name, const char *value)
{
	if (nvariables == VARIABLES)
		return;
	variables[nvariables].name = strdup(name);
	variables[nvariables++].value = strdup(value);
}

/* --- the unit's own files --- */

/* Takes in one RestrictAddressFamilies= line. A list that begins with '~' forbids, another
 * allows; lines add up. */
static void read_families(struct unit_facts *u, char *value)
{
	bool denied = *value == '~';

	if (!*value) { /* an empty value resets the list */
		u->families = u->allows_unix = u->allows_netlink = u->denies_unix = false;
		return;
	}
	u->families |= !denied;
	for (char *w = strtok(value + denied, " \t"); w; w = strtok(NULL, " \t")) {
		if (!strcmp(w, "AF_UNIX") || !strcmp(w, "AF_LOCAL")) {
			u->allows_unix |= !denied;
			u->denies_unix |= denied;
		}
		u->allows_netlink |= !denied && !strcmp(w, "AF_NETLINK");
	}
}

/* Warns if the program of an ExecStart= line cannot load the library. The prefix characters
 * before it are systemd's. A path with specifiers or without a slash is not judged. */
static void judge_program(const char *name, char *value, const char *library)
{
	char why[3 * PATH_MAX];

	value += strspn(value, "-@:+!");
	value[strcspn(value, " \t")] = '\0';
	if (*value == '/' && (rr_program_check(value, library, why, sizeof(why)) || *why))
		fprintf(stderr, "rdmarpc-run: --unit %s: warning: %s\n", name, why);
}

/* The value of LD_PRELOAD among the assignments of an Environment= line, or of one line of an
 * environment file. */
static void read_preload(struct unit_facts *u, const char *assignments)
{
	const char *at = assignments;

	while ((at = strstr(at, "LD_PRELOAD="))) {
		bool whole = at == assignments || strchr(" \t\"'", at[-1]);

		at += strlen("LD_PRELOAD=");
		if (!whole) /* the end of a longer name */
			continue;
		at += strspn(at, "\"'");
		snprintf(u->preload, sizeof(u->preload), "%s", at);
		u->preload[strcspn(u->preload, " \t\"'")] = '\0';
	}
}

static char *trim(char *s)
{
	char *end;

	s += strspn(s, " \t\r");
	for (end = s + strlen(s); end > s && strchr(" \t\r", end[-1]);)
		*--end = '\0';
	return s;
}

/* The text of a file, in which a line that ends with a backslash is joined with the next one,
 * as systemd.syntax(7) has it. NULL: there is no such file. The caller frees it. */
static char *read_joined(const char *path)
{
	FILE *f = fopen(path, "re");
	char *text = NULL;
	size_t room = 0;

	if (!f)
		return NULL;
	if (getdelim(&text, &room, '\0', f) < 0) {
		free(text);
		text = calloc(1, 1);
	}
	fclose(f);
	for (char *at = text; at && (at = strstr(at, "\\\n"));)
		*at++ = ' ', *at++ = ' ';
	return text;
}

/* What an environment file sets counts more than Environment=, and so more than the drop-in. */
static void read_environment_file(struct unit_facts *u, const char *root, const char *value)
{
	char path[PATH_MAX], *text, *rest, *line;

	snprintf(path, sizeof(path), "%s%s", root, value + (*value == '-'));
	rest = text = read_joined(path);
	while ((line = strsep(&rest, "\n")))
		if (!strncmp(line = trim(line), "LD_PRELOAD=", strlen("LD_PRELOAD=")))
			read_preload(u, line);
	free(text);
}

/* Takes in a boolean. False: the value is none; systemd ignores it, and *v stays. */
static bool read_boolean(bool *v, const char *value)
{
	static const char *const word[2][6] = { { "0", "no", "n", "false", "f", "off" },
						{ "1", "yes", "y", "true", "t", "on" } };

	for (unsigned i = 0; i < 12; i++)
		if (!strcasecmp(value, word[i / 6][i % 6])) {
			*v = i / 6;
			return true;
		}
	return false;
}

/* Takes in ProtectSystem=, a boolean or a word. */
static void read_protection(struct unit_facts *u, const char *value)
{
	bool some;

	if (!strcmp(value, "strict"))
		u->strict = true;
	else if (!strcmp(value, "full") || read_boolean(&some, value))
		u->strict = false;
}

/* Takes in one line KEY=VALUE. Sections are not told apart: the keys that matter here stand in
 * [Service] only. */
static void read_line(struct unit_facts *u, const struct unit_place *at, char *line)
{
	char *value = strchr(line, '='), *key;

	if (!value)
		return;
	*value++ = '\0';
	key = trim(line);
	value = trim(value);
	if (*key == '#' || *key == ';')
		return;
	if (!strcmp(key, "RestrictAddressFamilies"))
		read_families(u, value);
	else if (!strcmp(key, "PrivateDevices"))
		read_boolean(&u->private_devices, value);
	else if (!strcmp(key, "DynamicUser"))
		read_boolean(&u->dynamic_user, value);
	else if (!strcmp(key, "ProtectSystem"))
		read_protection(u, value);
	else if (!strcmp(key, "ExecStart"))
		judge_program(at->unit, value, at->library);
	else if (!strcmp(key, "Environment"))
		read_preload(u, value);
	else if (!strcmp(key, "EnvironmentFile"))
		read_environment_file(u, at->root, value);
}

/* Our own drop-in is left out: what it changes must not count as the unit's own. */
static void read_unit_file(struct unit_facts *u, const struct unit_place *at, const char *path)
{
	char *text = read_joined(path), *rest = text, *line;

	if (!text)
		return;
	u->found = true;
	if (strncmp(text, MARK, sizeof(MARK) - 1))
		while ((line = strsep(&rest, "\n")))
			read_line(u, at, line);
	free(text);
}

static const char *const unit_dirs[] = { "/etc/systemd/system", "/run/systemd/system",
					 "/usr/local/lib/systemd/system",
					 "/usr/lib/systemd/system", "/lib/systemd/system" };

static void read_drop_ins(struct unit_facts *u, const struct unit_place *at, const char *name)
{
	char pattern[PATH_MAX];
	bool found = u->found;
	glob_t g;

	for (size_t i = sizeof(unit_dirs) / sizeof(*unit_dirs); i--;) {
		snprintf(pattern, sizeof(pattern), "%s%s/%s.d/*.conf", at->root, unit_dirs[i],
			 name);
		if (!glob(pattern, 0, NULL, &g))
			for (size_t k = 0; k < g.gl_pathc; k++)
				read_unit_file(u, at, g.gl_pathv[k]);
		globfree(&g);
	}
	u->found = found;
}

/* Reads the unit, or its template, from the first place that has it, and then all drop-ins:
 * those of all services, of the template and of the unit. */
static void read_unit(struct unit_facts *u, const struct unit_place *at)
{
	const char *instance = strchr(at->unit, '@'), *dot = strrchr(at->unit, '.');
	char path[PATH_MAX], template[256] = "";

	if (instance)
		snprintf(template, sizeof(template), "%.*s@%s", (int)(instance - at->unit),
			 at->unit, dot);
	for (size_t i = 0; i < sizeof(unit_dirs) / sizeof(*unit_dirs) && !u->found; i++) {
		snprintf(path, sizeof(path), "%s%s/%s", at->root, unit_dirs[i], at->unit);
		read_unit_file(u, at, path);
		if (u->found || !*template)
			continue;
		snprintf(path, sizeof(path), "%s%s/%s", at->root, unit_dirs[i], template);
		read_unit_file(u, at, path);
	}
	read_drop_ins(u, at, "service");
	if (*template && strcmp(template, at->unit))
		read_drop_ins(u, at, template);
	read_drop_ins(u, at, at->unit);
}

/* --- the drop-in --- */

/* Writes text between quotes, as systemd.exec(5) reads it: no specifiers, no escapes. */
static void put_quoted(FILE *to, const char *before, const char *text)
{
	fprintf(to, "\"%s", before);
	for (; *text; text++) {
		if (*text == '%' || *text == '\\')
			fputc(*text, to);
		else if (*text == '"')
			fputc('\\', to);
		fputc(*text, to);
	}
	fputs("\"\n", to);
}

static void put_variable(FILE *to, const char *name, const char *value)
{
	char assigned[80];

	snprintf(assigned, sizeof(assigned), "%s=", name);
	fputs("Environment=", to);
	put_quoted(to, assigned, value);
}

/* The directory in which the service keeps its statistics: option run_dir, or root's own. */
static void put_run_dir(FILE *to)
{
	const char *dir = "/run/rdmarpc";

	for (unsigned i = 0; i < nvariables; i++)
		if (!strcmp(variables[i].name, "RDMARPC_RUN_DIR"))
			dir = variables[i].value;
	fputs("# Statistics.\nReadWritePaths=", to);
	put_quoted(to, "-", dir);
}

/* Each addition has its reason in the file, for the administrator who finds it. LimitMEMLOCK
 * and AF_NETLINK are for RDMA devices, and are left out on a host without any. */
static void write_drop_in(FILE *to, const char *unit, const struct unit_facts *u,
			  const char *preload)
{
	bool device = !access(DEVICE, F_OK);

	fprintf(to, MARK " %s --install; --remove removes it.\n[Service]\n", unit);
	put_variable(to, "LD_PRELOAD", preload);
	for (unsigned i = 0; i < nvariables; i++)
		put_variable(to, variables[i].name, variables[i].value);
	if (u->strict || u->dynamic_user)
		put_run_dir(to);
	if (u->families && !u->allows_unix)
		fputs("# Ends on one host meet by sockets of the kind "
		      "AF_UNIX.\nRestrictAddressFamilies=AF_UNIX\n",
		      to);
	if (!device)
		return;
	fputs("# RDMA devices lock the memory that they use.\nLimitMEMLOCK=infinity\n", to);
	if (u->families && !u->allows_netlink)
		fputs("RestrictAddressFamilies=AF_NETLINK\n", to);
}

/* Says what the drop-in cannot mend. */
static void warn_of(const char *unit, const struct unit_facts *u)
{
	if (!u->found)
		say(unit, "warning: there is no such unit here (yet)");
	if (u->denies_unix)
		say(unit, "warning: RestrictAddressFamilies=~AF_UNIX keeps connections on TCP");
	if (u->private_devices && !access(DEVICE, F_OK))
		say(unit, "warning: PrivateDevices= hides RDMA devices: connections to other "
			  "hosts stay on TCP");
}

/* Is it a name that may become part of a path? No slash, and no leading dot. */
static bool is_unit_name(const char *name)
{
	return *name && *name != '.' && strlen(name) < 200 &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01234567"
				  "89:_.-@\\")];
}

/* May the file be changed: have we written it, or does it not exist? */
static bool is_ours_to_change(const char *path)
{
	char line[sizeof(MARK)] = "";
	FILE *f = fopen(path, "re");
	bool ours;

	if (!f)
		return errno == ENOENT;
	ours = fgets(line, sizeof(line), f) && !strncmp(line, MARK, sizeof(MARK) - 1);
	fclose(f);
	return ours;
}

/* The file is written under another name and then renamed, so that systemd never reads half of
 * it. A rdmarpc.conf that somebody else has written stays. */
static int install_drop_in(const char *unit, const char *root, const struct unit_facts *u,
			   const char *preload)
{
	char dir[PATH_MAX], path[PATH_MAX + 32], hidden[PATH_MAX + 32];
	FILE *f;

	snprintf(dir, sizeof(dir), "%s/etc/systemd/system/%s.d", root, unit);
	snprintf(path, sizeof(path), "%s/rdmarpc.conf", dir);
	snprintf(hidden, sizeof(hidden), "%s/.rdmarpc.conf.new", dir);
	if (!is_ours_to_change(path))
		return say(unit, "there is a rdmarpc.conf that is not ours: it stays");
	if (mkdir(dir, 0755) && errno != EEXIST) {
		fprintf(stderr, "rdmarpc-run: %s: %s\n", dir, strerror(errno));
		return RR_EXIT_OURS;
	}
	f = fopen(hidden, "we");
	if (f)
		write_drop_in(f, unit, u, preload);
	if (!f || fflush(f) || ferror(f) || fchmod(fileno(f), 0644) || rename(hidden, path)) {
		fprintf(stderr, "rdmarpc-run: %s: %s\n", path, strerror(errno));
		if (f)
			fclose(f);
		unlink(hidden);
		return RR_EXIT_OURS;
	}
	fclose(f);
	printf("%s\nnow: systemctl daemon-reload && systemctl restart %s\n", path, unit);
	return 0;
}

static int remove_drop_in(const char *unit, const char *root)
{
	char dir[PATH_MAX], path[PATH_MAX + 32];

	snprintf(dir, sizeof(dir), "%s/etc/systemd/system/%s.d", root, unit);
	snprintf(path, sizeof(path), "%s/rdmarpc.conf", dir);
	if (!is_ours_to_change(path))
		return say(unit, "its rdmarpc.conf is not ours: it stays");
	if (unlink(path)) {
		fprintf(stderr, "rdmarpc-run: %s: %s\n", path, strerror(errno));
		return RR_EXIT_OURS;
	}
	rmdir(dir); /* stays if it has other drop-ins */
	printf("now: systemctl daemon-reload && systemctl restart %s\n", unit);
	return 0;
}

/* The name may be given with or without ".service". */
int rr_unit(enum rr_unit_what what, const char *name, const char *root, const char *preload,
	    const char *library)
{
	struct unit_facts u = { 0 };
	char unit[256];

	if (!is_unit_name(name))
		return say(name, "that is no name of a unit");
	snprintf(unit, sizeof(unit), "%s%s", name,
		 strrchr(name, '.') && !strcmp(strrchr(name, '.'), ".service") ? ""
									       : ".service");
	if (what == RR_UNIT_REMOVE)
		return remove_drop_in(unit, root);
	read_unit(&u, &(struct unit_place){ root, unit, library });
	warn_of(unit, &u);
	if (*u.preload)
		return say(
			unit,
			"it has an LD_PRELOAD of its own: put the library before that by hand");
	if (what == RR_UNIT_INSTALL)
		return install_drop_in(unit, root, &u, preload);
	write_drop_in(stdout, unit, &u, preload);
	return fflush(stdout) || ferror(stdout) ? RR_EXIT_OURS : 0;
}
