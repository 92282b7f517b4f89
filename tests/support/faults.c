/* SPDX-License-Identifier: Apache-2.0
 * Preloaded into a program: call number FAULT_AT of FAULT_CALL and the FAULT_COUNT - 1 after it fail. FAULT_CALL is one
 * of malloc, write, open (for writing), read, rename, fsync, mmap, fork and pthread_create. malloc and mmap fail for
 * want of memory, fork and pthread_create with EAGAIN, the others with the errno FAULT_ERRNO (ENOSPC). FAULT_LOG names
 * a file that gets the number of calls. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
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

/* A function that is forwarded unless the fault `call` is due, which returns -1. */
#define FORWARD(result, name, call, condition, parameters, arguments)       \
  result name parameters {                                                  \
    static result(*next) parameters;                                        \
    if (next == NULL) next = (result(*) parameters)dlsym(RTLD_NEXT, #name); \
    if ((condition) && Fails(call)) {                                       \
      errno = error;                                                        \
      return -1;                                                            \
    }                                                                       \
    return next arguments;                                                  \
  }
FORWARD(ssize_t, read, "read", fd > 2, (int fd, void* data, size_t bytes), (fd, data, bytes))
FORWARD(int, rename, "rename", 1, (const char* from, const char* to), (from, to))
FORWARD(int, fsync, "fsync", 1, (int fd), (fd))

pid_t fork(void) {
  static pid_t (*next)(void);
  if (next == NULL) next = (pid_t(*)(void))dlsym(RTLD_NEXT, "fork");
  if (Fails("fork")) {
    errno = EAGAIN;
    return -1;
  }
  return next();
}

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*), void* argument) {
  static int (*next)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  if (next == NULL) *(void**)&next = dlsym(RTLD_NEXT, "pthread_create");
  return Fails("pthread_create") ? EAGAIN : next(thread, attributes, start, argument);
}

static void* Map(const char* name, void* start, size_t bytes, int protection, int flags, int fd, off_t offset) {
  void* (*next)(void*, size_t, int, int, int, off_t);
  *(void**)&next = dlsym(RTLD_NEXT, name);
  if (Fails("mmap")) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return next(start, bytes, protection, flags, fd, offset);
}
void* mmap(void* start, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return Map("mmap", start, bytes, protection, flags, fd, offset);
}
void* mmap64(void* start, size_t bytes, int protection, int flags, int fd, off_t offset) {
  return Map("mmap64", start, bytes, protection, flags, fd, offset);
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
