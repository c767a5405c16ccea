/* SPDX-License-Identifier: Apache-2.0 */

/* Where a file's text should lie by one of its mappings, and whether memory there has its bytes. */

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host/sampling/process/text-copy.h"
#include "core/base/util/stat.h"
#include "process-bench.h"
#include "stat-reset.h"

enum { PAGE = 4096, READ = 4, EXECUTE = 5, WRITE = 6 };

#define BASE UINT64_C(0x7f0000000000)

/*
 * As lld lays it out, by readelf -lW: segments share pages of the file, and each lies a page further apart in
 * memory.
 */
static const Object shared_pages = {
        .n_segments = 3,
        .segments = {
                { .address = 0, .offset = 0, .file_size = 0x15c4, .flags = READ },
                { .address = 0x25d0, .offset = 0x15d0, .file_size = 0x31f0, .flags = EXECUTE },
                { .address = 0x67c0, .offset = 0x47c0, .file_size = 0x840, .flags = WRITE },
        },
};

static bool find(uint32_t i, uint64_t beside, uint64_t offset, uint64_t start, uint64_t end,
                 TextCopy *copyp) {
        return text_copy_find(&shared_pages, i, BASE + beside, offset, BASE + start, BASE + end, copyp);
}

Test(text_copy, is_found_by_the_mapping_before_or_behind_it) {
        TextCopy copy;

        cr_assert(find(0, 0, 0, 0x2000, 0x6000, &copy));
        cr_assert_eq(copy.start, BASE + 0x2000);
        cr_assert_eq(copy.end, BASE + 0x6000);
        cr_assert_eq(copy.offset, 0x1000);
        cr_assert_eq(copy.offset_end, 0x47c0);
        cr_assert(find(2, 0x6000, 0x4000, 0x3000, 0x5000, &copy), "a part of it");
        cr_assert_eq(copy.start, BASE + 0x3000);
        cr_assert_eq(copy.end, BASE + 0x5000);
        cr_assert_eq(copy.offset, 0x2000);
        cr_assert(find(1, 0x5000, 0x4000, 0x2000, 0x5000, &copy), "beside its own last page");
        cr_assert_eq(copy.offset, 0x1000);
        cr_assert(find(0, 0x1000, 0x1000, 0x2000, 0x6000, &copy), "beside a hole that ld.so has left");
        cr_assert_eq(copy.offset, 0x1000);
}

Test(text_copy, is_cut_to_the_text) {
        TextCopy copy;

        cr_assert(find(0, 0, 0, 0x1000, 0x200000, &copy));
        cr_assert_eq(copy.start, BASE + 0x2000);
        cr_assert_eq(copy.end, BASE + 0x6000);
}

Test(text_copy, is_none_where_the_file_has_no_text) {
        TextCopy copy;

        cr_assert_not(find(0, 0, 0, 0x7000, 0x9000, &copy), "behind it");
        cr_assert_not(find(0, 0x10000, 0, 0x2000, 0x6000, &copy), "before it");
        cr_assert_not(find(1, 0, 0, 0x2000, 0x6000, &copy), "offset 0 is not of segment 1");
        cr_assert_not(find(2, 0x6000, 0x5000, 0x2000, 0x6000, &copy), "nor 0x5000 of the last one");
        cr_assert_not(find(0, 0, 0, 0x6000, 0x7000, &copy), "data");
}

/* ---- in memory ---- */

/* A library is mapped by hand, its text into memory without a file. */
typedef struct Mapped {
        char *base;
        uint64_t text, size;            /* of its text, from `base` on */
        uint64_t offset;
} Mapped;

static const char *library(void) {
        return access("/usr/lib/x86_64-linux-gnu/libm.so.6", R_OK) ? "/usr/lib/aarch64-linux-gnu/libm.so.6"
                                                                   : "/usr/lib/x86_64-linux-gnu/libm.so.6";
}

static Mapped map_library(void) {
        int fd = open(library(), O_RDONLY | O_CLOEXEC);
        Mapped mapped = { .base = mmap(NULL, 4 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) };
        char command[256];
        FILE *pipe;

        if (fd < 0)
                cr_skip_test("tool: no libm.so.6 of Debian");
        snprintf(command, sizeof(command), "readelf -lW %s", library());
        pipe = popen(command, "r");
        while (fgets(command, sizeof(command), pipe)) {
                unsigned long offset, address, size;
                char flags[8] = "", *at;

                if (sscanf(command, " LOAD %lx %lx %*x %lx %*x %3c", &offset, &address, &size, flags) != 4 ||
                    flags[1] == 'W')
                        continue;
                at = mapped.base + address / PAGE * PAGE;
                size += address % PAGE;
                if (flags[2] != 'E') {
                        cr_assert_eq(mmap(at, size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd,
                                          (off_t)(offset / PAGE * PAGE)), at);
                        continue;
                }
                cr_assert_eq(mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_FIXED | MAP_ANONYMOUS,
                                  -1, 0), at);
                mapped.text = address / PAGE * PAGE;
                mapped.offset = offset / PAGE * PAGE;
                mapped.size = size;
                cr_assert_eq(pread(fd, at, mapped.size, (off_t)mapped.offset), (ssize_t)mapped.size);
                cr_assert_eq(mprotect(at, mapped.size, PROT_READ | PROT_EXEC), 0);
        }
        pclose(pipe);
        close(fd);
        cr_assert_gt(mapped.size, 100 * PAGE);
        return mapped;
}

/* What the mapping of the text is found to be. */
static MappingKind kind_of(const Mapped *mapped) {
        uint64_t start = (uint64_t)(uintptr_t)mapped->base + mapped->text;
        ObjectCache *objects = cache();
        const Mapping *mapping;
        MappingKind kind;
        Process *process;

        stat_reset();
        cr_assert_eq(process_new(&process, getpid()), 0);
        cr_assert_eq(process_read_mappings(process, objects), 0);
        mapping = process_find_mapping(process, start);
        cr_assert_not_null(mapping);
        kind = mapping->kind;
        if (kind == MAPPING_FILE) {
                cr_expect_eq(mapping->start, start);
                cr_expect_eq(mapping->offset, mapped->offset);
                cr_expect_str_eq(mapping->path, library());
                cr_expect(mapping->object->build_id_gnu[0]);
        }
        process_free(process);
        object_cache_free(objects);
        return kind;
}

Test(text_copy, with_the_bytes_of_the_file_beside_it_is_its_text) {
        const Mapped mapped = map_library();

        cr_assert_eq(kind_of(&mapped), MAPPING_FILE);
        cr_assert_eq(stat_get(COUNTER_TEXT_COPIES_UNPROVED), 0);
}

Test(text_copy, with_other_bytes_is_memory_without_a_file) {
        const Mapped mapped = map_library();
        char *at = mapped.base + mapped.text, *last = at + (mapped.size - 1) / PAGE * PAGE;

        cr_assert_eq(mprotect(at, mapped.size, PROT_READ | PROT_WRITE | PROT_EXEC), 0);
        *last ^= 1;
        cr_assert_eq(kind_of(&mapped), MAPPING_ANONYMOUS);
        cr_assert_eq(stat_get(COUNTER_TEXT_COPIES_UNPROVED), 1);
        *last ^= 1;
        cr_assert_eq(kind_of(&mapped), MAPPING_FILE);
        *at ^= 1;
        cr_assert_eq(kind_of(&mapped), MAPPING_ANONYMOUS);
}

Test(text_copy, whose_pages_are_not_there_is_memory_without_a_file) {
        const Mapped mapped = map_library();

        cr_assert_eq(madvise(mapped.base + mapped.text, mapped.size, MADV_DONTNEED), 0);
        cr_assert_eq(kind_of(&mapped), MAPPING_ANONYMOUS);
        cr_assert_eq(stat_get(COUNTER_TEXT_COPIES_UNPROVED), 1);
}
