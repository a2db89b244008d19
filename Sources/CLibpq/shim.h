// libpq, and the two calls of the system that Swift's own modules leave out.
#include <libpq-fe.h>

#if defined(__linux__)
#include <sys/eventfd.h>
#include <sys/prctl.h>

/// Names the calling thread, for debuggers and `top -H`; at most 15 bytes are kept.
static inline void clibpq_name_thread(const char *name) {
    prctl(PR_SET_NAME, (unsigned long)name, 0, 0, 0);
}

/// A descriptor that is readable while its counter is not zero; negative on failure, which `errno` explains.
static inline int clibpq_eventfd(void) {
    return eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}
#endif
