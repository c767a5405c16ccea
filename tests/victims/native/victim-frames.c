/* SPDX-License-Identifier: Apache-2.0 */

/*
 * victim-frames DEPTH [MODE]: a thread whose stack has exactly DEPTH (3 or more) frames
 * with frame pointers, and which knows them from the compiler, not from an unwinder.
 *
 * Prints one line: `frames START END RETURN…`, where the leaf's pc lies in START…END
 * and the others are return addresses, leaf first. The root has a saved rbp of 0, as
 * the ABI asks of the outermost frame. Then, by MODE, until it is killed:
 *
 *     spin        adds numbers in the leaf
 *     kernel      reads big blocks of zeros: most time goes into the kernel
 *     idle        sleeps
 *     unaligned   spins with an rbp in the 4th frame (from the leaf) that is no multiple of 8
 *     fault       the same, but it points into a page that is not there
 *     zero        the same, but the return address is 0
 *     far         the same, but it points 2 MiB upwards
 *     loop        the same, but it points to itself
 *     ring        spins, with a context ring of 64 slots that all hold a span, and a thread record with 24
 *                 bytes of attributes; prints `ring ADDRESS OFFSET MODULE-OFFSET` before the other line: of the variable from
 *                 the thread pointer, and in module 1's block
 */

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "spanprof/ring.h"
#include "spanprof/thread.h"

#define NOINLINE __attribute__((noinline))

enum {
        MAX_DEPTH = 2048,
        BROKEN_FRAME = 3,
        STACK_SIZE = 1 << 20,
        RING_CAPACITY = 64,
        RING_SIZE = 32 + RING_CAPACITY * 32,
};

extern const char __start_leaf[], __stop_leaf[];
void root(void *stack);
void enter(void);

static uint64_t returns[MAX_DEPTH];
static unsigned n_returns, depth;
static const char *mode = "spin";
static volatile uint64_t sum;
static volatile bool goes_on = true;    /* the compiler cannot know that it stays so */
static char zeros[1 << 20];

/* Outermost frame: no caller, rbp 0, on a stack of its own with an unmapped page above it. */
__asm__(".text\n"
        ".globl root\n"
        ".type root, @function\n"
        "root:\n"
        "        mov %rdi, %rsp\n"
        "        xor %ebp, %ebp\n"
        "        call enter\n"
        "        ud2\n"
        ".size root, . - root\n");

static void print_frames(const void *start, const void *end) {
        printf("frames %" PRIu64 " %" PRIu64, (uint64_t)(uintptr_t)start, (uint64_t)(uintptr_t)end);
        for (unsigned i = n_returns; i-- > 0;)
                printf(" %" PRIu64, returns[i]);
        printf("\n");
        fflush(stdout);
}

static __thread struct spanprof_thread_record *thread_context;

/*
 * x86-64 and glibc: the thread pointer is at %fs:0, the DTV behind it, in which module 1 is the executable.
 */
static void publish_thread(int64_t *offsetp, uint64_t *module_offsetp) {
        static struct {
                struct spanprof_thread_record head;
                uint8_t attributes[24];
        } record = { .head = { .span_id = { 1 }, .trace_id = { 1 }, .valid = 1, .attributes_size = 24 },
                     .attributes = { 0, 22 } };
        uintptr_t pointer, dtv;

        thread_context = &record.head;
        __asm__("mov %%fs:0, %0" : "=r"(pointer));
        __asm__("mov %%fs:8, %0" : "=r"(dtv));
        *offsetp = (int64_t)((uintptr_t)&thread_context - pointer);
        *module_offsetp = (uintptr_t)&thread_context - ((uintptr_t *)dtv)[2];
}

static void publish_ring(void) {
        const struct spanprof_ring_header header = {
                .magic = SPANPROF_RING_MAGIC,
                .version = SPANPROF_RING_VERSION,
                .capacity = RING_CAPACITY,
                .slot_size = SPANPROF_RING_SLOT_SIZE,
        };
        struct spanprof_ring_slot *slots;
        uint64_t module_offset;
        int64_t offset;
        char *ring = mmap(NULL, RING_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        if (ring == MAP_FAILED)
                exit(1);
        slots = (struct spanprof_ring_slot *)(ring + sizeof(header));
        for (int i = 0; i < RING_CAPACITY; i++)
                slots[i].span_id = 1;
        memcpy(ring, &header, sizeof(header));
        publish_thread(&offset, &module_offset);
        printf("ring %" PRIu64 " %" PRId64 " %" PRIu64 "\n", (uint64_t)(uintptr_t)ring, offset,
               module_offset);
}

/*
 * Changes the words of the frame BROKEN_FRAME above the leaf: word 0 is its saved rbp, 1 its return address.
 */
static void break_chain(uint64_t *frame) {
        for (int i = 1; i < BROKEN_FRAME; i++)
                frame = (uint64_t *)frame[0];
        if (!strcmp(mode, "unaligned"))
                frame[0] += 4;
        else if (!strcmp(mode, "fault"))
                frame[0] = (uint64_t)(uintptr_t)frame - (uint64_t)(uintptr_t)frame % STACK_SIZE + STACK_SIZE;
        else if (!strcmp(mode, "zero"))
                ((uint64_t *)frame[0])[1] = 0;
        else if (!strcmp(mode, "far"))
                frame[0] += 2 << 20;
        else if (!strcmp(mode, "loop"))
                frame[0] = (uint64_t)(uintptr_t)frame;
}

/* By hand: the libc's function would be the leaf, and has no frame pointer. */
static inline long read_zeros(int fd) {
        long n = SYS_read;

        __asm__ volatile("syscall"
                         : "+a"(n)
                         : "D"(fd), "S"(zeros), "d"(sizeof(zeros))
                         : "rcx", "r11", "memory");
        return n;
}

/* In a section of its own, whose bounds the linker tells. */
static NOINLINE __attribute__((section("leaf"))) void work(void) {
        int fd = open("/dev/zero", O_RDONLY | O_CLOEXEC);
        bool reads = !strcmp(mode, "kernel"), sleeps = !strcmp(mode, "idle");

        returns[n_returns++] = (uint64_t)(uintptr_t)__builtin_return_address(0);
        print_frames(__start_leaf, __stop_leaf);
        break_chain(__builtin_frame_address(0));
        while (goes_on && sleeps)
                pause();
        while (goes_on && reads)
                sum += (uint64_t)read_zeros(fd);
        while (goes_on)
                sum++;
}

static NOINLINE void descend(unsigned left) {
        returns[n_returns++] = (uint64_t)(uintptr_t)__builtin_return_address(0);
        if (left)
                descend(left - 1);
        else
                work();
        sum++;          /* no tail call */
}

/* Called by root: frames are work, descend × (DEPTH - 3), enter, root. */
void enter(void) {
        returns[n_returns++] = (uint64_t)(uintptr_t)__builtin_return_address(0);
        if (depth > 3)
                descend(depth - 4);
        else
                work();
        sum++;
}

int main(int argc, char **argv) {
        char *stack;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        depth = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 0;
        if (argc > 2)
                mode = argv[2];
        if (!strcmp(mode, "ring"))
                publish_ring();
        if (depth < 3 || depth >= MAX_DEPTH)
                return 2;
        /* The stack ends at a multiple of its size, and the page above it is not there. */
        stack = mmap(NULL, 3 * STACK_SIZE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (stack == MAP_FAILED)
                return 1;
        stack += STACK_SIZE - (uintptr_t)stack % STACK_SIZE;
        if (mprotect(stack, STACK_SIZE, PROT_READ | PROT_WRITE))
                return 1;
        root(stack + STACK_SIZE);
        return 1;
}
