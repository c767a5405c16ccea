/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-wrong FAULT: publishes in all forms, right in everything but one fault
 *
 * A process context, a ring with the default capacity, records of four threads that begin another span all
 * the time, and a station of a coroutine, written by hand: the SDK would not write these faults. `right` has
 * none; `late-key` neither, but its records have an attribute whose key is named 0.3 s after they begin.
 * Prints `pid N` of the process that is to be looked at (with the fault `forked` a child's), before it `names
 * are off` if the kernel gives memory no names, and goes on until SIGTERM. The faults are those of `faults`
 * below; tests know which rule each violates. LIBRARY in the environment is loaded with `another-library`.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "spanprof/process.h"
#include "spanprof/ring.h"
#include "spanprof/station.h"
#include "spanprof/thread.h"
#include "victim.h"

enum { THREADS = 4, PAGE = 4096, ROOM = 700, N_SLOTS = SPANPROF_RING_DEFAULT_CAPACITY,
       HALF_US = 100000 };              /* each half of a record that is torn stays so long */

#ifndef WITHOUT_VARIABLE
__attribute__((visibility("default")))
#else
__attribute__((visibility("hidden")))
#endif
__thread struct spanprof_thread_record *otel_thread_ctx_v1;

struct record {
        struct spanprof_thread_record head;
        uint8_t attributes[ROOM];
};

static const char *fault;
static struct spanprof_process_header *header;
static struct spanprof_ring_header *ring;
static struct record records[THREADS] __attribute__((__aligned__(16)));
static char payloads[2][PAGE];

static bool is(const char *name) {
        return strcmp(fault, name) == 0;
}

static void put_be64(uint8_t *to, uint64_t value) {
        for (int i = 0; i < 8; i++)
                to[i] = (uint8_t)(value >> (56 - 8 * i));
}

/* ---- process context: protobuf by hand, each message shorter than 128 bytes ---- */

static size_t put_bytes(char *to, char tag, const char *data, size_t size) {
        to[0] = tag;
        to[1] = (char)size;
        memcpy(to + 2, data, size);
        return size + 2;
}

/* KeyValue { key = 1, value = 2: AnyValue { string_value = 1 } } in the field @tag */
static size_t put_pair(char *to, char tag, const char *key, const char *value) {
        char any[128], pair[128];
        size_t n = put_bytes(any, 0x0a, value, strlen(value)), size = put_bytes(pair, 0x0a, key, strlen(key));

        size += put_bytes(pair + size, 0x12, any, n);
        return put_bytes(to, tag, pair, size);
}

/* … with value = 2: AnyValue { array_value = 5: ArrayValue { values = 1: AnyValue { string_value = 1 } } } */
static size_t put_keys(char *to, const char *const *keys, size_t n_keys) {
        char array[128], any[128], pair[128];
        size_t n = 0, size;

        for (size_t i = 0; i < n_keys; i++) {
                char name[64];

                n += put_bytes(array + n, 0x0a, name, put_bytes(name, 0x0a, keys[i], strlen(keys[i])));
        }
        n = put_bytes(any, 0x2a, array, n);
        size = put_bytes(pair, 0x0a, "threadlocal.attribute_key_map", 29);
        size += put_bytes(pair + size, 0x12, any, n);
        return put_bytes(to, 0x12, pair, size);
}

/* @turn: number of the update; the first one adds a key. */
static size_t put_payload(char *to, unsigned turn) {
        const char *keys[] = { "http.route", "parity", "late" }, *others[] = { "parity", "http.route", "late" },
                   *twice[] = { "http.route", "http.route", "late" };
        bool is_odd = turn % 2;
        char attributes[256];
        size_t n = put_pair(attributes, 0x0a, "service.name", "shop"), size;

        n += put_pair(attributes + n, 0x0a, is("attribute-twice") ? "service.name" : "service.version", "1.2");
        size = put_bytes(to, 0x0a, attributes, n);
        if (!is("no-schema"))
                size += put_pair(to + size, 0x12, "threadlocal.schema_version", "tlsdesc_v1_dev");
        size += put_keys(to + size, is("keys-twice") ? twice : is_odd && is("keys-reordered") ? others : keys,
                         2 + (is("keys-removed") || is("same-time") ? is_odd : turn > 0));
        if (is("cut-message"))
                size -= 3;
        return size;
}

static void publish(unsigned turn) {
        char *payload = payloads[turn % 2];
        uint64_t now_ns = victim_clock_ns(is("realtime") ? CLOCK_REALTIME : CLOCK_BOOTTIME);
        bool keeps_time = turn && is("same-time");
        static uint64_t first_ns;

        first_ns = first_ns ? first_ns : now_ns;
        if (!keeps_time)
                __atomic_store_n(&header->published_ns, 0, __ATOMIC_SEQ_CST);
        header->payload_size = (uint32_t)put_payload(payload, turn);
        header->payload = is("payload-nowhere") ? 4096 : (uintptr_t)payload;
        header->version = is("process-version") ? 1 : 2;
        if (is("empty-payload"))
                header->payload_size = 0;
        if (is("time-back"))
                now_ns = first_ns + 500000000 - turn * 1000000;         /* never before the process began */
        if (!keeps_time && !is("never-finished"))
                __atomic_store_n(&header->published_ns, now_ns, __ATOMIC_SEQ_CST);
        memcpy(header->signature, is("no-signature") ? "OTEL_XXX" : SPANPROF_PROCESS_SIGNATURE, 8);
}

static void name_memory(void *memory, size_t size, const char *name) {
        if (prctl(0x53564d41 /* PR_SET_VMA */, 0UL /* ANON_NAME */, (unsigned long)memory,
                  (unsigned long)size, (unsigned long)name))
                printf("names are off\n");
}

static void *map_header(void) {
        int fd = is("unnamed-process") ? -1 : (int)syscall(SYS_memfd_create, SPANPROF_PROCESS_NAME, 3U);
        void *memory;

        if (fd >= 0 && ftruncate(fd, PAGE))
                exit(1);
        memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0), fd, 0);
        if (memory == MAP_FAILED)
                exit(1);
        if (!is("forked") && !is("inherited") && madvise(memory, PAGE, MADV_DONTFORK))
                exit(1);
        if (fd >= 0)
                close(fd);
        return memory;
}

/* ---- ring ---- */

static void make_ring(void) {
        uint32_t n = is("few-slots") ? 2 : N_SLOTS;
        size_t size = sizeof(*ring) + (size_t)n * SPANPROF_RING_SLOT_SIZE;
        char *memory = mmap(NULL, size + 2 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        struct spanprof_ring_header made = { SPANPROF_RING_MAGIC, 1, n, SPANPROF_RING_SLOT_SIZE, { 0 } };

        /* between two pages that no neighbour joins */
        size = (size + PAGE - 1) & ~(size_t)(PAGE - 1);
        if (memory == MAP_FAILED || mprotect(memory + PAGE, size, PROT_READ | PROT_WRITE))
                exit(1);
        ring = (void *)(memory + PAGE);
        if (is("ring-magic"))
                made.magic = 0x4c45544f;
        else if (is("ring-version"))
                made.version = 2;
        else if (is("ring-capacity"))
                made.capacity = 0;
        else if (is("ring-slot-size"))
                made.slot_size = 24;
        else if (is("ring-reserved"))
                made.reserved[15] = 1;
        else if (is("ring-room"))
                made.capacity *= 2;
        *ring = made;
        name_memory(ring, size, is("unnamed-ring") ? "another" : SPANPROF_RING_NAME);
}

/* A span whose ids follow from its number, which is never used twice. */
static void write_slot(unsigned tid, uint64_t number, bool is_torn) {
        struct spanprof_ring_slot *slots = (void *)(ring + 1), *slot;
        uint32_t n = is("few-slots") ? 2 : N_SLOTS;

        slot = &slots[(tid + (is("wrong-slot") ? 4096 : 0)) % n];
        if (!is_torn)
                __atomic_store_n(&slot->in_use, is("in-use-2") ? 2 : 1, __ATOMIC_SEQ_CST);
        slot->trace_id_high = 0x1111222233334444;
        __atomic_store_n(&slot->trace_id_low, number, __ATOMIC_SEQ_CST);
        usleep(is_torn ? HALF_US : 0);
        __atomic_store_n(&slot->span_id, 0x5555000000000000 | number, __ATOMIC_SEQ_CST);
        if (!is("in-use-stays") && !is("in-use-2"))
                __atomic_store_n(&slot->in_use, 0, __ATOMIC_SEQ_CST);
}

/* ---- records ---- */

static size_t put_attributes(uint8_t *to, uint64_t number) {
        size_t size = 0;

        to[size++] = is("unknown-key") ? 7 : 0;
        to[size++] = 6;
        memcpy(to + size, is("no-utf8") ? "/a\xff/cd" : "/route", 6);
        size += 6;
        to[size++] = 1;
        to[size++] = is("cut-entry") ? 200 : 4;
        memcpy(to + size, number % 2 ? "odd " : "even", 4);
        size += 4;
        if (is("late-key")) {
                memcpy(to + size, "\2\1x", 3);
                size += 3;
        }
        return size;
}

static void write_record(struct record *record, uint64_t number) {
        bool is_torn = is("torn-record");

        if (!is_torn)
                record->head.valid = 0;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        put_be64(record->head.trace_id, 0x1111222233334444);
        put_be64(record->head.trace_id + 8, number);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        usleep(is_torn ? HALF_US : 0);
        put_be64(record->head.span_id, is("no-span-id") ? 0 : 0x5555000000000000 | number);
        if (is("flags-alone")) {
                memset(record->head.trace_id, 0, 24);
                record->head.trace_flags = 1;
        }
        record->head.attributes_size = (uint16_t)put_attributes(record->attributes, number);
        if (is("long-record"))
                record->head.attributes_size = 650;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        record->head.valid = is("valid-7") ? 7 : 1;
}

static void *work(void *data) {
        struct record *record = data;
        unsigned tid = (unsigned)syscall(SYS_gettid);
        uint64_t number = (uint64_t)tid << 32;
        void (*set)(void *) = is("another-library") ? (void (*)(void *))dlsym(RTLD_DEFAULT, "context_set") : NULL;

        if (is("odd-record"))
                record = (void *)((char *)record + 1);
        otel_thread_ctx_v1 = is("record-nowhere") ? (void *)4096 : &record->head;
        if (set)
                set(record);
        while (!victim_stopped) {
                number++;
                if (!is("foreign-writer"))
                        write_record(record, number);
                if (!is("in-use-stays") || number == ((uint64_t)tid << 32 | 1))
                        write_slot(tid, number, is("torn-slot"));
                usleep(is("torn-slot") || is("torn-record") ? HALF_US : 1000);
        }
        return NULL;
}

/* Writes to the records of all others, as fast as it can. */
static void *write_all(void *data) {
        for (uint64_t number = 1; !victim_stopped; number++)
                for (int i = 0; i < THREADS; i++)
                        write_record(&records[i], number);
        return NULL;
}

/* ---- stations ---- */

static struct spanprof_station_region *make_region(void) {
        int fd = (int)syscall(SYS_memfd_create, "stations", 1U);
        size_t size = 3 * SPANPROF_STATION_SIZE;
        struct spanprof_station_region *region;

        if (fd < 0 || ftruncate(fd, (off_t)size))
                exit(1);
        region = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
        if (region == MAP_FAILED)
                exit(1);
        close(fd);
        region->max_stations = is("station-room") ? 3 : 2;
        region->version = is("station-version") ? 2 : 1;
        region->allocated_count = is("station-count") ? 5 : 1;
        __atomic_store_n(&region->magic, SPANPROF_STATION_MAGIC, __ATOMIC_SEQ_CST);
        return region;
}

/* One coroutine's events, in the dialect with odd numbers. */
static void *write_events(void *data) {
        struct spanprof_station *station = (void *)((char *)data + SPANPROF_STATION_SIZE);
        uint64_t tid = is("station-tid") ? 0 : (uint64_t)syscall(SYS_gettid);

        station->probe_id = 1;
        station->birth_ns = victim_clock_ns(CLOCK_MONOTONIC);
        for (uint64_t n = 0; !victim_stopped; n++) {
                struct spanprof_epoch *epoch = &station->epochs[n % SPANPROF_STATION_EPOCHS];
                uint64_t seq = 2 * (n / SPANPROF_STATION_EPOCHS + 1);

                if (is("station-back") && n > 300)
                        seq = 2;
                __atomic_store_n(&epoch->seq, seq - 1, __ATOMIC_SEQ_CST);
                epoch->time_ns = victim_clock_ns(is("station-clock") ? CLOCK_REALTIME : CLOCK_MONOTONIC);
                epoch->tid = tid;
                epoch->address = 0x1000;
                epoch->is_active = is("station-state") ? 7 : n % 2;
                while (is("station-torn") && n == 300 && !victim_stopped)
                        usleep(1000);
                __atomic_store_n(&epoch->seq, seq, __ATOMIC_SEQ_CST);
                usleep(2000);
        }
        return NULL;
}

static void start(void *(*run)(void *), void *data) {
        pthread_t thread;

        if (pthread_create(&thread, NULL, run, data))
                exit(1);
}

static const char *const faults[] = {
        "right", "process-version", "empty-payload", "realtime", "never-finished", "same-time", "time-back",
        "payload-nowhere", "cut-message", "attribute-twice", "unnamed-process", "two-processes", "forked",
        "inherited", "keys-reordered", "keys-removed", "keys-twice", "no-schema", "no-signature", "no-variable",
        "another-library", "record-nowhere", "odd-record", "valid-7", "no-span-id", "flags-alone", "cut-entry",
        "unknown-key", "no-utf8", "long-record", "torn-record", "foreign-writer", "ring-magic", "ring-version",
        "ring-capacity", "ring-slot-size", "ring-reserved", "ring-room", "in-use-2", "in-use-stays", "torn-slot",
        "late-key", "wrong-slot", "unnamed-ring", "few-slots", "station-version", "station-room", "station-count",
        "station-tid", "station-clock", "station-state", "station-back", "station-torn",
};

static bool is_known(const char *name) {
        for (size_t i = 0; i < sizeof(faults) / sizeof(*faults); i++)
                if (strcmp(faults[i], name) == 0)
                        return true;
        return false;
}

static void publish_process(void) {
        header = map_header();
        if (is("two-processes")) {
                publish(0);
                header = map_header();
        }
        publish(0);
}

int main(int argc, char **argv) {
        const char *library = getenv("LIBRARY");

        if (argc != 2 || !is_known(argv[1])) {
                fprintf(stderr, "usage: victim-wrong FAULT\n");
                return 2;
        }
        fault = argv[1];
        setlinebuf(stdout);
        victim_stop_after(0);
        prctl(PR_SET_PDEATHSIG, 15);
        if (is("another-library") && (!library || !dlopen(library, RTLD_NOW | RTLD_GLOBAL)))
                return 1;
        publish_process();
        usleep(100000);
        if (is("forked") && fork()) {
                while (!victim_stopped)
                        pause();
                return 0;
        }
        prctl(PR_SET_PDEATHSIG, 15);
        make_ring();
        for (int i = 0; i < THREADS; i++)
                start(work, &records[i]);
        start(write_events, make_region());
        if (is("foreign-writer"))
                start(write_all, NULL);
        printf("pid %d\n", getpid());
        for (unsigned turn = 1; !victim_stopped; turn++) {
                usleep(300000);
                if (!is("forked"))
                        publish(turn);
        }
        return 0;
}
