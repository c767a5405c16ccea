/* SPDX-License-Identifier: Apache-2.0 */

/*
 * victim-slot CAPACITY: a process whose main thread spins and whose context ring is
 * under the test's command. Prints `ring ADDRESS TID` with the tid that it sees
 * itself, then obeys lines on standard input, answering each with `done`:
 *
 *     slot HIGH LOW SPAN IN_USE       writes the spinning thread's slot
 *     fill HIGH LOW SPAN              writes every other slot
 *     byte OFFSET VALUE               writes one byte of the region
 *     unmap                           unmaps the region
 *     map                             maps 1 MiB more, written to (the address space changes)
 */

#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "spanprof/ring.h"

static volatile uint64_t sum;
static uint32_t capacity, tid;
static char *region;
static size_t region_size;

static struct spanprof_ring_slot *slots(void) {
        return (struct spanprof_ring_slot *)(region + sizeof(struct spanprof_ring_header));
}

static int obey(const char *line) {
        struct spanprof_ring_slot slot = { 0 };
        unsigned long offset;
        unsigned value;

        if (sscanf(line, "slot %" SCNu64 " %" SCNu64 " %" SCNu64 " %hhu", &slot.trace_id_high,
                   &slot.trace_id_low, &slot.span_id, &slot.in_use) == 4)
                slots()[tid % capacity] = slot;
        else if (sscanf(line, "fill %" SCNu64 " %" SCNu64 " %" SCNu64, &slot.trace_id_high,
                        &slot.trace_id_low, &slot.span_id) == 3) {
                for (uint32_t i = 0; i < capacity; i++)
                        if (i != tid % capacity)
                                slots()[i] = slot;
        } else if (sscanf(line, "byte %lu %u", &offset, &value) == 2)
                region[offset] = (char)value;
        else if (!strncmp(line, "unmap", 5))
                munmap(region, region_size);
        else if (!strncmp(line, "map", 3))
                memset(mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), 1,
                       1 << 20);
        else
                return -1;
        return 0;
}

/* Not the spinning thread: its own slot stays empty. */
static void *read_commands(void *data) {
        char line[256];

        while (fgets(line, sizeof(line), stdin)) {
                if (obey(line))
                        break;
                printf("done\n");
                fflush(stdout);
        }
        exit(1);
}

int main(int argc, char **argv) {
        struct spanprof_ring_header header = {
                .magic = SPANPROF_RING_MAGIC,
                .version = SPANPROF_RING_VERSION,
                .slot_size = SPANPROF_RING_SLOT_SIZE,
        };
        pthread_t thread;

        prctl(PR_SET_PDEATHSIG, SIGKILL);
        capacity = header.capacity = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 64;
        region_size = sizeof(header) + (size_t)capacity * sizeof(struct spanprof_ring_slot);
        region = mmap(NULL, region_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (region == MAP_FAILED)
                return 1;
        memcpy(region, &header, sizeof(header));
        tid = (uint32_t)gettid();
        printf("ring %" PRIu64 " %u\n", (uint64_t)(uintptr_t)region, tid);
        fflush(stdout);
        if (pthread_create(&thread, NULL, read_commands, NULL))
                return 1;
        for (;;)
                sum++;
}
