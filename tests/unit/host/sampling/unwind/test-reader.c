/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#include "host/sampling/unwind/cfi/reader.h"

enum { PAGES = 512, PAGE = 4096 };

static size_t n_cached(int fd) {
        void *map = mmap(NULL, PAGES * PAGE, PROT_READ, MAP_SHARED, fd, 0);
        unsigned char pages[PAGES];
        size_t n = 0;

        cr_assert(map != MAP_FAILED && !mincore(map, PAGES * PAGE, pages));
        for (size_t i = 0; i < PAGES; i++)
                n += pages[i] & 1;
        munmap(map, PAGES * PAGE);
        return n;
}

/* A file of PAGES pages, each filled with its number, beside the tests' programs: no tmpfs. */
static int make_file(void) {
        char path[] = "./test-reader-XXXXXX", page[PAGE];
        int fd = mkstemp(path);

        cr_assert(fd >= 0);
        unlink(path);
        for (int i = 0; i < PAGES; i++) {
                memset(page, i, sizeof(page));
                cr_assert_eq(write(fd, page, sizeof(page)), PAGE);
        }
        cr_assert(!fsync(fd));
        return fd;
}

/* Overlayfs among others has no RWF_NOWAIT: reader.c leaves such files in the cache. */
static bool tells_what_is_cached(int fd) {
        char byte;
        const struct iovec to = { &byte, 1 };

        return preadv2(fd, &to, 1, 0, RWF_NOWAIT) >= 0 || errno == EAGAIN;
}

/* Without it, what a fast disk has read at once cannot be told from what was there. */
static bool has_uncached_reads(int fd) {
        char byte;
        const struct iovec to = { &byte, 1 };

        return preadv2(fd, &to, 1, 0, 0x80 /* RWF_DONTCACHE */) >= 0;
}

static void read_all(int fd) {
        Reader reader;

        cr_assert_eq(reader_init_file(&reader, fd), 0);
        for (uint64_t at = 0; at + 100 <= PAGES * PAGE; at += 100) {
                const uint8_t *bytes = reader_bytes(&reader, at, 100);

                cr_assert(bytes);
                cr_assert(bytes[0] == (uint8_t)(at / PAGE) && bytes[99] == (uint8_t)((at + 99) / PAGE));
        }
        reader_deinit(&reader);
}

Test(reader, leaves_the_page_cache_as_it_was) {
        int fd = make_file();

        if (!tells_what_is_cached(fd)) {
                close(fd);
                cr_skip_test("machine: this filesystem does not tell what is cached");
        }
        read_all(fd);
        cr_expect_eq(n_cached(fd), PAGES, "what was there stays");
        posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED);
        if (n_cached(fd)) {
                close(fd);
                cr_skip_test("machine: this filesystem is memory");
        }
        if (!has_uncached_reads(fd)) {
                close(fd);
                cr_skip_test("kernel: no RWF_DONTCACHE here (6.14)");
        }
        read_all(fd);
        cr_expect_eq(n_cached(fd), 0, "%zu pages of %d were left behind", n_cached(fd), PAGES);
        close(fd);
}
