/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Says what the reader of Go's heap profile finds in a running program, for test-go-heap.py and by hand.
 *
 * usage: go-heap-dump PID LOOKS [START END]
 *        go-heap-dump PID lock
 *
 * It looks until LOOKS looks were of one moment, for up to 100 seconds. Each of these is a line
 * `look CYCLE EARLY TRIES BUCKETS`, and one for each bucket that counts anything: its size, allocs, frees and
 * the addresses of its stack. With START and END only buckets that have an address from there to there, and
 * how many of these instead. `lock` says where the lock of the profile lies, which a test holds in place of
 * the program.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/macro.h"
#include "host/runtime/go/go-heap.h"
#include "host/runtime/go/go-program.h"
#include "host/runtime/reader/reader-handle.h"

enum {
        MAX_TABLE = 64 << 20,
        MAX_TRIES = 500,                /* of one look */
        MAX_SECONDS = 100,              /* of all: less than a test waits */
};

typedef unsigned long long Wide;

static ReaderHandle handle;

static _Noreturn void fail(const char *what, int r) {
        fprintf(stderr, "go-heap-dump: %s (%d)\n", what, r);
        exit(1);
}

static int read_memory(void *userdata, uint64_t address, void *to, uint32_t size) {
        return !reader_handle_read(&handle, address, to, size);
}

/* Address of the first byte of the program. */
static uint64_t find_start(const char *pid) {
        char path[64], exe[4096], line[8192];
        Wide start = 0, offset;
        FILE *maps;
        ssize_t n;

        snprintf(path, sizeof(path), "/proc/%s/exe", pid);
        n = readlink(path, exe, sizeof(exe) - 1);
        snprintf(path, sizeof(path), "/proc/%s/maps", pid);
        maps = fopen(path, "r");
        if (n < 0 || !maps)
                fail("no such process", 0);
        exe[n] = '\0';
        while (fgets(line, sizeof(line), maps))
                if (strstr(line, exe) && sscanf(line, "%llx-%*x %*s %llx", &start, &offset) == 2 && !offset)
                        break;
        fclose(maps);
        return start;
}

static GoHeapPlaces find_places(const char *pid, uint32_t *minorp) {
        char path[64];
        struct stat st;
        GoProgram program;
        GoFunctions functions;
        GoHeapPlaces places;
        Elf64_Phdr *segments;
        ElfImage image;
        uint64_t bias;
        uint32_t n;
        int fd;

        snprintf(path, sizeof(path), "/proc/%s/exe", pid);
        fd = open(path, O_RDONLY | O_CLOEXEC);
        if (fd < 0 || fstat(fd, &st) < 0 ||
            !go_program_read(&(GoInput){ .fd = fd, .size = (uint64_t)st.st_size }, &program))
                fail("no program of Go", 0);
        *minorp = program.minor;
        if (elf_image_init(&image, fd, 0, (uint64_t)st.st_size) ||
            elf_image_segments(&image, &segments, &n) ||
            go_functions_init(&functions, &image, 0, MAX_TABLE, false))
                fail("the program cannot be read", 0);
        bias = find_start(pid);
        for (uint32_t i = 0; i < n; i++)
                if (segments[i].p_type == PT_LOAD) {
                        bias -= segments[i].p_vaddr & ~UINT64_C(4095);
                        break;
                }
        if (!go_heap_find(&image, &functions, program.minor, &places))
                fail("no heap profile is found in the program", 0);
        places.cycle += bias;
        places.lock += bias;
        places.buckets += bias;
        places.rate += bias;
        free(segments);
        go_functions_deinit(&functions);
        elf_image_deinit(&image);
        close(fd);
        return places;
}

static void print_bucket(const GoHeap *heap, const GoHeapBucket *bucket, uint64_t start, uint64_t end) {
        const uint64_t *words = heap->words + bucket->stack;
        unsigned n = 0;

        if (!bucket->allocs)
                return;
        for (uint32_t i = 0; i < bucket->n_stack; i++)
                n += words[i] >= start && words[i] < end;
        if (end && !n)
                return;
        printf("%llu %llu %llu", (Wide)bucket->size, (Wide)bucket->allocs, (Wide)bucket->frees);
        for (uint32_t i = 0; i < bucket->n_stack && !end; i++)
                printf(" %llx", (Wide)words[i]);
        if (end)
                printf(" %u", n);
        printf("\n");
}

int main(int argc, char **argv) {
        const GoMemory memory = { .read = read_memory };
        const struct timespec rest = { .tv_nsec = 1000000 };
        uint64_t start = argc == 5 ? strtoull(argv[3], NULL, 16) : 0;
        uint64_t end = argc == 5 ? strtoull(argv[4], NULL, 16) : 0;
        uint64_t deadline_ns = clock_monotonic_ns() + MAX_SECONDS * NS_PER_SEC;
        GoHeapPlaces places;
        GoHeapLook look;
        uint32_t minor;
        GoHeap heap;

        if (argc != 3 && argc != 5)
                fail("usage: go-heap-dump PID LOOKS [START END] | PID lock", argc);
        places = find_places(argv[1], &minor);
        if (!strcmp(argv[2], "lock")) {
                printf("lock %llx\n", (Wide)places.lock);
                return 0;
        }
        if (!reader_handle_open(&handle, atoi(argv[1]), 0))
                fail("its memory is not readable", 0);
        if (go_heap_init(&heap, &places, minor, &memory))
                fail("no memory", 0);
        for (int i = 0; i < atoi(argv[2]); i++) {
                unsigned n_tries = 0;
                int r;

                while ((r = go_heap_look(&heap, &look)) == GO_HEAP_E_MOVING && n_tries++ < MAX_TRIES) {
                        if (clock_monotonic_ns() >= deadline_ns)
                                fail("the time is up; looks that counted", i);
                        nanosleep(&rest, NULL);
                }
                if (r)
                        fail("no look counts", r);
                printf("look %u %d %u %u\n", look.cycle, look.is_early, n_tries + 1, heap.n_buckets);
                for (uint32_t k = 0; k < heap.n_buckets; k++)
                        print_bucket(&heap, &heap.buckets[k], start, end);
                nanosleep(&rest, NULL);
        }
        go_heap_deinit(&heap);
        reader_handle_close(&handle);
        return 0;
}
