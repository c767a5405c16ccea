/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <gnu/libc-version.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "core/symbol/function/symbols.h"
#include "hand-elf.h"
#include "symbol-table.h"

static int read_fd(int fd, uint64_t size, const SymbolLimits *limits, SymbolTable **tablep) {
        ElfImage image;
        int r = elf_image_init(&image, fd, 0, size);

        if (r)
                return r;
        r = read_symbol_table(tablep, &image, NULL, limits);
        elf_image_deinit(&image);
        return r;
}

static int read_elf(const HandElf *elf, const SymbolLimits *limits, SymbolTable **tablep) {
        int fd = hand_fd(elf->data, elf->size);
        int r = read_fd(fd, elf->size, limits, tablep);

        close(fd);
        return r;
}

static SymbolTable *table_of(const HandSymbol *symbols, size_t n) {
        HandElf elf = hand_elf(symbols, n, NULL);
        SymbolTable *table = NULL;

        cr_assert_eq(read_elf(&elf, NULL, &table), 0);
        free(elf.data);
        return table;
}

static void assert_name(const SymbolTable *table, uint64_t address, const char *expected,
                        uint64_t expected_offset) {
        uint64_t offset = UINT64_MAX;
        const char *name = symbol_table_find(table, address, &offset);

        if (!expected) {
                cr_assert_null(name, "%#lx is %s", address, name);
                cr_assert_eq(offset, UINT64_MAX, "an output is written on success only");
                return;
        }
        cr_assert_not_null(name, "%#lx has no name, expected %s", address, expected);
        cr_assert_str_eq(name, expected);
        cr_assert_eq(offset, expected_offset);
}

Test(symbols, finds_the_function_that_holds_an_address) {
        HandSymbol symbols[] = { HAND_FUNCTION("second", 0x1100, 0x10),
                                 HAND_FUNCTION("first", 0x1000, 0x20) };
        _cleanup_(symbol_table_freep) SymbolTable *table = table_of(symbols, 2);

        assert_name(table, 0xfff, NULL, 0);
        assert_name(table, 0x1000, "first", 0);
        assert_name(table, 0x101f, "first", 0x1f);
        assert_name(table, 0x1020, NULL, 0);
        assert_name(table, 0x10ff, NULL, 0);
        assert_name(table, 0x110f, "second", 0xf);
        assert_name(table, 0x1110, NULL, 0);
        assert_name(table, 0, NULL, 0);
        assert_name(table, UINT64_MAX, NULL, 0);
}

/*
 * Names of C have the same form: they are a language's only beside what that language's compiler writes for
 * their unit. Symbols are those of gnat 12, nim 1.6 and ghc 9.0 (nm).
 */
Test(symbols, tell_a_language_only_by_its_units) {
        HandSymbol symbols[] = {
                { "shapes_E", 0x1f00, 2, STB_GLOBAL, STT_OBJECT, HAND_TEXT, 0 },
                { "wide_E", 0x1f02, 4, STB_GLOBAL, STT_OBJECT, HAND_TEXT, 0 },
                { "other_E", 0, 0, STB_GLOBAL, STT_OBJECT, SHN_UNDEF, 0 },
                { "__gnat_personality_v0", 0, 0, STB_GLOBAL, STT_NOTYPE, SHN_UNDEF, 0 },
                { "@m..@s..@susr@slib@spure@smy_mod2.nim.c", 0, 0, STB_LOCAL, STT_FILE, SHN_ABS, 0 },
                { "plain.nim.c", 0, 0, STB_LOCAL, STT_FILE, SHN_ABS, 0 },
                { "@mZed.nim.c", 0, 0, STB_LOCAL, STT_FILE, SHN_ABS, 0 },
                { "Main_zdtrModule_closure", 0x1f08, 0, STB_GLOBAL, STT_OBJECT, HAND_TEXT, 0 },
                { "base_GHCziBase_map_closure", 0x1f10, 0, STB_GLOBAL, STT_OBJECT, HAND_TEXT, 0 },
                HAND_FUNCTION("shapes__grow", 0x1000, 16),
                HAND_FUNCTION("wide__grow", 0x1010, 16),
                HAND_FUNCTION("other__grow", 0x1020, 16),
                HAND_FUNCTION("shapes_grow", 0x1030, 16),
                HAND_FUNCTION("unit___elabs", 0x1040, 16),
                HAND_FUNCTION("unit__child__grow.2", 0x1050, 16),
                HAND_FUNCTION("_ada_prog", 0x1060, 16),
                HAND_FUNCTION("prog__hot.1", 0x1070, 16),
                HAND_FUNCTION("hot__my95mod50_3", 0x1080, 16),
                HAND_FUNCTION("hot__pureZmy95mod50_3", 0x1090, 16),
                HAND_FUNCTION("hot__mod50_3", 0x10a0, 16),
                HAND_FUNCTION("hot__plain_3", 0x10b0, 16),
                HAND_FUNCTION("hot__Zed_3", 0x10c0, 16),
                HAND_FUNCTION("Main_zdwtop_info", 0x10d0, 16),
                HAND_FUNCTION("base_GHCziBase_fold_info", 0x10e0, 16),
                HAND_FUNCTION("SSL_get_info", 0x10f0, 16),
                HAND_FUNCTION("Main_zdwtop_slow", 0x1100, 16),
                { "stg_upd_frame_info", 0x1110, 16, STB_GLOBAL, STT_OBJECT, HAND_TEXT, 0 },
        };
        static const char *const expected[] = {
                "\1shapes__grow", "wide__grow", "other__grow", "shapes_grow", "\1unit___elabs",
                "\1unit__child__grow.2", "\1_ada_prog", "\1prog__hot.1", "\2hot__my95mod50_3",
                "\2hot__pureZmy95mod50_3", "hot__mod50_3", "hot__plain_3", "hot__Zed_3", "\3Main_zdwtop_info",
                "\3base_GHCziBase_fold_info", "SSL_get_info", "Main_zdwtop_slow",
                "stg_upd_frame_info",
        };
        size_t n = sizeof(symbols) / sizeof(symbols[0]);
        _cleanup_(symbol_table_freep) SymbolTable *table = table_of(symbols, n);

        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                assert_name(table, 0x1000 + i * 16, expected[i], 0);
        /* the same without the runtimes' own symbols */
        symbols[3].name = symbols[7].name = "nothing";
        symbol_table_free(table);
        table = table_of(symbols, n);
        for (size_t i = 0; i < sizeof(expected) / sizeof(expected[0]); i++)
                assert_name(table, 0x1000 + i * 16,
                            expected[i] + (expected[i][0] == NAME_ADA || expected[i][0] == NAME_HASKELL), 0);
}

/* A name that begins as those which are marked would be read as one. */
Test(symbols, leave_out_a_name_that_begins_with_a_mark) {
        HandSymbol symbols[] = { HAND_FUNCTION("\1x__y", 0x1000, 16), HAND_FUNCTION("plain", 0x1010, 16) };
        _cleanup_(symbol_table_freep) SymbolTable *table = table_of(symbols, 2);

        assert_name(table, 0x1000, NULL, 0);
        assert_name(table, 0x1010, "plain", 0);
}

Test(symbols, takes_functions_only) {
        HandSymbol symbols[] = {
                { "data", 0x1000, 8, STB_GLOBAL, STT_OBJECT, HAND_TEXT, 0 },
                { "imported", 0x1010, 8, STB_GLOBAL, STT_FUNC, SHN_UNDEF, 0 },
                { "label", 0x1020, 8, STB_LOCAL, STT_NOTYPE, HAND_TEXT, 0 },
                { "thread_local", 0x1030, 8, STB_GLOBAL, STT_TLS, HAND_TEXT, 0 },
                { "resolver", 0x1040, 8, STB_GLOBAL, STT_GNU_IFUNC, HAND_TEXT, 0 },
                { "", 0x1050, 8, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
        };
        _cleanup_(symbol_table_freep) SymbolTable *table = table_of(symbols, ARRAY_SIZE(symbols));

        cr_assert_eq(symbol_table_n_symbols(table), 1);
        assert_name(table, 0x1044, "resolver", 4);
}

/* Assembly without `.type`: gdb and perf name it by its global labels, too. */
Test(symbols, takes_global_labels_in_code_that_is_in_no_function) {
        HandSymbol symbols[] = {
                { "function", 0x1000, 0x40, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
                { "inside", 0x1010, 0, STB_GLOBAL, STT_NOTYPE, HAND_TEXT, 0 },
                { "start", 0x1040, 0, STB_GLOBAL, STT_NOTYPE, HAND_TEXT, 0 },
                { "loop", 0x1048, 0, STB_LOCAL, STT_NOTYPE, HAND_TEXT, 0 },
                { "weak", 0x1060, 0, STB_WEAK, STT_NOTYPE, HAND_TEXT, 0 },
                { "typed", 0x1080, 0, STB_LOCAL, STT_FUNC, HAND_TEXT, 0 },
                { "same_place", 0x1080, 8, STB_GLOBAL, STT_NOTYPE, HAND_TEXT, 0 },
                { "number", 0x1090, 0, STB_GLOBAL, STT_NOTYPE, SHN_ABS, 0 },
        };
        _cleanup_(symbol_table_freep) SymbolTable *table = table_of(symbols, ARRAY_SIZE(symbols));

        assert_name(table, 0x1018, "function", 0x18);
        assert_name(table, 0x1044, "start", 4);
        assert_name(table, 0x1050, "start", 0x10);
        assert_name(table, 0x1061, "weak", 1);
        assert_name(table, 0x1094, "typed", 0x14);
}

/*
 * The order of perf's choose_best_symbol(): each pair differs in one rule, the loser would win by all later
 * ones.
 */
Test(symbols, chooses_among_names_of_one_address_as_perf_does) {
        HandSymbol symbols[] = {
                { "sized", 0x1000, 8, STB_WEAK, STT_FUNC, HAND_TEXT, 0 },
                { "without_size", 0x1000, 0, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
                { "__strong_local", 0x1100, 8, STB_LOCAL, STT_FUNC, HAND_TEXT, 0 },
                { "weak_but_longer_name", 0x1100, 8, STB_WEAK, STT_FUNC, HAND_TEXT, 0 },
                { "local_and_longer_name", 0x1200, 8, STB_LOCAL, STT_FUNC, HAND_TEXT, 0 },
                { "__global", 0x1200, 8, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
                { "__libc_malloc", 0x1300, 8, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
                { "malloc", 0x1300, 8, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
                { "read", 0x1400, 8, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
                { "read_nocancel", 0x1400, 8, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
                { "start@GLIBC_2.2.5", 0x1500, 8, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
                { "start@@GLIBC_2.34", 0x1500, 8, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
        };
        _cleanup_(symbol_table_freep) SymbolTable *table = table_of(symbols, ARRAY_SIZE(symbols));

        cr_assert_eq(symbol_table_n_symbols(table), 6);
        assert_name(table, 0x1500, "start", 0);
        assert_name(table, 0x1000, "sized", 0);
        assert_name(table, 0x1100, "__strong_local", 0);
        assert_name(table, 0x1200, "__global", 0);
        assert_name(table, 0x1300, "malloc", 0);
        assert_name(table, 0x1400, "read_nocancel", 0);
}

Test(symbols, merges_both_tables_and_drops_default_versions) {
        HandSymbol symbols[] = {
                HAND_FUNCTION("memcpy@@GLIBC_2.14", 0x1000, 0x10),
                HAND_FUNCTION("old@V1", 0x1010, 0x10),
                HAND_FUNCTION("@odd", 0x1030, 0x10),
                { "memcpy", 0x1000, 0x10, STB_GLOBAL, STT_FUNC, HAND_TEXT, 1 },
                { "exported", 0x1020, 0x10, STB_GLOBAL, STT_FUNC, HAND_TEXT, 1 },
        };
        _cleanup_(symbol_table_freep) SymbolTable *both = table_of(symbols, 5),
                                                  *dynamic = table_of(symbols + 3, 2);

        cr_assert_eq(symbol_table_n_symbols(both), 4);
        cr_assert(symbol_table_is_full(both));
        assert_name(both, 0x1000, "memcpy", 0);
        assert_name(both, 0x1010, "old@V1", 0);
        assert_name(both, 0x1020, "exported", 0);
        assert_name(both, 0x1030, "@odd", 0);
        cr_assert_not(symbol_table_is_full(dynamic));
        cr_assert_eq(symbol_table_n_symbols(dynamic), 2);
}

/* Names as crystal 1.6 writes them, and what is no version in others. */
Test(symbols, keeps_an_at_sign_that_begins_no_version) {
        HandSymbol symbols[] = {
                HAND_FUNCTION("*Array(Int32)@Indexable(T)#each<Int32>:Nil", 0x1000, 0x10),
                HAND_FUNCTION("*Crystal::Hasher@@seed#init:Nil", 0x1010, 0x10),
                HAND_FUNCTION("a(b)@@c", 0x1020, 0x10),
                HAND_FUNCTION("a@@", 0x1030, 0x10),
                HAND_FUNCTION("_ZN1a1bEv@@LIB_1.0-rc+1", 0x1040, 0x10),
                /* the longer name wins, whatever stands behind its @ */
                { "*A@B#f", 0x1050, 8, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
                { "*A#f", 0x1050, 8, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
        };
        _cleanup_(symbol_table_freep) SymbolTable *table = table_of(symbols, ARRAY_SIZE(symbols));

        assert_name(table, 0x1000, "*Array(Int32)@Indexable(T)#each<Int32>:Nil", 0);
        assert_name(table, 0x1010, "*Crystal::Hasher@@seed#init:Nil", 0);
        assert_name(table, 0x1020, "a(b)@@c", 0);
        assert_name(table, 0x1030, "a@@", 0);
        assert_name(table, 0x1040, "_ZN1a1bEv", 0);
        assert_name(table, 0x1050, "*A@B#f", 0);
}

Test(symbols, ends_a_function_without_size_at_the_next_or_with_its_section) {
        HandSymbol symbols[] = { HAND_FUNCTION("a", 0x1f00, 0), HAND_FUNCTION("b", 0x1f80, 0),
                                 { "elsewhere", 0x5000, 0, STB_GLOBAL, STT_FUNC, SHN_ABS, 0 } };
        _cleanup_(symbol_table_freep) SymbolTable *table = table_of(symbols, 3);

        assert_name(table, 0x1f7f, "a", 0x7f);
        assert_name(table, 0x1f80, "b", 0);
        assert_name(table, 0x1fff, "b", 0x7f);
        assert_name(table, 0x2000, NULL, 0);
        assert_name(table, 0x5000, "elsewhere", 0);
        assert_name(table, 0x5001, NULL, 0);
}

Test(symbols, finds_the_innermost_of_nested_functions) {
        HandSymbol symbols[] = { HAND_FUNCTION("outer", 0x1000, 0x100), HAND_FUNCTION("inner", 0x1010, 0x40),
                                 HAND_FUNCTION("core", 0x1020, 0x10), HAND_FUNCTION("tail", 0x10f0, 0x20) };
        _cleanup_(symbol_table_freep) SymbolTable *table = table_of(symbols, 4);

        assert_name(table, 0x100f, "outer", 0xf);
        assert_name(table, 0x1025, "core", 5);
        assert_name(table, 0x1030, "inner", 0x20);
        assert_name(table, 0x1050, "outer", 0x50);
        assert_name(table, 0x10f0, "tail", 0);
        assert_name(table, 0x110f, "tail", 0x1f);
        assert_name(table, 0x1110, NULL, 0);
}

Test(symbols, leaves_out_what_is_over_the_caps) {
        HandSymbol symbols[] = { HAND_FUNCTION("a", 0x1000, 4), HAND_FUNCTION("b", 0x1010, 4),
                                 HAND_FUNCTION("c", 0x1020, 4),
                                 { "far", UINT64_C(0x200000000), 4, STB_GLOBAL, STT_FUNC, SHN_ABS, 0 } };
        HandElf elf = hand_elf(symbols, 4, NULL);
        SymbolLimits few = { .max_symbols = 2, .max_string_bytes = 1 << 20 };
        SymbolLimits short_strings = { .max_symbols = 10, .max_string_bytes = 5 };      /* "\0a\0b\0" */
        _cleanup_(symbol_table_freep) SymbolTable *a = NULL, *b = NULL, *c = NULL;

        cr_assert_eq(read_elf(&elf, &few, &a), 0);
        cr_assert_eq(symbol_table_n_symbols(a), 2);
        cr_assert_eq(symbol_table_n_left_out(a), 2);
        cr_assert_eq(read_elf(&elf, &short_strings, &b), 0);
        cr_assert_eq(symbol_table_n_symbols(b), 2);
        assert_name(b, 0x1020, NULL, 0);
        cr_assert_eq(read_elf(&elf, NULL, &c), 0);
        cr_assert_eq(symbol_table_n_left_out(c), 1, "farther than 4 GiB from the first");
        free(elf.data);
}

Test(symbols, cuts_a_name_that_is_too_long) {
        char name[SYMBOL_MAX_NAME + 100];
        HandSymbol symbols[] = { { name, 0x1000, 4, STB_GLOBAL, STT_FUNC, HAND_TEXT, 0 },
                                 HAND_FUNCTION("next", 0x1010, 4) };
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        uint64_t offset;

        memset(name, 'n', sizeof(name) - 1);
        name[sizeof(name) - 1] = 0;
        table = table_of(symbols, 2);
        cr_assert_eq(strlen(symbol_table_find(table, 0x1001, &offset)), SYMBOL_MAX_NAME);
        assert_name(table, 0x1010, "next", 0);
}

Test(symbols, refuses_tables_that_are_not_inside_the_file) {
        HandSymbol symbols[] = { HAND_FUNCTION("a", 0x1000, 4) };
        SymbolTable *table = NULL;

#define SPOIL(_what, _expected) \
        do { \
                HandElf elf = hand_elf(symbols, 1, NULL); \
                _what; \
                cr_assert_eq(read_elf(&elf, NULL, &table), _expected, #_what); \
                cr_assert_null(table); \
                free(elf.data); \
        } while (0)
        SPOIL(elf.sections[HAND_SYMTAB].sh_link = 99, IMAGE_E_MALFORMED);
        SPOIL(elf.sections[HAND_SYMTAB].sh_link = HAND_TEXT, IMAGE_E_MALFORMED);
        SPOIL(elf.sections[HAND_STRTAB].sh_offset = elf.size, IMAGE_E_MALFORMED);
        SPOIL(elf.sections[HAND_STRTAB].sh_offset = UINT64_MAX, IMAGE_E_MALFORMED);
        SPOIL(elf.sections[HAND_SYMTAB].sh_size = UINT64_MAX, IMAGE_E_MALFORMED);
        SPOIL(elf.sections[HAND_SYMTAB].sh_offset = UINT64_MAX - 8, IMAGE_E_MALFORMED);
        SPOIL(elf.header->e_shoff = UINT64_MAX - 100, IMAGE_E_MALFORMED);
        SPOIL(elf.header->e_shentsize = 65, IMAGE_E_MALFORMED);
        SPOIL(elf.header->e_shnum = 60000, IMAGE_E_MALFORMED);
        SPOIL((elf.header->e_shnum = 0, elf.sections[0].sh_size = UINT64_C(1) << 60), IMAGE_E_MALFORMED);
        SPOIL(elf.header->e_type = ET_REL, IMAGE_E_UNSUPPORTED);
        SPOIL(elf.header->e_ident[EI_CLASS] = ELFCLASS32, IMAGE_E_UNSUPPORTED);
        SPOIL(elf.header->e_ident[EI_DATA] = ELFDATA2MSB, IMAGE_E_UNSUPPORTED);
        SPOIL(elf.data[0] = 0, IMAGE_E_NOT_ELF);
#undef SPOIL
}

Test(symbols, survives_a_file_cut_at_any_byte) {
        HandSymbol symbols[] = { HAND_FUNCTION("a", 0x1000, 4),
                                 { "d", 0x1000, 4, STB_WEAK, STT_FUNC, HAND_TEXT, 1 } };
        HandElf elf = hand_elf(symbols, 2, (const uint8_t *)"0123456789abcdefghij");
        int fd = hand_fd(elf.data, elf.size);
        SymbolTable *table = NULL;

        for (size_t size = 0; size < elf.size; size++) {
                cr_assert_gt(read_fd(fd, size, NULL, &table), 0, "the section headers are the last bytes");
                cr_assert_null(table);
        }
        cr_assert_eq(ftruncate(fd, (off_t)elf.size - 1), 0);
        cr_assert_eq(read_fd(fd, elf.size, NULL, &table), IMAGE_E_UNREADABLE, "cut after its size was read");
        close(fd);
        free(elf.data);
}

/* Gives the sections of a hand-made file names, .text in sections[HAND_TEXT] at @text. */
static ElfImage image_with_names(HandElf *elf, uint64_t text) {
        static const char names[] = "\0.text\0.names";
        uint64_t at = hand_add(elf, names, sizeof(names));
        ElfImage image;

        elf->header = (Elf64_Ehdr *)elf->data;
        elf->sections = (Elf64_Shdr *)(elf->data + elf->header->e_shoff);
        elf->sections[HAND_TEXT].sh_name = 1;
        elf->sections[HAND_TEXT].sh_flags = SHF_ALLOC | SHF_EXECINSTR;
        elf->sections[HAND_TEXT].sh_addr = text;
        elf->sections[HAND_NOTE] = (Elf64_Shdr){
                .sh_name = 7, .sh_type = SHT_STRTAB, .sh_offset = at, .sh_size = sizeof(names)
        };
        elf->header->e_shstrndx = HAND_NOTE;
        cr_assert_eq(elf_image_init(&image, hand_fd(elf->data, elf->size), 0, elf->size), 0);
        return image;
}

/* A prelinker has moved the object by 0x10000 after its debug file was split from it. */
Test(symbols, moves_symbols_of_a_debug_file_with_their_section) {
        HandSymbol own[] = { { "exported", 0x11000, 0x10, STB_GLOBAL, STT_FUNC, HAND_TEXT, 1 } };
        HandSymbol split[] = { HAND_FUNCTION("exported", 0x1000, 0x10),
                               HAND_FUNCTION("hidden", 0x1010, 0x10),
                               HAND_FUNCTION("without_size", 0x1020, 0),
                               { "absolute", 0x1030, 4, STB_GLOBAL, STT_FUNC, SHN_ABS, 0 } };
        HandElf own_elf = hand_elf(own, 1, NULL), split_elf = hand_elf(split, 4, NULL);
        ElfImage own_image = image_with_names(&own_elf, 0x11000),
                 split_image = image_with_names(&split_elf, 0x1000);
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL, *moved = NULL;

        cr_assert_eq(read_symbol_table(&moved, &own_image, &split_image, NULL), 0);
        cr_assert(symbol_table_is_full(moved));
        assert_name(moved, 0x11000, "exported", 0);
        assert_name(moved, 0x1101f, "hidden", 0xf);
        assert_name(moved, 0x11fff, "without_size", 0xfdf);
        assert_name(moved, 0x12000, NULL, 0);
        assert_name(moved, 0x1030, "absolute", 0);
        assert_name(moved, 0x1010, NULL, 0);
        cr_assert_eq(read_symbol_table(&table, &split_image, NULL, NULL), 0);
        assert_name(table, 0x101f, "hidden", 0xf);
        close(own_image.fd);
        close(split_image.fd);
        elf_image_deinit(&own_image);
        elf_image_deinit(&split_image);
        free(own_elf.data);
        free(split_elf.data);
}

Test(symbols, has_an_empty_table_for_a_file_without_symbols) {
        _cleanup_(symbol_table_freep) SymbolTable *table = table_of(NULL, 0);

        cr_assert_eq(symbol_table_n_symbols(table), 0);
        assert_name(table, 0x1000, NULL, 0);
        assert_name(table, 0, NULL, 0);
}

/* What readelf says about a file's functions. */
typedef struct Truth {
        uint64_t start, size;
        char name[256];
} Truth;

static size_t read_truth(const char *path, Truth *truth, size_t room) {
        char command[PATH_MAX + 64], line[4096], section[16];
        size_t n = 0;
        FILE *pipe;

        snprintf(command, sizeof(command), "readelf -sW %s", path);
        pipe = popen(command, "r");
        cr_assert_not_null(pipe);
        while (fgets(line, sizeof(line), pipe)) {
                unsigned long value;
                long size;
                char type[16], name[256];

                if (sscanf(line, " %*d: %lx %li %15s %*s %*s %15s %255s", &value, &size, type, section,
                           name) != 5)
                        continue;
                if (strcmp(section, "UND") == 0 || (strcmp(type, "FUNC") != 0 && strcmp(type, "IFUNC") != 0))
                        continue;
                cr_assert_lt(n, room);
                if (strstr(name + 1, "@@"))
                        *strstr(name + 1, "@@") = 0;
                truth[n] = (Truth){ .start = value, .size = (uint64_t)size };
                strcpy(truth[n++].name, name);
        }
        cr_assert_eq(pclose(pipe), 0);
        return n;
}

static int compare_truth(const void *a, const void *b) {
        const Truth *x = a, *y = b;

        return x->start < y->start ? -1 : x->start > y->start;
}

/* readelf adds the versions of .dynsym, which are in a table of their own there: `f@V1` is `f`. */
static bool is_name(const char *expected, const char *name) {
        size_t n = strlen(name);

        return !strncmp(expected, name, MIN(n, sizeof(((Truth *)0)->name) - 1)) &&
               (n >= sizeof(((Truth *)0)->name) - 1 || !expected[n] || expected[n] == '@');
}

static bool is_name_of(const Truth *truth, size_t n, uint64_t start, const char *name) {
        for (size_t i = 0; i < n && truth[i].start <= start; i++)
                if (truth[i].start == start && is_name(truth[i].name, name))
                        return true;
        return false;
}

/*
 * Every function of the file is found at its first and last byte, under a name that readelf has for that
 * start.
 */
static void agree_with_readelf(const char *path) {
        enum { ROOM = 100000 };
        Truth *truth = calloc(ROOM, sizeof(*truth));
        size_t n = read_truth(path, truth, ROOM), n_starts = 0;
        _cleanup_(symbol_table_freep) SymbolTable *table = NULL;
        int fd = open(path, O_RDONLY | O_CLOEXEC);
        struct stat st;

        cr_assert_gt(n, 20, "%s", path);
        qsort(truth, n, sizeof(*truth), compare_truth);
        cr_assert_eq(fstat(fd, &st), 0);
        cr_assert_eq(read_fd(fd, (uint64_t)st.st_size, NULL, &table), 0, "%s", path);
        close(fd);
        for (size_t i = 0, first = 0; i < n; i++) {
                uint64_t offset = 0;
                const char *name;

                if (i == 0 || truth[i].start != truth[i - 1].start) {
                        n_starts++;
                        first = i;
                }
                name = symbol_table_find(table, truth[i].start, &offset);
                cr_assert_not_null(name, "%s: %s", path, truth[i].name);
                cr_assert_eq(offset, 0, "%s: %s", path, truth[i].name);
                cr_assert(is_name_of(truth + first, n - first, truth[i].start, name), "%s: %s is not %s",
                          path, name, truth[i].name);
                if (truth[i].size == 0)
                        continue;
                name = symbol_table_find(table, truth[i].start + truth[i].size - 1, &offset);
                cr_assert_not_null(name, "%s: end of %s", path, truth[i].name);
                cr_assert(is_name_of(truth, n, truth[i].start + truth[i].size - 1 - offset, name),
                          "%s: end of %s", path, truth[i].name);
        }
        cr_assert_eq(symbol_table_n_symbols(table), n_starts, "%s", path);
        free(truth);
}

/* This program has static functions and is position independent, as built here. */
Test(symbols, agrees_with_readelf_on_this_program) {
        char path[PATH_MAX];
        ssize_t n = readlink("/proc/self/exe", path, sizeof(path) - 1);

        cr_assert_gt(n, 0);
        path[n] = 0;
        agree_with_readelf(path);
}

/* The library that is loaded here, wherever the distribution keeps it. */
Test(symbols, agrees_with_readelf_on_the_c_library) {
        Dl_info info;

        cr_assert_neq(dladdr((void *)(uintptr_t)&gnu_get_libc_version, &info), 0);
        agree_with_readelf(info.dli_fname);
}

/* A program of 32 bits by gABI's figures: three sections, two functions. */
typedef struct NarrowElf {
        Elf32_Ehdr header;
        Elf32_Shdr sections[4];
        Elf32_Sym symbols[3];
        char names[32];
} NarrowElf;

static NarrowElf narrow_elf(void) {
        return (NarrowElf){
                .header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT },
                            .e_type = ET_EXEC, .e_machine = EM_386, .e_version = EV_CURRENT,
                            .e_shoff = offsetof(NarrowElf, sections), .e_shentsize = 40, .e_shnum = 4 },
                .sections = { [1] = { .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC | SHF_EXECINSTR,
                                      .sh_addr = 0x8049000, .sh_size = 0x100 },
                              [2] = { .sh_type = SHT_SYMTAB, .sh_offset = offsetof(NarrowElf, symbols),
                                      .sh_size = 48, .sh_link = 3, .sh_entsize = 16 },
                              [3] = { .sh_type = SHT_STRTAB, .sh_offset = offsetof(NarrowElf, names),
                                      .sh_size = 32 } },
                .symbols = { [1] = { .st_name = 1, .st_value = 0x8049000, .st_size = 0x20, .st_shndx = 1,
                                     .st_info = ELF32_ST_INFO(STB_GLOBAL, STT_FUNC) },
                             [2] = { .st_name = 7, .st_value = 0x8049040, .st_size = 0x10, .st_shndx = 1,
                                     .st_info = ELF32_ST_INFO(STB_LOCAL, STT_FUNC) } },
                .names = "\0first\0second",
        };
}

static int read_narrow(const NarrowElf *elf, size_t size, SymbolTable **tablep) {
        ElfImage image;
        int r = elf_image_init_memory_any(&image, (const uint8_t *)elf, size);

        if (r)
                return r;
        cr_assert(image.is_narrow);
        r = read_symbol_table(tablep, &image, NULL, NULL);
        elf_image_deinit(&image);
        return r;
}

Test(symbols, finds_functions_of_a_program_of_32_bits) {
        NarrowElf elf = narrow_elf();
        SymbolTable *table = NULL;

        cr_assert_eq(read_narrow(&elf, sizeof(elf), &table), 0);
        assert_name(table, 0x804901f, "first", 0x1f);
        assert_name(table, 0x8049040, "second", 0);
        assert_name(table, 0x8049020, NULL, 0);
        symbol_table_free(table);
}

Test(symbols, reads_files_of_32_bits_for_who_asks_for_them_alone) {
        NarrowElf elf = narrow_elf();
        ElfImage image;

        cr_assert_eq(elf_image_init_memory(&image, (const uint8_t *)&elf, sizeof(elf)), IMAGE_E_UNSUPPORTED);
}

Test(symbols, refuses_damaged_files_of_32_bits) {
        SymbolTable *table = NULL;

#define SPOIL(_what, _expected) \
        do { \
                NarrowElf elf = narrow_elf(); \
                _what; \
                cr_assert_eq(read_narrow(&elf, sizeof(elf), &table), _expected, #_what); \
                cr_assert_null(table); \
        } while (0)
        SPOIL(elf.header.e_shentsize = 64, IMAGE_E_MALFORMED);
        SPOIL(elf.header.e_shnum = 60000, IMAGE_E_MALFORMED);
        SPOIL(elf.header.e_shoff = UINT32_MAX - 8, IMAGE_E_MALFORMED);
        SPOIL(elf.header.e_type = ET_REL, IMAGE_E_UNSUPPORTED);
        SPOIL(elf.header.e_ident[EI_DATA] = ELFDATA2MSB, IMAGE_E_UNSUPPORTED);
        SPOIL(elf.sections[2].sh_size = UINT32_MAX, IMAGE_E_MALFORMED);
        SPOIL(elf.sections[3].sh_offset = UINT32_MAX, IMAGE_E_MALFORMED);
#undef SPOIL
        for (size_t n = 0; n < sizeof(NarrowElf); n++) {
                NarrowElf elf = narrow_elf();
                char *copy = malloc(n ? n : 1);

                memcpy(copy, &elf, n);
                read_narrow((const NarrowElf *)copy, n, &table);
                table = symbol_table_free(table);
                free(copy);
        }
}
