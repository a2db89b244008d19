// SPDX-License-Identifier: Apache-2.0

// librdkafka, and its in-process cluster (a separate header that Debian's librdkafka-dev installs beside it).
#include <librdkafka/rdkafka.h>
#include <librdkafka/rdkafka_mock.h>

// How many parts the heap has: glibc only, whose <malloc.h> Swift's own module of it leaves out.
#if defined(__GLIBC__)
#include <malloc.h>
static inline void crdkafka_limit_heap_arenas(int count) {
    mallopt(M_ARENA_MAX, count);
}
#else
static inline void crdkafka_limit_heap_arenas(int count) {
    (void)count;
}
#endif
