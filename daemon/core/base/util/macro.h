/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Small Macros
 *
 * Cleanup on leaving a scope, one visible line for ownership, and sizes.
 */

#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#define _cleanup_(_f) __attribute__((__cleanup__(_f)))
#define _printf_(_a, _b) __attribute__((__format__(__printf__, _a, _b)))
#define _unused_ __attribute__((__unused__))
#define _noinline_ __attribute__((__noinline__))
#define _always_inline_ inline __attribute__((__always_inline__))

/* AddressSanitizer is in the build: its shadow is terabytes of data, so that no limit on data may be set. */
#if defined(__SANITIZE_ADDRESS__)       /* gcc */
#define IS_SANITIZED
#elif defined(__has_feature)            /* clang */
#if __has_feature(address_sanitizer)
#define IS_SANITIZED
#endif
#endif

#define ARRAY_SIZE(_a) (sizeof(_a) / sizeof((_a)[0]))
#define MIN(_a, _b) ((_a) < (_b) ? (_a) : (_b))
#define MAX(_a, _b) ((_a) > (_b) ? (_a) : (_b))

/* Hands a pointer on: yields it and leaves NULL behind. */
#define take(_p) \
        ({ \
                __typeof__(_p) _taken = (_p); \
                (_p) = NULL; \
                _taken; \
        })

/* The same for a descriptor; leaves -1 behind. */
#define take_fd(_fd) \
        ({ \
                int _taken = (_fd); \
                (_fd) = -1; \
                _taken; \
        })

static inline void freep(void *p) {
        free(*(void **)p);
}

static inline void closep(int *fdp) {
        if (*fdp >= 0)
                close(*fdp);
}

/* DEFINE_CLEANUP(Type, type_free) makes type_freep() for _cleanup_(). */
#define DEFINE_CLEANUP(_type, _func) \
        static inline void _func##p(_type **p) { \
                _func(*p); \
        }
