// SPDX-License-Identifier: Apache-2.0

// For runs with the thread sanitizer only, preloaded into the test process. It shows the sanitizer two kinds of
// synchronisation that it cannot see by itself; nothing is suppressed.
//
//   clang -shared -fPIC -O1 -o libtsanpreload.so Tests/tsan-preload.c
//   swift build --build-tests --sanitize=thread
//   LD_PRELOAD=$PWD/libtsanpreload.so swift test --skip-build --sanitize=thread
//
// 1. librdkafka uses C11 threads, and the sanitizer knows POSIX threads only: a thread that thrd_create starts has no
//    sanitizer state, and the first intercepted call in it crashes the process. glibc's C11 types are its POSIX types
//    under other names (its own implementation casts them the same way), so each call goes through the POSIX function,
//    which the sanitizer intercepts.
// 2. Swift's Mutex waits on a futex inside libswiftSynchronization, which is not instrumented: after a contended lock
//    the sanitizer does not know that the last holder's writes come before, and reports races between two critical
//    sections.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <threads.h>

static int result(int error) {
    switch (error) {
    case 0: return thrd_success;
    case EBUSY: return thrd_busy;
    case ENOMEM: return thrd_nomem;
    case ETIMEDOUT: return thrd_timedout;
    default: return thrd_error;
    }
}

struct start {
    thrd_start_t function;
    void *argument;
};

static void *run(void *pointer) {
    struct start start = *(struct start *)pointer;
    free(pointer);
    return (void *)(intptr_t)start.function(start.argument);
}

int thrd_create(thrd_t *thread, thrd_start_t function, void *argument) {
    struct start *start = malloc(sizeof *start);
    if (!start) return thrd_nomem;
    *start = (struct start){function, argument};
    int error = pthread_create((pthread_t *)thread, NULL, run, start);
    if (error) free(start);
    return result(error);
}

int thrd_join(thrd_t thread, int *value) {
    void *returned;
    int error = pthread_join((pthread_t)thread, &returned);
    if (!error && value) *value = (int)(intptr_t)returned;
    return result(error);
}

int thrd_detach(thrd_t thread) { return result(pthread_detach((pthread_t)thread)); }

int mtx_init(mtx_t *mutex, int type) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    if (type & mtx_recursive) pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    int error = pthread_mutex_init((pthread_mutex_t *)mutex, &attributes);
    pthread_mutexattr_destroy(&attributes);
    return result(error);
}

void mtx_destroy(mtx_t *mutex) { pthread_mutex_destroy((pthread_mutex_t *)mutex); }
int mtx_lock(mtx_t *mutex) { return result(pthread_mutex_lock((pthread_mutex_t *)mutex)); }
int mtx_trylock(mtx_t *mutex) { return result(pthread_mutex_trylock((pthread_mutex_t *)mutex)); }
int mtx_unlock(mtx_t *mutex) { return result(pthread_mutex_unlock((pthread_mutex_t *)mutex)); }

int cnd_init(cnd_t *condition) { return result(pthread_cond_init((pthread_cond_t *)condition, NULL)); }
void cnd_destroy(cnd_t *condition) { pthread_cond_destroy((pthread_cond_t *)condition); }
int cnd_signal(cnd_t *condition) { return result(pthread_cond_signal((pthread_cond_t *)condition)); }
int cnd_broadcast(cnd_t *condition) { return result(pthread_cond_broadcast((pthread_cond_t *)condition)); }

int cnd_wait(cnd_t *condition, mtx_t *mutex) {
    return result(pthread_cond_wait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex));
}

int cnd_timedwait(cnd_t *restrict condition, mtx_t *restrict mutex, const struct timespec *restrict until) {
    return result(pthread_cond_timedwait((pthread_cond_t *)condition, (pthread_mutex_t *)mutex, until));
}

// Swift's Mutex, the contended paths: `_MutexHandle._lockSlow(_: UInt32)` and `_MutexHandle._unlockSlow()`.

void __tsan_acquire(void *address) __attribute__((weak));
void __tsan_release(void *address) __attribute__((weak));

#define LOCK_SLOW "$s15Synchronization12_MutexHandleV9_lockSlowyys6UInt32VF"
#define UNLOCK_SLOW "$s15Synchronization12_MutexHandleV11_unlockSlowyyF"

#define SWIFT __attribute__((swiftcall))
#define SELF __attribute__((swift_context))

typedef SWIFT void (*lock_slow_t)(uint32_t, SELF void *);
typedef SWIFT void (*unlock_slow_t)(SELF void *);

SWIFT void lock_slow(uint32_t thread, SELF void *handle) __asm__(LOCK_SLOW);
SWIFT void unlock_slow(SELF void *handle) __asm__(UNLOCK_SLOW);

SWIFT void lock_slow(uint32_t thread, SELF void *handle) {
    ((lock_slow_t)dlsym(RTLD_NEXT, LOCK_SLOW))(thread, handle);
    // Releasing first adds nothing, since unlocking does it again; but it waits for an unlock that has set the lock
    // free and is not yet through with telling the sanitizer, which acquiring alone does not if it is the lock's first.
    if (__tsan_release) __tsan_release(handle);
    if (__tsan_acquire) __tsan_acquire(handle);
}

SWIFT void unlock_slow(SELF void *handle) {
    if (__tsan_release) __tsan_release(handle);
    ((unlock_slow_t)dlsym(RTLD_NEXT, UNLOCK_SLOW))(handle);
}
