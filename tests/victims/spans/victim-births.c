/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-births SECONDS: threads that come and go on a small ring, and never clear their slots
 *
 * A ring of 64 slots, four threads that are born anew all the time, and four that stay, from the third second
 * on. Each burns the CPU before it sets its span (what its slot holds then is another thread's), then for it,
 * and dies. Trace id: 7 and its own id; span id: its number. Prints `pid N`, and at the end a line for each:
 * NUMBER TID SET END (MONOTONIC, ns).
 */
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "spanprof/ring.h"
#include "victim.h"

enum { CAPACITY = 64, LASTING = 4, BRIEF = 4, MAX_THREADS = 1 << 16 };

static struct {
        struct spanprof_ring_header header;
        struct spanprof_ring_slot slots[CAPACITY];
} *ring;

static struct birth {
        int tid;
        uint64_t set_ns, end_ns;
} births[MAX_THREADS];
static unsigned int n_births = 1;

static void burn(uint64_t ns) {
        uint64_t end = victim_cpu_ns() + ns;

        while (victim_cpu_ns() < end && !victim_stopped)
                victim_sink = victim_spin(victim_sink, 1000);
}

static void *live(void *data) {
        unsigned int number = __atomic_fetch_add(&n_births, 1, __ATOMIC_RELAXED);
        struct birth *birth = &births[number];
        struct spanprof_ring_slot *slot;

        if (number >= MAX_THREADS)
                return NULL;
        birth->tid = (int)syscall(SYS_gettid);
        slot = &ring->slots[birth->tid % CAPACITY];
        burn(3000000);
        birth->set_ns = victim_clock_ns(CLOCK_MONOTONIC);
        __atomic_store_n(&slot->in_use, 1, __ATOMIC_SEQ_CST);
        slot->trace_id_high = 7;
        slot->trace_id_low = (uint64_t)birth->tid;
        slot->span_id = number;
        __atomic_store_n(&slot->in_use, 0, __ATOMIC_SEQ_CST);
        burn(data ? UINT64_C(1) << 60 : 6000000);
        birth->end_ns = victim_clock_ns(CLOCK_MONOTONIC);
        return NULL;
}

static void *mother(void *data) {
        pthread_t child;

        while (!victim_stopped && __atomic_load_n(&n_births, __ATOMIC_RELAXED) < MAX_THREADS - 64)
                if (!pthread_create(&child, NULL, live, NULL))
                        pthread_join(child, NULL);
        return NULL;
}

int main(int argc, char **argv) {
        pthread_t threads[LASTING + BRIEF];

        setlinebuf(stdout);
        ring = mmap(NULL, sizeof(*ring), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (ring == MAP_FAILED)
                return 1;
        ring->header = (struct spanprof_ring_header){
                SPANPROF_RING_MAGIC, SPANPROF_RING_VERSION, CAPACITY, SPANPROF_RING_SLOT_SIZE, { 0 }
        };
        printf("pid %d\n", getpid());
        victim_stop_after(victim_argument(argc, argv, 1, 0, 0, 3600, "victim-births SECONDS"));
        for (int i = 0; i < LASTING + BRIEF; i++) {
                struct timespec pause = { .tv_sec = i == BRIEF ? 2 : 0 };

                while (nanosleep(&pause, &pause) && !victim_stopped)
                        ;
                if (pthread_create(&threads[i], NULL, i < BRIEF ? mother : live, (void *)1))
                        return 1;
        }
        for (int i = 0; i < LASTING + BRIEF; i++)
                pthread_join(threads[i], NULL);
        for (unsigned int i = 1; i < n_births && i < MAX_THREADS; i++)
                printf("%u %d %lu %lu\n", i, births[i].tid, births[i].set_ns, births[i].end_ns);
        return 0;
}
