/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-hostile MODE [N | FILE…]: makes it hard for who looks at it
 *
 *     still N         N mappings, which stay
 *     churn N         N mappings, a thousand of which are replaced each 10 ms, every eighth of these
 *                     executable
 *     reserve GIB     GIB GiB of memory that is never touched
 *     remap           a context ring that is somewhere else every millisecond
 *     rings N         N rings: every other one is valid, the others are broken in some way
 *     names N DIR     N mappings of a file below DIR whose path is as long as maps can show it: 14 KiB,
 *                     newlines escaped
 *     slots N         a context ring of N slots; a short thread after the other, which use all of its slots
 *     sleepers N      N threads that each sleep 1 to 6 ms, again and again
 *     renames N       a child after the other that burns N ms under a name of its own; every third name
 *                     begins with `victim-`
 *     crowd N DIR     maps N files of DIR, named 0, 1 …, as executable, each by its first page
 *     holds N         at each line of standard input: N threads that wait for ever; answers `ok`
 *     naps N          the same: N threads, one after the other, each of which sleeps once
 *     zombies N       the same: N children that end, and are never reaped
 *     children N      the same: N children by fork() alone, which sleep
 *     files FILE…     maps the files as executable, and a device; calls itself by bytes that are no UTF-8
 *
 * Burns the CPU in hostile_burn() meanwhile, in a thread of its own, but for slots, sleepers, renames, crowd,
 * holds, naps, zombies and children.
 * Prints first, once it is as hostile as it gets:
 *     pid 4711
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "spanprof/ring.h"
#include "victim.h"

enum {
        PAGE = 4096,
        CHANGES = 1000,                 /* in 10 ms */
        RING_PAGES = 17,                /* 2,048 slots */
};

STEP void *hostile_burn(void *unused);

STEP void *hostile_burn(void *unused) {
        KEEP_FRAME();
        while (!victim_stopped)
                victim_sink = victim_spin(victim_sink, 10000);
        return NULL;
}

static void fail(const char *what) {
        fprintf(stderr, "victim-hostile: %s: %s\n", what, strerror(errno));
        exit(1);
}

static void *map(void *address, size_t size, int prot, int flags, int fd) {
        void *memory = mmap(address, size, prot, MAP_PRIVATE | flags, fd, 0);

        if (memory == MAP_FAILED)
                fail("mmap");
        return memory;
}

/* Neighbours differ, else they would be one mapping. The last ones before the limit are left to libc. */
static char *make_mappings(unsigned *np) {
        char *base = map(NULL, (size_t)*np * PAGE, PROT_READ, MAP_ANONYMOUS | MAP_NORESERVE, -1);

        for (unsigned i = 0; i < *np; i += 2)
                if (mprotect(base + (size_t)i * PAGE, PAGE, PROT_READ | PROT_WRITE)) {
                        if (errno != ENOMEM)
                                fail("mprotect");
                        *np = i > 64 ? i - 64 : i;
                        mprotect(base + (size_t)*np * PAGE, 64 * PAGE, PROT_READ);
                }
        return base;
}

static void change_mappings(char *base, unsigned n) {
        static uint64_t random = 88172645463325252;

        for (unsigned i = 0; i < CHANGES; i++) {
                unsigned at;

                random = victim_spin(random, 2);
                at = (unsigned)(random >> 33) % (n / 2) * 2;
                /* no more mappings than before: writable or executable, its neighbours are neither */
                if (mprotect(base + (size_t)at * PAGE, PAGE,
                             i % 8 ? PROT_READ | PROT_WRITE : PROT_READ | PROT_EXEC) &&
                    errno != ENOMEM)
                        fail("mprotect");
        }
}

static void publish(struct spanprof_ring_header *header, uint32_t capacity) {
        header->capacity = capacity;
        header->slot_size = SPANPROF_RING_SLOT_SIZE;
        header->version = SPANPROF_RING_VERSION;
        header->magic = SPANPROF_RING_MAGIC;
}

static void move_ring(void) {
        static char *ring;
        char *next = map(NULL, RING_PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1);

        publish((void *)next, 2048);
        if (ring)
                munmap(ring, RING_PAGES * PAGE);
        ring = next;
}

static void make_rings(unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                /* the page behind keeps them apart */
                char *memory = map(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1);
                struct spanprof_ring_header *header = (void *)memory;

                mprotect(memory + PAGE, PAGE, PROT_NONE);
                memset(memory, 0xa5, PAGE);
                memset(memory, 0, 32);
                publish(header, 100);
                if (i % 8 == 1)
                        header->capacity = 0xffffffff;
                else if (i % 8 == 3)
                        header->capacity = 0;
                else if (i % 8 == 5)
                        header->slot_size = 8;
                else if (i % 8 == 7)
                        header->version = 77;
        }
}

static void map_files(int argc, char **argv) {
        int zero = open("/dev/zero", O_RDONLY | O_CLOEXEC);

        prctl(PR_SET_NAME, "h\xff\xfe\xc3(\n\x1b]0;");
        if (zero < 0)
                fail("/dev/zero");
        map(NULL, PAGE, PROT_READ | PROT_EXEC, 0, zero);
        for (int i = 2; i < argc; i++) {
                int fd = open(argv[i], O_RDONLY | O_CLOEXEC);

                if (fd < 0)
                        fail(argv[i]);
                map(NULL, PAGE, PROT_READ | PROT_EXEC, 0, fd);
                close(fd);
        }
}

static void *end_at_once(void *unused) {
        return NULL;
}

static void make_ring(uint32_t capacity) {
        size_t size = sizeof(struct spanprof_ring_header) + (size_t)capacity * SPANPROF_RING_SLOT_SIZE;

        publish(map(NULL, size, PROT_READ | PROT_WRITE, MAP_ANONYMOUS, -1), capacity);
}

/* A thread's slot follows from its id, and ids go round. */
static void use_slots(void) {
        pthread_t thread;

        for (int i = 0; i < 100; i++) {
                if (pthread_create(&thread, NULL, end_at_once, NULL))
                        fail("thread");
                pthread_join(thread, NULL);
        }
}

static void *sleep_often(void *number) {
        useconds_t us = 1000 + (useconds_t)((uintptr_t)number % 6) * 1000;

        while (!victim_stopped)
                usleep(us);
        return NULL;
}

static void make_sleepers(unsigned n) {
        pthread_attr_t attributes;
        pthread_t thread;

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 64 << 10);
        for (uintptr_t i = 0; i < n; i++)
                if (pthread_create(&thread, &attributes, sleep_often, (void *)i))
                        fail("thread");
}

static void *wait_for_ever(void *unused) {
        for (;;)
                pause();
        return NULL;
}

static void *nap(void *unused) {
        usleep(1);
        return NULL;
}

static void make_holders(unsigned n) {
        pthread_attr_t attributes;
        pthread_t thread;

        pthread_attr_init(&attributes);
        pthread_attr_setstacksize(&attributes, 32 << 10);
        for (unsigned i = 0; i < n; i++)
                if (pthread_create(&thread, &attributes, wait_for_ever, NULL))
                        fail("thread");
}

static void take_naps(unsigned n) {
        pthread_t thread;

        for (unsigned i = 0; i < n; i++) {
                if (pthread_create(&thread, NULL, nap, NULL))
                        fail("thread");
                pthread_join(thread, NULL);
        }
}

static void leave_zombies(unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                pid_t pid = fork();

                if (pid < 0)
                        fail("fork");
                if (!pid)
                        _exit(0);
        }
}

static void leave_sleepers(unsigned n) {
        for (unsigned i = 0; i < n; i++) {
                pid_t pid = fork();

                if (pid < 0)
                        fail("fork");
                if (!pid) {
                        prctl(PR_SET_PDEATHSIG, SIGKILL);
                        pause();
                        _exit(0);
                }
        }
}

/* Does it at each line. */
static void obey(void (*act)(unsigned n), unsigned n) {
        char line[16];

        printf("pid %d\n", getpid());
        fflush(stdout);
        while (fgets(line, sizeof(line), stdin)) {
                act(n);
                printf("ok\n");
                fflush(stdout);
        }
}

static void burn_renamed(unsigned ms) {
        static unsigned n;
        char name[16];
        pid_t pid = fork();

        n++;
        if (pid < 0)
                fail("fork");
        if (!pid) {
                snprintf(name, sizeof(name), n % 3 ? "other-%u" : "victim-%u", n);
                prctl(PR_SET_NAME, name);
                while (victim_clock_ns(CLOCK_PROCESS_CPUTIME_ID) < ms * UINT64_C(1000000))
                        victim_sink = victim_spin(victim_sink, 1000);
                _exit(0);
        }
        waitpid(pid, NULL, 0);
}

static void map_crowd(unsigned n, const char *directory) {
        char name[16];

        if (chdir(directory))
                fail(directory);
        for (unsigned i = 0; i < n; i++) {
                int fd;

                snprintf(name, sizeof(name), "%u", i);
                fd = open(name, O_RDONLY | O_CLOEXEC);
                if (fd < 0)
                        fail(name);
                map(NULL, PAGE, PROT_READ | PROT_EXEC, 0, fd);
                close(fd);
        }
}

static void map_long_names(unsigned n, const char *directory) {
        char name[256];
        int fd;

        memset(name, '\n', sizeof(name) - 1);
        name[sizeof(name) - 1] = 0;
        if (chdir(directory))
                fail(directory);
        for (unsigned i = 0; i < 14; i++)
                if (mkdir(name, 0700) || chdir(name))
                        fail("mkdir");
        fd = open("file", O_CREAT | O_RDWR | O_CLOEXEC, 0700);
        if (fd < 0 || ftruncate(fd, PAGE))
                fail("file");
        for (unsigned i = 0; i < n; i++)
                map(NULL, PAGE, i % 2 ? PROT_READ : PROT_READ | PROT_EXEC, 0, fd);
}

int main(int argc, char **argv) {
        static const char usage[] =
                "victim-hostile still|churn|reserve|remap|rings|names|slots|sleepers|renames|crowd|holds|naps|zombies|"
                "children|files [N [DIR] | FILE…]";
        static const struct {
                const char *mode;
                void (*act)(unsigned n);
        } orders[] = { { "holds", make_holders },
                       { "naps", take_naps },
                       { "zombies", leave_zombies },
                       { "children", leave_sleepers } };
        const char *mode = argc > 1 ? argv[1] : "";
        bool files = !strcmp(mode, "files"), churn = !strcmp(mode, "churn"), remap = !strcmp(mode, "remap");
        unsigned n = files ? 0 : (unsigned)victim_argument(argc, argv, 2, 1000, 1, 1e6, usage);
        bool slots = !strcmp(mode, "slots"), crowd = !strcmp(mode, "crowd"), sleeps = !strcmp(mode, "sleepers");
        bool renames = !strcmp(mode, "renames");
        char *base = NULL;
        pthread_t thread;

        for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++)
                if (!strcmp(mode, orders[i].mode)) {
                        obey(orders[i].act, n);
                        return 0;
                }
        victim_stop_after(0);
        if (!slots && !crowd && !sleeps && !renames && pthread_create(&thread, NULL, hostile_burn, NULL))
                fail("thread");
        if (files)
                map_files(argc, argv);
        else if (!strcmp(mode, "names") && argc > 3)
                map_long_names(n, argv[3]);
        else if (crowd && argc > 3)
                map_crowd(n, argv[3]);
        else if (slots)
                make_ring(n);
        else if (sleeps)
                make_sleepers(n);
        else if (!strcmp(mode, "rings"))
                make_rings(n);
        else if (!strcmp(mode, "reserve"))
                map(NULL, (size_t)n << 30, PROT_READ | PROT_WRITE, MAP_ANONYMOUS | MAP_NORESERVE, -1);
        else if (churn || !strcmp(mode, "still"))
                base = make_mappings(&n);
        else if (!remap && !renames)
                fail(usage);
        printf("pid %d\n", getpid());
        fflush(stdout);
        while (!victim_stopped) {
                if (churn)
                        change_mappings(base, n);
                if (remap)
                        move_ring();
                if (slots)
                        use_slots();
                if (renames)
                        burn_renamed(n);
                else
                        usleep(remap || slots ? 1000 : 10000);
        }
        return 0;
}
