/* SPDX-License-Identifier: Apache-2.0 */

/*
 * An interpreted frame has the offset of its bytecode:
 *
 *     SharedFunctionInfo ─▶ BytecodeArray ─▶ source positions ─▶ place in the script
 *
 * Code made at run time is known by its pc, not by its function, which may have got other code since:
 *
 *     pc 7f..1a48      back to 7f..1a40, 7f..1a00 …: the words in front of one lead to a Code that says that
 *                      its instructions begin there, and are long enough
 *     baseline         ─▶ bytecode, by a table of its steps (v8-baseline.c), as above
 *     Code             ─▶ deoptimization data ─▶ its function: must be that of the frame
 *                      ─▶ source positions ─▶ place, and which inlined function it is in
 *     inlined          ─▶ function, and the place of its call ─▶ … ─▶ the function itself
 *     exit             a caller whose code was thrown away returns behind its instructions, to an exit that
 *                      stands for the place of its call
 *
 * Which word of a BytecodeArray's header has the positions is not exported. Among those that are arrays of
 * bytes it is the one that can be such a table; where two can, the one that was it more often.
 *
 * Code of regular expressions and of WebAssembly is no function's. Its frame says which of them it is; which
 * expression, or which function of a module, is not read.
 *
 * A SharedFunctionInfo may be moved, and another object take its place. The sample has a cookie of what was
 * there, which is compared before everything is read and after.
 */
#include "host/runtime/v8/v8-code.h"

#include <stdlib.h>
#include <string.h>

#include "core/base/util/macro.h"
#include "host/runtime/v8/v8-position.h"

enum {
        LINE = 64,                      /* code begins at a multiple of it */
        MAX_CODE = 1 << 20,             /* bytes of one code that are searched for its begin */
        NEAR = 64 << 10,                /* bytes in which a header with another map counts, too */
        MAX_BYTECODE = 1 << 26,
        WORD = 8,
        MAX_DATA_STEPS = 4,             /* objects between a SharedFunctionInfo and its bytecode */
        INFO_DATA = 8,                  /* in a SharedFunctionInfo: bytecode, or what leads there */
        NEXT_DATA = 8,                  /* in what leads there: the next one */
        MAX_DEOPT = 64,                 /* words of deoptimization data in front of its entries */
        MAX_LITERALS = 1 << 16,
        INLINING_SIZE = 16,             /* bytes of an inlining position: word, literal, padding */
        /* indices in the deoptimization data of releases that do not export them */
        OLD_LITERALS = 2, OLD_INFO = 6, OLD_POSITIONS = 7,
        /* behind the index of the positions: what leads from an exit to the place that it stands for */
        EXIT_START = 1, N_EAGER = 2, N_LAZY = 3, FIRST_EXIT = 4,
        EXIT_WORDS = 3, EXIT_PC = 2, EXIT_SIZE = 4,
        TAGGED = 1,
};

typedef struct Frame {
        bool is_interpreted, is_exact;
        uint64_t pc, info, cookie;
        uint32_t offset;
} Frame;

static Frame frame_of(const uint64_t *words) {
        return (Frame){ .is_interpreted = words[0] >> RUNTIME_KIND_SHIFT == RUNTIME_V8_INTERPRETED,
                        .is_exact = words[2] & V8_PC_EXACT,
                        .pc = words[0] & RUNTIME_ADDRESS_MASK,
                        .info = words[1] & ((1ull << V8_COOKIE_SHIFT) - 1),
                        .cookie = words[1] >> V8_COOKIE_SHIFT | (words[2] >> 32) << 16,
                        .offset = (uint32_t)words[2] & ~V8_PC_EXACT };
}

/* Whether the function at @frame->info is the one that the sample has met there. */
static bool read_info(const V8Reader *reader, const Frame *frame, V8Object *info) {
        uint64_t words[3];

        return frame->info && v8_object_of(reader, frame->info | TAGGED, V8_TYPE_INFO, info) &&
                info->address == frame->info &&
                v8_read(reader, frame->info + (uint64_t)v8_value(reader, V8_INFO_LENGTH), words,
                        sizeof(words)) &&
                v8_cookie(words, v8_value(reader, V8_HAS_UNIQUE_ID)) == frame->cookie;
}

/* ---- tables ---- */

static bool is_bytes(const V8Reader *reader, const V8Object *object) {
        return object->type == v8_value(reader, V8_TYPE_BYTES) ||
                (v8_value(reader, V8_TYPE_TRUSTED_BYTES) &&
                 object->type == v8_value(reader, V8_TYPE_TRUSTED_BYTES));
}

static bool is_array(const V8Reader *reader, const V8Object *object) {
        static const V8Field types[] = { V8_TYPE_ARRAY, V8_TYPE_TRUSTED_ARRAY, V8_TYPE_PROTECTED_ARRAY,
                                         V8_TYPE_WEAK_ARRAY, V8_TYPE_TRUSTED_WEAK_ARRAY,
                                         V8_TYPE_PROTECTED_WEAK_ARRAY };

        for (size_t i = 0; i < ARRAY_SIZE(types); i++)
                if (v8_value(reader, types[i]) && object->type == v8_value(reader, types[i]))
                        return true;
        return false;
}

/* Reads an array of bytes into learnt->table. */
static bool read_bytes(const V8Reader *reader, V8Learnt *learnt, const V8Object *bytes, int32_t *sizep) {
        return is_bytes(reader, bytes) && v8_length_of(reader, bytes, sizeof(learnt->table), sizep) &&
                (!*sizep || v8_read(reader, bytes->address + (uint64_t)v8_value(reader, V8_ARRAY_DATA),
                                    learnt->table, (size_t)*sizep));
}

/* ---- bytecode ---- */

/* Goes to the bytecode from what a SharedFunctionInfo, or baseline code, leads to. */
static bool follow_bytecode(const V8Reader *reader, V8Object object, V8Object *bytecode) {
        for (unsigned i = 0; i < MAX_DATA_STEPS; i++) {
                if (object.type == v8_value(reader, V8_TYPE_BYTECODE)) {
                        *bytecode = object;
                        return true;
                }
                if (!v8_object_in(reader, &object,
                                  object.type == v8_value(reader, V8_TYPE_CODE)
                                          ? v8_value(reader, V8_CODE_DEOPT)
                                          : NEXT_DATA,
                                  &object))
                        return false;
        }
        return false;
}

static bool find_bytecode(const V8Reader *reader, const V8Object *info, V8Object *bytecode) {
        V8Object object;

        return v8_object_in(reader, info, INFO_DATA, &object) && follow_bytecode(reader, object, bytecode);
}

typedef struct Range {
        int32_t start, end;             /* places of the function in its script */
        int32_t length;                 /* bytes of bytecode */
} Range;

/* Whether the word at @offset in the header leads to a table of positions; then it is in learnt->table. */
static bool is_table(const V8Reader *reader, V8Learnt *learnt, const V8Object *bytecode, int32_t offset,
                     const Range *range, int32_t *sizep) {
        V8Extent extent;
        V8Object bytes;

        return v8_object_in(reader, bytecode, offset, &bytes) && read_bytes(reader, learnt, &bytes, sizep) &&
                v8_position_extent(learnt->table, (size_t)*sizep, reader->layout->version[0], &extent) &&
                extent.last_code < range->length && extent.low >= range->start && extent.high <= range->end;
}

/* Finds the table of a BytecodeArray. Return: whether it is in learnt->table. */
static bool find_table(const V8Reader *reader, V8Learnt *learnt, const V8Object *bytecode, const Range *range,
                       int32_t *sizep) {
        int32_t best = 0, end = v8_value(reader, V8_BYTECODE_DATA);

        for (int32_t at = 2 * WORD; at + WORD <= end && at < (int32_t)ARRAY_SIZE(learnt->votes) * WORD;
             at += WORD)
                if (is_table(reader, learnt, bytecode, at, range, sizep) &&
                    (!best || learnt->votes[at / WORD] > learnt->votes[best / WORD]))
                        best = at;
        if (!best || !is_table(reader, learnt, bytecode, best, range, sizep))
                return false;
        learnt->votes[best / WORD]++;
        return true;
}

/* The place of a bytecode in the script; -1 = not known. @index: from the first one on. */
static int32_t place_of_bytecode(const V8Reader *reader, V8Learnt *learnt, const V8Object *info,
                                 int32_t index, const V8Object *bytecode) {
        Range range = { 0, INT32_MAX, 0 };
        V8Position position;
        int32_t size;

        v8_function_range(reader, info, &range.start, &range.end);
        if (!v8_length_of(reader, bytecode, MAX_BYTECODE, &range.length) || index < 0 ||
            index >= range.length || !find_table(reader, learnt, bytecode, &range, &size) ||
            !v8_position_find(learnt->table, (size_t)size, reader->layout->version[0], index, &position))
                return -1;
        return position.script_offset;
}

static int32_t place_of_interpreted(const V8Reader *reader, V8Learnt *learnt, const V8Object *info,
                                    uint32_t offset) {
        int64_t index = (int64_t)offset - (v8_value(reader, V8_BYTECODE_DATA) - TAGGED);
        V8Object bytecode;

        if (offset == V8_NO_OFFSET || index < 0 || index > MAX_BYTECODE ||
            !find_bytecode(reader, info, &bytecode))
                return -1;
        return place_of_bytecode(reader, learnt, info, (int32_t)index, &bytecode);
}

/* ---- code ---- */

typedef struct Code {
        V8Object object;
        uint64_t begin;
        uint32_t kind;
} Code;

static bool read_code(const V8Reader *reader, const V8Object *object, uint64_t begin, uint64_t pc,
                      Code *code) {
        uint32_t size, flags;
        uint64_t start = begin;

        if ((v8_value(reader, V8_CODE_START) &&
             !v8_word_of(reader, object, v8_value(reader, V8_CODE_START), &start)) ||
            start != begin ||
            !v8_read(reader, object->address + (uint64_t)v8_value(reader, V8_CODE_N_BYTES), &size,
                     sizeof(size)) ||
            pc - begin > size ||
            !v8_read(reader, object->address + (uint64_t)v8_value(reader, V8_CODE_FLAGS), &flags,
                     sizeof(flags)))
                return false;
        *code = (Code){ *object, begin, flags & (uint32_t)v8_value(reader, V8_KIND_MASK) };
        return true;
}

/* The Code whose instructions begin at @begin. @first: the word that its header begins with. */
static bool code_at(const V8Reader *reader, uint64_t begin, uint64_t first, uint64_t pc, Code *code) {
        uint64_t header = begin - (uint64_t)v8_value(reader, V8_CODE_HEADER), word;
        V8Object object;

        if (!v8_value(reader, V8_CODE_START))
                return v8_object_of(reader, header | TAGGED, V8_TYPE_CODE, &object) &&
                        object.address == header && read_code(reader, &object, begin, pc, code);
        return first & TAGGED && v8_read(reader, header + WORD, &word, sizeof(word)) && word & TAGGED &&
                v8_object_of(reader, word, V8_TYPE_CODE, &object) &&
                read_code(reader, &object, begin, pc, code);
}

/*
 * All code of a process has one map, which the first one that is met tells. So a pc that is in none costs a
 * comparison for each place.
 */
static bool find_code(const V8Reader *reader, V8Learnt *learnt, uint64_t pc, Code *code) {
        uint64_t header = (uint64_t)v8_value(reader, V8_CODE_HEADER), first;

        for (uint64_t begin = pc & ~(uint64_t)(LINE - 1); pc - begin < MAX_CODE && begin > header;
             begin -= LINE) {
                if (!v8_read(reader, begin - header, &first, sizeof(first)))
                        return false;
                if (!(first & TAGGED) || (learnt->header && first != learnt->header && pc - begin > NEAR))
                        continue;
                if (code_at(reader, begin, first, pc, code)) {
                        learnt->header = first;
                        return true;
                }
        }
        return false;
}

/* ---- optimised code ---- */

typedef struct Deopt {
        V8Object data, literals, positions;
        V8Object info;                  /* SharedFunctionInfo of the function itself */
        int32_t n_words, n_literals, n_positions;       /* n_positions: inlined calls */
} Deopt;

static int32_t index_or(const V8Reader *reader, V8Field field, int32_t old) {
        int32_t index = v8_value(reader, field);

        return index ? index : old;
}

static bool element(const V8Reader *reader, const V8Object *array, int32_t index, V8Object *to) {
        return v8_object_in(reader, array, v8_value(reader, V8_ARRAY_DATA) + index * WORD, to);
}

static bool read_own_info(const V8Reader *reader, Deopt *deopt) {
        int32_t wrapped = v8_value(reader, V8_DEOPT_WRAPPED);
        V8Object object;

        if (!element(reader, &deopt->data, wrapped ? wrapped : index_or(reader, V8_DEOPT_INFO, OLD_INFO),
                     &object))
                return false;
        if (object.type == v8_value(reader, V8_TYPE_WRAPPER) &&
            !v8_object_in(reader, &object, v8_value(reader, V8_WRAPPER_INFO), &object))
                return false;
        deopt->info = object;
        return object.type == v8_value(reader, V8_TYPE_INFO);
}

static bool read_deopt(const V8Reader *reader, const Code *code, Deopt *deopt) {
        int32_t n_bytes;

        if (!v8_object_in(reader, &code->object, v8_value(reader, V8_CODE_DEOPT), &deopt->data) ||
            !is_array(reader, &deopt->data) ||
            !v8_length_of(reader, &deopt->data, INT32_MAX / WORD - MAX_DEOPT, &deopt->n_words) ||
            deopt->n_words <= index_or(reader, V8_DEOPT_POSITIONS, OLD_POSITIONS) ||
            !element(reader, &deopt->data, index_or(reader, V8_DEOPT_LITERALS, OLD_LITERALS),
                     &deopt->literals) ||
            !is_array(reader, &deopt->literals) ||
            !v8_length_of(reader, &deopt->literals, MAX_LITERALS, &deopt->n_literals) ||
            !element(reader, &deopt->data, index_or(reader, V8_DEOPT_POSITIONS, OLD_POSITIONS),
                     &deopt->positions) ||
            !is_bytes(reader, &deopt->positions) ||
            !v8_length_of(reader, &deopt->positions, 1 << 20, &n_bytes))
                return false;
        deopt->n_positions = n_bytes / INLINING_SIZE;
        return read_own_info(reader, deopt);
}

/* The function of an inlined call, and the place that calls it. Return: whether it could be read. */
static bool read_inlined(const V8Reader *reader, const Deopt *deopt, int32_t id, V8Object *info,
                         V8Position *caller) {
        uint64_t words[INLINING_SIZE / WORD];
        int32_t literal;

        if (id < 0 || id >= deopt->n_positions ||
            !v8_read(reader, deopt->positions.address + (uint64_t)v8_value(reader, V8_ARRAY_DATA) +
                     (uint64_t)id * INLINING_SIZE, words, sizeof(words)))
                return false;
        *caller = v8_position_of(words[0]);
        literal = (int32_t)(uint32_t)words[1];
        if (literal == -1) {
                *info = deopt->info;
                return true;
        }
        return literal >= 0 && literal < deopt->n_literals &&
                element(reader, &deopt->literals, literal, info) &&
                info->type == v8_value(reader, V8_TYPE_INFO);
}

/* The functions at a place in optimised code. Return: whether all of them could be read. */
static bool name_inlined(const V8Reader *reader, V8Learnt *learnt, const Deopt *deopt, V8Position position,
                         V8Answer *answer) {
        while (position.inlining_id >= 0) {
                V8Position caller;
                V8Object info;

                if (answer->n + 1 >= V8_MAX_FUNCTIONS ||
                    !read_inlined(reader, deopt, position.inlining_id, &info, &caller) ||
                    caller.inlining_id >= position.inlining_id ||
                    !v8_function_read(reader, learnt->lines, &info, position.script_offset,
                                      &answer->functions[answer->n]))
                        return false;
                answer->n++;
                position = caller;
        }
        return v8_function_read(reader, learnt->lines, &deopt->info, position.script_offset,
                                &answer->functions[answer->n++]);
}

static bool number_at(const V8Reader *reader, const Deopt *deopt, int64_t index, int32_t *numberp) {
        uint64_t word;

        return index >= 0 && index < deopt->n_words &&
                v8_word_of(reader, &deopt->data, v8_value(reader, V8_ARRAY_DATA) + (int32_t)index * WORD,
                           &word) &&
                v8_small_number(word, numberp);
}

/* Goes from an exit to the call that returns there. Return: whether *offsetp is a place in the code. */
static bool leave_exit(const V8Reader *reader, const Deopt *deopt, int32_t *offsetp) {
        int64_t at = index_or(reader, V8_DEOPT_POSITIONS, OLD_POSITIONS), exit;
        int32_t start, n_eager, n_lazy, pc;

        if (!number_at(reader, deopt, at + EXIT_START, &start) || start <= 0 || *offsetp < start)
                return true;
        exit = (*offsetp - start) / EXIT_SIZE;
        if (!number_at(reader, deopt, at + N_EAGER, &n_eager) ||
            !number_at(reader, deopt, at + N_LAZY, &n_lazy) || exit >= (int64_t)n_eager + n_lazy ||
            !number_at(reader, deopt, at + FIRST_EXIT + exit * EXIT_WORDS + EXIT_PC, &pc) || pc <= 0 ||
            pc >= start)
                return false;
        *offsetp = pc;
        return true;
}

static bool position_of_code(const V8Reader *reader, V8Learnt *learnt, const Code *code, const Deopt *deopt,
                             const Frame *frame, V8Position *position) {
        int32_t offset = (int32_t)(frame->pc - code->begin), size;
        bool is_exact = frame->is_exact;
        V8Object bytes;

        if (!leave_exit(reader, deopt, &offset))
                return false;
        is_exact &= offset == (int32_t)(frame->pc - code->begin);
        offset -= !is_exact;
        return v8_object_in(reader, &code->object, v8_value(reader, V8_CODE_POSITIONS), &bytes) &&
                read_bytes(reader, learnt, &bytes, &size) &&
                v8_position_find(learnt->table, (size_t)size, reader->layout->version[0], offset, position);
}

static bool is_optimised(const V8Reader *reader, const Code *code) {
        return code->kind != (uint32_t)v8_value(reader, V8_KIND_BASELINE) &&
                code->kind != (uint32_t)v8_value(reader, V8_KIND_INTERPRETED);
}

/*
 * Names a frame of optimised code by its pc. Return: whether the code is there, is that of the frame's
 * function, and says which functions are in it.
 */
static bool name_optimised(const V8Reader *reader, V8Learnt *learnt, const Code *code, const Frame *frame,
                           V8Answer *answer) {
        V8Position position;
        Deopt deopt;

        answer->n = 0;
        return read_deopt(reader, code, &deopt) && (!frame->info || deopt.info.address == frame->info) &&
                position_of_code(reader, learnt, code, &deopt, frame, &position) &&
                name_inlined(reader, learnt, &deopt, position, answer);
}

/* ---- a frame ---- */

static int name_function(const V8Reader *reader, V8Learnt *learnt, const V8Object *info, int32_t place,
                         V8Answer *answer) {
        answer->n = 1;
        return v8_function_read(reader, learnt->lines, info, place, &answer->functions[0]) ? 0
                                                                                           : V8_CODE_E_GONE;
}

/* V8's table of sizes, which is searched for when frames need it. NULL = not known, or not yet. */
static const V8Sizes *sizes_of(V8Learnt *learnt) {
        if (!learnt->is_served)
                v8_sizes_find(learnt->fd, learnt->file_size, &learnt->searched, &learnt->sizes);
        learnt->is_late = learnt->fd >= 0 && learnt->searched < learnt->file_size;
        learnt->wants_sizes = learnt->is_late;
        return !learnt->is_late && learnt->sizes.n ? &learnt->sizes : NULL;
}

static int32_t place_of_baseline(const V8Reader *reader, V8Learnt *learnt, const Code *code,
                                 const Frame *frame, const V8Object *info) {
        const V8Sizes *sizes = sizes_of(learnt);
        V8Object object, bytecode;
        int32_t n_table, n, index;

        if (!sizes || !v8_object_in(reader, &code->object, v8_value(reader, V8_CODE_DEOPT), &object) ||
            !follow_bytecode(reader, object, &bytecode) ||
            !v8_length_of(reader, &bytecode, sizeof(learnt->bytecodes), &n) || !n ||
            !v8_read(reader, bytecode.address + (uint64_t)v8_value(reader, V8_BYTECODE_DATA),
                     learnt->bytecodes, (size_t)n) ||
            !v8_object_in(reader, &code->object, v8_value(reader, V8_CODE_POSITIONS), &object) ||
            !read_bytes(reader, learnt, &object, &n_table))
                return -1;
        index = v8_baseline_index(learnt->table, (size_t)n_table, learnt->bytecodes, (size_t)n, sizes,
                                  (uint32_t)(frame->pc - code->begin), frame->is_exact);
        return index < 0 ? -1 : place_of_bytecode(reader, learnt, info, index, &bytecode);
}

/* A copy of the interpreter runs the bytecode of the frame (--interpreted-frames-native-stack). */
static int32_t place_of_code(const V8Reader *reader, V8Learnt *learnt, const Code *code, const Frame *frame,
                             const V8Object *info) {
        return code->kind == (uint32_t)v8_value(reader, V8_KIND_INTERPRETED)
                ? place_of_interpreted(reader, learnt, info, frame->offset)
                : place_of_baseline(reader, learnt, code, frame, info);
}

/* Code that is no function's, by the field of the layout that has its kind of frame. */
static int name_marked(V8Field field, V8Answer *answer) {
        static const char *const names[] = { "(regular expression)", "(WebAssembly)",
                                             "(JavaScript to WebAssembly)", "(WebAssembly to JavaScript)" };

        answer->n = 1;
        memset(&answer->functions[0], 0, sizeof(answer->functions[0]));
        strcpy(answer->functions[0].name, names[field - V8_FRAME_REGEXP]);
        return 0;
}

/*
 * By the mark of a frame. A regular expression's code is a Code, whose kind is kept: its leaves may have no
 * frame yet.
 */
static int name_by_mark(const V8Reader *reader, V8Learnt *learnt, const Frame *frame, V8Answer *answer) {
        V8Field field = V8_FRAME_REGEXP;
        Code code;

        while (field <= V8_FRAME_FROM_WASM &&
               (!v8_value(reader, field) || frame->cookie != 2 * (uint64_t)v8_value(reader, field)))
                field++;
        if (field > V8_FRAME_FROM_WASM)
                return V8_CODE_E_GONE;
        if (field == V8_FRAME_REGEXP) {
                if (!find_code(reader, learnt, frame->pc, &code))
                        return V8_CODE_E_GONE;
                learnt->regexp_kind = code.kind + 1;
        }
        return name_marked(field, answer);
}

static int name_compiled(const V8Reader *reader, V8Learnt *learnt, const Frame *frame, const V8Object *info,
                         V8Answer *answer) {
        bool is_whole = false;
        int32_t place = -1;
        Code code;

        if (find_code(reader, learnt, frame->pc, &code)) {
                is_whole = !is_optimised(reader, &code);
                if (!is_whole && name_optimised(reader, learnt, &code, frame, answer))
                        return 0;
                if (!frame->info && code.kind + 1 == learnt->regexp_kind)
                        return name_marked(V8_FRAME_REGEXP, answer);
                if (is_whole && frame->info)
                        place = place_of_code(reader, learnt, &code, frame, info);
        }
        if (!frame->info || name_function(reader, learnt, info, place, answer))
                return V8_CODE_E_GONE;
        return is_whole ? 0 : V8_CODE_E_SHORT;
}

static int name_frame(const V8Reader *reader, V8Learnt *learnt, const Frame *frame, V8Answer *answer) {
        V8Object info = { 0 };

        if (frame->info && !read_info(reader, frame, &info))
                return V8_CODE_E_GONE;
        if (frame->is_interpreted)
                return frame->info
                        ? name_function(reader, learnt, &info,
                                        place_of_interpreted(reader, learnt, &info, frame->offset), answer)
                        : V8_CODE_E_GONE;
        return !frame->info && frame->cookie ? name_by_mark(reader, learnt, frame, answer)
                                             : name_compiled(reader, learnt, frame, &info, answer);
}

int v8_code_name(const V8Reader *given, V8Learnt *learnt, const uint64_t *words, V8Answer *answer) {
        const V8Reader reader = { given->read, given->userdata, given->layout, &learnt->pages };
        const Frame frame = frame_of(words);
        V8Object again;
        int r;

        answer->n = 0;
        v8_pages_forget(&learnt->pages);
        learnt->is_late = false;
        r = name_frame(&reader, learnt, &frame, answer);
        v8_pages_forget(&learnt->pages);
        if (r != V8_CODE_E_GONE && learnt->is_late)
                return V8_CODE_E_LATER;
        return r != V8_CODE_E_GONE && frame.info && !read_info(&reader, &frame, &again) ? V8_CODE_E_GONE : r;
}
