/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-crash [thread|rest]: a program that a signal ends, in a span
 *
 * Burns the CPU, or rests most of the time, below main in a function `crash_serve`, or in a thread called
 * `crash-worker`, until a line comes on its standard input:
 *
 *     HOW [HANDLED]     ends in span 1234 of trace (4711, 4712), in `crash_here` below `crash_serve`: HOW is
 *                       the number of a signal that it sends to itself; or `null`: writes to address 0x1234,
 *                       `code`: an instruction that there is none of, `divide`: by zero, `bus`: behind the end
 *                       of a file, `memory`: takes memory until the kernel ends it, `wait`: sleeps until
 *                       somebody does; HANDLED: not 0 = each signal has a handler, which ends it: status 3
 *
 * Prints first the number of its process, then before it sleeps that it does:
 *     pid 4711
 *     waits
 */
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "spanprof/context.h"
#include "victim.h"

static char how[32];
static int is_handled;
static useconds_t rest_us;
static volatile bool has_order;

static void on_signal(int number) {
        _exit(3);
}

static void *read_order(void *data) {
        char line[64];

        if (!fgets(line, sizeof(line), stdin) || sscanf(line, "%31s %d", how, &is_handled) < 1)
                _exit(2);
        has_order = true;
        return NULL;
}

static void take_memory(void) {
        for (;;) {
                char *memory =
                        mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

                if (memory == MAP_FAILED)
                        _exit(4);
                memset(memory, 1, 1 << 20);
        }
}

static void no_instruction(void) {
#ifdef __aarch64__
        __asm__ volatile(".inst 0");
#else
        __asm__ volatile("ud2");
#endif
}

static void touch_no_file(void) {
        FILE *file = tmpfile();
        volatile char *memory;

        if (!file)
                _exit(4);
        memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fileno(file), 0);
        memory[0] = 1;
}

static void wait_for_the_end(void) {
        printf("waits\n");
        fflush(stdout);
        pause();
}

STEP int crash_here(void);
STEP int crash_serve(void);

STEP int crash_here(void) {
        volatile int zero = 0;

        KEEP_FRAME();
        if (!strcmp(how, "null"))
                *(volatile int *)0x1234 = 1;
        else if (!strcmp(how, "code"))
                no_instruction();
        else if (!strcmp(how, "divide"))
                return 4711 / zero;
        else if (!strcmp(how, "bus"))
                touch_no_file();
        else if (!strcmp(how, "memory"))
                take_memory();
        else if (!strcmp(how, "wait"))
                wait_for_the_end();
        else
                syscall(SYS_tgkill, getpid(), gettid(), atoi(how));
        return 1;
}

STEP int crash_serve(void) {
        KEEP_FRAME();
        while (!has_order) {
                victim_sink = victim_spin(victim_sink, 5000);
                usleep(rest_us);
        }
        for (int i = 1; is_handled && i < 32; i++)
                signal(i, on_signal);
        spanprof_context_set(4711, 4712, 1234);
        return crash_here() + 1;
}

static void *thread_main(void *data) {
        pthread_setname_np(pthread_self(), "crash-worker");
        crash_serve();
        return NULL;
}

int main(int argc, char **argv) {
        pthread_t thread;

        if (spanprof_context_start(NULL))
                return 1;
        printf("pid %d\n", getpid());
        fflush(stdout);
        if (pthread_create(&thread, NULL, read_order, NULL))
                return 1;
        if (argc > 1 && !strcmp(argv[1], "rest"))
                rest_us = 20000;
        if (argc < 2 || rest_us)
                return crash_serve() + 1;
        if (pthread_create(&thread, NULL, thread_main, NULL))
                return 1;
        pthread_join(thread, NULL);
        return 0;
}
