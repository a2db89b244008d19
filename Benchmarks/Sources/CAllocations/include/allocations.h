// SPDX-License-Identifier: Apache-2.0

#ifndef FRESHET_ALLOCATIONS_H
#define FRESHET_ALLOCATIONS_H

#include <stdint.h>

/// Calls of malloc, calloc, realloc and the aligned ones that the calling thread has made; 0 where they are not counted
/// (anything but glibc).
uint64_t freshet_allocations(void);

/// Bytes that it asked for in those calls.
uint64_t freshet_allocated_bytes(void);

#endif
