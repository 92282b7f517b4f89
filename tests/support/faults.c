/* SPDX-License-Identifier: Apache-2.0
 * Preloaded into a program: call number FAULT_AT of malloc, write or open (FAULT_CALL) and the FAULT_COUNT - 1 after it
 * fail, write and open with the errno FAULT_ERRNO (ENOSPC). FAULT_LOG names a file that gets the number of calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

extern void* __libc_malloc(size_t bytes);

static const char* call = "";
static long first = -1, count = 1;
static int error = ENOSPC;
static atomic_long calls;

__attribute__((constructor)) static void Begin(void) {
  const char* text = getenv("FAULT_AT");
  if (text != NULL) first = atol(text);
  if ((text = getenv("FAULT_COUNT")) != NULL) count = atol(text);
  if ((text = getenv("FAULT_CALL")) != NULL) call = text;
  if ((text = getenv("FAULT_ERRNO")) != NULL) error = atoi(text);
}

__attribute__((destructor)) static void End(void) {
  const char* path = getenv("FAULT_LOG");
  if (path == NULL) return;
  first = -1;
  FILE* log = fopen(path, "w");
  if (log == NULL) return;
  fprintf(log, "%ld\n", (long)calls);
  fclose(log);
}

static int Fails(const char* name) {
  if (strcmp(name, call) != 0) return 0;
  const long number = atomic_fetch_add(&calls, 1);
  return first >= 0 && number >= first && number < first + count;
}

void* malloc(size_t bytes) {
  if (Fails("malloc")) {
    errno = ENOMEM;
    return NULL;
  }
  return __libc_malloc(bytes);
}

ssize_t write(int fd, const void* data, size_t bytes) {
  static ssize_t (*next)(int, const void*, size_t);
  if (next == NULL) next = (ssize_t(*)(int, const void*, size_t))dlsym(RTLD_NEXT, "write");
  if (fd > 2 && Fails("write")) {
    errno = error;
    return -1;
  }
  return next(fd, data, bytes);
}

static int Open(const char* name, const char* path, int flags, int mode) {
  int (*next)(const char*, int, ...) = (int (*)(const char*, int, ...))dlsym(RTLD_NEXT, name);
  if ((flags & (O_WRONLY | O_RDWR)) != 0 && Fails("open")) {
    errno = error;
    return -1;
  }
  return next(path, flags, mode);
}

#define OPEN(name)                             \
  int name(const char* path, int flags, ...) { \
    va_list rest;                              \
    va_start(rest, flags);                     \
    const int mode = va_arg(rest, int);        \
    va_end(rest);                              \
    return Open(#name, path, flags, mode);     \
  }
OPEN(open)
OPEN(open64)
