/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/util/stat.h"
#include "host/coro/region-find.h"
#include "spanprof/station.h"
#include "stat-reset.h"

/* More than are opened of one process, by some. */
enum { N_PIECES = 1100, PAGE = 4096, OVER = 75 };

static unsigned n_found;
static uint8_t *base;

static int count(void *userdata, int fd, const char *path) {
        n_found++;
        close(fd);
        return 0;
}

static int make_file(uint64_t magic) {
        int fd = memfd_create("piece", 0);

        cr_assert_geq(fd, 0);
        cr_assert_eq(ftruncate(fd, PAGE), 0);
        cr_assert_eq(pwrite(fd, &magic, sizeof(magic), 0), sizeof(magic));
        return fd;
}

static void map_at(size_t i, int fd, int rights) {
        cr_assert_neq(mmap(base + i * PAGE, PAGE, rights, MAP_SHARED | MAP_FIXED, fd, 0), MAP_FAILED);
}

/* The region lies behind all that a test maps. */
static void begin(void) {
        size_t size = (N_PIECES + 1) * PAGE;
        int fd;

        stat_reset();
        n_found = 0;
        base = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        cr_assert_neq(base, MAP_FAILED);
        fd = make_file(SPANPROF_STATION_MAGIC);
        map_at(N_PIECES, fd, PROT_READ | PROT_WRITE);
        close(fd);
}
TestSuite(region_find, .init = begin);

/* Return: the turns that it took. */
static unsigned look(void) {
        Find *find = NULL;
        unsigned n = 0;
        int r;

        do {
                r = find_regions_some(getpid(), &find, count, NULL);
                n++;
        } while (r == FIND_E_MORE);
        cr_assert_eq(r, 0);
        return n;
}

Test(region_find, opens_a_file_once_that_is_mapped_piece_by_piece) {
        int fd = make_file(0);

        for (size_t i = 0; i < N_PIECES; i++)
                map_at(i, fd, PROT_READ | PROT_WRITE);
        close(fd);
        look();
        cr_assert_eq(n_found, 1);
        cr_assert_eq(stat_get(COUNTER_CORO_FILES_LEFT), 0, "more pieces than files may be opened");
}

static void map_files(int rights) {
        for (size_t i = 0; i < N_PIECES; i++) {
                int fd = make_file(0);

                map_at(i, fd, rights);
                close(fd);
        }
}

Test(region_find, opens_so_many_files_in_turns_and_counts_what_is_left) {
        map_files(PROT_READ | PROT_WRITE);
        cr_assert_gt(look(), 5, "each turn opens some");
        cr_assert_eq(n_found, 0);
        cr_assert_gt(stat_get(COUNTER_CORO_FILES_LEFT), OVER);
        cr_assert_eq(find_regions(getpid(), count, NULL), 0);
        cr_assert_eq(n_found, 1, "who asks once gets all");
}

/* As programs do that search large indexes. */
Test(region_find, opens_no_file_that_the_process_cannot_write) {
        map_files(PROT_READ);
        look();
        cr_assert_eq(n_found, 1);
        cr_assert_eq(stat_get(COUNTER_CORO_FILES_LEFT), 0);
}
