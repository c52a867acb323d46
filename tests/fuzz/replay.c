/* SPDX-License-Identifier: BSD-3-Clause */
/* Feeds a fuzz target the checked-in inputs of tests/fuzz/corpus/TARGET, or the files that
 * are named: so that any compiler runs them, without libFuzzer. */
#include <dirent.h>
#include <limits.h>

#include "tests/fuzz/fuzz.h"

static unsigned inputs;

static void run(const char *path)
{
	FILE *f = fopen(path, "rb");
	static uint8_t buf[1 << 20];
	size_t len;
	uint8_t *p;

	if (!f) {
		perror(path);
		exit(2);
	}
	len = fread(buf, 1, sizeof(buf), f);
	fclose(f);
	fprintf(stderr, "%s\n", path);
	p = tight(buf, len);
	LLVMFuzzerTestOneInput(p, len);
	free(p);
	inputs++;
}

static void run_corpus(const char *target)
{
	char dir[PATH_MAX / 2], path[PATH_MAX];
	struct dirent *e;
	DIR *d;

	snprintf(dir, sizeof(dir), "tests/fuzz/corpus/%s", target);
	d = opendir(dir);
	if (!d) {
		printf("no %s\n", dir);
		exit(77);
	}
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		run(path);
	}
	closedir(d);
}

int main(int argc, char **argv)
{
	const char *slash = strrchr(argv[0], '/');

	for (int i = 1; i < argc; i++)
		run(argv[i]);
	if (argc == 1)
		run_corpus(slash ? slash + 1 : argv[0]);
	printf("%u inputs\n", inputs);
	return inputs ? 0 : 1;
}
