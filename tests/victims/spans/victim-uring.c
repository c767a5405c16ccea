/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-uring: threads that the kernel makes in a process
 *
 * A thread with a span has io_uring's workers read random bytes for it, and burns beside them. Prints `pid N`,
 * or `none` where io_uring is not there, and goes on until SIGTERM.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "spanprof/otel.h"
#include "victim.h"

enum { ENTRIES = 4, SIZE = 1 << 20 };

typedef struct Ring {
        int fd;
        struct io_uring_params params;
        struct io_uring_sqe *entries;
        char *queues;                   /* both: IORING_FEAT_SINGLE_MMAP */
} Ring;

static int ring_init(Ring *ring) {
        size_t size;

        ring->fd = (int)syscall(SYS_io_uring_setup, ENTRIES, &ring->params);
        if (ring->fd < 0 || !(ring->params.features & IORING_FEAT_SINGLE_MMAP))
                return -1;
        size = ring->params.cq_off.cqes + ring->params.cq_entries * sizeof(struct io_uring_cqe);
        ring->queues = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, ring->fd, IORING_OFF_SQ_RING);
        ring->entries = mmap(NULL, ENTRIES * sizeof(*ring->entries), PROT_READ | PROT_WRITE, MAP_SHARED,
                             ring->fd, IORING_OFF_SQES);
        return ring->queues == MAP_FAILED || (void *)ring->entries == MAP_FAILED ? -1 : 0;
}

static uint32_t *word(Ring *ring, uint32_t offset) {
        return (uint32_t *)(void *)(ring->queues + offset);
}

/* Has a worker read, and not the thread itself (IOSQE_ASYNC). */
static void submit(Ring *ring, int fd, void *to) {
        uint32_t *tail = word(ring, ring->params.sq_off.tail), at = *tail & (ENTRIES - 1);

        ring->entries[at] = (struct io_uring_sqe){ .opcode = IORING_OP_READ, .flags = IOSQE_ASYNC, .fd = fd,
                                                   .addr = (uintptr_t)to, .len = SIZE };
        word(ring, ring->params.sq_off.array)[at] = at;
        __atomic_store_n(tail, *tail + 1, __ATOMIC_RELEASE);
        syscall(SYS_io_uring_enter, ring->fd, 1, 0, 0, NULL, 0);
}

static void finish(Ring *ring) {
        uint32_t *head = word(ring, ring->params.cq_off.head), *tail = word(ring, ring->params.cq_off.tail);

        while (!victim_stopped && __atomic_load_n(tail, __ATOMIC_ACQUIRE) == *head)
                syscall(SYS_io_uring_enter, ring->fd, 0, 1, IORING_ENTER_GETEVENTS, NULL, 0);
        __atomic_store_n(head, __atomic_load_n(tail, __ATOMIC_ACQUIRE), __ATOMIC_RELEASE);
}

int main(void) {
        struct spanprof_otel_attribute resource[] = { { "service.name", "shop" } };
        struct spanprof_otel_process process = { sizeof(process), 1, resource, 0, NULL };
        int fd = open("/dev/urandom", O_RDONLY | O_CLOEXEC);
        char *bytes = malloc(SIZE);
        Ring ring = { 0 };

        setlinebuf(stdout);
        victim_stop_after(0);
        if (fd < 0 || !bytes || spanprof_otel_publish(&process))
                return 1;
        if (ring_init(&ring)) {
                printf("none\n");
                return 0;
        }
        printf("pid %d\n", getpid());
        while (!victim_stopped) {
                spanprof_otel_set(0x1111222233334444, 5, 7);
                submit(&ring, fd, bytes);
                victim_sink = victim_spin(victim_sink, 1000000);
                finish(&ring);
        }
        return 0;
}
