/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/base/util/clock.h"
#include "core/base/util/text.h"
#include "desk/coro/engine/code-map.h"
#include "desk/coro/trace/trace-rows.h"

static TraceMapping sample(const char *path) {
        return (TraceMapping){ .process = 2455627039893,
                               .pid = 14005,
                               .start = 0x564f9b489000,
                               .end = 0x564f9b48a845,
                               .address = 0x2000,
                               .offset = 0x1000,
                               .build_id_gnu = "6761b47b",
                               .build_id_go = "ab_C/d-e",
                               .build_id_htlhash = "a110",
                               .path = path };
}

/* The room for a line is as large as the line: a tool that watches memory sees more. */
static int parse(const char *line, size_t size, TraceMappingTexts *texts, TraceMapping *mapping) {
        _cleanup_(freep) char *room = malloc(size + 1);
        TraceRow row;
        int r = trace_row_parse(line, size, room, &row);

        return r ? r : trace_row_mapping(&row, texts, mapping);
}

static TraceMapping back(const char *line, TraceMappingTexts *texts) {
        TraceMapping mapping;

        cr_assert_eq(parse(line, strlen(line), texts, &mapping), 0, "%s", line);
        return mapping;
}

Test(trace_mappings, come_back_as_they_were_printed) {
        static const char *const paths[] = { "/usr/bin/app", "",      "/a b,c/\"d\"", "\"", "/caf\xc3\xa9",
                                             "/x\"\"y\\012", "[vdso]", "/\n\t\x01\x7f{}[]:" };

        for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
                TraceMapping m = sample(paths[i]), n;
                char line[TRACE_ROW_LINE];
                TraceMappingTexts texts;
                size_t size = trace_mapping_print(line, &m);

                cr_assert(size && line[size - 1] == '\n');
                line[size - 1] = 0;
                cr_expect(trace_is_row(line, size - 1));
                n = back(line, &texts);
                cr_expect(n.process == m.process && n.pid == m.pid && n.start == m.start && n.end == m.end &&
                          n.address == m.address && n.offset == m.offset);
                cr_expect_str_eq(n.build_id_gnu, m.build_id_gnu);
                cr_expect_str_eq(n.build_id_go, m.build_id_go);
                cr_expect_str_eq(n.build_id_htlhash, m.build_id_htlhash);
                cr_expect_str_eq(n.path, m.path);
        }
}

Test(trace_mappings, have_room_for_the_longest_line) {
        char path[TRACE_MAPPING_PATH + 1], line[TRACE_ROW_LINE];
        TraceMapping m = sample(path);

        memset(path, 1, sizeof(path));
        path[TRACE_MAPPING_PATH] = 0;
        cr_expect_eq(trace_mapping_print(line, &m), 0, "too long");
        path[TRACE_MAPPING_PATH - 1] = 0;
        m = (TraceMapping){ UINT64_MAX,     UINT32_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                            UINT64_MAX - 1, "",         "",         "",         path };
        cr_expect_gt(trace_mapping_print(line, &m), 6 * (TRACE_MAPPING_PATH - 1));
}

/* @cells: between the braces of the row. */
static int parse_cells(const char *cells) {
        _cleanup_(text_deinit) Text line = { 0 };
        TraceMappingTexts texts;
        TraceMapping mapping;

        text_printf(&line, "{\"coro_mappings\":{%s}}", cells);
        return parse(line.data, line.size, &texts, &mapping);
}

#define NUMBERS "\"process\":1,\"pid\":2,\"start\":\"0x10\",\"end\":\"0x20\",\"elf_address\":\"0x0\","
#define IDS "\"build_id_gnu\":\"aa\",\"build_id_go\":\"bb\",\"build_id_htlhash\":\"cc\","

Test(trace_mappings, are_refused_if_anything_is_wrong) {
        static const char *const bad[] = {
                "",
                "\"process\"",
                NUMBERS IDS,
                NUMBERS "\"build_id_gnu\":\"aa\",\"build_id_go\":\"bb\",\"path\":\"/x\"",
                "\"pid\":2,\"start\":\"0x10\",\"end\":\"0x20\",\"elf_address\":\"0x0\"," IDS "\"path\":\"/x\"",
                "\"process\":0,\"pid\":2,\"start\":\"0x10\",\"end\":\"0x20\",\"elf_address\":\"0x0\"," IDS "\"path\":\"/x\"",
                "\"process\":1,\"pid\":2,\"start\":\"0x20\",\"end\":\"0x20\",\"elf_address\":\"0x0\"," IDS "\"path\":\"/x\"",
                "\"process\":1,\"pid\":4294967296,\"start\":\"0x10\",\"end\":\"0x20\",\"elf_address\":\"0x0\"," IDS "\"path\":\"/x\"",
                "\"process\":1,\"pid\":2,\"start\":16,\"end\":\"0x20\",\"elf_address\":\"0x0\"," IDS "\"path\":\"/x\"",
                "\"process\":1,\"pid\":2,\"start\":\"0x\",\"end\":\"0x20\",\"elf_address\":\"0x0\"," IDS "\"path\":\"/x\"",
                "\"process\":1,\"pid\":2,\"start\":\"0x11112222333344445\",\"end\":\"0x20\",\"elf_address\":\"0x0\"," IDS "\"path\":\"/x\"",
                "\"process\":-1,\"pid\":2,\"start\":\"0x10\",\"end\":\"0x20\",\"elf_address\":\"0x0\"," IDS "\"path\":\"/x\"",
                "\"process\":1," NUMBERS IDS "\"path\":\"/x\"",
                NUMBERS "\"build_id_gnu\":\"a a\",\"build_id_go\":\"bb\",\"build_id_htlhash\":\"cc\",\"path\":\"/x\"",
                NUMBERS IDS "\"path\":\"/x",
                NUMBERS IDS "\"path\":\"/x\"\"y\"",
                NUMBERS IDS "\"path\":\"/x\\\"",
                NUMBERS IDS "\"path\":\"/x\\q\"",
                NUMBERS IDS "\"path\":\"/x\\u00\"",
                NUMBERS IDS "\"path\":\"/x\\u0000y\"",
                NUMBERS IDS "\"path\":\"/x\",",
                NUMBERS IDS "\"path\":\"/x\",\"file_offset\":12",
                NUMBERS IDS "\"path\":\"/x\",\"file_offset\":\"0x1\",\"more\":{}",
        };
        TraceMappingTexts texts;
        TraceMapping mapping;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                cr_expect_eq(parse_cells(bad[i]), TRACE_ROW_E_MALFORMED, "%s", bad[i]);
        cr_expect_eq(parse_cells(NUMBERS IDS "\"path\":\"/x\""), 0);
        cr_expect_eq(parse("", 0, &texts, &mapping), TRACE_ROW_E_MALFORMED);
        cr_expect_eq(parse("{\"coro_others\":{\"pid\":1}}", 27, &texts, &mapping), TRACE_ROW_E_MALFORMED);
        cr_expect_eq(parse("{\"coro_stations\":{\"pid\":1}}", 29, &texts, &mapping), TRACE_ROW_E_MALFORMED);
        cr_expect_eq(back("{\"coro_mappings\":{" NUMBERS IDS "\"path\":\"/a\"}}\r", &texts).offset,
                     TRACE_NO_OFFSET);
        cr_expect_eq(back("{\"coro_mappings\":{\"file_offset\":\"0x30\"," NUMBERS IDS
                          "\"path\":\"/a\",\"later\":5}}",
                          &texts).offset,
                     0x30);
}

/* Databases of older versions end after is_active, or after until. */
Test(trace_mappings, stations_may_say_nothing_of_code) {
        static const char always[] = "{\"coro_stations\":{\"pid\":0,\"station\":39,\"probe_id\":9,\"birth\":7,"
                                     "\"dead\":true,\"torn\":0,\"corrupt\":false,\"read\":42,\"lost\":0,"
                                     "\"rejected\":0,\"skipped\":0,\"last_ts\":8,\"last_tid\":14017,"
                                     "\"last_addr\":\"0x0000564fcdfdc980\"";
        static const struct { const char *more; int result; uint64_t until, process, frame, code;
        } cases[] = {
                { ",\"is_active\":true,\"until\":24,\"process\":25,\"frame\":\"0x30\",\"code\":\"0x40\"}}", 0, 24, 25,
                  0x30, 0x40 },
                { ",\"is_active\":true,\"until\":24}}", 0, 24, 0, 0, 0 },
                { ",\"is_active\":true}}", 0, 0, 0, 0, 0 },
                { "}}", TRACE_ROW_E_MALFORMED, 0, 0, 0, 0 },
                { ",\"is_active\":maybe}}", TRACE_ROW_E_MALFORMED, 0, 0, 0, 0 },
                { ",\"is_active\":true,\"until\":24,\"frame\":48}}", TRACE_ROW_E_MALFORMED, 0, 0, 0, 0 },
                { ",\"is_active\":true}", TRACE_ROW_E_MALFORMED, 0, 0, 0, 0 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                _cleanup_(text_deinit) Text line = { 0 };
                TraceStationEnd end = { 0 };
                char room[1024];
                TraceRow row;
                int r;

                text_printf(&line, "%s%s", always, cases[i].more);
                r = trace_row_parse(line.data, line.size, room, &row);
                r = r ? r : trace_row_station(&row, &end);
                cr_assert_eq(r, cases[i].result, "%zu", i);
                cr_expect(r || (end.dead && !end.torn && !end.corrupt && end.station == 39), "%zu", i);
                cr_expect(r || (end.n_read == 42 && end.last_address == 0x564fcdfdc980), "%zu", i);
                cr_expect(end.until_ns == cases[i].until && end.code.process == cases[i].process &&
                                  end.code.frame == cases[i].frame && end.code.address == cases[i].code,
                          "%zu", i);
        }
}

/* A child that maps a shared file, as a region is, writes a byte then, and lives until it is killed. */
static pid_t child_with_region(int fd) {
        int ready[2];
        char byte;
        pid_t pid;

        cr_assert(!pipe(ready));
        pid = fork();
        if (!pid) {
                if (mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0) == MAP_FAILED ||
                    write(ready[1], "", 1) != 1)
                        _exit(1);
                for (;;)
                        pause();
        }
        cr_assert_eq(read(ready[0], &byte, 1), 1);
        close(ready[0]);
        close(ready[1]);
        return pid;
}

/* Functions of the forked child lie where they lie here. */
Test(trace_mappings, code_of_a_process_with_the_region_is_found) {
        char path[] = "/tmp/test-code-map-XXXXXX";
        uint64_t here = (uint64_t)(uintptr_t)&child_with_region, word, number;
        int fd = mkstemp(path), status, process;
        static const uint64_t value = 4711;
        CodeMap *map;
        struct stat st;
        pid_t pid;

        cr_assert(fd >= 0 && !unlink(path) && !ftruncate(fd, 4096) && !fstat(fd, &st));
        pid = child_with_region(fd);
        cr_assert_eq(code_map_new(&map), 0);
        cr_expect_eq(code_map_process(map, pid, (uint64_t)st.st_ino + 1), CODE_MAP_NONE, "another file");
        cr_expect_eq(code_map_n_mappings(map), 0);
        process = code_map_process(map, pid, st.st_ino);
        cr_assert_neq(process, CODE_MAP_NONE);
        cr_expect_eq(code_map_process(map, pid, st.st_ino), process);
        cr_expect(code_map_has(map, process, here));
        cr_expect_not(code_map_has(map, process, (uint64_t)(uintptr_t)&here));
        cr_assert_eq(code_map_read_word(map, process, (uint64_t)(uintptr_t)&value, &word), 0);
        cr_expect_eq(word, 4711);
        cr_expect_eq(code_map_read_word(map, process, UINT64_MAX - 3, &word), 1);
        cr_expect_eq(code_map_read_word(map, process, 8, &word), 1);
        number = code_map_number(map, process);
        cr_expect(number && number <= clock_monotonic_ns());
        for (size_t i = 0; i < code_map_n_mappings(map); i++)
                cr_expect_eq(code_map_mapping(map, i)->process, number);

        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        cr_expect_eq(code_map_process(map, pid, st.st_ino), process, "it is asked once in a look");
        code_map_begin_look(map);
        cr_expect_eq(code_map_process(map, pid, st.st_ino), process, "the process of an ended thread is known");
        cr_expect(code_map_has(map, process, here));
        cr_expect_eq(code_map_read_word(map, process, (uint64_t)(uintptr_t)&value, &word), 1);
        code_map_free(map);
        close(fd);
}
