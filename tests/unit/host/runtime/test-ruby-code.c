/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Names and lines of code in memory made by hand, by the layout of Ruby 3.1 (rb_iseq_constant_body, RString,
 * RArray, succ_index_table); what is other in 2.7 and 3.3 (rb_classext_t); what a worker may say of them.
 */

#include <criterion/criterion.h>
#include <string.h>

#include "host/runtime/ruby/ruby-wire.h"

enum {
        HEAP = 0x66000000,
        BODY = HEAP + 0x100,
        LABEL = HEAP + 0x400,
        PATH = HEAP + 0x500,
        PATHS = HEAP + 0x600,
        LINES = HEAP + 0x1000,          /* 12 bytes each */
        RANKS = HEAP + 0x4000,
        IDS = HEAP + 0x700,             /* the pointer to: */
        ALL_IDS = HEAP + 0x740,
        SOME_IDS = HEAP + 0x780,
        SOME_VALUES = HEAP + 0x8000,
        BASE = HEAP + 0x900,            /* of 3.3: the method's name, */
        CLASS_PATH = HEAP + 0x980,      /* its class' name, */
        CLASS = HEAP + 0xa00,           /* its class, */
        SINGLETON = HEAP + 0xb00,       /* and that one's own */
        STRING = 5,
        ARRAY = 7,
        APART = 1 << 13,
        N_WORDS = 2000,
        LAST = 169,
};

static uint64_t heap[0xc000 / 8];
static unsigned n_reads, n_good_reads;
static ReaderFunction function;

static bool read_heap(void *userdata, uint64_t address, void *to, size_t size) {
        if (++n_reads > n_good_reads || address < HEAP || address + size > HEAP + sizeof(heap))
                return false;
        memcpy(to, (const char *)heap + (address - HEAP), size);
        return true;
}

static RubyReader reader = { .read = read_heap, .ids = IDS, .last_operator = LAST };

static uint64_t *at(uint64_t address) {
        return &heap[(address - HEAP) / 8];
}

static void put_text(uint64_t address, const char *text) {
        at(address)[0] = STRING | (uint64_t)strlen(text) << 14;
        memcpy(&at(address)[2], text, strlen(text));
}

static void put_far_text(uint64_t address, uint64_t bytes, const void *text, uint64_t size) {
        at(address)[0] = STRING | APART;
        at(address)[2] = size;
        at(address)[3] = bytes;
        memcpy(at(bytes), text, size < 0x1000 ? size : 0);
}

/* Every 3rd word of code begins an entry; entry n has the line 10 + n. */
static void put_lines(void) {
        unsigned n = 0;

        for (unsigned i = 0; i < N_WORDS; i++) {
                unsigned far = i < 54 ? 0 : i - 54, bit = far % 512;
                uint64_t *block = at(RANKS + 48 + (uint64_t)far / 512 * 80);

                if (i >= 54 && !bit)
                        block[0] = n;
                if (i >= 54 && bit && bit % 64 == 0)
                        block[1] |= (uint64_t)(n - (uint32_t)block[0]) << (bit / 64 - 1) * 9;
                if (i % 3 == 0) {
                        int32_t line = 10 + (int32_t)n++;

                        memcpy((char *)at(LINES) + (n - 1) * 12, &line, sizeof(line));
                        if (i >= 54)
                                block[2 + bit / 64] |= 1ull << bit % 64;
                }
                if (i < 54)
                        at(RANKS)[i / 9] |= (uint64_t)n << i % 9 * 7;
        }
        at(BODY)[15] = LINES;
        at(BODY)[17] = n;
        at(BODY)[18] = RANKS;
}

static void setup(void) {
        memset(heap, 0, sizeof(heap));
        reader.layout = ruby_layout_find("3.1.2");
        n_reads = 0;
        n_good_reads = UINT32_MAX;
        at(BODY)[RUBY_BODY_SIZE] = (uint64_t)N_WORDS << 32;
        at(BODY)[RUBY_BODY_CODE] = 0x77000000;
        at(BODY)[RUBY_BODY_PATH] = PATH;
        at(BODY)[RUBY_BODY_LABEL] = LABEL;
        at(BODY)[RUBY_BODY_FIRST_LINE] = 9 << 1 | 1;
        put_text(LABEL, "block in total");
        put_text(PATH, "/srv/app/cart.rb");
        put_lines();
        /* the name of number 513 + 1: the second one of the second array */
        *at(IDS) = ALL_IDS;
        at(ALL_IDS)[0] = ARRAY | APART | 2 << 15;
        at(ALL_IDS)[3] = SOME_IDS;
        at(SOME_IDS)[0] = ARRAY;
        at(SOME_IDS)[2] = 1024;
        at(SOME_IDS)[4] = SOME_VALUES;
        at(SOME_VALUES)[4] = HEAP + 0x800;
        put_text(HEAP + 0x800, "each");
}

TestSuite(ruby_code, .init = setup);

static uint64_t class_word;             /* the third word of frames */

static int name_of(uint64_t kind, uint64_t what, uint32_t cookie, uint32_t position) {
        const uint64_t words[] = { (uint64_t)RUNTIME_RUBY << RUNTIME_KIND_SHIFT | kind << RUBY_KIND_SHIFT |
                                           what,
                                   (uint64_t)cookie << 32 | position, class_word };

        return ruby_code_name(&reader, words, &function);
}

static int name_at(uint32_t position) {
        return name_of(RUBY_FRAME_METHOD, BODY, ruby_cookie(at(BODY)), position);
}

Test(ruby_code, code_has_its_label_its_file_and_its_first_line) {
        cr_assert_eq(name_at(1), 0);
        cr_assert_str_eq(function.name, "block in total");
        cr_assert_str_eq(function.file, "/srv/app/cart.rb");
        cr_assert_eq(function.line, 10);
        cr_assert_eq(function.first_line, 9);
}

Test(ruby_code, a_line_is_that_of_the_instruction_in_front) {
        for (uint32_t position = 0; position <= N_WORDS; position++) {
                uint32_t last = position ? position - 1 : 0;

                cr_assert_eq(name_at(position), 0);
                cr_assert_eq(function.line, 10 + last / 3, "%u: %u", position, function.line);
        }
        cr_assert_eq(name_at(N_WORDS + 1), 0);
        cr_assert_eq(function.line, 0, "behind the code");
        cr_assert_eq(name_at(UINT32_MAX), 0);
        cr_assert_eq(function.line, 0, "code that a JIT has made");
}

Test(ruby_code, code_of_one_line_has_no_table) {
        at(BODY)[17] = 1;
        at(BODY)[18] = 0;
        cr_assert_eq(name_at(40), 0);
        cr_assert_eq(function.line, 10);
        at(BODY)[17] = 0;
        cr_assert_eq(name_at(40), 0);
        cr_assert_eq(function.line, 0);
}

Test(ruby_code, a_rank_beyond_the_entries_gives_no_line) {
        at(BODY)[17] = 5;
        cr_assert_eq(name_at(100), 0);
        cr_assert_eq(function.line, 0);
        at(BODY)[18] = HEAP - 8;
        cr_assert_eq(name_at(100), 0);
        cr_assert_eq(function.line, 0);
}

Test(ruby_code, a_path_may_be_the_first_of_two) {
        at(PATHS)[0] = ARRAY | APART | 2 << 15;
        at(PATHS)[2] = PATH;
        at(PATHS)[3] = LABEL;
        at(BODY)[RUBY_BODY_PATH] = PATHS;
        cr_assert_eq(name_at(1), 0);
        cr_assert_str_eq(function.file, "/srv/app/cart.rb");
        at(PATHS)[0] = 3;
        cr_assert_eq(name_at(1), 0);
        cr_assert_str_eq(function.file, "", "neither");
}

Test(ruby_code, methods_of_c_are_named_by_their_ids) {
        cr_assert_eq(name_of(RUBY_FRAME_C, 514 << 4 | 1, 0, 0), 0);
        cr_assert_str_eq(function.name, "each");
        cr_assert_str_eq(function.file, "");
        cr_assert_eq(function.line, 0);
        cr_assert_eq(name_of(RUBY_FRAME_C, 1024 << 4, 0, 0), RUBY_CODE_E_GONE, "no such array");
        cr_assert_eq(name_of(RUBY_FRAME_C, 515 << 4, 0, 0), RUBY_CODE_E_GONE, "no such name");
        /* an operator's is a number of itself: the first array is the second one here */
        at(ALL_IDS)[2] = SOME_IDS;
        at(SOME_VALUES)[2 * '+'] = HEAP + 0x820;
        put_text(HEAP + 0x820, "+");
        cr_assert_eq(name_of(RUBY_FRAME_C, '+', 0, 0), 0);
        cr_assert_str_eq(function.name, "+");
}

Test(ruby_code, the_collector_has_a_name_and_other_kinds_have_none) {
        cr_assert_eq(name_of(RUBY_FRAME_COLLECTOR, 0, 0, 0), 0);
        cr_assert_str_eq(function.name, "(gc)");
        cr_assert_eq(name_of(4, BODY, ruby_cookie(at(BODY)), 1), RUBY_CODE_E_GONE);
        cr_assert_eq(name_of(0, BODY, ruby_cookie(at(BODY)), 1), RUBY_CODE_E_GONE);
}

Test(ruby_code, other_code_in_its_place_has_no_name) {
        static const unsigned those[] = { RUBY_BODY_SIZE, RUBY_BODY_CODE, RUBY_BODY_PATH, RUBY_BODY_LABEL,
                                          RUBY_BODY_FIRST_LINE, RUBY_BODY_PLACE, RUBY_BODY_PLACE + 1 };
        uint32_t cookie = ruby_cookie(at(BODY));

        for (size_t i = 0; i < sizeof(those) / sizeof(*those); i++) {
                at(BODY)[those[i]] += 8;
                cr_assert_eq(name_of(RUBY_FRAME_METHOD, BODY, cookie, 1), RUBY_CODE_E_GONE, "%zu", i);
                at(BODY)[those[i]] -= 8;
        }
        cr_assert_eq(name_of(RUBY_FRAME_METHOD, BODY, cookie, 1), 0);
}

Test(ruby_code, memory_that_goes_meanwhile_gives_no_name) {
        unsigned n;

        cr_assert_eq(name_at(100), 0);
        n = n_reads;
        for (n_good_reads = 0; n_good_reads < n; n_good_reads++) {
                n_reads = 0;
                cr_assert_eq(name_at(100), RUBY_CODE_E_GONE, "%u: the second look fails, too", n_good_reads);
        }
}

Test(ruby_code, texts_of_other_types_are_none_and_long_ones_are_cut) {
        char text[3000];

        at(LABEL)[0] = 6;
        cr_assert_eq(name_at(1), RUBY_CODE_E_GONE);
        memset(text, 0xff, sizeof(text));       /* each becomes three bytes */
        put_far_text(LABEL, HEAP + 0x9000, text, sizeof(text));
        cr_assert_eq(name_at(1), 0);
        cr_assert_eq(strlen(function.name), (size_t)(READER_MAX_TEXT - 1) / 3 * 3);
        at(LABEL)[2] = UINT64_MAX;
        cr_assert_eq(name_at(1), 0, "no length is believed");
        at(LABEL)[3] = HEAP + sizeof(heap) - 8;
        cr_assert_eq(name_at(1), RUBY_CODE_E_GONE);
}

/* ---- 2.7 and 3.3 ---- */

/* Code, texts and a class by the layout of 3.3. */
static void put_three(void) {
        static const char label[] = "block in total", path[] = "Shop::Cart";

        reader.layout = ruby_layout_find("3.3.8");
        memmove(&at(BODY)[14], &at(BODY)[15], 32);
        at(LABEL)[0] = at(CLASS_PATH)[0] = at(BASE)[0] = STRING;
        at(LABEL)[2] = strlen(label);
        memcpy(&at(LABEL)[3], label, strlen(label));
        at(CLASS_PATH)[2] = strlen(path);
        memcpy(&at(CLASS_PATH)[3], path, strlen(path));
        at(BASE)[2] = 5;
        memcpy(&at(BASE)[3], "total", 5);
        at(BODY)[RUBY_BODY_BASE] = BASE;
        put_far_text(PATH, HEAP + 0x9000, "/srv/app/cart.rb", 16);
        at(CLASS)[0] = 2;
        at(CLASS + 128)[RUBY_CLASS_PATH] = CLASS_PATH;
        at(SINGLETON)[0] = 2 | 1 << 12;
        at(SINGLETON + 128)[RUBY_CLASS_OBJECT] = CLASS;
}

static void choose_class(uint64_t class) {
        class_word = ruby_class_cookie(at(class + 128)) << RUBY_CLASS_SHIFT | class;
}

Test(ruby_code, from_3_3_on_methods_have_their_classes) {
        put_three();
        choose_class(CLASS);
        cr_assert_eq(name_at(100), 0);
        cr_assert_str_eq(function.name, "block in Shop::Cart#total");
        cr_assert_str_eq(function.file, "/srv/app/cart.rb");
        cr_assert_eq(function.line, 10 + 99 / 3);
        choose_class(SINGLETON);
        cr_assert_eq(name_at(100), 0);
        cr_assert_str_eq(function.name, "block in Shop::Cart.total");
        at(CLASS)[0] = 3;
        cr_assert_eq(name_at(100), 0);
        cr_assert_str_eq(function.name, "block in Shop::Cart.total", "of a module");
        class_word = 0;
        cr_assert_eq(name_at(100), 0);
        cr_assert_str_eq(function.name, "block in total");
        at(HEAP + 0x800)[0] = STRING;
        at(HEAP + 0x800)[2] = 4;
        memcpy(&at(HEAP + 0x800)[3], "each", 4);
        choose_class(CLASS);
        cr_assert_eq(name_of(RUBY_FRAME_C, 514 << 4 | 1, 0, 0), 0);
        cr_assert_str_eq(function.name, "Shop::Cart#each");
}

Test(ruby_code, what_is_no_class_in_force_is_left_out) {
        put_three();
        choose_class(CLASS);
        at(CLASS)[0] = 1;
        cr_assert_eq(name_at(1), 0);
        cr_assert_str_eq(function.name, "block in total", "an object");
        at(CLASS)[0] = 2;
        at(CLASS + 128)[RUBY_CLASS_PATH] = PATH;
        cr_assert_eq(name_at(1), 0);
        cr_assert_str_eq(function.name, "block in total", "another class than the sample's");
        choose_class(CLASS);
        memcpy(at(HEAP + 0x9000), "#<Class:0x1>::Cart", 18);
        cr_assert_eq(name_at(1), 0);
        cr_assert_str_eq(function.name, "block in total", "a name that is made up");
        at(CLASS + 128)[RUBY_CLASS_PATH] = CLASS_PATH;
        choose_class(CLASS);
        memcpy(&at(BASE)[3], "other", 5);
        cr_assert_eq(name_at(1), 0);
        cr_assert_str_eq(function.name, "block in total", "no name that it ends with");
        memcpy(&at(BASE)[3], "total", 5);
        at(SINGLETON + 128)[RUBY_CLASS_OBJECT] = SINGLETON;
        choose_class(SINGLETON);
        cr_assert_eq(name_at(1), 0);
        cr_assert_str_eq(function.name, "block in total", "of a singleton of a singleton");
}

Test(ruby_code, a_class_that_goes_meanwhile_gives_a_name_without_it_or_none) {
        unsigned n;

        put_three();
        choose_class(CLASS);
        cr_assert_eq(name_at(100), 0);
        n = n_reads;
        for (n_good_reads = 0; n_good_reads < n; n_good_reads++) {
                n_reads = 0;
                cr_assert_eq(name_at(100), RUBY_CODE_E_GONE, "%u: the second look fails, too", n_good_reads);
        }
}

Test(ruby_code, a_class_and_a_name_without_room_for_both_are_the_name) {
        char text[READER_MAX_TEXT];

        put_three();
        memset(text, 'x', sizeof(text));
        put_far_text(CLASS_PATH, HEAP + 0x9000, text, (READER_MAX_TEXT - 1) / 3);
        put_far_text(LABEL, HEAP + 0x9400, text, (READER_MAX_TEXT - 1) / 3);
        put_far_text(BASE, HEAP + 0x9800, text, (READER_MAX_TEXT - 1) / 3);
        choose_class(CLASS);
        cr_assert_eq(name_at(100), 0);
        cr_assert_eq(strlen(function.name), 2 * ((READER_MAX_TEXT - 1) / 3) + 1u);
        memset(at(HEAP + 0x9400), 0xff, (READER_MAX_TEXT - 1) / 3);     /* each becomes three bytes */
        memset(at(HEAP + 0x9800), 0xff, (READER_MAX_TEXT - 1) / 3);
        cr_assert_eq(name_at(100), 0);
        cr_assert_eq(strlen(function.name), (size_t)(READER_MAX_TEXT - 1) / 3 * 3);
}

Test(ruby_code, lines_of_2_7_have_eight_bytes_and_some_instructions_have_none) {
        reader.layout = ruby_layout_find("2.7.4");
        for (int32_t i = 0; i < N_WORDS / 3; i++)
                memcpy((char *)at(LINES) + i * 8, &(int32_t){ i % 5 == 4 ? 0 : 10 + i }, sizeof(i));
        cr_assert_eq(name_at(3 * 7 + 1), 0);
        cr_assert_eq(function.line, 10 + 7);
        cr_assert_eq(name_at(3 * 9 + 1), 0);
        cr_assert_eq(function.line, 10 + 8, "that of the one in front");
        memset(at(LINES), 0, 64);
        cr_assert_eq(name_at(3 * 4 + 1), 0);
        cr_assert_eq(function.line, 0);
        cr_assert_eq(name_at(1), 0);
        cr_assert_eq(function.line, 0);
}

Test(ruby_code, what_a_worker_says_is_checked) {
        const FunctionSaid said = {
                .magic = RUBY_WIRE_MAGIC, .kind = FUNCTION_WIRE_NAME, .line = 3, .n_name = 4, .n_file = 1
        };
        FunctionSaid bad[5] = { said, said, said, said, said };

        cr_assert(function_wire_check(&said, RUBY_WIRE_MAGIC, FUNCTION_WIRE_NAME));
        cr_assert_not(function_wire_check(&said, RUBY_WIRE_MAGIC, FUNCTION_WIRE_OPEN));
        bad[0].magic++;
        bad[1].result = 2;
        bad[2].line = 1u << 31;
        bad[3].n_name = READER_MAX_TEXT + 1;
        bad[4].n_file = 0;
        for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++)
                cr_assert_not(function_wire_check(&bad[i], RUBY_WIRE_MAGIC, FUNCTION_WIRE_NAME), "%zu", i);
        cr_assert(function_wire_take(&function, &said, "hot\0"));
        cr_assert_str_eq(function.name, "hot");
        cr_assert_not(function_wire_take(&function, &said, "hott"));
}
