/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-still [ring|thread|wild]: threads that hang, each in its own way
 *
 *     mutex       wants a mutex that `pipe` has
 *     pipe        reads a pipe that nobody writes to
 *     poll        polls the same
 *     sleep       sleeps, in span 7 of trace (1, its id)
 *     deep        pauses below 200 frames of 1 KiB
 *     spin        runs
 *     left        wants a mutex that `right` has, and has one that `right` wants
 *     right
 *
 * and with `wild` (x86-64) those that pause with a stack pointer that is none: `null`, no `address` at all, in the
 * `code`, in a page whose words all point to it (`circle`).
 *
 * Each does so in a function `still_NAME`, called by `still_enter`. Prints `thread NAME TID` of each, and then
 *     pid 4711
 */
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/prctl.h>

#include "spanprof/context.h"
#include "victim.h"

enum { DEPTH = 200, FRAME_BYTES = 1024 };

typedef struct Still {
        const char *name;
        void (*hang)(void);
} Still;

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER, of_left = PTHREAD_MUTEX_INITIALIZER,
                       of_right = PTHREAD_MUTEX_INITIALIZER;
static pthread_barrier_t barrier, both;
static int never[2];

STEP void still_mutex(void);
STEP void still_pipe(void);
STEP void still_poll(void);
STEP void still_sleep(void);
STEP void still_deep(void);
STEP void still_spin(void);
STEP void still_left(void);
STEP void still_right(void);
STEP int still_down(int n);
STEP void still_enter(const Still *self);

STEP void still_mutex(void) {
        pthread_barrier_wait(&barrier);
        pthread_mutex_lock(&mutex);
        KEEP_FRAME();
}

STEP void still_pipe(void) {
        char byte;

        pthread_mutex_lock(&mutex);
        pthread_barrier_wait(&barrier);
        if (read(never[0], &byte, 1) < 0)
                abort();
        KEEP_FRAME();
}

STEP void still_poll(void) {
        poll(&(struct pollfd){ .fd = never[0], .events = POLLIN }, 1, -1);
        KEEP_FRAME();
}

STEP void still_sleep(void) {
        spanprof_context_set(1, (uint64_t)gettid(), 7);
        nanosleep(&(struct timespec){ .tv_sec = 100000 }, NULL);
        spanprof_context_clear();
}

STEP int still_down(int n) {
        volatile char room[FRAME_BYTES];

        memset((void *)room, n, sizeof(room));
        if (!n)
                pause();
        else
                room[0] = (char)still_down(n - 1);
        return room[0] + room[FRAME_BYTES - 1];
}

STEP void still_deep(void) {
        victim_sink += (uint64_t)still_down(DEPTH);
        KEEP_FRAME();
}

STEP void still_spin(void) {
        while (!victim_stopped)
                victim_sink = victim_spin(victim_sink, 5000);
}

STEP void still_left(void) {
        pthread_mutex_lock(&of_left);
        pthread_barrier_wait(&both);
        pthread_mutex_lock(&of_right);
        KEEP_FRAME();
}

STEP void still_right(void) {
        pthread_mutex_lock(&of_right);
        pthread_barrier_wait(&both);
        pthread_mutex_lock(&of_left);
        KEEP_FRAME();
}

#ifdef __x86_64__
/* As still_enter() would, but the system call begins with another rsp and rbp. */
static _Noreturn void pause_at(uint64_t pointer) {
        __asm__ volatile("mov %0, %%rsp\n\tmov %0, %%rbp\n\tmov $34, %%eax\n\tsyscall\n\tud2"
                         : : "r"(pointer) : "memory");
        __builtin_unreachable();
}

static void wild_null(void) {
        pause_at(0);
}

static void wild_address(void) {
        pause_at(0x4141414141414141);
}

static void wild_code(void) {
        pause_at((uint64_t)(uintptr_t)still_enter & ~15ull);
}

static void wild_circle(void) {
        uint64_t *words = aligned_alloc(4096, 4096);

        for (size_t i = 0; words && i < 512; i++)
                words[i] = (uint64_t)(uintptr_t)words;
        pause_at((uint64_t)(uintptr_t)words);
}
#endif

STEP void still_enter(const Still *self) {
        self->hang();
        KEEP_FRAME();
}

static void *still_main(void *data) {
        const Still *self = data;

        prctl(PR_SET_NAME, self->name);
        printf("thread %s %d\n", self->name, gettid());
        fflush(stdout);
        still_enter(self);
        return NULL;
}

int main(int argc, char **argv) {
        static const Still all[] = { { "mutex", still_mutex }, { "pipe", still_pipe }, { "poll", still_poll },
                                     { "sleep", still_sleep }, { "deep", still_deep }, { "spin", still_spin },
                                     { "left", still_left }, { "right", still_right } };
#ifdef __x86_64__
        static const Still wild[] = { { "null", wild_null }, { "address", wild_address }, { "code", wild_code },
                                      { "circle", wild_circle } };
#endif
        struct spanprof_context_options start = { .size = sizeof(start), .storage = SPANPROF_CONTEXT_RING };
        pthread_t thread;

        if (argc > 1 && !strcmp(argv[1], "thread"))
                start.storage = SPANPROF_CONTEXT_THREAD;
        if (spanprof_context_start(&start) || pipe(never) || pthread_barrier_init(&barrier, NULL, 2) ||
            pthread_barrier_init(&both, NULL, 2))
                return 1;
        for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
                if (pthread_create(&thread, NULL, still_main, (void *)&all[i]))
                        return 1;
#ifdef __x86_64__
        for (size_t i = 0; argc > 1 && !strcmp(argv[1], "wild") && i < sizeof(wild) / sizeof(wild[0]); i++)
                if (pthread_create(&thread, NULL, still_main, (void *)&wild[i]))
                        return 1;
#endif
        printf("pid %d\n", getpid());
        fflush(stdout);
        pthread_join(thread, NULL);
        return 0;
}
