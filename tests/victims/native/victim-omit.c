/* SPDX-License-Identifier: Apache-2.0 */

/*
 * victim-omit MODE [DEPTH]: a program without frame pointers that knows its own stack
 * from the compiler, not from an unwinder.
 *
 * Prints `frames RETURN…`, the return addresses of its own functions on the stack, leaf
 * first, then `interrupted START END` if a signal came in between START and END; then
 * spins in the leaf until it is killed. Frames of libraries between them are not listed.
 *
 *     depth       DEPTH frames in all, with those of libc's start (5 or more). With VICTIM_RESTS=MS in the
 *                 environment the leaf sleeps for most of the time, so many ms each
 *     large       the same with frames of 1 KiB: each one costs a walk a window of its own
 *     qsort       in qsort's comparison: libc calls back
 *     signal      in a signal handler
 *     altstack    the same on an alternate stack
 *     alloca      in a function called by one whose frame has a size known at run time
 *     buffer      in a function whose own frame is 200 KiB large, most of them never touched
 *     align       in a function called by one that aligns its stack to 64 bytes
 *     saved       in a function called by one that uses every callee-saved register
 *     noreturn    in a function that does not return, called as the last instruction of another
 *     plt         calls a library function again and again
 *     syscall     in the kernel, by a library function
 *     thread      in a second thread
 *     sigreturn   takes signals all the time, whose handler is short
 */

#include <alloca.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/time.h>
#include <unistd.h>

#if defined(__clang__)
#define NOINLINE __attribute__((__noinline__))
#else
#define NOINLINE __attribute__((__noinline__, __noclone__))
#endif
#define HERE() (returns[n_returns++] = (uint64_t)(uintptr_t)__builtin_return_address(0))

enum {
        MAX_DEPTH = 2048,
        LIBC_FRAMES = 3,                /* _start, __libc_start_main, __libc_start_call_main */
        ALTERNATE_SIZE = 65536,
};

extern const char __start_interrupted[], __stop_interrupted[];

static uint64_t returns[MAX_DEPTH];
static unsigned n_returns;
static const char *mode = "depth";
static volatile uint64_t sum;
static volatile bool goes_on = true;    /* the compiler cannot know that it stays so */
static volatile char *volatile sink;

static bool is(const char *name) {
        return strcmp(mode, name) == 0;
}

static void print_frames(void) {
        printf("frames");
        for (unsigned i = n_returns; i-- > 0;)
                printf(" %" PRIu64, returns[i]);
        if (is("signal") || is("altstack"))
                printf("\ninterrupted %" PRIu64 " %" PRIu64, (uint64_t)(uintptr_t)__start_interrupted,
                       (uint64_t)(uintptr_t)__stop_interrupted);
        printf("\n");
        fflush(stdout);
}

static NOINLINE void spin(void) {
        HERE();
        print_frames();
        while (goes_on)
                sum++;
}

static NOINLINE void rest(unsigned ms) {
        HERE();
        print_frames();
        for (unsigned n = 1; goes_on; n++) {
                sum++;
                if (n % 300000 == 0)
                        usleep(1000 * ms);
        }
}

static NOINLINE void descend(unsigned left) {
        HERE();
        if (left)
                descend(left - 1);
        else if (getenv("VICTIM_RESTS"))
                rest((unsigned)atoi(getenv("VICTIM_RESTS")));
        else
                spin();
        sum++;          /* no tail call */
}

static NOINLINE void descend_far(unsigned left) {
        volatile char room[1000];

        HERE();
        room[left % sizeof(room)] = 1;
        if (left)
                descend_far(left - 1);
        else
                spin();
        sum += (uint64_t)room[7];
}

static NOINLINE int compare(const void *a, const void *b) {
        if (n_returns < 3) {
                HERE();
                spin();
        }
        return *(const int *)a - *(const int *)b;
}

static NOINLINE void sort(void) {
        int numbers[64];

        HERE();
        for (int i = 0; i < 64; i++)
                numbers[i] = i * 7 % 64;
        qsort(numbers, 64, sizeof(numbers[0]), compare);
        sum += (uint64_t)numbers[0];
}

static void on_signal(int number) {
        spin();
        sum++;
}

/* Loops by itself, so that the pc where the signal comes in lies in here. */
static NOINLINE __attribute__((section("interrupted"))) void wait_for_signal(void) {
        HERE();
        while (goes_on)
                sum++;
}

static NOINLINE void take_signal(bool on_alternate) {
        struct sigaction action = { .sa_handler = on_signal };
        stack_t alternate = { .ss_size = ALTERNATE_SIZE };

        HERE();
        if (on_alternate) {
                alternate.ss_sp = mmap(NULL, ALTERNATE_SIZE, PROT_READ | PROT_WRITE,
                                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
                action.sa_flags = SA_ONSTACK;
                sigaltstack(&alternate, NULL);
        }
        sigaction(SIGALRM, &action, NULL);
        setitimer(ITIMER_REAL, &(struct itimerval){ .it_value.tv_usec = 100000 }, NULL);
        wait_for_signal();
        sum++;
}

static NOINLINE void use_alloca(unsigned n) {
        HERE();
        sink = alloca(n * 16);
        sink[0] = 1;
        spin();
        sum += (uint64_t)sink[0];
}

static NOINLINE void use_buffer(unsigned n) {
        HERE();
        sink = alloca(n * 2048);
        sink[0] = 1;
        print_frames();
        while (goes_on)
                sum++;
        sum += (uint64_t)sink[0];
}

static NOINLINE void use_alignment(unsigned n) {
        volatile char aligned[128] __attribute__((aligned(64)));

        HERE();
        aligned[n % 128] = 1;
        sink = aligned;
        spin();
        sum += (uint64_t)aligned[5];
}

static NOINLINE uint64_t use_registers(uint64_t a, uint64_t b, uint64_t c, uint64_t d, uint64_t e,
                                       uint64_t f) {
        HERE();
        a *= sum, b *= sum, c *= sum, d *= sum, e *= sum, f *= sum;
        spin();
        return a ^ b ^ c ^ d ^ e ^ f;
}

static NOINLINE __attribute__((noreturn)) void never_return(void) {
        HERE();
        spin();
        _exit(0);
}

/* The call is its last instruction: its return address is the first byte of the next function. */
static NOINLINE void call_last(void) {
        HERE();
        never_return();
}

static NOINLINE void call_library(void) {
        HERE();
        print_frames();
        while (goes_on)
                sum += (uint64_t)atoi("12345") + strlen(mode);
}

static char zeros[1 << 20];

static NOINLINE void enter_kernel(void) {
        FILE *file = fopen("/dev/zero", "r");

        HERE();
        print_frames();
        while (goes_on)
                sum += (uint64_t)read(fileno(file), zeros, sizeof(zeros));
}

static NOINLINE void *run_thread(void *ignored) {
        spin();
        sum++;
        return NULL;
}

static NOINLINE void start_thread_and_wait(void) {
        pthread_t thread;

        pthread_create(&thread, NULL, run_thread, NULL);
        pthread_join(thread, NULL);
        sum++;
}

static NOINLINE void short_handler(int number) {
        sum++;
}

static NOINLINE void take_signals(void) {
        HERE();
        signal(SIGUSR1, short_handler);
        print_frames();
        while (goes_on)
                raise(SIGUSR1);
}

int main(int argc, char **argv) {
        unsigned depth = argc > 2 ? (unsigned)strtoul(argv[2], NULL, 10) : 5;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (argc > 1)
                mode = argv[1];
        if (is("depth") && depth > LIBC_FRAMES + 2 && depth < MAX_DEPTH)
                descend(depth - LIBC_FRAMES - 3);
        else if (is("large") && depth > LIBC_FRAMES + 2 && depth < MAX_DEPTH)
                descend_far(depth - LIBC_FRAMES - 3);
        else if (is("qsort"))
                sort();
        else if (is("signal") || is("altstack"))
                take_signal(is("altstack"));
        else if (is("alloca"))
                use_alloca(depth);
        else if (is("buffer"))
                use_buffer(depth);
        else if (is("align"))
                use_alignment(depth);
        else if (is("saved"))
                sum += use_registers(depth, 2, 3, 4, 5, 6);
        else if (is("noreturn"))
                call_last();
        else if (is("plt"))
                call_library();
        else if (is("syscall"))
                enter_kernel();
        else if (is("thread"))
                start_thread_and_wait();
        else if (is("sigreturn"))
                take_signals();
        else
                spin();
        sum++;
        return 0;
}
