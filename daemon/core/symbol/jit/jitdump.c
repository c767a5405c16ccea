/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     "DTiJ" version 1, header size, machine, –, pid, time, flags            40 bytes
 *     0 load   size time | pid tid vma address size index | name\0 | code    any length
 *     1 move   size time | pid tid vma from to size index
 *     2 line numbers, 4 unwinding, any other                                 passed over by their size
 *     3 close
 */
#include "core/symbol/jit/jitdump.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/data/cursor.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

#define MAGIC UINT32_C(0x4A695444)              /* "JiTD" as a number of the writer's byte order */
#define FLAG_CPU_CLOCK UINT64_C(1)

enum {
        HEADER_SIZE = 40,
        MAX_HEADER = 4096,
        PREFIX_SIZE = 16,
        MOVE_SIZE = PREFIX_SIZE + 48,
        CODE_LOAD = 0,
        CODE_MOVE = 1,
        CODE_CLOSE = 3,
};

typedef struct Record {
        uint32_t id, size;
        uint64_t time_ns;
} Record;

static bool is_range(uint64_t start, uint64_t size) {
        return size && start + size >= start;
}

/* Keeps bytes until there are @wanted of them. Return: whether there are. */
static bool collect(JitdumpReader *jitdump, Cursor *cursor, size_t wanted) {
        size_t n = MIN(wanted - MIN(wanted, jitdump->size), cursor_left(cursor));

        memcpy(jitdump->record + jitdump->size, cursor_take(cursor, n), n);
        jitdump->size += n;
        return jitdump->size >= wanted;
}

static int take_header(JitdumpReader *jitdump) {
        Cursor cursor = cursor_make(jitdump->record, HEADER_SIZE);
        uint32_t magic = cursor_u32(&cursor), version = cursor_u32(&cursor), size = cursor_u32(&cursor);

        cursor_take(&cursor, 20);       /* machine, padding, pid, time */
        if (magic != MAGIC || version != 1 || size < HEADER_SIZE || size > MAX_HEADER)
                return JITDUMP_E_BROKEN;
        jitdump->has_cpu_clock = cursor_u64(&cursor) & FLAG_CPU_CLOCK;
        jitdump->has_header = true;
        jitdump->skip = size - HEADER_SIZE;
        jitdump->size = 0;
        return 0;
}

/* A name up to its NUL, or the longest, or the record's end. Return: whether it is there. */
static bool collect_name(JitdumpReader *jitdump, Cursor *cursor, const Record *record) {
        size_t most = MIN(record->size, (size_t)JITDUMP_MAX_RECORD) - jitdump->size,
               n = MIN(most, cursor_left(cursor));
        const uint8_t *data = cursor->data + cursor->at, *nul = n ? memchr(data, 0, n) : NULL;

        if (nul)
                n = (size_t)(nul - data) + 1;
        collect(jitdump, cursor, jitdump->size + n);
        return nul || n == most;
}

/* How much of a record is needed. Of code that is moved or passed over nothing follows. */
static size_t needed(const Record *record) {
        if (record->id == CODE_LOAD)
                return MIN(record->size, (size_t)JITDUMP_HEAD);
        return record->id == CODE_MOVE ? MIN(record->size, (size_t)MOVE_SIZE) : PREFIX_SIZE;
}

static uint64_t record_time(const JitdumpReader *jitdump, const Record *record) {
        return jitdump->has_cpu_clock ? 0 : record->time_ns;
}

static int take_load(JitdumpReader *jitdump, const Record *record, CodeRecordSink sink, void *userdata) {
        Cursor cursor = cursor_make(jitdump->record + PREFIX_SIZE, jitdump->size - PREFIX_SIZE);
        CodeRange range = { .time_ns = record_time(jitdump, record) };
        uint64_t index, rest;

        /* pid and tid, as the writer knows them; vma, which is the address again */
        cursor_take(&cursor, 16);
        range.start = cursor_u64(&cursor);
        range.size = cursor_u64(&cursor);
        index = cursor_u64(&cursor);
        if (cursor.failed || !is_range(range.start, range.size))
                return JITDUMP_E_BROKEN;
        range.name = (const char *)cursor.data + cursor.at;
        range.name_size = strnlen(range.name, cursor_left(&cursor));
        rest = record->size - JITDUMP_HEAD;     /* the name, its NUL, the code */
        if (!range.name_size || range.name_size >= rest || range.size > rest - range.name_size - 1)
                return JITDUMP_E_BROKEN;
        range.name_size = MIN(range.name_size, (size_t)CODE_MAX_NAME);
        return sink(userdata, &(CodeRecord){ .range = range, .index = index });
}

static int take_move(JitdumpReader *jitdump, const Record *record, CodeRecordSink sink, void *userdata) {
        Cursor cursor = cursor_make(jitdump->record + PREFIX_SIZE, jitdump->size - PREFIX_SIZE);
        CodeRecord move = { .is_move = true, .range.time_ns = record_time(jitdump, record) };

        cursor_take(&cursor, 16);
        move.from = cursor_u64(&cursor);
        move.range.start = cursor_u64(&cursor);
        move.range.size = cursor_u64(&cursor);
        move.index = cursor_u64(&cursor);
        if (cursor.failed || !is_range(move.range.start, move.range.size))
                return JITDUMP_E_BROKEN;
        return sink(userdata, &move);
}

/* A record that makes no sense in itself has a size all the same. */
static int take_record(JitdumpReader *jitdump, const Record *record, CodeRecordSink sink, void *userdata) {
        int r = 0;

        jitdump->n_records++;
        if (record->id == CODE_CLOSE)
                return JITDUMP_E_CLOSED;
        if (record->id == CODE_LOAD)
                r = take_load(jitdump, record, sink, userdata);
        else if (record->id == CODE_MOVE)
                r = take_move(jitdump, record, sink, userdata);
        if (r != JITDUMP_E_BROKEN)
                return r;
        jitdump->n_malformed++;
        return 0;
}

enum { MORE = 3 };

/* Return: 0 = there is all that is needed of one; JITDUMP_E_BROKEN; MORE = not yet. */
static int next_record(JitdumpReader *jitdump, Cursor *cursor, Record *record) {
        Cursor prefix = cursor_make(jitdump->record, PREFIX_SIZE);

        if (!collect(jitdump, cursor, PREFIX_SIZE))
                return MORE;
        record->id = cursor_u32(&prefix);
        record->size = cursor_u32(&prefix);
        record->time_ns = cursor_u64(&prefix);
        if (record->size < PREFIX_SIZE)
                return JITDUMP_E_BROKEN;
        if (jitdump->size < needed(record) && !collect(jitdump, cursor, needed(record)))
                return MORE;
        if (record->id == CODE_LOAD && !collect_name(jitdump, cursor, record))
                return MORE;
        return 0;
}

static void pass_over(JitdumpReader *jitdump, Cursor *cursor) {
        size_t n = MIN(jitdump->skip, cursor_left(cursor));

        cursor_take(cursor, n);
        jitdump->skip -= n;
}

static int feed(JitdumpReader *jitdump, Cursor *cursor, CodeRecordSink sink, void *userdata) {
        Record record;
        int r = 0;

        if (!jitdump->has_header)
                return collect(jitdump, cursor, HEADER_SIZE) ? take_header(jitdump) : 0;
        r = next_record(jitdump, cursor, &record);
        if (r)
                return r == MORE ? 0 : r;
        jitdump->skip = record.size - jitdump->size;
        r = take_record(jitdump, &record, sink, userdata);
        jitdump->size = 0;
        return r;
}

int jitdump_read(JitdumpReader *jitdump, const void *data, size_t size, CodeRecordSink sink, void *userdata) {
        Cursor cursor = cursor_make(data, size);
        int r = jitdump->end;

        while (!r && cursor_left(&cursor)) {
                pass_over(jitdump, &cursor);
                if (cursor_left(&cursor))
                        r = feed(jitdump, &cursor, sink, userdata);
        }
        if (r == JITDUMP_E_BROKEN && !jitdump->end)
                jitdump->n_malformed++;
        jitdump->end = r;
        return r;
}

uint64_t jitdump_skip(JitdumpReader *jitdump) {
        uint64_t skip = jitdump->skip;

        jitdump->skip = 0;
        return skip;
}

/* ---- what records mean ---- */

void jitdump_deinit(Jitdump *jitdump) {
        for (size_t i = 0; jitdump->codes.codes && i < JITDUMP_MAX_MOVED; i++)
                free(jitdump->codes.codes[i].name);
        free(jitdump->codes.codes);
        *jitdump = (Jitdump){ 0 };
}

/* Remembers loaded code for a move, which tells neither a name nor an old address that could be believed. */
static int remember(JitdumpCodes *codes, uint64_t index, const CodeRange *range) {
        JitdumpCode *code;
        char *name;

        if (!codes->codes)
                codes->codes = calloc(JITDUMP_MAX_MOVED, sizeof(*codes->codes));
        name = malloc(range->name_size);
        if (!codes->codes || !name) {
                free(name);
                return error_origin(-ENOMEM);
        }
        memcpy(name, range->name, range->name_size);
        code = &codes->codes[index % JITDUMP_MAX_MOVED];
        free(code->name);
        *code = (JitdumpCode){ index, range->start, range->size, name, range->name_size };
        return 0;
}

int jitdump_resolve(JitdumpCodes *codes, const CodeRecord *record, CodeSink sink, void *userdata) {
        JitdumpCode *code = codes->codes ? &codes->codes[record->index % JITDUMP_MAX_MOVED] : NULL;
        CodeRange range = record->range;
        int r;

        if (!record->is_move) {
                r = sink(userdata, &range);
                return r ? r : remember(codes, record->index, &range);
        }
        if (!code || !code->name || code->index != record->index || code->start != record->from ||
            code->size != range.size) {
                codes->n_unknown++;
                return 0;
        }
        range.name = code->name;
        range.name_size = code->name_size;
        code->start = range.start;
        return sink(userdata, &range);
}

typedef struct Feeding {
        JitdumpCodes *codes;
        CodeSink sink;
        void *userdata;
} Feeding;

static int resolve(void *userdata, const CodeRecord *record) {
        const Feeding *feeding = userdata;

        return jitdump_resolve(feeding->codes, record, feeding->sink, feeding->userdata);
}

int jitdump_feed(Jitdump *jitdump, const void *data, size_t size, CodeSink sink, void *userdata) {
        Feeding feeding = { &jitdump->codes, sink, userdata };
        int r = jitdump_read(&jitdump->reader, data, size, resolve, &feeding);

        jitdump->n_records = jitdump->reader.n_records;
        jitdump->n_malformed = jitdump->reader.n_malformed + jitdump->codes.n_unknown;
        return r;
}
