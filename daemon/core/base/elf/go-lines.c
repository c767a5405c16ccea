/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Streams of a function's record (go-values.h) tell the file and the line at each pc. Pcdata 2 tells which
 * inlined call the code is of: an index in the function's tree of them, or -1. An entry names the function,
 * and a pc of the function around it, whose line is the call's. That pc has an index of its own, and so on:
 *
 *     pc 0x40   line 12, index 1        entry 1: main.mid, pc 0x3c       main.mid at line 12
 *     pc 0x3c   line 27, index 0        entry 0: main.inl, pc 0x10       main.inl at line 27
 *     pc 0x10   line 41, index -1                                        the function itself, at line 41
 *
 * Around comes before within: a call that names one behind it in the tree is damaged, and ends the chain.
 *
 *     entry, Go 1.20 …:  u8 id, pad, i32 name, i32 pc, i32 start_line    before: 12 bytes, i32 name, i32 pc
 *
 * Trees are funcdata 3. These count from an address in runtime.firstmoduledata whose place in there changes
 * with versions. So the words behind the segments' addresses are tried: with the right one each entry of the
 * first trees begins with a name and lies in its function; if none has only such entries, no inlined call is
 * known.
 */
#include "core/base/elf/go-lines.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/elf/go-values.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        PCDATA_CALL = 2,
        FUNCDATA_TREE = 3,
        NO_OFFSET = 0xffffffff,
        MAX_DEPTH = 64,                 /* inlined calls in each other; compilers stop at some ten */
        TRIED = 256,                    /* functions with trees that are looked at to find where these are */
};

/* An entry of a tree. */
typedef struct Call {
        uint32_t name, pc, start_line;
} Call;

static bool is_new(const GoTable *table) {
        return (uint8_t)table->data[0] == GO_TABLE_MAGIC_120;
}

void go_lines_deinit(GoLines *lines) {
        image_bytes_deinit(&lines->trees);
        go_functions_deinit(&lines->functions);
}

/* A text in a part of the table. Return: whether it is there, with its end. */
static bool find_text(const GoTable *table, GoPart part, uint64_t at, const char **textp, uint16_t *np) {
        uint64_t room = table->parts[part + 1] - table->parts[part];
        const char *text = table->data + table->parts[part] + at;

        if (at >= room)
                return false;
        *np = (uint16_t)strnlen(text, MIN(room - at, (uint64_t)GO_MAX_NAME));
        *textp = text;
        return *np && *np < room - at;
}

/* Number @which of a record's offsets. Return: false = it has fewer, or none there. */
static bool find_offset(const GoTable *table, const GoRecord *record, uint32_t which, uint32_t *offsetp) {
        if (which >= record->n_pcdata + record->n_funcdata)
                return false;
        *offsetp = go_table_u32(table->data + table->parts[GO_FUNCTIONS] + record->at + which * UINT64_C(4));
        return true;
}

static bool find_pcdata(const GoTable *table, const GoRecord *record, uint32_t *streamp) {
        return record->n_pcdata > PCDATA_CALL && find_offset(table, record, PCDATA_CALL, streamp);
}

static bool find_tree(const GoTable *table, const GoRecord *record, uint32_t *offsetp) {
        return record->n_funcdata > FUNCDATA_TREE &&
                find_offset(table, record, record->n_pcdata + FUNCDATA_TREE, offsetp) &&
                *offsetp != NO_OFFSET;
}

/* Entry @index of the tree at @tree. Return: whether it is there. */
static bool read_call(const GoLines *lines, uint32_t tree, uint32_t index, Call *call) {
        bool new = is_new(&lines->functions.table);
        uint64_t size = new ? 16 : 20, at = tree + index * size;
        const char *data = lines->trees.data + at;

        if (at > lines->trees.size || size > lines->trees.size - at)
                return false;
        *call = (Call){ .name = go_table_u32(data + (new ? 4 : 12)),
                        .pc = go_table_u32(data + (new ? 8 : 16)),
                        .start_line = new ? go_table_u32(data + 12) : 0 };
        return true;
}

/* ---- where trees are ---- */

/* Whether all entries that a function's code names are sound. *np: how many there were. */
static bool is_sound(const GoLines *lines, const GoFunction *function, const GoRecord *record,
                     uint32_t *np) {
        const GoTable *table = &lines->functions.table;
        uint32_t stream, tree;
        GoValues values;

        if (!find_pcdata(table, record, &stream) || !find_tree(table, record, &tree) ||
            !go_values_init(&values, table, stream))
                return true;
        while (go_values_next(&values) && values.end <= function->size) {
                const char *name;
                uint16_t n;
                Call call;

                if (values.value < 0)
                        continue;
                (*np)++;
                if (!read_call(lines, tree, (uint32_t)values.value, &call) || call.pc >= function->size ||
                    !find_text(table, GO_NAMES, call.name, &name, &n) || (call.name && name[-1]))
                        return false;
        }
        return true;
}

static bool are_sound(const GoLines *lines) {
        const GoTable *table = &lines->functions.table;
        uint32_t n = 0, n_tried = 0;

        for (uint32_t i = 0; i < table->n && n_tried < TRIED; i++) {
                uint32_t before = n;
                GoFunction function;
                GoRecord record;

                if (!go_table_function(table, i, &function) || !go_table_record(table, i, &record))
                        continue;
                if (!is_sound(lines, &function, &record, &n))
                        return false;
                n_tried += n > before;
        }
        return n > 0;
}

/* Bytes from @address to the end of what the file has of its segment. Return: 0, IMAGE_E_*, -ENOMEM. */
static int take_trees(GoLines *lines, const ElfImage *image, uint64_t address, uint64_t max_bytes,
                      bool may_map) {
        _cleanup_(freep) Elf64_Phdr *segments = NULL;
        uint32_t n;
        int r = elf_image_segments(image, &segments, &n);

        if (r)
                return r < 0 ? error_fold(r) : r;
        for (uint32_t i = 0; i < n; i++) {
                uint64_t at = address - segments[i].p_vaddr;

                if (segments[i].p_type != PT_LOAD || at >= segments[i].p_filesz ||
                    segments[i].p_offset > UINT64_MAX - at)
                        continue;
                r = image_bytes_init(&lines->trees, image, segments[i].p_offset + at,
                                     MIN(segments[i].p_filesz - at, max_bytes), may_map);
                return r < 0 ? error_fold(r) : r;
        }
        return IMAGE_E_ABSENT;
}

int go_lines_init(GoLines *lines, const ElfImage *image, uint64_t max_bytes, bool may_map) {
        GoLines new = { 0 };
        int r = go_functions_init(&new.functions, image, 0, max_bytes, may_map);

        if (r)
                return r < 0 ? error_fold(r) : r;
        for (unsigned i = 0; i < GO_N_BASES; i++) {
                r = take_trees(&new, image, new.functions.bases[i], max_bytes, may_map);
                if (r < 0) {
                        go_lines_deinit(&new);
                        return error_fold(r);
                }
                if (!r && are_sound(&new))
                        break;
                image_bytes_deinit(&new.trees);
        }
        *lines = new;
        return 0;
}

/* ---- look-up ---- */

/* The last function that does not begin behind @start. Starts may be in no order: then any is found. */
static uint32_t search(const GoTable *table, uint32_t start) {
        uint32_t low = 0, left = table->n;

        while (left > 1) {
                uint32_t half = left / 2;

                if (go_table_start_of(table, low + half) <= start)
                        low += half;
                left -= half;
        }
        return low;
}

/* File and line at @pc. */
static void set_place(const GoTable *table, const GoRecord *record, uint32_t pc, GoLine *line) {
        uint64_t room = table->parts[GO_FILES] - table->parts[GO_UNITS], at;
        int32_t value;

        if (go_values_find(table, record->lines, pc, &value) && value > 0)
                line->line = (uint32_t)value;
        if (!go_values_find(table, record->files, pc, &value) || value < 0)
                return;
        at = ((uint64_t)record->unit + (uint32_t)value) * sizeof(uint32_t);
        if (at > room || room - at < sizeof(uint32_t) ||
            !find_text(table, GO_FILES, go_table_u32(table->data + table->parts[GO_UNITS] + at), &line->file,
                       &line->n_file))
                line->n_file = 0;
}

/*
 * The inlined call at @pc. *indexp: of the call that was inlined into it, which lies behind it in the tree.
 * Return: whether there is one.
 */
static bool find_call(const GoLines *lines, const GoRecord *record, uint32_t pc, int32_t *indexp,
                      Call *call) {
        const GoTable *table = &lines->functions.table;
        uint32_t stream, tree;
        int32_t index;

        if (!lines->trees.size || !find_pcdata(table, record, &stream) || !find_tree(table, record, &tree) ||
            !go_values_find(table, stream, pc, &index) || index < 0 || index >= *indexp)
                return false;
        *indexp = index;
        return read_call(lines, tree, (uint32_t)index, call);
}

size_t go_lines_find(const GoLines *lines, uint64_t address, GoLine *frames, size_t max) {
        const GoTable *table = &lines->functions.table;
        uint64_t start = address - lines->functions.text;
        GoFunction function;
        GoRecord record;
        int32_t last = INT32_MAX;
        uint32_t index, pc;
        size_t n = 0;

        if (!max || address < lines->functions.text || start > UINT32_MAX)
                return 0;
        index = search(table, (uint32_t)start);
        if (!go_table_function(table, index, &function) || start < function.start ||
            start - function.start >= function.size || !go_table_record(table, index, &record))
                return 0;
        pc = (uint32_t)start - function.start;
        for (unsigned i = 0; i < MAX_DEPTH; i++) {
                GoLine line = { 0 };
                Call call;

                if (!find_call(lines, &record, pc, &last, &call) || call.pc >= function.size)
                        break;
                set_place(table, &record, pc, &line);
                if (find_text(table, GO_NAMES, call.name, &line.name, &line.n_name) && n + 1 < max) {
                        line.start_line = call.start_line;
                        frames[n++] = line;
                }
                pc = call.pc;
        }
        frames[n] = (GoLine){ .name = function.name, .n_name = function.n_name,
                              .start_line = record.start_line };
        set_place(table, &record, pc, &frames[n]);
        return n + 1;
}
