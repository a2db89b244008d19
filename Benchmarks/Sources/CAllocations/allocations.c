// SPDX-License-Identifier: Apache-2.0

// Counts allocations. The definitions here take the place of the C library's for everything in the process, Swift's runtime
// included, since a program's own symbols come first; they hand on to glibc's own names for the same functions.

#include "allocations.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>

// By thread: what librdkafka's own threads do meanwhile depends on the time. In the program itself this is a place at a
// fixed distance from the thread's pointer, so that malloc can use it whenever it is called.
static _Thread_local uint64_t calls;
static _Thread_local uint64_t bytes;

uint64_t freshet_allocations(void) {
    return calls;
}

uint64_t freshet_allocated_bytes(void) {
    return bytes;
}

#if defined(__GLIBC__)

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *pointer, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

static void note(size_t size) {
    calls += 1;
    bytes += size;
}

void *malloc(size_t size) {
    note(size);
    return __libc_malloc(size);
}

void *calloc(size_t count, size_t size) {
    note(count * size);
    return __libc_calloc(count, size);
}

void *realloc(void *pointer, size_t size) {
    note(size);
    return __libc_realloc(pointer, size);
}

void *memalign(size_t alignment, size_t size) {
    note(size);
    return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) {
    note(size);
    return __libc_memalign(alignment, size);
}

int posix_memalign(void **pointer, size_t alignment, size_t size) {
    if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
    note(size);
    void *memory = __libc_memalign(alignment, size);
    if (memory == NULL) return ENOMEM;
    *pointer = memory;
    return 0;
}

#endif
