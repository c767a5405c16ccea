/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-ring: a context ring under command
 *
 * Does to its ring what a broken or hostile writer may do, one command a line on
 * standard input; each is answered by one line, `ok …` or `error …`. A thread
 * burns the CPU in ring_burn() all the time, or with VICTIM_RESTS in the
 * environment a sixth of it, and set, clear and busy are about *its* slot. It
 * ends with 0 at the end of its input. Prints first:
 *     pid 4711 tid 4712 burn 0x55d0c0de1180
 *
 *     publish [CAPACITY [PAGES]]   new ring (default 65536), PAGES of other memory before it in one mapping
 *     wrong FIELD         one field of the header wrong: magic version version-zero capacity-zero
 *                         capacity-over (2^24 + 1) capacity-beyond (its mapping) slot-size reserved
 *     right               the header as it should be
 *     capacity N          writes just the header's capacity
 *     set HIGH LOW SPAN   hexadecimal     clear     busy 0|1     in_use alone
 *     unmap               takes the ring's memory away
 *     remap               maps fresh memory (zeros) over its address
 *     move                moves it to another address, contents and all
 *     name TEXT           names its memory    (kernels without named memory: error)
 *     decoys PAGES        maps pages that begin with the magic, but are no ring
 *     untouched MIB       maps memory and never touches it
 *
 * publish and move answer `ok ADDRESS CAPACITY BYTES`, decoys and untouched `ok ADDRESS BYTES`.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>

#include "spanprof/ring.h"
#include "victim.h"

enum { PAGE = 4096 };

static struct spanprof_ring_header *header;     /* NULL = no ring */
static uint32_t capacity;                       /* what the memory is for, whatever the header says */
static size_t size_bytes;                       /* of header and slots, in whole pages */
static volatile pid_t burner_tid;

STEP void ring_burn(bool rests);

STEP void ring_burn(bool rests) {
        KEEP_FRAME();
        for (unsigned int n = 1;; n++) {
                victim_sink = victim_spin(victim_sink, 10000);
                if (rests && n % 10 == 0)
                        usleep(1000);
        }
}

static void *burner_main(void *data) {
        burner_tid = gettid();
        ring_burn(getenv("VICTIM_RESTS"));
        return NULL;
}

static bool fail(const char *why) {
        printf("error %s\n", why);
        return false;
}

static bool say_ring(void) {
        printf("ok %p %u %zu\n", (void *)header, capacity, size_bytes);
        return true;
}

static void *map_memory(size_t size) {
        void *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

        return memory == MAP_FAILED ? NULL : memory;
}

static void header_right(void) {
        *header = (struct spanprof_ring_header){
                .magic = SPANPROF_RING_MAGIC,
                .version = SPANPROF_RING_VERSION,
                .capacity = capacity,
                .slot_size = SPANPROF_RING_SLOT_SIZE,
        };
}

static bool do_publish(const char *arguments) {
        unsigned int n_slots = SPANPROF_RING_DEFAULT_CAPACITY, n_pages = 0;
        uint8_t *memory;
        size_t size;

        sscanf(arguments, "%u %u", &n_slots, &n_pages);
        if (n_slots == 0 || n_slots > SPANPROF_RING_MAX_CAPACITY)
                return fail("no such capacity");
        size = (sizeof(*header) + (size_t)n_slots * SPANPROF_RING_SLOT_SIZE + PAGE - 1) / PAGE * PAGE;
        memory = map_memory((size_t)n_pages * PAGE + size);
        if (!memory)
                return fail(strerror(errno));
        memset(memory, 0xa5, (size_t)n_pages * PAGE);
        header = (struct spanprof_ring_header *)(memory + (size_t)n_pages * PAGE);
        capacity = n_slots;
        size_bytes = size;
        header_right();
        return say_ring();
}

static bool do_wrong(const char *field) {
        header_right();
        if (strcmp(field, "magic") == 0)
                header->magic ^= 1;
        else if (strcmp(field, "version") == 0)
                header->version = 2;
        else if (strcmp(field, "version-zero") == 0)
                header->version = 0;
        else if (strcmp(field, "capacity-zero") == 0)
                header->capacity = 0;
        else if (strcmp(field, "capacity-over") == 0)
                header->capacity = SPANPROF_RING_MAX_CAPACITY + 1;
        else if (strcmp(field, "capacity-beyond") == 0)
                header->capacity = SPANPROF_RING_MAX_CAPACITY;
        else if (strcmp(field, "slot-size") == 0)
                header->slot_size = 64;
        else if (strcmp(field, "reserved") == 0)
                header->reserved[15] = 1;
        else
                return fail("no such field");
        return true;
}

static bool do_right(const char *arguments) {
        header_right();
        return true;
}

static bool do_capacity(const char *arguments) {
        header->capacity = (uint32_t)strtoul(arguments, NULL, 0);
        return true;
}

static struct spanprof_ring_slot *burner_slot(void) {
        return (struct spanprof_ring_slot *)(header + 1) + (uint32_t)burner_tid % capacity;
}

static bool do_set(const char *arguments) {
        struct spanprof_ring_slot *slot = burner_slot();
        uint64_t high, low, span;

        if (sscanf(arguments, "%lx %lx %lx", &high, &low, &span) != 3)
                return fail("set HIGH LOW SPAN");
        __atomic_store_n(&slot->in_use, 1, __ATOMIC_SEQ_CST);
        slot->trace_id_high = high;
        slot->trace_id_low = low;
        slot->span_id = span;
        __atomic_store_n(&slot->in_use, 0, __ATOMIC_SEQ_CST);
        return true;
}

static bool do_clear(const char *arguments) {
        return do_set("0 0 0");
}

static bool do_busy(const char *arguments) {
        burner_slot()->in_use = *arguments == '1';
        return true;
}

static bool do_unmap(const char *arguments) {
        if (munmap(header, size_bytes))
                return fail(strerror(errno));
        header = NULL;
        return true;
}

static bool do_remap(const char *arguments) {
        if (mmap(header, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1,
                 0) == MAP_FAILED)
                return fail(strerror(errno));
        return true;
}

static bool do_move(const char *arguments) {
        void *to = map_memory(size_bytes);

        if (!to || mremap(header, size_bytes, size_bytes, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED)
                return fail(strerror(errno));
        header = to;
        return say_ring();
}

static bool do_name(const char *name) {
        if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, (unsigned long)header, size_bytes, (unsigned long)name))
                return fail(strerror(errno));
        return true;
}

static bool do_decoys(const char *arguments) {
        size_t n_pages = strtoul(arguments, NULL, 0);
        uint8_t *memory = n_pages ? map_memory(n_pages * PAGE) : NULL;

        if (!memory)
                return fail("no memory");
        for (size_t i = 0; i < n_pages; i++)
                *(uint32_t *)(memory + i * PAGE) = SPANPROF_RING_MAGIC;
        printf("ok %p %zu\n", (void *)memory, n_pages * PAGE);
        return true;
}

static bool do_untouched(const char *arguments) {
        size_t size = strtoul(arguments, NULL, 0) << 20;
        void *memory = size
                ? mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)
                : MAP_FAILED;

        if (memory == MAP_FAILED)
                return fail("no memory");
        printf("ok %p %zu\n", memory, size);
        return true;
}

static const struct {
        const char *name;
        bool (*run)(const char *arguments);
        bool needs_ring, answers;       /* answers: prints its own `ok` */
} commands[] = {
        { "publish", do_publish, false, true },
        { "wrong", do_wrong, true, false },
        { "right", do_right, true, false },
        { "capacity", do_capacity, true, false },
        { "set", do_set, true, false },
        { "clear", do_clear, true, false },
        { "busy", do_busy, true, false },
        { "unmap", do_unmap, true, false },
        { "remap", do_remap, true, false },
        { "move", do_move, true, true },
        { "name", do_name, true, false },
        { "decoys", do_decoys, false, true },
        { "untouched", do_untouched, false, true },
};

static void run_command(char *line) {
        char *arguments = line + strcspn(line, " \n");

        line[strcspn(line, "\n")] = '\0';
        if (*arguments)
                *arguments++ = '\0';
        for (size_t i = 0; i < sizeof(commands) / sizeof(commands[0]); i++) {
                if (strcmp(commands[i].name, line) != 0)
                        continue;
                if (commands[i].needs_ring && !header)
                        fail("no ring: publish first");
                else if (commands[i].run(arguments) && !commands[i].answers)
                        puts("ok");
                return;
        }
        fail("no such command");
}

int main(void) {
        pthread_t burner;
        char line[256];

        setlinebuf(stdout);
        if (pthread_create(&burner, NULL, burner_main, NULL))
                return 1;
        while (burner_tid == 0)
                usleep(1000);
        pthread_setname_np(burner, "burner");
        printf("pid %d tid %d burn %p\n", getpid(), burner_tid, (void *)(uintptr_t)ring_burn);
        while (fgets(line, sizeof(line), stdin))
                run_command(line);
        return 0;
}
