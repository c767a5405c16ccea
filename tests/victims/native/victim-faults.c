/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-faults SECONDS PAGES FAULTS [FILE]: a program that makes page faults, and knows how many
 *
 * Touches fresh pages of anonymous memory in rounds: PAGES / 2 in touch_f(), 3 / 10 in touch_g() and 1 / 5
 * in touch_h(), and gives them back. With PAGES = 100 a period of 100 would see one of the three alone. Huge
 * pages are forbidden: each page is a fault. With FILE, touch_file() reads it through a mapping without
 * read-ahead each time, once it was dropped from the page cache. Prints first:
 *
 *     pid 4711
 *
 * begins once it has read a line, or the end of its standard input, and goes on for SECONDS, and until it has
 * made FAULTS minor faults: a busy machine takes longer. It prints at its end, where minor and major are
 * ru_minflt and ru_majflt from the first touch to the last:
 *
 *     minor 1000000
 *     major 0
 *     file 64          pages of the file that were not in memory
 */
#include <fcntl.h>
#include <inttypes.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "victim.h"

enum { PAGE = 4096, FILE_STEP = 64 };

/* Pages that are mapped at once: rounds go on behind each other, and one unmapping has many of them. */
enum { ROOM_PAGES = 20000 };

static STEP void touch_f(char *at, size_t n) {
        KEEP_FRAME();
        for (size_t i = 0; i < n; i++)
                *(volatile char *)(at + i * PAGE) = 1;
}

static STEP void touch_g(char *at, size_t n) {
        KEEP_FRAME();
        for (size_t i = 0; i < n; i++)
                *(volatile char *)(at + i * PAGE) = 2;
}

static STEP void touch_h(char *at, size_t n) {
        KEEP_FRAME();
        for (size_t i = 0; i < n; i++)
                *(volatile char *)(at + i * PAGE) = 3;
}

static STEP uint64_t touch_file(const char *at, size_t size) {
        uint64_t sum = 0;

        KEEP_FRAME();
        for (size_t i = 0; i < size; i += (size_t)FILE_STEP * PAGE)
                sum += *(const volatile char *)(at + i);
        return sum;
}

static STEP void round_of(char *at, size_t n_pages) {
        size_t f = n_pages / 2, g = n_pages * 3 / 10;

        touch_f(at, f);
        touch_g(at + f * PAGE, g);
        touch_h(at + (f + g) * PAGE, n_pages - f - g);
}

static void fill(size_t n_pages) {
        const size_t size = (size_t)ROOM_PAGES * PAGE;
        char *room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (room == MAP_FAILED || madvise(room, size, MADV_NOHUGEPAGE))
                abort();
        for (size_t done = 0; done + n_pages <= ROOM_PAGES; done += n_pages)
                round_of(room + done * PAGE, n_pages);
        munmap(room, size);
}

/* Return: pages that are read from the disk; 0 where the cache keeps the file. */
static size_t read_file(const char *path) {
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        off_t size = lseek(fd, 0, SEEK_END);
        unsigned char in_memory[1 << 16];
        size_t n_pages = (size_t)size / PAGE, n = 0;
        char *at;

        if (fd < 0 || size <= 0 || n_pages > sizeof(in_memory))
                abort();
        at = mmap(NULL, (size_t)size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (at == MAP_FAILED || fdatasync(fd) || posix_fadvise(fd, 0, 0, POSIX_FADV_DONTNEED) ||
            madvise(at, (size_t)size, MADV_RANDOM) || mincore(at, (size_t)size, in_memory))
                abort();
        for (size_t i = 0; i < n_pages; i += FILE_STEP)
                n += !(in_memory[i] & 1);
        victim_sink = touch_file(at, (size_t)size);
        munmap(at, (size_t)size);
        close(fd);
        return n;
}

static long minor_faults(void) {
        struct rusage usage;

        getrusage(RUSAGE_SELF, &usage);
        return usage.ru_minflt;
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-faults SECONDS PAGES FAULTS [FILE]";
        const double seconds = victim_argument(argc, argv, 1, 5, 0, 3600, usage);
        const size_t n_pages = (size_t)victim_argument(argc, argv, 2, 100, 10, ROOM_PAGES, usage);
        const long least = (long)victim_argument(argc, argv, 3, 0, 0, 1e9, usage);
        struct rusage before, after;
        size_t n_file = 0;

        printf("pid %d\n", getpid());
        fflush(stdout);
        (void)getchar();
        victim_stop_after(seconds);
        getrusage(RUSAGE_SELF, &before);
        while (!victim_stopped || minor_faults() - before.ru_minflt < least) {
                if (argc > 4)
                        n_file += read_file(argv[4]);
                fill(n_pages);
        }
        getrusage(RUSAGE_SELF, &after);
        printf("minor %ld\nmajor %ld\nfile %zu\n", after.ru_minflt - before.ru_minflt,
               after.ru_majflt - before.ru_majflt, n_file);
        return 0;
}
