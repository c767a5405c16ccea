/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-context LIBRARY|- BEFORE AFTER: threads with contexts of their own
 *
 * Every thread burns the CPU for one ms in ten, with VICTIM_RESTS in the environment for half of that.
 * BEFORE of them start at once, AFTER of them once the library (or, with -, the executable) has given them
 * the variable otel_thread_ctx_v1. Each one's context follows from its id alone: trace id 1111222233334444
 * and the id, span id 55550000 and the id, attributes 0 = id % 3 as "/route/N", 1 = id % 2 as "even" or
 * "odd". The first of each group never touches the variable. Prints `pid N`, then `thread TID set|none` for
 * each thread before it begins, and obeys on standard input (answers `ok`):
 *
 *     publish FILE    publishes (again) a process context with these bytes as payload
 *     wrong FIELD FILE   the same with a field of its header spoiled from the begin
 *     header FIELD    spoils a field of its header: signature, version, size, payload (in the kernel;
 *                     nowhere, stack), time; `right` mends it
 *     map FILE        maps its first page, and does not touch it
 *     silent          publishes (again) a process context whose payload is said to lie there, and asks for it
 *                     in a thread of its own
 *     load            loads the library; threads of both groups set their contexts from then on
 *     valid 0|1       the byte of all records
 *     size N          the size of the attributes in all records
 *     dtv HEX         all threads say that their thread-local memory is listed there (no `load` after this)
 *     flap            keeps updating the process context, so that no look at it ever sees it done
 *     unload          all threads clear their contexts; then the library is unloaded
 *     library FILE    what `load` loads next
 *
 * With ELASTIC in its environment it writes Elastic's records: same ids, no attributes.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "spanprof/process.h"
#include "spanprof/thread.h"
#include "victim.h"

enum { MAX_THREADS = 64, MAX_PAYLOAD = 1 << 17, N_SPINS = 600 };

#ifdef CONTEXT_IN_EXECUTABLE
__attribute__((visibility("default"))) __thread void *otel_thread_ctx_v1;

static void own_set(void *record) {
        otel_thread_ctx_v1 = record;
}
#endif

struct record {
        union {
                struct {
                        struct spanprof_thread_record head;
                        uint8_t attributes[64];
                };
                struct {
                        uint8_t layout[2], valid, present, flags, trace_id[16], span_id[8], transaction_id[8];
                } elastic;
        };
        bool is_silent;                 /* its thread never touches the variable */
};

static struct record records[MAX_THREADS];
static void (*volatile set)(void *record);
static const char *library;
/* where all threads say that their blocks of thread-local memory are listed; 0 = as it is */
static volatile uint64_t wild_dtv;
static void *handle;
static unsigned int n_spins = N_SPINS;  /* before each rest */
static unsigned int n_cleared;          /* atomic: threads that have no context any more, since `unload` */
static int n_threads;
static struct spanprof_process_header *header;
static uint8_t *payload;

static void put_be64(uint8_t *to, uint64_t value) {
        for (int i = 0; i < 8; i++)
                to[i] = (uint8_t)(value >> (56 - 8 * i));
}

static void fill(struct record *record, unsigned int tid) {
        char route[16];
        int n = snprintf(route, sizeof(route), "/route/%u", tid % 3);
        const char *parity = tid % 2 ? "odd" : "even";
        uint8_t *p = record->attributes;

        if (getenv("ELASTIC")) {
                record->elastic.layout[0] = record->elastic.valid = record->elastic.present = 1;
                put_be64(record->elastic.trace_id, 0x1111222233334444);
                put_be64(record->elastic.trace_id + 8, tid);
                put_be64(record->elastic.span_id, 0x5555000000000000 | tid);
                put_be64(record->elastic.transaction_id, 0x7777777777777777);
                return;
        }
        put_be64(record->head.trace_id, 0x1111222233334444);
        put_be64(record->head.trace_id + 8, tid);
        put_be64(record->head.span_id, 0x5555000000000000 | tid);
        *p++ = 0;
        *p++ = (uint8_t)n;
        memcpy(p, route, (size_t)n);
        p += n;
        *p++ = 1;
        *p++ = (uint8_t)strlen(parity);
        memcpy(p, parity, strlen(parity));
        p += strlen(parity);
        record->head.attributes_size = (uint16_t)(p - record->attributes);
        record->head.valid = 1;
}

STEP void context_burn(void (*until)(void *));

STEP void context_burn(void (*until)(void *)) {
        const struct timespec rest = { .tv_nsec = 9000000 };

        KEEP_FRAME();
        for (unsigned int n = 1; set == until; n++) {
                victim_sink = victim_spin(victim_sink, 1000);
                if (n % n_spins == 0)
                        syscall(SYS_nanosleep, &rest, NULL);
#ifdef __x86_64__
                /* From here on no code may ask for memory of a library: this thread only burns. */
                if (wild_dtv && until)
                        __asm__ volatile("movq %0, %%fs:8" : : "r"(wild_dtv) : "memory");
#endif
        }
}

static void *thread_main(void *data) {
        struct record *record = data;
        bool sets = !record->is_silent;
        unsigned int tid = (unsigned int)syscall(SYS_gettid);

        printf("thread %u %s\n", tid, sets ? "set" : "none");
        fill(record, tid);
        for (;;) {
                void (*now)(void *) = set;

                if (now && sets)
                        now(record);
                context_burn(now);
                if (now && sets)
                        now(NULL);
                if (now)
                        __atomic_fetch_add(&n_cleared, 1, __ATOMIC_SEQ_CST);
        }
        return NULL;
}

static void start(int n) {
        pthread_t thread;

        for (int i = 0; i < n && n_threads < MAX_THREADS; i++) {
                records[n_threads].is_silent = i == 0;          /* the first one of a group */
                if (pthread_create(&thread, NULL, thread_main, &records[n_threads++]))
                        exit(1);
        }
}

static bool load(void) {
#ifdef CONTEXT_IN_EXECUTABLE
        set = own_set;
        return true;
#else
        handle = dlopen(library, RTLD_NOW);
        if (!handle)
                fprintf(stderr, "%s\n", dlerror());
        set = handle ? (void (*)(void *))dlsym(handle, "context_set") : NULL;
        return set;
#endif
}

/* Every thread has left the library's code, and cleared its context, before it goes. */
static bool unload(void) {
        if (!handle || !set)
                return false;
        n_cleared = 0;
        set = NULL;
        while (__atomic_load_n(&n_cleared, __ATOMIC_SEQ_CST) < (unsigned int)n_threads)
                usleep(1000);
        return dlclose(handle) == 0;
}

static uint64_t boottime(void) {
        return victim_clock_ns(CLOCK_BOOTTIME);
}

/*
 * HEADER in the environment: where it lies. memfd (default), memfd-suffix (the name goes on), anon, shmem
 * (named memory, private and shared), unnamed (only a search finds it).
 */
static void *map_header(void) {
        const char *where = getenv("HEADER");
        int flags = MAP_PRIVATE | MAP_ANONYMOUS, fd = -1;
        void *memory;

        if (!where || strncmp(where, "memfd", 5) == 0) {
                fd = (int)syscall(SYS_memfd_create, where && where[5] ? "OTEL_CTX_v2" : "OTEL_CTX", 3U);
                flags = MAP_PRIVATE;
                if (fd < 0 || ftruncate(fd, 4096))
                        return MAP_FAILED;
        } else if (strcmp(where, "shmem") == 0) {
                flags = MAP_SHARED | MAP_ANONYMOUS;
        }
        memory = mmap(NULL, 4096, PROT_READ | PROT_WRITE, flags, fd, 0);
        if (fd >= 0)
                close(fd);
        else if (memory != MAP_FAILED && strcmp(where, "unnamed") != 0 &&
                 prctl(0x53564d41 /* PR_SET_VMA */, 0UL /* ANON_NAME */, (unsigned long)memory, 4096UL,
                       (unsigned long)"OTEL_CTX"))
                printf("unnamed\n");
        return memory;
}

static bool spoil(const char *field);

/* @wrong: a field that is spoiled before anybody can see it; NULL = none. */
static bool publish(const char *path, const char *wrong) {
        int file = open(path, O_RDONLY);
        ssize_t size;

        if (!payload) {
                header = map_header();
                payload = malloc(MAX_PAYLOAD);
                if (header == MAP_FAILED || !payload)
                        return false;
        }
        __atomic_store_n(&header->published_ns, 0, __ATOMIC_SEQ_CST);
        size = read(file, payload, MAX_PAYLOAD);
        close(file);
        if (size < 0)
                return false;
        memcpy(header->signature, SPANPROF_PROCESS_SIGNATURE, 8);
        header->version = 2;
        header->payload_size = (uint32_t)size;
        header->payload = (uintptr_t)payload;
        if (wrong && !spoil(wrong))
                return false;
        if (!wrong || strcmp(wrong, "time") != 0)
                __atomic_store_n(&header->published_ns, boottime(), __ATOMIC_SEQ_CST);
        return true;
}

static bool spoil(const char *field) {
        static struct spanprof_process_header right;

        if (strcmp(field, "right") == 0)
                *header = right;
        else
                right = *header;
        if (strcmp(field, "signature") == 0)
                header->signature[0] = 'X';
        else if (strcmp(field, "version") == 0)
                header->version = 1;
        else if (strcmp(field, "size") == 0)
                header->payload_size = 0xffffffff;
        else if (strcmp(field, "payload") == 0)
                header->payload = UINT64_C(0xffff800000000000);
        else if (strcmp(field, "nowhere") == 0)
                header->payload = 4096;
        else if (strcmp(field, "stack") == 0)
                header->payload = (uintptr_t)__builtin_frame_address(0);
        else if (strcmp(field, "time") == 0)
                header->published_ns = 0;
        else
                return strcmp(field, "right") == 0;
        if (header->published_ns)
                header->published_ns = boottime();
        return true;
}

static void *flapping(void *data) {
        for (;;) {
                __atomic_store_n(&header->published_ns, 0, __ATOMIC_SEQ_CST);
                __atomic_store_n(&header->published_ns, boottime(), __ATOMIC_SEQ_CST);
        }
        return NULL;
}

static uint8_t *silent_page;

static bool map_silent(const char *path) {
        int file = open(path, O_RDONLY | O_CLOEXEC);

        silent_page = file < 0 ? MAP_FAILED : mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, file, 0);
        return silent_page != MAP_FAILED;
}

static void *touching(void *data) {
        victim_sink += *(const volatile uint8_t *)data;
        return NULL;
}

static bool publish_silent(void) {
        pthread_t thread;

        if (!header || !silent_page)
                return false;
        __atomic_store_n(&header->published_ns, 0, __ATOMIC_SEQ_CST);
        header->payload = (uintptr_t)silent_page;
        header->payload_size = 64;
        __atomic_store_n(&header->published_ns, boottime(), __ATOMIC_SEQ_CST);
        return !pthread_create(&thread, NULL, touching, silent_page);
}

static bool obey(const char *line) {
        static char next[256];
        unsigned long dtv;
        pthread_t thread;
        unsigned int n;
        char word[256], field[32];

        if (sscanf(line, "publish %255s", word) == 1)
                return publish(word, NULL);
        if (sscanf(line, "wrong %31s %255s", field, word) == 2)
                return publish(word, field);
        if (sscanf(line, "header %255s", word) == 1)
                return header && spoil(word);
        if (sscanf(line, "map %255s", word) == 1)
                return map_silent(word);
        if (strcmp(line, "silent\n") == 0)
                return publish_silent();
        if (strcmp(line, "load\n") == 0)
                return load();
        if (strcmp(line, "unload\n") == 0)
                return unload();
        if (strcmp(line, "flap\n") == 0)
                return header && !pthread_create(&thread, NULL, flapping, NULL);
        if (sscanf(line, "dtv %lx", &dtv) == 1) {
                wild_dtv = dtv;
                return true;
        }
        if (sscanf(line, "library %255s", next) == 1) {
                library = next;
                return true;
        }
        for (int i = 0; i < n_threads; i++)
                if (sscanf(line, "valid %u", &n) == 1)
                        records[i].head.valid = (uint8_t)n;
                else if (sscanf(line, "size %u", &n) == 1)
                        records[i].head.attributes_size = (uint16_t)n;
                else
                        return false;
        return true;
}

int main(int argc, char **argv) {
        static const char usage[] = "victim-context LIBRARY|- BEFORE AFTER";
        bool started_after = false;
        char line[300];

        setlinebuf(stdout);
        if (getenv("VICTIM_RESTS"))
                n_spins /= 2;
        library = argc > 1 ? argv[1] : "-";
        printf("pid %d\n", getpid());
        start((int)victim_argument(argc, argv, 2, 3, 0, MAX_THREADS, usage));
        while (fgets(line, sizeof(line), stdin)) {
                bool good = obey(line);

                if (good && set && !started_after) {
                        started_after = true;
                        start((int)victim_argument(argc, argv, 3, 3, 0, MAX_THREADS, usage));
                }
                puts(good ? "ok" : "error");
        }
        return 0;
}
