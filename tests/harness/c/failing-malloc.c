/* SPDX-License-Identifier: Apache-2.0 */
/*
 * failing-malloc.so: for LD_PRELOAD. Lets an allocation of the program itself fail, one call site a run.
 *
 *     FAIL_SITE=N          the N-th site (from 0, in the order of their first calls); none without it
 *     FAIL_AFTER_MS=T      not before T ms have passed: sites of the steady state
 *     SITES_FILE=PATH      at the end: how many sites there were, and whether one has failed
 *
 * A site is a return address in the program's own text: what libraries allocate for themselves is their own
 * business.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);

enum { MAX_SITES = 4096 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static uintptr_t text_begin, text_end, sites[MAX_SITES];
static size_t n_sites;
static long fail_site = -1;
static uint64_t not_before_ms;
static bool has_failed, is_ready;

static uint64_t now_ms(void) {
        struct timespec ts;

        clock_gettime(CLOCK_MONOTONIC, &ts);
        return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

/* The first object is the program. */
static int find_text(struct dl_phdr_info *info, size_t size, void *userdata) {
        for (int i = 0; i < info->dlpi_phnum; i++)
                if (info->dlpi_phdr[i].p_type == PT_LOAD && info->dlpi_phdr[i].p_flags & PF_X) {
                        text_begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;
                        text_end = text_begin + info->dlpi_phdr[i].p_memsz;
                }
        return 1;
}

__attribute__((constructor)) static void begin(void) {
        const char *site = getenv("FAIL_SITE"), *after = getenv("FAIL_AFTER_MS");

        dl_iterate_phdr(find_text, NULL);
        fail_site = site ? atol(site) : -1;
        not_before_ms = now_ms() + (after ? (uint64_t)atol(after) : 0);
        is_ready = true;
}

__attribute__((destructor)) static void end(void) {
        const char *path = getenv("SITES_FILE");
        int fd = path ? open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600) : -1;

        if (fd >= 0) {
                dprintf(fd, "%zu %d\n", n_sites, has_failed);
                close(fd);
        }
}

static bool fails(uintptr_t site) {
        bool verdict = false;
        size_t i;

        if (!is_ready || site < text_begin || site >= text_end || now_ms() < not_before_ms)
                return false;
        pthread_mutex_lock(&lock);
        for (i = 0; i < n_sites && sites[i] != site; i++)
                ;
        if (i == n_sites && n_sites < MAX_SITES)
                sites[n_sites++] = site;
        if ((long)i == fail_site && !has_failed)
                verdict = has_failed = true;
        pthread_mutex_unlock(&lock);
        if (verdict)
                errno = ENOMEM;
        return verdict;
}

#define SITE ((uintptr_t)__builtin_return_address(0))

void *malloc(size_t size) {
        return fails(SITE) ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size) {
        return fails(SITE) ? NULL : __libc_calloc(n, size);
}

void *realloc(void *old, size_t size) {
        return fails(SITE) ? NULL : __libc_realloc(old, size);
}

void *reallocarray(void *old, size_t n, size_t size) {
        size_t total;

        if (__builtin_mul_overflow(n, size, &total) || fails(SITE)) {
                errno = ENOMEM;
                return NULL;
        }
        return __libc_realloc(old, total);
}
