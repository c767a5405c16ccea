/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Layouts and code objects of CPython, in memory made by hand.
 */

#include <criterion/criterion.h>
#include <elf.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/macro.h"
#include "host/runtime/python/python-code.h"

enum {
        MUTEX = ELF_MACHINE == EM_X86_64 ? 40 : 48,     /* bytes of glibc's */
        LOCK_END = 32 + 2 * (48 + MUTEX),               /* two conditions and two mutexes */
        BASE = 0x7f0000,
        CODE = BASE, NAME = BASE + 0x400, FILE_NAME = BASE + 0xa00, TABLE = BASE + 0xc00,
        FIRST_LINE = 12,
};

static uint8_t memory[0x2000];

static bool read_here(void *userdata, uint64_t address, void *to, size_t size) {
        if (address < BASE || address - BASE > sizeof(memory) || size > sizeof(memory) - (address - BASE))
                return false;
        memcpy(to, memory + (address - BASE), size);
        return true;
}

static const PythonReader reader = { read_here, NULL };

static void put(uint64_t address, const void *data, size_t size) {
        memcpy(memory + (address - BASE), data, size);
}

static void put_u64(uint64_t address, uint64_t value) {
        put(address, &value, sizeof(value));
}

/* @state: interned, kind, compact, ascii. */
static void put_text(const PythonLayout *layout, uint64_t address, uint32_t state, const void *data, size_t n,
                     unsigned width) {
        put_u64(address + layout->text_length, n);
        put(address + layout->text_state, &state, sizeof(state));
        put(address + (state >> 6 & 1 ? layout->ascii_data : layout->text_data), data, n * width);
}

#define ASCII (1u << 2 | 1u << 5 | 1u << 6)

/* A function "Shape.area" of "/srv/a.py" whose instructions 0 … 15 are of line 13. */
static void put_code(const PythonLayout *layout) {
        static const uint8_t table[] = { 0x80 | 11 << 3 | 7, 0, 4 };
        uint32_t first_line = FIRST_LINE;

        memset(memory, 0, sizeof(memory));
        put_u64(CODE + layout->name, NAME);
        put_u64(CODE + layout->filename, FILE_NAME);
        put_u64(CODE + layout->line_table, TABLE);
        put(CODE + layout->first_line, &first_line, sizeof(first_line));
        put_text(layout, NAME, ASCII, "Shape.area", 10, 1);
        put_text(layout, FILE_NAME, ASCII | 1, "/srv/a.py", 9, 1);
        put_u64(TABLE + layout->bytes_size, sizeof(table));
        put(TABLE + layout->bytes_data, table, sizeof(table));
}

static PythonLayout layout_of(uint32_t version) {
        char reason[PYTHON_MAX_REASON];
        PythonLayout layout;

        cr_assert_eq(python_layout_of(version, &layout, reason), 0);
        return layout;
}

static int name_at(const PythonLayout *layout, uint32_t position, PythonFunction *function) {
        const uint64_t words[] = { (uint64_t)RUNTIME_PYTHON << RUNTIME_KIND_SHIFT | CODE,
                                   (uint64_t)python_cookie(NAME, TABLE, FIRST_LINE) << 32 | position };

        return python_code_read(&reader, layout, words, function);
}

Test(python_code, has_name_file_and_line) {
        const PythonLayout layout = layout_of(0x030b);
        PythonFunction function;

        put_code(&layout);
        cr_assert_eq(name_at(&layout, layout.instructions + 4, &function), 0);
        cr_assert_str_eq(function.name, "Shape.area");
        cr_assert_str_eq(function.file, "/srv/a.py");
        cr_assert_eq(function.line, 13);
        cr_assert_eq(function.first_line, FIRST_LINE);
        cr_assert_eq(name_at(&layout, layout.instructions + 16, &function), 0);
        cr_assert_eq(function.line, 0);
        cr_assert_eq(name_at(&layout, layout.instructions - 2, &function), 0);
        cr_assert_eq(function.line, FIRST_LINE, "nothing was executed yet");
        cr_assert_eq(name_at(&layout, PYTHON_NO_POSITION, &function), 0);
        cr_assert_eq(function.line, 0);
}

Test(python_code, is_not_another_one_at_its_place) {
        const PythonLayout layout = layout_of(0x030c);
        PythonFunction function;
        uint32_t other = FIRST_LINE + 1;

        put_code(&layout);
        put(CODE + layout.first_line, &other, sizeof(other));
        cr_assert_eq(name_at(&layout, layout.instructions, &function), PYTHON_CODE_E_GONE);
        put_code(&layout);
        put_u64(CODE + layout.name, NAME + 16);
        cr_assert_eq(name_at(&layout, layout.instructions, &function), PYTHON_CODE_E_GONE);
        memset(memory, 0, sizeof(memory));
        cr_assert_eq(name_at(&layout, layout.instructions, &function), PYTHON_CODE_E_GONE);
}

Test(python_code, texts_of_each_width) {
        static const uint8_t latin[] = { 'n', 0xe4 };
        static const uint16_t wide[] = { 0x3b1, 0xd800, 'x' };
        static const uint32_t widest[] = { 0x1f40d, 0x110000 };
        const PythonLayout layout = layout_of(0x030c);
        PythonFunction function;

        put_code(&layout);
        put_text(&layout, NAME, 1u << 2 | 1u << 5, latin, 2, 1);
        cr_assert_eq(name_at(&layout, 0, &function), 0);
        cr_assert_str_eq(function.name, "n\xc3\xa4");
        put_text(&layout, NAME, 2u << 2 | 1u << 5, wide, 3, 2);
        cr_assert_eq(name_at(&layout, 0, &function), 0);
        cr_assert_str_eq(function.name, "\xce\xb1\xef\xbf\xbdx");
        /* `interned` of sixteen bits, as in releases to come */
        put_text(&layout, NAME, 4u << 16 | 1u << 19, widest, 2, 4);
        cr_assert_eq(name_at(&layout, 0, &function), 0);
        cr_assert_str_eq(function.name, "\xf0\x9f\x90\x8d\xef\xbf\xbd");
        put_text(&layout, NAME, 3u << 2 | 1u << 5, wide, 3, 2);
        cr_assert_eq(name_at(&layout, 0, &function), PYTHON_CODE_E_GONE, "no width of three");
}

Test(python_code, a_name_of_a_gibibyte_is_bounded) {
        const PythonLayout layout = layout_of(0x030b);
        PythonFunction function;

        put_code(&layout);
        memset(memory + (NAME - BASE) + layout.ascii_data, 'a', PYTHON_MAX_TEXT);
        put_u64(NAME + layout.text_length, 1ull << 30);
        put_u64(TABLE + layout.bytes_size, 1ull << 62);
        cr_assert_eq(name_at(&layout, layout.instructions, &function), 0);
        cr_assert_eq(strlen(function.name), PYTHON_MAX_TEXT - 1);
        cr_assert_eq(function.line, 0, "its table is not there");
}

/* ---- layouts ---- */

/* The first words of _PyRuntime in Debian's 3.13.15 and 3.14.8. */
static const uint64_t words_3_13[PYTHON_N_OFFSETS] = {
        0x7970677562656478, 0x30d0ff0, 0, 283408, 608, 632, 194984, 7272, 7264, 7344, 7400, 7656, 7640, 7648,
        16, 7752, 0, 7768, 7760, 312, 0, 8, 16, 72, 152, 160, 232, 32, 80, 8, 0, 56, 72, 70, 208, 112, 120,
        128, 136, 68, 52, 96, 104, 200, 16, 8, 416, 24, 88, 168, 32, 24, 16, 40, 24, 16, 48, 32, 40, 24, 16,
        32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 240, 200,
};

static const uint64_t words_3_14[PYTHON_N_OFFSETS] = {
        0x7970677562656478, 0x30e08f0, 0, 316616, 784, 808, 225864, 7280, 7272, 7344, 7360, 7408, 7688, 7672,
        7680, 16, 7784, 0, 7800, 7792, 7992, 0, 832, 0, 8, 16, 72, 152, 160, 232, 32, 88, 8, 0, 56, 80, 74,
        64, 0, 216, 112, 120, 128, 136, 68, 52, 96, 104, 208, 0, 16, 8, 416, 24, 88, 168, 40, 32, 16, 40, 24,
        16, 200, 24, 40, 32, 48, 32, 40, 24, 16, 32, 16, 24, 40, 16, 32, 64, 32, 16, 40, 264, 192, 160, 24,
        72, 67, 0, 8, 24, 304, 8076, 0, 4, 512,
};

static const uint64_t words_3_15[PYTHON_N_OFFSETS] = {
        0x7970677562656478, 0x30f02f0, 0, 346568, 912, 936, 226240, 7272, 7264, 7336, 7352, 7400, 7592, 7576,
        7584, 16, 7736, 0, 7752, 7744, 7944, 0, 888, 0, 8, 16, 72, 80, 88, 96, 176, 184, 256, 32, 36, 40, 136,
        288, 0, 88, 8, 0, 56, 80, 74, 64, 0, 216, 112, 120, 128, 136, 68, 52, 96, 104, 208, 0, 16, 8, 424, 24,
        88, 168, 32, 288, 944, 888, 40, 32, 16, 40, 24, 16, 200, 24, 40, 32, 48, 32, 40, 24, 16, 32, 16, 24,
        40, 16, 32, 64, 32, 16, 40, 56, 176, 112, 120, 1120, 104, 160, 24, 72, 67, 0,
};

/* 3.14.0b2, ./configure --disable-gil: objcopy -O binary --only-section=.PyRuntime */
static const uint64_t words_3_14_free[PYTHON_N_OFFSETS] = {
        0x7970677562656478, 0x30e00b0, 1, 361664, 784, 808, 246528, 7280, 7272, 7344, 7360, 7408, 7712,
        7696, 7704, 16, 7808, 0, 7832, 7824, 8024, 17628, 824, 0, 8, 16, 72, 152, 160, 232, 32, 88, 8,
        0, 56, 80, 78, 64, 72, 240, 128, 136, 144, 152, 84, 68, 112, 120, 232, 224, 32, 24, 432, 40,
        104, 184, 56, 48, 32, 56, 40, 32, 216, 40, 56, 48, 64, 48, 56, 40, 32, 48, 32, 40, 56, 32, 48,
        80, 48, 32, 56, 288, 192, 176, 40, 88, 83, 0, 8, 24, 304, 8108, 0, 4, 512, 0, 0, 0, 0, 0, 0, 0,
        0, 0,
};

Test(python_code, a_free_threaded_release_tells_of_copies_of_instructions) {
        char reason[PYTHON_MAX_REASON];
        uint64_t words[PYTHON_N_OFFSETS];
        struct python_process entry;
        PythonLayout layout;

        cr_assert_eq(python_layout_read(words_3_14_free, &layout, reason), 0);
        cr_assert(layout.is_free_threaded);
        cr_assert(python_layout_entry(&layout, &entry));
        cr_assert_eq(entry.copies, 224);
        cr_assert_eq(entry.copy_index, 72);
        cr_assert_eq(entry.instructions, 232);
        cr_assert_geq(entry.frame_size, 79);
        /* what is not plausible is left out: positions in copies are none then */
        memcpy(words, words_3_14_free, sizeof(words));
        words[49] = 1 << 20;
        cr_assert_eq(python_layout_read(words, &layout, reason), 0);
        cr_assert(python_layout_entry(&layout, &entry));
        cr_assert_eq(entry.copies, 0);
        cr_assert_eq(python_layout_read(words_3_14, &layout, reason), 0);
        cr_assert(python_layout_entry(&layout, &entry));
        cr_assert_eq(entry.copies, 0);
}

Test(python_code, a_release_describes_itself) {
        char reason[PYTHON_MAX_REASON];
        struct python_process entry;
        PythonLayout layout;

        cr_assert_eq(python_layout_read(words_3_13, &layout, reason), 0);
        cr_assert_eq(layout.version, 0x030d);
        cr_assert_eq(layout.interpreters, 632);
        cr_assert_eq(layout.next_thread, 8);
        cr_assert_eq(layout.previous_thread, 0);
        cr_assert_eq(layout.thread_frame, 72);
        cr_assert_eq(layout.owner, 70);
        cr_assert_eq(layout.instructions, 200);
        cr_assert_eq(layout.ascii_data, 40);
        cr_assert_eq(layout.text_data, 56);
        cr_assert_eq(layout.bytes_data, 32);
        cr_assert(python_layout_entry(&layout, &entry));
        cr_assert_eq(entry.thread_size, 160);
        cr_assert_eq(entry.frame_size, 71);
        cr_assert_eq(entry.lock_pointer, 16);
        cr_assert_eq(entry.lock_begin, 32);
        cr_assert_eq(entry.lock_end, LOCK_END);
        cr_assert_eq(python_layout_read(words_3_14, &layout, reason), 0);
        cr_assert_eq(layout.owner, 74);
        cr_assert_eq(layout.instructions, 208);
        cr_assert_eq(layout.text_length, 16);
        cr_assert_eq(layout.generator_frame, 72);
        cr_assert_eq(python_layout_read(words_3_15, &layout, reason), 0);
        cr_assert_eq(layout.version, 0x030f);
        cr_assert_eq(layout.thread_id, 176);
        cr_assert_eq(layout.next_thread, 8);
        cr_assert_eq(layout.previous_thread, 0);
        cr_assert_eq(layout.owner, 74);
        cr_assert_eq(layout.instructions, 208);
        cr_assert_eq(layout.number_digits, 24);
        cr_assert_eq(layout.generator_state, 67);
        cr_assert(python_layout_entry(&layout, &entry));
        cr_assert_eq(entry.thread_size, 184);
        cr_assert_eq(entry.lock_pointer, 16);
        cr_assert_eq(entry.lock_end, LOCK_END);
}

Test(python_code, a_newer_release_is_taken_if_it_is_plausible) {
        char reason[PYTHON_MAX_REASON] = "";
        uint64_t words[PYTHON_N_OFFSETS];
        PythonLayout layout;

        memcpy(words, words_3_15, sizeof(words));
        words[1] = 0x31000a1;
        cr_assert_eq(python_layout_read(words, &layout, reason), 0);
        cr_assert_eq(layout.version, 0x0310);
        /* one field more in the part of frames: all behind it is moved */
        memmove(words + 41, words + 40, (PYTHON_N_OFFSETS - 41) * sizeof(*words));
        cr_assert_eq(python_layout_read(words, &layout, reason), PYTHON_LAYOUT_E_UNKNOWN);
        cr_assert(strstr(reason, "python 3.16: layout unknown: "), "%s", reason);
        /* the order of another release */
        memcpy(words, words_3_14, sizeof(words));
        words[1] = 0x30f00a1;
        cr_assert_eq(python_layout_read(words, &layout, reason), PYTHON_LAYOUT_E_UNKNOWN);
}

Test(python_code, forged_offsets_are_refused) {
        char reason[PYTHON_MAX_REASON];
        uint64_t words[PYTHON_N_OFFSETS];
        struct python_process entry;
        PythonLayout layout;

        for (size_t i = 3; i < 71; i++) {
                memcpy(words, words_3_13, sizeof(words));
                words[i] = UINT64_MAX - 3;
                /* words that nobody reads may be anything */
                if (!python_layout_read(words, &layout, reason))
                        cr_assert(python_layout_entry(&layout, &entry), "%zu", i);
        }
        memset(words, 0, sizeof(words));
        cr_assert_eq(python_layout_read(words, &layout, reason), PYTHON_LAYOUT_E_EMPTY);
        words[0] = words_3_13[0];
        cr_assert_eq(python_layout_read(words, &layout, reason), PYTHON_LAYOUT_E_UNKNOWN);
        cr_assert_eq(python_layout_of(0x0307, &layout, reason), PYTHON_LAYOUT_E_UNKNOWN);
}

Test(python_code, a_lock_that_is_not_plausible_is_not_known) {
        static const struct {
                size_t word;
                uint64_t value;
        } forged[] = { { 14, 0 }, { 14, 12 }, { 14, UINT64_MAX - 7 }, { 15, 1 << 30 }, { 15, 7760 },
                       { 15, 7000 }, { 17, 7760 }, { 18, 0 } };
        char reason[PYTHON_MAX_REASON];
        uint64_t words[PYTHON_N_OFFSETS];
        struct python_process entry;
        PythonLayout layout;

        for (size_t i = 0; i < ARRAY_SIZE(forged); i++) {
                memcpy(words, words_3_13, sizeof(words));
                words[forged[i].word] = forged[i].value;
                cr_assert_eq(python_layout_read(words, &layout, reason), 0, "walked all the same");
                cr_assert(python_layout_entry(&layout, &entry));
                cr_assert_eq(entry.lock_end, 0, "%zu", i);
        }
}

Test(python_code, all_tables_fit_the_kernel_half) {
        for (uint32_t version = PYTHON_OLDEST; version < PYTHON_DESCRIBED; version++) {
                const PythonLayout layout = layout_of(version);
                struct python_process entry;

                cr_assert(python_layout_entry(&layout, &entry), "%x", version);
                cr_assert_eq(entry.lock_begin, 32);
        }
}
