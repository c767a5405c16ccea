/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>

#include "core/base/util/text.h"
#include "core/symbol/object/htlhash.h"
#include "host/sampling/process/elf.h"
#include "oracle.h"

static const char *const files[] = { "/bin/bash", "/lib64/ld-linux-x86-64.so.2",
                                     "/usr/lib/x86_64-linux-gnu/libc.so.6",
                                     "/usr/lib/x86_64-linux-gnu/libcrypto.so.3", "/proc/self/exe" };

static int read_file(const char *path, ElfInfo *infop) {
        int fd = open(path, O_RDONLY), r;
        struct stat st;

        cr_assert_geq(fd, 0, "%s", path);
        fstat(fd, &st);
        r = elf_read(&(ElfInput){ .fd = fd, .size = (uint64_t)st.st_size }, NULL, infop);
        close(fd);
        return r;
}

/* The path that readelf and we both mean. */
static bool real_path(const char *path, char *to) {
        return realpath(path, to) && access(to, R_OK) == 0;
}

Test(elf, finds_the_build_id_that_readelf_finds) {
        unsigned n = 0;

        for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
                char path[PATH_MAX], command[PATH_MAX + 64], expected[256], hex[2 * ELF_MAX_BUILD_ID + 1];
                ElfInfo info;

                if (!real_path(files[i], path))
                        continue;
                snprintf(command, sizeof(command), "readelf -n %s 2>/dev/null | awk '/Build ID/ {print $3}'",
                         path);
                if (!oracle_line(command, expected, sizeof(expected)))
                        expected[0] = 0;
                cr_assert_eq(read_file(path, &info), 0);
                text_to_hex(hex, info.gnu, info.gnu_size);
                cr_expect_str_eq(hex, expected, "%s", path);
                n++;
        }
        cr_assert_geq(n, 3);
}

/* readelf -lW: LOAD offset vaddr paddr filesz memsz flags… align; flags may have blanks in them. */
static void check_segments(const char *path) {
        char command[PATH_MAX + 64], line[512];
        ElfInfo info;
        unsigned n = 0;
        FILE *pipe;

        cr_assert_eq(read_file(path, &info), 0);
        snprintf(command, sizeof(command), "readelf -lW %s 2>/dev/null | grep -E '^ *LOAD'", path);
        pipe = popen(command, "r");
        while (fgets(line, sizeof(line), pipe)) {
                unsigned long offset, address, file_size, memory_size;
                char flags[8] = "";

                cr_assert_eq(sscanf(line, " LOAD %lx %lx %*x %lx %lx %7c", &offset, &address, &file_size,
                                    &memory_size, flags),
                             5);
                cr_assert_lt(n, info.n_segments);
                cr_expect_eq(info.segments[n].offset, offset);
                cr_expect_eq(info.segments[n].address, address);
                cr_expect_eq(info.segments[n].file_size, file_size);
                cr_expect_eq(info.segments[n].memory_size, memory_size);
                cr_expect_eq(!!(info.segments[n].flags & PF_X), flags[2] == 'E', "%s: %s", path, line);
                n++;
        }
        pclose(pipe);
        cr_assert_eq(n, info.n_segments);
        cr_assert_gt(n, 0);
        snprintf(command, sizeof(command), "readelf -h %s | awk '/Entry point/ {print $4}'", path);
        cr_assert_eq(info.entry, oracle_hex(command));
}

Test(elf, finds_the_segments_that_readelf_finds) {
        for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++) {
                char path[PATH_MAX];

                if (real_path(files[i], path))
                        check_segments(path);
        }
}

Test(elf, reads_executables_at_fixed_addresses) {
        char path[] = "/tmp/test-elf-XXXXXX";

        close(mkstemp(path));
        if (!oracle_compile("int main(void) { return 0; }", "-static -no-pie", path)) {
                unlink(path);
                cr_skip_test("no compiler that links statically");
        }
        check_segments(path);
        unlink(path);
}

/* A hand-made file: header, one PT_LOAD over all, one PT_NOTE. */
typedef struct Made {
        Elf64_Ehdr header;
        Elf64_Phdr program[2];
        struct {
                Elf64_Nhdr header;
                char name[4];
                char content[40];
        } note;
        Elf64_Shdr sections[2];
} Made;

static Made make(uint32_t type, const char *name, const char *content) {
        Made made = {
                .header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB, EV_CURRENT },
                            .e_type = ET_DYN,
                            .e_version = EV_CURRENT,
                            .e_entry = 0x1234,
                            .e_phoff = offsetof(Made, program),
                            .e_phentsize = sizeof(Elf64_Phdr),
                            .e_phnum = 2,
                            .e_shoff = offsetof(Made, sections),
                            .e_shentsize = sizeof(Elf64_Shdr),
                            .e_shnum = 2 },
                .program = { { .p_type = PT_LOAD,
                               .p_flags = PF_R | PF_X,
                               .p_vaddr = 0x10000,
                               .p_filesz = sizeof(Made),
                               .p_memsz = sizeof(Made) },
                             { .p_type = PT_NOTE,
                               .p_offset = offsetof(Made, note),
                               .p_filesz = sizeof(made.note),
                               .p_memsz = sizeof(made.note),
                               .p_align = 4 } },
                .note = { .header = { .n_namesz = 4,
                                      .n_descsz = (uint32_t)strlen(content),
                                      .n_type = type } },
                .sections = { { 0 },
                              { .sh_type = SHT_NOTE,
                                .sh_offset = offsetof(Made, note),
                                .sh_size = sizeof(made.note),
                                .sh_addralign = 4 } },
        };

        memcpy(made.note.name, name, 4);
        memcpy(made.note.content, content, strlen(content));
        return made;
}

static int read_made(const Made *made, ElfInfo *infop) {
        return elf_read(&(ElfInput){ .fd = -1, .data = made, .size = sizeof(*made) }, NULL, infop);
}

Test(elf, tells_gnu_from_go) {
        Made made = make(NT_GNU_BUILD_ID, "GNU", "0123456789");
        ElfInfo info;

        cr_assert_eq(read_made(&made, &info), 0);
        cr_assert_eq(info.gnu_size, 10);
        cr_assert_arr_eq(info.gnu, "0123456789", 10);
        cr_assert_eq(info.go_size, 0);
        cr_assert_eq(info.entry, 0x1234);

        made = make(4, "Go\0", "abc/DEF_-/123");
        cr_assert_eq(read_made(&made, &info), 0);
        cr_assert_str_eq(info.go, "abc/DEF_-/123");
        cr_assert_eq(info.gnu_size, 0);

        made = make(4, "Go\0", "abc\x01/123");        /* no text */
        cr_assert_eq(read_made(&made, &info), 0);
        cr_assert_eq(info.go_size, 0);
        made = make(5, "GNU", "0123456789");            /* another note of the same owner */
        cr_assert_eq(read_made(&made, &info), 0);
        cr_assert_eq(info.gnu_size, 0);
}

/* What readelf says of the hand-made file. */
static void check_with_readelf(const Made *made, bool is_found) {
        char path[] = "/tmp/test-elf-XXXXXX", command[128], line[256] = "", hex[2 * ELF_MAX_BUILD_ID + 1];
        int fd = mkstemp(path);
        ElfInfo info;

        cr_assert_eq(write(fd, made, sizeof(*made)), (ssize_t)sizeof(*made));
        close(fd);
        snprintf(command, sizeof(command), "readelf -n %s 2>/dev/null | awk '/Build ID/ {print $3}'", path);
        if (!oracle_line(command, line, sizeof(line)))
                line[0] = 0;
        cr_assert_eq(read_made(made, &info), 0);
        text_to_hex(hex, info.gnu, info.gnu_size);
        cr_expect_str_eq(hex, line);
        cr_expect_eq(info.gnu_size > 0, is_found);
        unlink(path);
}

Test(elf, walks_notes_by_their_padding_as_readelf_does) {
        Made made = make(5, "GNU", "0123456789");
        Elf64_Nhdr id = { .n_namesz = 4, .n_descsz = 8, .n_type = NT_GNU_BUILD_ID };

        made.header.e_machine = EM_X86_64;
        made.header.e_ehsize = sizeof(made.header);
        memcpy(made.note.content + 12, &id, sizeof(id));        /* behind ten bytes, padded to 12 */
        memcpy(made.note.content + 24, "GNU", 4);
        memcpy(made.note.content + 28, "12345678", 8);
        check_with_readelf(&made, true);
        made.program[1].p_align = 8;                            /* to 16: there is none */
        made.sections[1].sh_addralign = 8;
        check_with_readelf(&made, false);
        made.program[1].p_align = made.sections[1].sh_addralign = 4;
        id.n_descsz = 13;                                       /* longer than the segment is: 40 - 28 */
        memcpy(made.note.content + 12, &id, sizeof(id));
        check_with_readelf(&made, false);
        id.n_descsz = UINT32_MAX;
        memcpy(made.note.content + 12, &id, sizeof(id));
        check_with_readelf(&made, false);
        id.n_namesz = UINT32_MAX;
        memcpy(made.note.content + 12, &id, sizeof(id));
        check_with_readelf(&made, false);
}

Test(elf, looks_into_sections_only_without_program_headers) {
        Made made = make(NT_GNU_BUILD_ID, "GNU", "0123456789");
        ElfInfo info;

        made.program[1].p_type = PT_NULL;
        cr_assert_eq(read_made(&made, &info), 0);
        cr_assert_eq(info.gnu_size, 0);
        made.header.e_phnum = 0;
        cr_assert_eq(read_made(&made, &info), 0);
        cr_assert_eq(info.gnu_size, 10);
        cr_assert_eq(info.n_segments, 0);
}

Test(elf, finds_the_gnu_note_that_gos_linker_leaves_to_a_section) {
        Made made = make(4, "Go\0", "abc/DEF_-/123\0\0");
        const Elf64_Nhdr id = { .n_namesz = 4, .n_descsz = 8, .n_type = NT_GNU_BUILD_ID };
        ElfInfo info;

        /* behind Go's note of 13 bytes, padded to 16 */
        memcpy(made.note.content + 16, &id, sizeof(id));
        memcpy(made.note.content + 28, "GNU\0" "1234", 8);
        made.program[1].p_filesz = made.program[1].p_memsz = 32;
        made.sections[1].sh_offset = offsetof(Made, note) + 32;
        made.sections[1].sh_size = sizeof(made.note) - 32;
        cr_assert_eq(read_made(&made, &info), 0);
        cr_assert_str_eq(info.go, "abc/DEF_-/123");
        cr_assert_eq(info.gnu_size, 8);
        made.header.e_shoff = sizeof(made) - 8;          /* costs the id, not the file */
        cr_assert_eq(read_made(&made, &info), 0);
        cr_assert_eq(info.gnu_size, 0);
        cr_assert_eq(info.n_segments, 1);
}

Test(elf, names_what_it_does_not_read_and_leaves_the_output_alone) {
        const Made good = make(NT_GNU_BUILD_ID, "GNU", "0123456789");
        ElfInfo info, before;
        Made made;

        memset(&info, 0xA5, sizeof(info));
        before = info;
#define REFUSES(_change, _code) \
        do { \
                made = good; \
                _change; \
                cr_expect_eq(read_made(&made, &info), _code, "%s", #_change); \
                cr_expect_arr_eq(&info, &before, sizeof(info)); \
        } while (0)
        REFUSES(made.header.e_ident[0] = 'x', ELF_E_UNSUPPORTED);
        REFUSES(made.header.e_ident[EI_CLASS] = ELFCLASSNUM, ELF_E_UNSUPPORTED);
        REFUSES(made.header.e_ident[EI_DATA] = ELFDATA2MSB, ELF_E_UNSUPPORTED);
        REFUSES(made.header.e_version = 0, ELF_E_UNSUPPORTED);
        REFUSES(made.header.e_phentsize = 55, ELF_E_UNSUPPORTED);
        REFUSES(made.header.e_phnum = PN_XNUM, ELF_E_UNSUPPORTED);
        REFUSES(made.header.e_phnum = 500, ELF_E_DAMAGED);                      /* not there */
        REFUSES(made.header.e_phoff = UINT64_MAX, ELF_E_DAMAGED);
        REFUSES(made.header.e_phoff = sizeof(Made), ELF_E_DAMAGED);
        REFUSES(made.program[0].p_filesz = made.program[0].p_memsz + 1, ELF_E_DAMAGED);
        REFUSES(made.program[0].p_vaddr = UINT64_MAX - 1, ELF_E_DAMAGED);
        REFUSES(made.program[0].p_offset = UINT64_MAX - 1, ELF_E_DAMAGED);
#undef REFUSES
}

Test(elf, keeps_segments_when_notes_are_damaged) {
        const Made good = make(NT_GNU_BUILD_ID, "GNU", "0123456789");
        ElfInfo info;
        Made made;

#define SURVIVES(_change) \
        do { \
                made = good; \
                _change; \
                cr_expect_eq(read_made(&made, &info), 0, "%s", #_change); \
                cr_expect_eq(info.n_segments, 1); \
                cr_expect_eq(info.gnu_size, 0, "%s", #_change); \
        } while (0)
        SURVIVES(made.program[1].p_offset = 1 << 20);
        SURVIVES(made.program[1].p_filesz = UINT64_MAX; made.program[1].p_offset = sizeof(Made) - 4);
        SURVIVES(made.note.header.n_namesz = UINT32_MAX);
        SURVIVES(made.note.header.n_descsz = UINT32_MAX);
        SURVIVES(made.note.header.n_descsz = 0);
#undef SURVIVES
        made = good;                    /* the cut is only the note's: 65 bytes are no build id */
        made.note.header.n_descsz = ELF_MAX_BUILD_ID + 1;
        cr_assert_eq(read_made(&made, &info), 0);
        cr_assert_eq(info.gnu_size, 0);
}

Test(elf, reads_nothing_behind_the_end_of_any_prefix) {
        const Made good = make(NT_GNU_BUILD_ID, "GNU", "0123456789");

        for (size_t n = 0; n < sizeof(good); n++) {
                char *copy = malloc(n ? n : 1);
                ElfInfo info;

                memcpy(copy, &good, n);
                elf_read(&(ElfInput){ .fd = -1, .data = copy, .size = n }, NULL, &info);
                free(copy);
        }
}

/* A program of 32 bits: a segment of code, and notes with a build id. */
typedef struct NarrowMade {
        Elf32_Ehdr header;
        Elf32_Phdr program[2];
        Elf32_Nhdr note;
        char owner[4];
        uint8_t id[4];
} NarrowMade;

Test(elf, reads_segments_and_build_id_of_a_program_of_32_bits) {
        const NarrowMade made = {
                .header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS32, ELFDATA2LSB, EV_CURRENT },
                            .e_type = ET_EXEC, .e_machine = EM_386, .e_version = EV_CURRENT,
                            .e_entry = 0x8049010, .e_phoff = sizeof(Elf32_Ehdr), .e_phentsize = 32,
                            .e_phnum = 2 },
                .program = { { .p_type = PT_LOAD, .p_offset = 0x1000, .p_vaddr = 0x8049000, .p_filesz = 0x80,
                               .p_memsz = 0x90, .p_flags = PF_R | PF_X, .p_align = 0x1000 },
                             { .p_type = PT_NOTE, .p_offset = offsetof(NarrowMade, note), .p_filesz = 20,
                               .p_align = 4 } },
                .note = { .n_namesz = 4, .n_descsz = 4, .n_type = NT_GNU_BUILD_ID },
                .owner = "GNU",
                .id = { 1, 2, 3, 4 },
        };
        ElfInfo info;

        cr_assert_eq(elf_read(&(ElfInput){ .fd = -1, .data = &made, .size = sizeof(made) }, NULL, &info), 0);
        cr_assert_eq(info.entry, 0x8049010);
        cr_assert_eq(info.n_segments, 1);
        cr_assert_eq(info.segments[0].address, 0x8049000);
        cr_assert_eq(info.segments[0].offset, 0x1000);
        cr_assert_eq(info.segments[0].file_size, 0x80);
        cr_assert_eq(info.segments[0].memory_size, 0x90);
        cr_assert_eq(info.segments[0].flags, PF_R | PF_X);
        cr_assert_eq(info.gnu_size, 4);
        cr_assert_arr_eq(info.gnu, made.id, 4);
}

/*
 * Each made by: { head -c 4096 F; tail -c 4096 F; printf %016x SIZE | xxd -r -p; } | sha256sum | cut -c -32
 */
Test(htlhash, agrees_with_sha256sum) {
        static const size_t sizes[] = { 0, 1, 4095, 4096, 4097, 8191, 100000 };
        char path[] = "/tmp/test-htlhash-XXXXXX", hex[HTLHASH_HEX_SIZE], expected[128], command[512];
        int fd = mkstemp(path);

        for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
                cr_assert_eq(ftruncate(fd, 0), 0);
                for (size_t at = 0; at < sizes[i]; at++)
                        cr_assert_eq(pwrite(fd, &(char){ (char)(at * 7 + at / 251) }, 1, (off_t)at), 1);
                snprintf(
                        command, sizeof(command),
                        "{ head -c 4096 %s; tail -c 4096 %s; printf \"$(printf %%016x %zu | sed 's/../\\\\x&/g')\"; } "
                        "| sha256sum | cut -c -32",
                        path, path, sizes[i]);
                /* sh's printf may not know \x: bash does */
                {
                        char wrapped[1024];
                        FILE *script;

                        snprintf(wrapped, sizeof(wrapped), "%s.sh", path);
                        script = fopen(wrapped, "w");
                        fputs(command, script);
                        fclose(script);
                        snprintf(command, sizeof(command), "bash %s.sh; rm %s.sh", path, path);
                }
                cr_assert(oracle_line(command, expected, sizeof(expected)));
                cr_assert_eq(htlhash_read(fd, sizes[i], hex), 0);
                cr_expect_str_eq(hex, expected, "size %zu", sizes[i]);
        }
        cr_assert_eq(htlhash_read(fd, 100001, hex), HTLHASH_E_SHORT);
        close(fd);
        unlink(path);
}
