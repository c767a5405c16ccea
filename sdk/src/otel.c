/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writer of Thread and Process Contexts
 *
 * Every thread has a record in a page of its own, which the thread-local pointer
 * otel_thread_ctx_v1 leads to. Readers look while the thread is interrupted, so what counts is the order in
 * which the thread's own instructions reach the record:
 *
 *     valid = 0 | ids, attributes | valid = 1
 *
 * with compiler fences between them: an interrupt falls between two instructions and sees all stores before
 * it. No fence of the processor is needed, since nobody reads from another CPU. A signal handler that sets a
 * context inside of set() leaves valid at 0; the outer set() sees by `n_writes` that somebody wrote, and
 * writes its own again.
 *
 * The process context is one page of a memfd named OTEL_CTX, mapped private. An update stores the time 0,
 * then the rest, then a new time, with fences of the processor: its readers run on other CPUs.
 */
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "backend.h"
#include "spanprof/otel.h"
#include "spanprof/process.h"
#include "spanprof/thread.h"

#ifndef PR_SET_VMA              /* headers older than Linux 5.17 */
#define PR_SET_VMA 0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

enum { PAGE = 4096 };

/* What readers find by its name. */
SPANPROF_PUBLIC _Thread_local struct spanprof_thread_record *otel_thread_ctx_v1 BACKEND_TLS;

struct record {
        struct spanprof_thread_record head;
        uint8_t attributes[SPANPROF_THREAD_MAX_ATTRIBUTES];
        volatile uint32_t n_writes;
        volatile bool writing;
};

static _Thread_local struct record *this_record BACKEND_TLS;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;
static int key_error;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;        /* the process context */
static struct spanprof_process_header *header;                  /* NULL = nothing was published yet */
static uint8_t *payload;

/* ---- threads ---- */

static void thread_exit(void *data) {
        otel_thread_ctx_v1 = NULL;
        this_record = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        munmap(data, PAGE);
}

/* The child's only thread works for nobody yet. */
static void fork_child(void) {
        otel_thread_ctx_v1 = NULL;
        if (header && header->published_ns)
                header->published_ns++;         /* another process: its readers must read again */
        pthread_mutex_init(&lock, NULL);
}

static void fork_prepare(void) {
        pthread_mutex_lock(&lock);
}

static void fork_parent(void) {
        pthread_mutex_unlock(&lock);
}

static void init(void) {
        key_error = pthread_key_create(&key, thread_exit);
        if (!key_error)
                key_error = pthread_atfork(fork_prepare, fork_parent, fork_child);
}

static __attribute__((__constructor__)) void load(void) {
        pthread_once(&once, init);
}

/* The first set() of a thread. mmap() may be called in a signal handler. */
static __attribute__((__noinline__)) struct record *attach(void) {
        void *memory;

        if (key_error)
                return NULL;
        memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED)
                return NULL;
        this_record = memory;
        pthread_setspecific(key, memory);
        return memory;
}

static void put_be64(uint8_t *to, uint64_t value) {
        value = __builtin_bswap64(value);
        memcpy(to, &value, sizeof(value));
}

void spanprof_otel_set(uint64_t trace_high, uint64_t trace_low, uint64_t span) {
        struct record *record = this_record ? this_record : attach();
        bool nested;
        uint32_t n;

        if (!record)
                return;
        nested = record->writing;
        record->writing = true;
        do {
                n = record->n_writes + 1;
                record->n_writes = n;
                record->head.valid = 0;
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
                put_be64(record->head.trace_id, trace_high);
                put_be64(record->head.trace_id + 8, trace_low);
                put_be64(record->head.span_id, span);
                record->head.attributes_size = 0;
                __atomic_signal_fence(__ATOMIC_SEQ_CST);
        } while (record->n_writes != n);
        if (nested)
                return;
        record->writing = false;
        otel_thread_ctx_v1 = &record->head;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        record->head.valid = 1;
}

int spanprof_otel_attribute(uint8_t index, const char *value, size_t size) {
        struct record *record = this_record;
        size_t at;

        if (!record || record->writing || !otel_thread_ctx_v1)
                return -EINVAL;
        at = record->head.attributes_size;
        if (size > UINT8_MAX || at + 2 + size > sizeof(record->attributes))
                return -ENOSPC;
        /*
         * The bytes lie behind what counts until the size says otherwise: two stores, and the second one is
         * whole.
         */
        record->attributes[at] = index;
        record->attributes[at + 1] = (uint8_t)size;
        memcpy(record->attributes + at + 2, value, size);
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
        __atomic_store_n(&record->head.attributes_size, (uint16_t)(at + 2 + size), __ATOMIC_RELAXED);
        return 0;
}

void spanprof_otel_clear(void) {
        otel_thread_ctx_v1 = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

static uint64_t get_be64(const uint8_t *from) {
        uint64_t value;

        memcpy(&value, from, sizeof(value));
        return __builtin_bswap64(value);
}

/* In the thread itself, so only a signal handler can meet a write in progress. */
bool otel_read(struct backend_ids *ids) {
        const struct spanprof_thread_record *record = otel_thread_ctx_v1;

        if (!record || record->valid != SPANPROF_THREAD_VALID)
                return false;
        *ids = (struct backend_ids){ get_be64(record->trace_id), get_be64(record->trace_id + 8),
                                     get_be64(record->span_id) };
        return ids->high | ids->low | ids->span;
}

/* ---- the process ---- */

typedef struct Writer {
        uint8_t *to;
        size_t size, room;
        bool full;
} Writer;

static void put(Writer *writer, const void *data, size_t size) {
        if (size > writer->room - writer->size)
                writer->full = true;
        else {
                memcpy(writer->to + writer->size, data, size);
                writer->size += size;
        }
}

static void put_varint(Writer *writer, uint64_t value) {
        do {
                uint8_t byte = (uint8_t)(value & 127) | (value > 127 ? 128 : 0);

                put(writer, &byte, 1);
                value >>= 7;
        } while (value);
}

static size_t varint_size(uint64_t value) {
        size_t n = 1;

        while (value >>= 7)
                n++;
        return n;
}

/* Bytes of a field of the first fifteen with @size bytes in it. */
static size_t field_size(size_t size) {
        return 1 + varint_size(size) + size;
}

static void put_head(Writer *writer, unsigned int number, size_t size) {
        put_varint(writer, number << 3 | 2);
        put_varint(writer, size);
}

static void put_text(Writer *writer, unsigned int number, const char *text) {
        put_head(writer, number, strlen(text));
        put(writer, text, strlen(text));
}

/* KeyValue { key = 1, value = 2: AnyValue { string_value = 1 } } */
static size_t pair_size(const char *name, const char *value) {
        return field_size(strlen(name)) + field_size(field_size(strlen(value)));
}

static void put_pair(Writer *writer, unsigned int number, const char *name, const char *value) {
        put_head(writer, number, pair_size(name, value));
        put_text(writer, 1, name);
        put_head(writer, 2, field_size(strlen(value)));
        put_text(writer, 1, value);
}

static void put_resource(Writer *writer, const struct spanprof_otel_process *process) {
        size_t size = 0;

        for (size_t i = 0; i < process->n_attributes; i++)
                size += field_size(pair_size(process->attributes[i].key, process->attributes[i].value));
        put_head(writer, 1, size);
        for (size_t i = 0; i < process->n_attributes; i++)
                put_pair(writer, 1, process->attributes[i].key, process->attributes[i].value);
}

/* KeyValue { key, AnyValue { array_value = 5: ArrayValue { values = 1 … } } } */
static void put_keys(Writer *writer, const struct spanprof_otel_process *process) {
        static const char name[] = "threadlocal.attribute_key_map";
        size_t size = 0;

        for (size_t i = 0; i < process->n_keys; i++)
                size += field_size(field_size(strlen(process->keys[i])));
        put_head(writer, 2, field_size(sizeof(name) - 1) + field_size(field_size(size)));
        put_text(writer, 1, name);
        put_head(writer, 2, field_size(size));
        put_head(writer, 5, size);
        for (size_t i = 0; i < process->n_keys; i++) {
                put_head(writer, 1, field_size(strlen(process->keys[i])));
                put_text(writer, 1, process->keys[i]);
        }
}

static uint64_t boottime_ns(void) {
        struct timespec ts;

        clock_gettime(CLOCK_BOOTTIME, &ts);
        return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

/* A memfd's name shows on every kernel; where there are none, a reader finds the page by its signature. */
static int map_header(void) {
        int fd = (int)syscall(SYS_memfd_create, SPANPROF_PROCESS_NAME,
                              3U /* MFD_CLOEXEC | MFD_ALLOW_SEALING */);
        int flags = MAP_PRIVATE | (fd < 0 ? MAP_ANONYMOUS : 0);
        void *memory, *text;

        if (fd >= 0 && ftruncate(fd, PAGE)) {
                close(fd);
                return -ENOMEM;
        }
        memory = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, flags, fd, 0);
        if (fd >= 0)
                close(fd);
        text = malloc(SPANPROF_PROCESS_MAX_PAYLOAD);
        if (memory == MAP_FAILED || !text) {
                free(text);
                return -ENOMEM;
        }
        (void)prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, (unsigned long)memory, (unsigned long)PAGE,
                    (unsigned long)SPANPROF_PROCESS_NAME);
        payload = text;
        header = memory;
        return 0;
}

static void publish(const Writer *writer) {
        uint64_t now_ns = boottime_ns(), last_ns = header->published_ns;

        __atomic_store_n(&header->published_ns, 0, __ATOMIC_RELAXED);
        __atomic_thread_fence(__ATOMIC_SEQ_CST);
        memcpy(payload, writer->to, writer->size);
        memcpy(header->signature, SPANPROF_PROCESS_SIGNATURE, sizeof(header->signature));
        header->version = SPANPROF_PROCESS_VERSION;
        header->payload_size = (uint32_t)writer->size;
        header->payload = (uintptr_t)payload;
        __atomic_store_n(&header->published_ns, now_ns > last_ns ? now_ns : last_ns + 1, __ATOMIC_RELEASE);
}

int spanprof_otel_publish(const struct spanprof_otel_process *process) {
        Writer writer = { .to = malloc(SPANPROF_PROCESS_MAX_PAYLOAD), .room = SPANPROF_PROCESS_MAX_PAYLOAD };
        int r = 0;

        if (!writer.to)
                return -ENOMEM;
        put_resource(&writer, process);
        put_pair(&writer, 2, "threadlocal.schema_version", "tlsdesc_v1_dev");
        put_keys(&writer, process);
        pthread_mutex_lock(&lock);
        if (writer.full || process->size < sizeof(*process))
                r = writer.full ? -E2BIG : -EINVAL;
        else if (!header)
                r = map_header();
        if (!r)
                publish(&writer);
        pthread_mutex_unlock(&lock);
        free(writer.to);
        return r;
}

int otel_publish_empty(void) {
        struct spanprof_otel_process process = { .size = sizeof(process) };
        bool published;

        pthread_mutex_lock(&lock);
        published = header;
        pthread_mutex_unlock(&lock);
        return published ? 0 : spanprof_otel_publish(&process);
}
