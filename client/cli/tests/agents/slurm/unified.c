/*
 * For slurmd on a machine that has version 1 of control groups beside version 2: Slurm's plugin for version 2 wants to be
 * alone, and looks for others in /proc/self/cgroup. This leaves it the line of version 2. The groups themselves are real.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static int only_version_2(int real)
{
	char all[65536], *rest = all, *line;
	ssize_t length = read(real, all, sizeof(all) - 1);
	int own = memfd_create("cgroup", MFD_CLOEXEC);

	close(real);
	if (length < 0 || own < 0)
		return -1;
	all[length] = 0;
	while ((line = strsep(&rest, "\n")))
		if (!strncmp(line, "0::", 3))
			dprintf(own, "%s\n", line);
	lseek(own, 0, SEEK_SET);
	return own;
}

int open(const char *path, int flags, ...)
{
	int (*real)(const char *, int, ...) = (int (*)(const char *, int, ...))dlsym(RTLD_NEXT, "open");
	va_list more;
	int mode, found;

	va_start(more, flags);
	mode = va_arg(more, int);
	va_end(more);
	found = real(path, flags, mode);
	return found >= 0 && !strcmp(path, "/proc/self/cgroup") ? only_version_2(found) : found;
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*real)(const char *, const char *) = (FILE *(*)(const char *, const char *))dlsym(RTLD_NEXT, "fopen");
	int found;

	if (strcmp(path, "/proc/self/cgroup"))
		return real(path, mode);
	found = open(path, O_RDONLY | O_CLOEXEC);
	return found < 0 ? NULL : fdopen(found, mode);
}
