/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "core/symbol/function/symbolizer.h"
#include "hand-elf.h"

static const uint8_t id_bytes[] =
        "\xab\xcd\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\x10\x11\x12\x13";
#define ID "abcd02030405060708090a0b0c0d0e0f10111213"

static char directory[] = "/tmp/spanprof-symbolizer-XXXXXX";

static void make_directory(void) {
        cr_assert_not_null(mkdtemp(directory));
}

static void remove_directory(void) {
        char command[PATH_MAX];

        snprintf(command, sizeof(command), "rm -rf %s", directory);
        cr_assert_eq(system(command), 0);
}

TestSuite(symbolizer, .init = make_directory, .fini = remove_directory);

/* Path of @name in the test's directory; static, the latest four calls are valid. */
static const char *path_of(const char *name) {
        static char paths[4][PATH_MAX];
        static unsigned n;
        char *path = paths[n++ % 4];

        snprintf(path, PATH_MAX, "%s/%s", directory, name);
        return path;
}

static const char *write_elf(const char *name, const HandSymbol *symbols, size_t n, const uint8_t *id) {
        HandElf elf = hand_elf(symbols, n, id);
        const char *path = path_of(name);
        FILE *file = fopen(path, "we");

        cr_assert_not_null(file, "%s", path);
        cr_assert_eq(fwrite(elf.data, 1, elf.size, file), elf.size);
        cr_assert_eq(fclose(file), 0);
        free(elf.data);
        return path;
}

static Symbolizer *new_symbolizer(uint32_t max_objects, size_t max_bytes) {
        SymbolizerOptions options = { .debug_directory = directory, .max_objects = max_objects,
                                      .max_bytes = max_bytes };
        Symbolizer *symbolizer = NULL;

        cr_assert_eq(symbolizer_new(&symbolizer, &options), 0);
        return symbolizer;
}

static const char *find(Symbolizer *symbolizer, const char *path, const char *id, uint64_t address,
                        SymbolState expected) {
        SymbolObject object = { .path = path, .build_id_gnu = id, .build_id_go = "" };
        SymbolName name;

        cr_assert_eq(symbolizer_name(symbolizer, &object, address, &name), 0);
        cr_assert_eq(name.state, expected, "%s: %s", path, symbol_state_text(name.state));
        return name.name;
}

static const HandSymbol static_function[] = { HAND_FUNCTION("static_function", 0x1000, 16) };
static const HandSymbol exported_function[] = { { "exported", 0x1000, 16, STB_GLOBAL, STT_FUNC, HAND_TEXT,
                                                  1 } };

Test(symbolizer, names_functions_of_a_file_with_the_same_build_id) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(0, 0);
        const char *path = write_elf("object", static_function, 1, id_bytes);

        cr_assert_str_eq(find(symbolizer, path, ID, 0x1008, SYMBOL_STATE_NAMED), "static_function");
        cr_assert_null(find(symbolizer, path, ID, 0x1010, SYMBOL_STATE_NAMED));
}

Test(symbolizer, does_not_believe_another_build) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(0, 0);
        const char *path = write_elf("object", static_function, 1, id_bytes);
        const char *anonymous = write_elf("anonymous", static_function, 1, NULL);

        cr_assert_null(find(symbolizer, path, "abcd02030405060708090a0b0c0d0e0f10111214", 0x1000,
                            SYMBOL_STATE_OTHER));
        cr_assert_null(find(symbolizer, path, "abcd", 0x1000, SYMBOL_STATE_OTHER), "a prefix is not the id");
        cr_assert_null(find(symbolizer, anonymous, ID, 0x1000, SYMBOL_STATE_OTHER));
        cr_assert_null(find(symbolizer, anonymous, "", 0x1000, SYMBOL_STATE_NO_ID));
        cr_assert_null(find(symbolizer, path, "", 0x1000, SYMBOL_STATE_NO_ID));
}

Test(symbolizer, prefers_a_debug_file_to_exported_symbols) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(0, 0);
        const char *path = write_elf("object", exported_function, 1, id_bytes);

        cr_assert_str_eq(find(symbolizer, path, ID, 0x1000, SYMBOL_STATE_DYNAMIC), "exported");
        cr_assert_eq(mkdir(path_of(".build-id"), 0700) | mkdir(path_of(".build-id/ab"), 0700), 0);
        write_elf(".build-id/ab/cd02030405060708090a0b0c0d0e0f10111213.debug", static_function, 1, id_bytes);
        cr_assert_str_eq(find(symbolizer, path, ID, 0x1000, SYMBOL_STATE_DYNAMIC), "exported",
                         "each is tried once");
        symbolizer_free(symbolizer);
        symbolizer = new_symbolizer(0, 0);
        cr_assert_str_eq(find(symbolizer, path, ID, 0x1000, SYMBOL_STATE_NAMED), "static_function");
        cr_assert_str_eq(find(symbolizer, "/no/such/file", ID, 0x1000, SYMBOL_STATE_NAMED),
                         "static_function");
}

Test(symbolizer, does_not_believe_a_debug_file_of_another_build) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(0, 0);
        const char *path = write_elf("object", exported_function, 1, id_bytes);

        cr_assert_eq(mkdir(path_of(".build-id"), 0700) | mkdir(path_of(".build-id/ab"), 0700), 0);
        write_elf(".build-id/ab/cd02030405060708090a0b0c0d0e0f10111213.debug", static_function, 1,
                  (const uint8_t *)"another build's bytes");
        cr_assert_str_eq(find(symbolizer, path, ID, 0x1000, SYMBOL_STATE_DYNAMIC), "exported");
        cr_assert_null(find(symbolizer, "/no/such/file", ID, 0x1000, SYMBOL_STATE_ABSENT));
}

Test(symbolizer, keeps_a_hostile_build_id_out_of_paths) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(0, 0);

        cr_assert_null(find(symbolizer, "/no/such/file", "../../../etc/passwd", 0x1000, SYMBOL_STATE_ABSENT));
        cr_assert_null(find(symbolizer, "relative", ID, 0x1000, SYMBOL_STATE_ABSENT));
        cr_assert_null(find(symbolizer, "", "ab", 0x1000, SYMBOL_STATE_ABSENT));
}

Test(symbolizer, opens_regular_files_only, .timeout = 60) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(0, 0);

        cr_assert_eq(mkfifo(path_of("fifo"), 0600), 0);
        cr_assert_null(find(symbolizer, path_of("fifo"), ID, 0x1000, SYMBOL_STATE_UNREADABLE));
        cr_assert_null(find(symbolizer, "/dev/zero", ID, 0x1000, SYMBOL_STATE_UNREADABLE));
        cr_assert_null(find(symbolizer, directory, ID, 0x1000, SYMBOL_STATE_UNREADABLE));
        cr_assert_null(find(symbolizer, "/proc/self/status", ID, 0x1000, SYMBOL_STATE_UNREADABLE));
}

Test(symbolizer, says_that_a_file_is_stripped) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(0, 0);
        const char *path = write_elf("object", NULL, 0, id_bytes);

        cr_assert_null(find(symbolizer, path, ID, 0x1000, SYMBOL_STATE_STRIPPED));
}

Test(symbolizer, forgets_what_was_not_used_for_longest) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(2, 0);
        const char *a = write_elf("a", static_function, 1, id_bytes);
        const char *b = write_elf("b", static_function, 1, id_bytes);
        const char *c = write_elf("c", static_function, 1, id_bytes);

        find(symbolizer, a, ID, 0x1000, SYMBOL_STATE_NAMED);
        find(symbolizer, b, ID, 0x1000, SYMBOL_STATE_NAMED);
        find(symbolizer, a, ID, 0x1000, SYMBOL_STATE_NAMED);
        find(symbolizer, c, ID, 0x1000, SYMBOL_STATE_NAMED);
        cr_assert_eq(symbolizer_n_objects(symbolizer), 2);
        cr_assert_eq(unlink(a) | unlink(b), 0);
        find(symbolizer, a, ID, 0x1000, SYMBOL_STATE_NAMED);
        find(symbolizer, b, ID, 0x1000, SYMBOL_STATE_ABSENT);
}

Test(symbolizer, stays_under_its_cap_of_bytes) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(0, 300);
        char name[16];

        for (int i = 0; i < 20; i++) {
                snprintf(name, sizeof(name), "object-%d", i);
                cr_assert_str_eq(find(symbolizer, write_elf(name, static_function, 1, id_bytes), ID, 0x1000,
                                      SYMBOL_STATE_NAMED), "static_function");
                cr_assert_leq(symbolizer_memory(symbolizer), 300);
        }
        cr_assert_lt(symbolizer_n_objects(symbolizer), 20);
}

static void output_of(const char *command, const char *argument, char *to, size_t size) {
        char line[PATH_MAX];
        FILE *pipe;

        snprintf(line, sizeof(line), command, argument);
        pipe = popen(line, "r");
        cr_assert_not_null(pipe);
        cr_assert_not_null(fgets(to, (int)size, pipe), "%s", line);
        cr_assert_eq(pclose(pipe), 0);
        to[strcspn(to, "\n")] = 0;
}

/* The vdso of this process is the one of every other, and its build id tells. */
Test(symbolizer, names_functions_of_the_vdso) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(0, 0);
        const uint8_t *vdso = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
        const Elf64_Ehdr *header = (const Elf64_Ehdr *)vdso;
        FILE *file = fopen(path_of("vdso"), "we");
        char id[256], address[64];

        cr_assert_eq(fwrite(vdso, 1, header->e_shoff + header->e_shnum * sizeof(Elf64_Shdr), file) > 0, 1);
        cr_assert_eq(fclose(file), 0);
        output_of("readelf -nW %s | sed -n 's/.*Build ID: //p'", path_of("vdso"), id, sizeof(id));
        output_of("readelf -sW %s | awk '/__vdso_clock_gettime/ { print $2; exit }'", path_of("vdso"),
                  address, sizeof(address));
        cr_assert_not_null(
                strstr(find(symbolizer, "[vdso]", id, strtoull(address, NULL, 16), SYMBOL_STATE_DYNAMIC),
                       "clock_gettime"));
        cr_assert_null(find(symbolizer, "[vdso]", ID, 0x1000, SYMBOL_STATE_OTHER));
}

Test(symbolizer, forgets_what_nobody_asked_for_between_two_calls) {
        _cleanup_(symbolizer_freep) Symbolizer *symbolizer = new_symbolizer(0, 0);
        const char *path = write_elf("object", static_function, 1, id_bytes);
        const char *other = write_elf("other", exported_function, 1, id_bytes);
        size_t alone;

        find(symbolizer, path, ID, 0x1008, SYMBOL_STATE_NAMED);
        alone = symbolizer_memory(symbolizer);
        find(symbolizer, other, ID, 0x1008, SYMBOL_STATE_DYNAMIC);
        symbolizer_age(symbolizer);
        cr_assert_eq(symbolizer_n_objects(symbolizer), 2, "both were asked for");
        find(symbolizer, path, ID, 0x1008, SYMBOL_STATE_NAMED);
        symbolizer_age(symbolizer);
        cr_assert_eq(symbolizer_n_objects(symbolizer), 1);
        cr_assert_eq(symbolizer_memory(symbolizer), alone);
        cr_assert_eq(symbolizer_stats(symbolizer)->n_aged, 1);
        cr_assert_eq(symbolizer_stats(symbolizer)->n_evicted, 0);
        symbolizer_age(symbolizer);
        cr_assert_eq(symbolizer_memory(symbolizer), 0);
        cr_assert_str_eq(find(symbolizer, path, ID, 0x1008, SYMBOL_STATE_NAMED), "static_function",
                         "it is read again");
        cr_assert_eq(symbolizer_stats(symbolizer)->n_misses, 3);
}
