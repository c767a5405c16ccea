/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>

#include "core/symbol/function/window-names.h"
#include "work-directory.h"

/* By line: 2 `leaf`, inlined at 4 into `middle`, which is inlined at 7 into `outer`. */
static const char program_text[] =
        "static inline __attribute__((always_inline)) int leaf(int x) {\n"
        "        return __builtin_expect(*(volatile int *)0x1000 + x, 1);\n"
        "}\n"
        "static inline __attribute__((always_inline)) int middle(int x) { return leaf(x) + 1; }\n"
        "__attribute__((noinline)) int outer(int x) {\n"
        "        __asm__ volatile (\"\");\n"
        "        return middle(x) * 3;\n"
        "}\n"
        "int main(int c, char **v) { return outer(c); }\n";

static char id[128];
static uint64_t outer, main_address;
static Symbolizer *symbolizer;

static void make(void) {
        SymbolizerOptions options = { .debug_directory = "/nowhere",
                                      .lines = { .program = getenv("SPANPROF") } };
        FILE *file;

        work_directory_make();
        file = fopen(work_path("program.c"), "we");
        cr_assert_geq(fputs(program_text, file), 0);
        cr_assert_eq(fclose(file), 0);
        cr_assert_eq(shell("gcc -O1 -g -gdwarf-4 -Wl,--build-id=sha1 -o program program.c"), 0);
        outer = strtoul(first_line("nm %s | sed -n 's/ T outer$//p'", work_path("program")), NULL, 16);
        main_address = strtoul(first_line("nm %s | sed -n 's/ T main$//p'", work_path("program")), NULL, 16);
        snprintf(id, sizeof(id), "%s",
                 first_line("readelf -nW %s | sed -n 's/.*Build ID: //p'", work_path("program")));
        cr_assert_not_null(options.lines.program, "SPANPROF names the program");
        cr_assert_eq(symbolizer_new(&symbolizer, &options), 0);
}

static void clean_up(void) {
        symbolizer = symbolizer_free(symbolizer);
        work_directory_remove();
}

TestSuite(window_names, .init = make, .fini = clean_up, .timeout = 120);

static uint32_t string(Window *window, const char *text) {
        uint32_t index;

        cr_assert_eq(window_string(window, text, strlen(text), &index), 0);
        return index;
}

static uint32_t module(Window *window, const char *path) {
        WindowModule row = { .path = string(window, path),
                             .build_id_gnu = string(window, id),
                             .start = 0,
                             .limit = 0x100000 };
        uint32_t index;

        cr_assert_eq(window_module(window, &row, &index), 0);
        return index;
}

static FrameWord native(Window *window, uint32_t in, uint64_t address) {
        FrameWord word;

        cr_assert_eq(window_native_frame(window, FRAME_MARK_NATIVE, in, address, &word), 0);
        return word;
}

static void stack(Window *window, const FrameWord *words, size_t n) {
        uint32_t index;

        cr_assert_eq(window_stack(window, words, n, &index), 0);
}

static Window *new_window(void) {
        Window *window = NULL;

        cr_assert_eq(window_new(&window, 0, 0, NULL), 0);
        return window;
}

static WindowNames *names_of(const Window *window, bool lines) {
        WindowNamesOptions options = { .lines = lines };
        WindowNames *names = NULL;

        cr_assert_eq(window_names_new(&names, window, symbolizer, &options), 0);
        return names;
}

static LinesState lines_state(const char *name) {
        LinesState state;
        const char *path;

        for (uint32_t i = 0; (path = symbolizer_lines_object(symbolizer, i, &state)); i++)
                if (!strcmp(path, work_path(name)))
                        return state;
        cr_assert_fail("%s is not in memory", name);
        return LINES_N_STATES;
}

/* The instruction of outer whose line addr2line finds to be 2. */
static uint64_t address_of_leaf(void) {
        for (uint64_t address = outer; address < outer + 64; address++) {
                const char *line = first_line("addr2line -e %s %#lx", work_path("program"), address);

                if (strstr(line, "program.c:2"))
                        return address;
        }
        cr_assert_fail("no address of leaf");
        return 0;
}

Test(window_names, names_functions) {
        _cleanup_(window_freep) Window *window = new_window();
        uint32_t program = module(window, work_path("program")), gone = module(window, "/no/such/file");
        FrameWord words[] = { native(window, program, outer), native(window, gone, outer),
                              native(window, program, 0x50) };
        const NamedFrame *frames;

        stack(window, words, 3);
        for (int again = 0; again < 2; again++) {
                _cleanup_(window_names_freep) WindowNames *names = names_of(window, false);

                cr_assert_eq(window_names_get(names, words[0], &frames), 1);
                cr_assert_str_eq(frames[0].name, "outer");
                cr_assert_str_eq(frames[0].linkage_name, "outer");
                cr_assert_str_eq(frames[0].file, "");
                cr_assert_eq(frames[0].line, 0);
                cr_assert_not(frames[0].is_inlined);
                cr_assert_eq(window_names_get(names, words[1], &frames), 0);
                cr_assert_eq(window_names_get(names, words[2], &frames), 0, "no function there");
                cr_assert_eq(window_names_get(names, FRAME_WORD_EMPTY, &frames), 0);
                cr_assert_eq(window_names_state(names, program), SYMBOL_STATE_NAMED);
                cr_assert_eq(window_names_state(names, gone), SYMBOL_STATE_ABSENT);
                cr_assert_eq(lines_state("program"), LINES_STATE_UNKNOWN);
        }
        cr_assert_eq(symbolizer_stats(symbolizer)->n_misses, 2);
        cr_assert_eq(symbolizer_stats(symbolizer)->n_objects[SYMBOL_STATE_ABSENT], 1);
        cr_assert_eq(symbolizer_stats(symbolizer)->n_line_runs, 0);
}

Test(window_names, tell_lines_and_inlined_functions) {
        _cleanup_(window_freep) Window *window = new_window();
        uint32_t program = module(window, work_path("program"));
        FrameWord words[] = { native(window, program, address_of_leaf()),
                              native(window, program, main_address) };
        static const char *const expected[] = { "leaf", "middle", "outer" };
        static const uint32_t lines[] = { 2, 4, 7 };
        const NamedFrame *frames;

        stack(window, words, 2);
        for (int again = 0; again < 2; again++) {
                _cleanup_(window_names_freep) WindowNames *names = names_of(window, true);

                cr_assert_eq(window_names_get(names, words[0], &frames), 3);
                for (int i = 0; i < 3; i++) {
                        cr_expect_str_eq(frames[i].name, expected[i]);
                        cr_expect_eq(frames[i].line, lines[i], "%s: line %u", expected[i], frames[i].line);
                        cr_expect_eq(frames[i].is_inlined, i < 2);
                        cr_expect_str_eq(strrchr(frames[i].file, '/'), "/program.c");
                }
                cr_assert_eq(window_names_get(names, words[1], &frames), 1);
                cr_expect_str_eq(frames[0].name, "main");
                cr_expect_eq(frames[0].line, 9);
                cr_assert_eq(lines_state("program"), LINES_STATE_READ);
                cr_assert_eq(symbolizer_stats(symbolizer)->n_line_runs, 1, "each address is asked for once");
        }
}

/* The worker never answers for the file that most frames are in; for any other, it would. */
Test(window_names, spend_a_short_time_on_the_file_with_most_frames) {
        SymbolizerOptions options = { .debug_directory = "/nowhere", .lines_ms = 500,
                                      .lines = { .program = work_path("worker") } };
        _cleanup_(window_freep) Window *window = new_window();
        uint32_t program = module(window, work_path("program")), full;
        _cleanup_(window_names_freep) WindowNames *names = NULL;
        char script[512];
        FILE *file = fopen(work_path("worker"), "we");

        cr_assert_geq(fprintf(file, "#!/bin/bash\n[ /proc/self/fd/3 -ef %s ] && exec sleep 1000\n",
                              work_path("full")), 0);
        snprintf(script, sizeof(script), "exec -a %s %s\n", LINES_WORKER_NAME, getenv("SPANPROF"));
        cr_assert_geq(fputs(script, file), 0);
        cr_assert_eq(fclose(file), 0);
        cr_assert_eq(shell("chmod +x worker && gcc -O0 -g -Wl,--build-id=sha1 -o full program.c"), 0);
        symbolizer_free(symbolizer);
        cr_assert_eq(symbolizer_new(&symbolizer, &options), 0);
        snprintf(id, sizeof(id), "%s",
                 first_line("readelf -nW %s | sed -n 's/.*Build ID: //p'", work_path("full")));
        full = module(window, work_path("full"));
        for (uint64_t i = 0; i < 3; i++) {
                FrameWord words[] = { native(window, full, outer + i), native(window, program, outer) };

                stack(window, words, i ? 1 : 2);
        }
        names = names_of(window, true);
        cr_assert_eq(lines_state("full"), LINES_STATE_TIMEOUT);
        cr_assert_eq(lines_state("program"), LINES_STATE_TIMEOUT, "nothing is left for it");
        cr_assert_eq(symbolizer_stats(symbolizer)->n_line_runs, 1);
}

Test(window_names, say_why_there_are_no_lines) {
        _cleanup_(window_freep) Window *window = new_window();
        uint32_t program = module(window, work_path("program"));
        FrameWord word = native(window, program, outer);
        _cleanup_(window_names_freep) WindowNames *names = NULL;
        const NamedFrame *frames;

        cr_assert_eq(shell("strip -g program"), 0);
        stack(window, &word, 1);
        names = names_of(window, true);
        cr_assert_eq(window_names_get(names, word, &frames), 1);
        cr_assert_str_eq(frames[0].name, "outer");
        cr_assert_eq(frames[0].line, 0);
        cr_assert_eq(lines_state("program"), LINES_STATE_ABSENT);
}

Test(window_names, leave_frames_alone_that_have_a_name) {
        _cleanup_(window_freep) Window *window = new_window();
        uint32_t program = module(window, work_path("program"));
        WindowFunction function = { .name = string(window, "theirs") };
        WindowFrame frame = { .module = program, .address = outer };
        FrameWord words[2];
        _cleanup_(window_names_freep) WindowNames *names = NULL;
        const NamedFrame *frames;

        cr_assert_eq(window_function(window, &function, &frame.function), 0);
        cr_assert_eq(window_frame(window, &frame, &words[0]), 0);
        cr_assert_eq(window_native_frame(window, FRAME_MARK_KERNEL, program, outer, &words[1]), 0);
        stack(window, words, 2);
        names = names_of(window, true);
        cr_assert_eq(window_names_get(names, words[0], &frames), 0);
        cr_assert_eq(window_names_get(names, words[1], &frames), 0);
        cr_assert_eq(window_names_state(names, program), SYMBOL_N_STATES);
}

static int open_program(void *userdata) {
        return open(work_path("moved"), O_RDONLY | O_CLOEXEC);
}

static const SymbolSource *find_source(void *userdata, const WindowModule *row) {
        static const SymbolSource source = { .open = open_program };

        ++*(unsigned *)userdata;
        return &source;
}

Test(window_names, open_objects_through_the_callers_source) {
        _cleanup_(window_freep) Window *window = new_window();
        uint32_t program = module(window, work_path("program"));
        FrameWord word = native(window, program, outer);
        _cleanup_(window_names_freep) WindowNames *names = NULL;
        unsigned n_asked = 0;
        WindowNamesOptions options = { .source = find_source, .userdata = &n_asked };
        const NamedFrame *frames;

        cr_assert_eq(shell("mv program moved"), 0);
        stack(window, &word, 1);
        cr_assert_eq(window_names_new(&names, window, symbolizer, &options), 0);
        cr_assert_eq(window_names_get(names, word, &frames), 1);
        cr_assert_str_eq(frames[0].name, "outer");
        cr_assert_eq(n_asked, 1);
}
