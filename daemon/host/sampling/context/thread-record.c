/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The way to the record is the one of bpf/walk/context.bpf.h. Only pages that are there are read (pagemap),
 * so that no read waits for a server that the target has chosen.
 */
#include "host/sampling/context/thread-record.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "border/runtime_abi.h"
#include "border/tls_abi.h"
#include "host/sampling/context/goroutine-labels.h"
#include "host/sampling/process/memory.h"
#include "runtimes/node_walk.h"

enum {
        MAX_MODULE = 1 << 16,
        ADDRESS_BITS = TLS_IS_ABOVE ? 48 : 47,          /* addresses of a program's memory */
        ELASTIC_LAYOUT = 1,
        MAX_LABELS = 1 << 10,           /* labels of a set, for people to read */
};

void thread_memory_open(ThreadMemory *memory, pid_t pid, uint64_t start_time_ns,
                        const ThreadContext *thread) {
        char path[32];

        snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
        *memory = (ThreadMemory){ .thread = thread,
                                  .memory = memory_open(pid, start_time_ns),
                                  .pages = open(path, O_RDONLY | O_CLOEXEC) };
}

void thread_memory_close(ThreadMemory *memory) {
        closep(&memory->memory);
        closep(&memory->pages);
        *memory = (ThreadMemory){ .memory = -1, .pages = -1 };
}

static bool read_memory(const ThreadMemory *memory, uint64_t address, void *to, size_t size) {
        uint64_t entry, page_size = (uint64_t)sysconf(_SC_PAGESIZE);

        if (address >> ADDRESS_BITS || (address + size) >> ADDRESS_BITS)
                return false;
        for (uint64_t page = address / page_size; page <= (address + size - 1) / page_size; page++)
                if (pread(memory->pages, &entry, sizeof(entry), (off_t)(page * sizeof(entry))) !=
                            sizeof(entry) ||
                    !(entry >> 62))
                        return false;
        return pread(memory->memory, to, size, (off_t)address) == (ssize_t)size;
}

/*
 * The thread's block of the module that has the variable. Return: PRESENT, NONE = it has got none yet,
 * UNREADABLE.
 */
static ThreadLookOutcome find_block(const ThreadMemory *memory, uint64_t dtv, uint64_t *blockp) {
        const ThreadContext *thread = memory->thread;
        uint64_t n, size = thread->model == ABI_THREAD_MUSL ? 8 : 16;

        if (!thread->module || thread->module > MAX_MODULE ||
            !read_memory(memory, size == 16 ? dtv - 16 : dtv, &n, sizeof(n)))
                return THREAD_LOOK_UNREADABLE;
        if (thread->module > n)
                return THREAD_LOOK_NONE;
        if (!read_memory(memory, dtv + thread->module * size, blockp, sizeof(*blockp)))
                return THREAD_LOOK_UNREADABLE;
        return *blockp && *blockp != UINT64_MAX ? THREAD_LOOK_PRESENT : THREAD_LOOK_NONE;
}

static ThreadLookOutcome find_variable(const ThreadMemory *memory, uint64_t pointer, uint64_t *variablep) {
        const ThreadContext *thread = memory->thread;
        ThreadLookOutcome outcome;
        uint64_t head[2], base = pointer;
        int below = TLS_IS_ABOVE && thread->model == ABI_THREAD_MUSL ? TLS_DTV_MUSL : 0;

        if (!read_memory(memory, pointer + (uint64_t)below, head, sizeof(head)) ||
            (!TLS_IS_ABOVE && head[0] != pointer))
                return THREAD_LOOK_UNREADABLE;
        if (thread->model != ABI_THREAD_STATIC) {
                outcome = find_block(memory, head[!TLS_IS_ABOVE], &base);
                if (outcome != THREAD_LOOK_PRESENT)
                        return outcome;
        }
        *variablep = base + (uint64_t)thread->offset;
        return THREAD_LOOK_PRESENT;
}

NODE_PART bool node_read(const void *memory, void *to, uint32_t size, uint64_t from) {
        return read_memory(memory, from, to, size);
}

static ThreadLookOutcome find_record(const ThreadMemory *memory, uint64_t pointer, uint64_t *recordp) {
        static const ThreadLookOutcome ends[] = { [NODE_FOUND] = THREAD_LOOK_PRESENT,
                                                  [NODE_NO_SPAN] = THREAD_LOOK_NONE,
                                                  [NODE_MOVING] = THREAD_LOOK_INVALID,
                                                  [NODE_UNREADABLE] = THREAD_LOOK_UNREADABLE };
        uint64_t variable;
        ThreadLookOutcome outcome = find_variable(memory, pointer, &variable);

        if (outcome != THREAD_LOOK_PRESENT)
                return outcome;
        if (memory->thread->form == ABI_FORM_NODE)
                return ends[node_find_record(memory, &memory->thread->node, variable, recordp)];
        if (!read_memory(memory, variable, recordp, sizeof(*recordp)))
                return THREAD_LOOK_UNREADABLE;
        return *recordp ? THREAD_LOOK_PRESENT : THREAD_LOOK_NONE;
}

static uint64_t get_be64(const uint8_t *from) {
        uint64_t value = 0;

        for (int i = 0; i < 8; i++)
                value = value << 8 | from[i];
        return value;
}

static void take_ids(const uint8_t *ids, ThreadLook *look) {
        look->span = (struct abi_span){ get_be64(ids), get_be64(ids + 8), get_be64(ids + 16) };
        look->outcome = look->span.trace_high | look->span.trace_low | look->span.span ? THREAD_LOOK_PRESENT
                                                                                       : THREAD_LOOK_NONE;
}

static void read_otel(const ThreadMemory *memory, uint64_t address, ThreadLook *look) {
        struct spanprof_thread_record *record = &look->head;

        look->outcome = THREAD_LOOK_UNREADABLE;
        if (!read_memory(memory, address, record, sizeof(*record)))
                return;
        look->outcome = THREAD_LOOK_INVALID;
        if (record->valid != SPANPROF_THREAD_VALID)
                return;
        take_ids(record->trace_id, look);
        if (record->attributes_size && record->attributes_size <= sizeof(look->attributes) &&
            read_memory(memory, address + sizeof(*record), look->attributes, record->attributes_size))
                look->attributes_size = record->attributes_size;
}

static bool read_string(const ThreadMemory *memory, const uint64_t *words, uint8_t *to) {
        return !words[0] || read_memory(memory, words[1], to, words[0]);
}

/*
 * A set of labels {address, number, room}; each is {size, address} of its key, then of its value. Those that
 * fit are kept as samples have them (goroutine-labels.h), and their ids become the span.
 */
static void read_labels(const ThreadMemory *memory, uint64_t address, ThreadLook *look) {
        uint64_t set[3], label[4];
        GoroutineContext context;
        size_t size = GO_HEADER_SIZE;

        look->outcome = THREAD_LOOK_UNREADABLE;
        if (!read_memory(memory, address, set, sizeof(set)) || set[1] > set[2] || set[2] > MAX_LABELS)
                return;
        memset(look->attributes, 0, GO_HEADER_SIZE);
        for (uint64_t i = 0; i < set[1]; i++) {
                uint8_t *to = look->attributes + size;

                if (!read_memory(memory, set[0] + i * sizeof(label), label, sizeof(label)))
                        return;
                if (!label[1] || !label[0] || label[0] > GO_MAX_STRING || label[2] > GO_MAX_STRING ||
                    size + 2 + label[0] + label[2] > sizeof(look->attributes) ||
                    !read_string(memory, label, to + 2) || !read_string(memory, label + 2, to + 2 + label[0]))
                        continue;
                to[0] = (uint8_t)label[0];
                to[1] = (uint8_t)label[2];
                size += 2 + label[0] + label[2];
        }
        goroutine_context_read(look->attributes, size, false, &context);
        look->span = context.span;
        look->outcome = context.span.span ? THREAD_LOOK_PRESENT : THREAD_LOOK_NONE;
        look->attributes_size = (uint16_t)context.attributes_size;
        memcpy(look->attributes, context.attributes, context.attributes_size);
}

/* u16 layout, u8 valid, u8 trace present, u8 flags, ids. */
static void read_elastic(const ThreadMemory *memory, uint64_t address, ThreadLook *look) {
        uint8_t record[29];

        look->outcome = THREAD_LOOK_UNREADABLE;
        if (!read_memory(memory, address, record, sizeof(record)) ||
            (record[0] | record[1] << 8) != ELASTIC_LAYOUT)
                return;
        look->outcome = THREAD_LOOK_INVALID;
        if (!record[2])
                return;
        look->outcome = THREAD_LOOK_NONE;
        if (record[3])
                take_ids(record + 5, look);
}

void thread_record_read(const ThreadMemory *memory, uint64_t pointer, ThreadLook *look) {
        uint64_t record;

        look->attributes_size = 0;
        look->record = 0;
        look->is_changed = false;
        look->outcome = find_record(memory, pointer, &record);
        if (look->outcome == THREAD_LOOK_PRESENT)
                look->record = record;
        if (look->outcome == THREAD_LOOK_PRESENT && memory->thread->form == ABI_FORM_ELASTIC)
                read_elastic(memory, record, look);
        else if (look->outcome == THREAD_LOOK_PRESENT && memory->thread->form == ABI_FORM_LABELS)
                read_labels(memory, record, look);
        else if (look->outcome == THREAD_LOOK_PRESENT)
                read_otel(memory, record, look);
}
