/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/util/clock.h"
#include "coro/engine/code-map.h"
#include "coro/trace/trace-rows.h"

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

static TraceMapping back(const char *line, TraceMappingTexts *texts) {
        TraceMapping mapping;

        cr_assert_eq(trace_mapping_parse(line, strlen(line), texts, &mapping), 0, "%s", line);
        return mapping;
}

Test(trace_mappings, come_back_as_they_were_printed) {
        static const char *const paths[] = { "/usr/bin/app", "",      "/a b,c/\"d\"", "\"",
                                             "/x\"\"y\\012", "[vdso]" };

        for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
                TraceMapping m = sample(paths[i]), n;
                char line[TRACE_MAPPING_LINE];
                TraceMappingTexts texts;
                size_t size = trace_mapping_print(line, &m);

                cr_assert(size && line[size - 1] == '\n');
                line[size - 1] = 0;
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
        char path[TRACE_MAPPING_PATH + 1], line[TRACE_MAPPING_LINE];
        TraceMapping m = sample(path);

        memset(path, '"', sizeof(path));
        path[TRACE_MAPPING_PATH] = 0;
        cr_expect_eq(trace_mapping_print(line, &m), 0, "too long");
        path[TRACE_MAPPING_PATH - 1] = 0;
        m = (TraceMapping){ UINT64_MAX,     UINT32_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX,
                            UINT64_MAX - 1, "",         "",         "",         path };
        cr_expect_lt(trace_mapping_print(line, &m), TRACE_MAPPING_LINE);
}

Test(trace_mappings, are_refused_if_anything_is_wrong) {
        static const char *const bad[] = {
                "",
                "process,pid,start,end,elf_address,build_id_gnu,build_id_go,build_id_htlhash,path",
                "1,2,0x10,0x20,0x0,aa,bb",
                "1,2,0x10,0x20,0x0,aa,bb,cc",
                "0,2,0x10,0x20,0x0,aa,bb,cc,/x",
                "1,2,0x20,0x20,0x0,aa,bb,cc,/x",
                "1,4294967296,0x10,0x20,0x0,aa,bb,cc,/x",
                "1,2,16,0x20,0x0,aa,bb,cc,/x",
                "1,2,0x,0x20,0x0,aa,bb,cc,/x",
                "1,2,0x11112222333344445,0x20,0x0,aa,bb,cc,/x",
                "1,2,0x10,0x20,0x0,a a,bb,cc,/x",
                "1,2,0x10,0x20,0x0,aa,\"bb\",cc,/x",
                "1,2,0x10,0x20,0x0,aa,bb,cc,\"/x\",",
                "1,2,0x10,0x20,0x0,aa,bb,cc,\"/x\",12",
                "1,2,0x10,0x20,0x0,aa,bb,cc,\"/x\",0x1,",
                "1,2,0x10,0x20,0x0,aa,bb,cc,\"/x\"0x1",
                "1,2,0x10,0x20,0x0,aa,bb,cc,\"/x",
                "1,2,0x10,0x20,0x0,aa,bb,cc,\"",
                "1,2,0x10,0x20,0x0,aa,bb,cc,\"/x\"y\"",
                "-1,2,0x10,0x20,0x0,aa,bb,cc,/x",
        };
        TraceMappingTexts texts;
        TraceMapping mapping;

        for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
                cr_expect_eq(trace_mapping_parse(bad[i], strlen(bad[i]), &texts, &mapping),
                             TRACE_ROW_E_MALFORMED, "%s", bad[i]);
        cr_expect_eq(trace_mapping_parse("1,2,0x10,0x20,0x0,,,,/a\0b", 24, &texts, &mapping),
                     TRACE_ROW_E_MALFORMED);
        cr_expect_str_eq(back("1,2,0x10,0x20,0x0,,,,/a,\"b\"\r", &texts).path, "/a,\"b\"");
        cr_expect_eq(back("1,2,0x10,0x20,0x0,,,,\"/a\"", &texts).offset, TRACE_NO_OFFSET);
        cr_expect_eq(back("1,2,0x10,0x20,0x0,,,,\"/a\",0x30", &texts).offset, 0x30);
}

/* Traces of older versions end after is_active, or after until. */
Test(trace_mappings, stations_may_say_nothing_of_code) {
        static const char line[] =
                "0,39,9,2455614606879,1,0,0,42,0,0,0,2455736148487,14017,0x0000564fcdfdc980,1,24,25,0x30,0x40";
        static const struct { size_t cut; int result; uint64_t until, process, frame, code;
        } cases[] = {
                { 0, 0, 24, 25, 0x30, 0x40 }, { 5, 0, 24, 25, 0x30, 0 },
                { 10, 0, 24, 25, 0, 0 },      { 13, 0, 24, 0, 0, 0 },
                { 16, 0, 0, 0, 0, 0 },        { 18, TRACE_ROW_E_MALFORMED, 0, 0, 0, 0 },
                { 1, 0, 24, 25, 0x30, 4 },
        };

        for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
                TraceStationEnd end = { 0 };

                cr_assert_eq(trace_station_parse(line, sizeof(line) - 1 - cases[i].cut, &end),
                             cases[i].result, "%zu", i);
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
