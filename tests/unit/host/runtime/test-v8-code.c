/* SPDX-License-Identifier: Apache-2.0 */

/*
 * A heap of V8 12 made by hand, one object behind the other:
 *
 *     SharedFunctionInfo ─▶ ScopeInfo ─▶ names        Code ─▶ deoptimization data ─▶ literals, inlined calls
 *                        ─▶ Script ─▶ text
 *                        ─▶ BytecodeArray ─▶ source positions
 *
 * Its layout is that of node 22.23.5.
 */

#include <criterion/criterion.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/util/macro.h"
#include "host/runtime/v8/v8-code.h"
#include "v8-constants.h"

enum {
        BASE = 0x100000, ROOM = 1 << 18,
        CODE = BASE + 0x8000,           /* where code made at run time begins */
};

static uint8_t memory[ROOM];
static uint64_t at;
static V8Layout layout;
static V8Learnt learnt;
static V8Answer answer;
static uint64_t maps[512];              /* tagged, by instance type */

static bool read_memory(void *userdata, uint64_t address, void *to, size_t size) {
        if (address < BASE || address - BASE > ROOM || size > ROOM - (address - BASE))
                return false;
        memcpy(to, memory + (address - BASE), size);
        return true;
}

static const V8Reader reader = { read_memory, NULL, &layout, NULL };

static void put(uint64_t address, uint64_t word) {
        memcpy(memory + (address - BASE), &word, sizeof(word));
}

static uint64_t small(int64_t number) {
        return (uint64_t)number << 32;
}

/* Return: the tagged pointer to a new object of @n_words behind its map. */
static uint64_t object(uint16_t type, unsigned n_words) {
        uint64_t address;

        if (!maps[type]) {
                maps[type] = at | 1;
                memcpy(memory + (at - BASE) + 12, &type, sizeof(type));
                at += 16;
        }
        address = at;
        put(address, maps[type]);
        at += 8 * (1 + (uint64_t)n_words);
        return address | 1;
}

static void set(uint64_t tagged, uint64_t offset, uint64_t word) {
        put((tagged & ~3ull) + offset, word);
}

static uint64_t text(const char *bytes) {
        uint32_t n = (uint32_t)strlen(bytes);
        uint64_t string = object(8, 2 + n / 8);

        memcpy(memory + ((string & ~1ull) - BASE) + 12, &n, sizeof(n));
        memcpy(memory + ((string & ~1ull) - BASE) + 16, bytes, n);
        return string;
}

static uint64_t bytes(V8Field type, const void *data, size_t size) {
        uint64_t array = object((uint16_t)layout.values[type], 2 + (unsigned)size / 8);

        set(array, 8, small((int64_t)size));
        memcpy(memory + ((array & ~1ull) - BASE) + 16, data, size);
        return array;
}

static uint64_t array(V8Field type, unsigned n) {
        uint64_t made = object((uint16_t)layout.values[type], 1 + n);

        set(made, 8, small(n));
        return made;
}

/* Lines 1 to 4: characters 0 … 9, 10 … 19, 20 … 29, 30 … */
static uint64_t script(void) {
        static uint64_t made;

        if (made)
                return made;
        made = object((uint16_t)layout.values[V8_TYPE_SCRIPT], 12);
        set(made, 8, text("aaaaaaaaa\nbbbbbbbbb\nccccccccc\nddddddddd"));
        set(made, 16, text("file:///srv/app.js"));
        return made;
}

/* @name: "" = none; @inferred: NULL = undefined. */
static uint64_t scope(const char *name, const char *inferred, int start, int end) {
        uint64_t made = object((uint16_t)layout.values[V8_TYPE_SCOPE], 10);

        set(made, 8 + 3 * 8, text(name));
        set(made, 8 + 4 * 8, small(-1));
        set(made, 8 + 5 * 8, inferred ? text(inferred) : object(131, 1));
        set(made, 8 + 6 * 8, small(start));
        set(made, 8 + 7 * 8, small(end));
        return made;
}

static uint64_t function(uint64_t name, uint32_t id) {
        uint64_t made = object((uint16_t)layout.values[V8_TYPE_INFO], 9);

        set(made, 16, name);
        set(made, 32, script());
        set(made, 40, 0x0000000000010001ull);
        set(made, 48, (uint64_t)id << 32 | 0x1234);
        set(made, 56, id + 1000);
        return made;
}

/* Bytecode whose positions are, from bytecode 0 on place 11, from 4 on place 31. */
static uint64_t bytecode(void) {
        static const uint8_t handlers[16] = { 0xff, 0xff, 0xff }, positions[] = { 2, 48, 9, 80 };
        uint64_t made = object((uint16_t)layout.values[V8_TYPE_BYTECODE], 12);

        set(made, 8, small(10));
        set(made, 24, bytes(V8_TYPE_TRUSTED_BYTES, positions, sizeof(positions)));
        set(made, 32, bytes(V8_TYPE_TRUSTED_BYTES, handlers, sizeof(handlers)));
        return made;
}

static void frame(uint64_t words[3], enum runtime_kind kind, uint64_t pc, uint64_t info, uint32_t rest) {
        uint64_t numbers[3] = { 0 }, cookie;

        if (info)
                memcpy(numbers, memory + ((info & ~1ull) + 40 - BASE), sizeof(numbers));
        cookie = info ? v8_cookie(numbers, 1) : 0;
        words[0] = (uint64_t)kind << RUNTIME_KIND_SHIFT | pc;
        words[1] = (info & ~1ull) | cookie << V8_COOKIE_SHIFT;
        words[2] = (cookie >> 16) << 32 | rest;
}

static int name(const uint64_t *words) {
        return v8_code_name(&reader, &learnt, words, &answer);
}

static void setup(void) {
        char reason[V8_MAX_REASON];

        at = BASE + 0x100;
        layout = v8_constants_of_12();
        cr_assert_eq(v8_layout_finish(&layout, NULL, reason), 0, "%s", reason);
        learnt.lines = v8_lines_new();
        learnt.fd = -1;
}

static void teardown(void) {
        v8_lines_free(learnt.lines);
}

TestSuite(v8_code, .init = setup, .fini = teardown);

/* ---- interpreted ---- */

static uint64_t interpreted(uint64_t names) {
        uint64_t info = function(names, 7);

        set(info, 8, bytecode());
        return info;
}

/* The offset of a bytecode counts from the tagged pointer. */
static uint32_t offset_of(uint32_t index) {
        return 64 - 1 + index;
}

Test(v8_code, an_interpreted_function_has_the_line_of_its_bytecode) {
        uint64_t words[3], info = interpreted(scope("work", NULL, 10, 38));

        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, info, offset_of(0));
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.n, 1);
        cr_assert_str_eq(answer.functions[0].name, "work");
        cr_assert_str_eq(answer.functions[0].file, "/srv/app.js");
        cr_assert_eq(answer.functions[0].line, 2);
        cr_assert_eq(answer.functions[0].first_line, 2);
        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, info, offset_of(5));
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.functions[0].line, 4);
}

Test(v8_code, a_position_outside_of_the_bytecode_has_no_line) {
        uint64_t words[3], info = interpreted(scope("work", NULL, 10, 38));

        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, info, offset_of(10));
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.functions[0].line, 0);
        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, info, V8_NO_OFFSET);
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.functions[0].line, 0);
}

Test(v8_code, lines_that_v8_has_counted_are_believed) {
        uint64_t words[3], info = interpreted(scope("work", NULL, 10, 38)), ends = array(V8_TYPE_ARRAY, 2);

        set(ends, 16, small(5));
        set(ends, 24, small(99));
        set(script(), 56, ends);
        set(script(), 24, small(100));
        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, info, offset_of(0));
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.functions[0].line, 102, "the script's text begins at line 100");
}

Test(v8_code, a_function_without_a_name_has_the_inferred_one_or_its_place) {
        uint64_t words[3];

        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, interpreted(scope("", "holder.inner", 10, 38)),
              offset_of(0));
        cr_assert_eq(name(words), 0);
        cr_assert_str_eq(answer.functions[0].name, "holder.inner");
        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, interpreted(scope("", NULL, 21, 38)), offset_of(0));
        cr_assert_eq(name(words), 0);
        cr_assert_str_eq(answer.functions[0].name, "(anonymous app.js:3)");
}

static void check_file(uint64_t info, const char *url, const char *path) {
        uint64_t words[3];

        set(script(), 16, text(url));
        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, info, offset_of(0));
        cr_assert_eq(name(words), 0);
        cr_assert_str_eq(answer.functions[0].file, path);
}

Test(v8_code, a_url_of_a_file_becomes_its_path) {
        uint64_t info = interpreted(scope("work", NULL, 10, 38));

        check_file(info, "file:///srv/my%20app/na%C3%AFve.mjs", "/srv/my app/na\xc3\xafve.mjs");
        check_file(info, "file:///srv/50%", "/srv/50%");
        check_file(info, "file:///srv/%4", "/srv/%4");
        check_file(info, "file:///srv/%zz%2", "/srv/%zz%2");
        check_file(info, "file:///srv/%00a", "/srv/%00a");
        check_file(info, "file:///srv/%ff%20", "/srv/%ff%20");
        check_file(info, "/srv/%20.js", "/srv/%20.js");
        check_file(info, "node:fs", "node:fs");
}

Test(v8_code, names_are_made_of_pieces) {
        uint64_t words[3], pair = object(1 | 8, 4), part = object(3 | 8, 4), thin = object(5 | 8, 3);
        uint32_t length = 7, in_part = 3;

        memcpy(memory + ((part & ~1ull) - BASE) + 12, &in_part, sizeof(in_part));
        set(part, 16, text("xxfoo"));
        set(part, 24, small(2));
        memcpy(memory + ((pair & ~1ull) - BASE) + 12, &length, sizeof(length));
        set(pair, 16, part);
        set(pair, 24, text("\xe9tat"));
        memcpy(memory + ((thin & ~1ull) - BASE) + 12, &length, sizeof(length));
        set(thin, 16, pair);
        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, interpreted(thin), offset_of(0));
        cr_assert_eq(name(words), 0);
        cr_assert_str_eq(answer.functions[0].name, "fooétat", "%s", answer.functions[0].name);
}

/* ---- what is not there any more ---- */

Test(v8_code, a_function_that_has_moved_is_gone) {
        uint64_t words[3], info = interpreted(scope("work", NULL, 10, 38));

        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, info, offset_of(0));
        put(info & ~1ull, at);          /* its new address, in place of its map */
        memcpy(memory + (at - BASE), memory + ((info & ~1ull) - BASE), 80);
        put(at, maps[layout.values[V8_TYPE_INFO]]);
        cr_assert_eq(name(words), V8_CODE_E_GONE);
}

Test(v8_code, another_function_in_its_place_is_not_named) {
        uint64_t words[3], info = interpreted(scope("work", NULL, 10, 38));

        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, info, offset_of(0));
        set(info, 56, 4711);
        cr_assert_eq(name(words), V8_CODE_E_GONE);
}

Test(v8_code, another_object_in_its_place_is_not_named) {
        uint64_t words[3], info = interpreted(scope("work", NULL, 10, 38));

        frame(words, RUNTIME_V8_INTERPRETED, 0x4000, info, offset_of(0));
        put(info & ~1ull, maps[layout.values[V8_TYPE_SCRIPT]]);
        cr_assert_eq(name(words), V8_CODE_E_GONE);
}

/* ---- compiled ---- */

static uint64_t deopt_data;             /* of the last code() */

/* Code of 256 bytes at CODE, of the function @own, into whose bytes 16 … @inner was inlined. */
static uint64_t code(uint64_t own, uint64_t inner, uint32_t kind) {
        /* code 0: place 11; code 16: place 31 in the inlined call 0 */
        static const uint8_t positions[] = { 2, 48, 32, 80 | 0x80, 0x80, 0x80, 0x80, 0x10 };
        uint64_t made = object((uint16_t)layout.values[V8_TYPE_CODE], 8),
                 data = array(V8_TYPE_PROTECTED_ARRAY, 20);
        uint64_t literals = array(V8_TYPE_TRUSTED_ARRAY, 2);
        const uint64_t inlining[] = { (21 + 1) << 1, 1 };      /* called from place 21; literal 1 */

        object((uint16_t)layout.values[V8_TYPE_STREAM], 1);
        put(CODE - 32, maps[layout.values[V8_TYPE_STREAM]]);
        put(CODE - 24, made);
        set(made, 8, data);
        set(made, 16, bytes(V8_TYPE_TRUSTED_BYTES, positions, sizeof(positions)));
        set(made, 40, CODE);
        set(made, 48, (uint64_t)256 << 32 | kind);
        set(data, 16 + 2 * 8, literals);
        set(data, 16 + 6 * 8, own);
        set(data, 16 + 7 * 8, bytes(V8_TYPE_TRUSTED_BYTES, inlining, sizeof(inlining)));
        set(literals, 16 + 8, inner | 2);
        deopt_data = data;
        return made;
}

Test(v8_code, inlined_functions_come_first) {
        uint64_t own = function(scope("outer", NULL, 10, 38), 7),
                 inner = function(scope("inner", NULL, 30, 38), 8);
        uint64_t words[3];

        code(own, inner, 13);
        frame(words, RUNTIME_V8_COMPILED, CODE + 100, own, V8_NO_OFFSET);
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.n, 2);
        cr_assert_str_eq(answer.functions[0].name, "inner");
        cr_assert_eq(answer.functions[0].line, 4);
        cr_assert_str_eq(answer.functions[1].name, "outer");
        cr_assert_eq(answer.functions[1].line, 3);
}

/* Exits of four bytes each from byte 200 on: one for a place that has no call, two for calls. */
Test(v8_code, a_caller_that_has_lost_its_code_is_where_its_exit_says) {
        static const struct {
                uint32_t pc;
                int said;
                uint32_t n, line;
        } rows[] = { { 100, 0, 2, 4 }, { 204, 0, 1, 2 }, { 208, 0, 2, 4 }, { 200, V8_CODE_E_SHORT, 1, 0 },
                     { 212, V8_CODE_E_SHORT, 1, 0 } };
        uint64_t own = function(scope("outer", NULL, 10, 38), 7),
                 inner = function(scope("inner", NULL, 30, 38), 8), words[3];

        code(own, inner, 13);
        set(deopt_data, 16 + 8 * 8, small(200));
        set(deopt_data, 16 + 9 * 8, small(1));
        set(deopt_data, 16 + 10 * 8, small(2));
        set(deopt_data, 16 + 13 * 8, small(-1));
        set(deopt_data, 16 + 16 * 8, small(10));
        set(deopt_data, 16 + 19 * 8, small(40));
        for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
                frame(words, RUNTIME_V8_COMPILED, CODE + rows[i].pc, own, V8_NO_OFFSET);
                cr_assert_eq(name(words), rows[i].said, "%u", rows[i].pc);
                cr_assert_eq(answer.n, rows[i].n, "%u", rows[i].pc);
                cr_assert_eq(answer.functions[0].line, rows[i].line, "%u", rows[i].pc);
        }
        /* no exit begins there: the place is the pc's own */
        set(deopt_data, 16 + 8 * 8, small(INT32_MIN));
        frame(words, RUNTIME_V8_COMPILED, CODE + 100, own, V8_NO_OFFSET);
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.n, 2);
        cr_assert_eq(answer.functions[0].line, 4);
}

Test(v8_code, a_return_address_belongs_to_the_call_before_it) {
        uint64_t own = function(scope("outer", NULL, 10, 38), 7),
                 inner = function(scope("inner", NULL, 30, 38), 8);
        uint64_t words[3];

        code(own, inner, 13);
        frame(words, RUNTIME_V8_COMPILED, CODE + 16, own, V8_NO_OFFSET);
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.n, 1);
        cr_assert_eq(answer.functions[0].line, 2);
        frame(words, RUNTIME_V8_COMPILED, CODE + 16, own, V8_NO_OFFSET | V8_PC_EXACT);
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.n, 2);
}

Test(v8_code, code_of_another_function_says_nothing_of_the_frames) {
        uint64_t own = function(scope("outer", NULL, 10, 38), 7),
                 inner = function(scope("inner", NULL, 30, 38), 8);
        uint64_t words[3];

        code(own, inner, 13);
        frame(words, RUNTIME_V8_COMPILED, CODE + 100, inner, V8_NO_OFFSET);
        cr_assert_eq(name(words), V8_CODE_E_SHORT);
        cr_assert_eq(answer.n, 1);
        cr_assert_str_eq(answer.functions[0].name, "inner");
        cr_assert_eq(answer.functions[0].line, 0);
}

Test(v8_code, a_leaf_without_a_frame_is_named_by_its_code) {
        uint64_t own = function(scope("outer", NULL, 10, 38), 7),
                 inner = function(scope("inner", NULL, 30, 38), 8);
        uint64_t words[3];

        code(own, inner, 13);
        frame(words, RUNTIME_V8_COMPILED, CODE + 8, 0, V8_NO_OFFSET | V8_PC_EXACT);
        cr_assert_eq(name(words), 0);
        cr_assert_str_eq(answer.functions[0].name, "outer");
        frame(words, RUNTIME_V8_COMPILED, CODE + 300, 0, V8_NO_OFFSET | V8_PC_EXACT);
        cr_assert_eq(name(words), V8_CODE_E_GONE, "behind the code");
}

static void marked(uint64_t words[3], uint64_t pc, V8Field kind) {
        frame(words, RUNTIME_V8_COMPILED, pc, 0, V8_NO_OFFSET);
        words[1] = 2 * (uint64_t)layout.values[kind] << V8_COOKIE_SHIFT;
}

Test(v8_code, code_that_is_no_functions_is_named_by_the_mark_of_its_frame) {
        uint64_t words[3];

        marked(words, CODE + 100, V8_FRAME_WASM);
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.n, 1);
        cr_assert_str_eq(answer.functions[0].name, "(WebAssembly)");
        cr_assert_eq(answer.functions[0].line, 0);
        words[1] = (uint64_t)2 << V8_COOKIE_SHIFT;
        cr_assert_eq(name(words), V8_CODE_E_GONE, "another kind of frame");
}

Test(v8_code, a_regular_expression_is_a_code_whose_kind_names_leaves_without_a_frame) {
        uint64_t own = function(scope("outer", NULL, 10, 38), 7), words[3], leaf[3];

        marked(words, CODE + 100, V8_FRAME_REGEXP);
        cr_assert_eq(name(words), V8_CODE_E_GONE, "no code is there");
        set(code(own, own, 5), 8, small(0));
        frame(leaf, RUNTIME_V8_COMPILED, CODE + 4, 0, V8_NO_OFFSET | V8_PC_EXACT);
        cr_assert_eq(name(leaf), V8_CODE_E_GONE, "its kind is not known yet");
        cr_assert_eq(name(words), 0);
        cr_assert_str_eq(answer.functions[0].name, "(regular expression)");
        cr_assert_eq(name(leaf), 0);
        cr_assert_str_eq(answer.functions[0].name, "(regular expression)");
}

Test(v8_code, far_from_its_begin_code_is_known_by_the_map_in_front_of_it) {
        uint64_t own = function(scope("outer", NULL, 10, 38), 7), words[3];

        set(code(own, own, 13), 48, (uint64_t)0x20000 << 32 | 13);
        frame(words, RUNTIME_V8_COMPILED, CODE + 0x18000, 0, V8_NO_OFFSET);
        cr_assert_eq(name(words), 0, "any map, as long as none is known");
        cr_assert_str_eq(answer.functions[0].name, "outer");
        cr_assert_eq(name(words), 0, "the known one");
        object(300, 1);
        put(CODE - 32, maps[300]);
        cr_assert_eq(name(words), V8_CODE_E_GONE, "another one");
        frame(words, RUNTIME_V8_COMPILED, CODE + 0x8000, 0, V8_NO_OFFSET);
        cr_assert_eq(name(words), 0, "another one, near its begin");
}

Test(v8_code, a_code_that_says_another_begin_is_none) {
        uint64_t own = function(scope("outer", NULL, 10, 38), 7), words[3];

        set(code(own, own, 13), 40, CODE + 64);
        frame(words, RUNTIME_V8_COMPILED, CODE + 8, own, V8_NO_OFFSET);
        cr_assert_eq(name(words), V8_CODE_E_SHORT);
}

Test(v8_code, baseline_code_is_its_functions_and_has_nothing_inlined) {
        uint64_t own = function(scope("outer", NULL, 10, 38), 7), words[3];

        code(own, own, (uint32_t)layout.values[V8_KIND_BASELINE]);
        frame(words, RUNTIME_V8_COMPILED, CODE + 100, own, V8_NO_OFFSET);
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.n, 1);
        cr_assert_str_eq(answer.functions[0].name, "outer");
}

/* The table of sizes is in no file of 3 MiB; which is known once it has been searched to its end. */
Test(v8_code, baseline_code_waits_until_the_file_has_been_searched) {
        uint64_t own = function(scope("outer", NULL, 10, 38), 7), words[3];
        int n_pieces = 0;

        learnt.fd = memfd_create("v8", MFD_CLOEXEC);
        learnt.file_size = 3 << 20;
        learnt.is_served = true;
        cr_assert_eq(ftruncate(learnt.fd, (off_t)learnt.file_size), 0);
        code(own, own, (uint32_t)layout.values[V8_KIND_BASELINE]);
        frame(words, RUNTIME_V8_COMPILED, CODE + 100, own, V8_NO_OFFSET);
        do
                cr_assert_eq(name(words), V8_CODE_E_LATER);
        while (n_pieces++ < 3 &&
               v8_sizes_search(learnt.fd, learnt.file_size, &learnt.searched, &learnt.sizes));
        cr_assert_eq(n_pieces, 3);
        cr_assert_eq(name(words), 0);
        cr_assert_str_eq(answer.functions[0].name, "outer");
        close(learnt.fd);
}

Test(v8_code, a_copy_of_the_interpreter_has_the_offset_of_the_frame) {
        uint64_t own = interpreted(scope("work", NULL, 10, 38)), words[3];

        code(own, own, (uint32_t)layout.values[V8_KIND_INTERPRETED]);
        frame(words, RUNTIME_V8_COMPILED, CODE + 100, own, offset_of(5));
        cr_assert_eq(name(words), 0);
        cr_assert_eq(answer.functions[0].line, 4);
}
