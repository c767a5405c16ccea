/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <elf.h>
#include <fcntl.h>
#include <stdbool.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "core/base/elf/unpacked.h"
#include "core/base/file/file.h"
#include "core/base/util/macro.h"
#include "work-directory.h"

/* A program with DWARF of some KiB, as the compiler packs it, and the same unpacked by objcopy. */
static void set_up(void) {
        work_directory_make();
        cr_assert_eq(shell("echo '#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }' >a.c && "
                           "gcc -g3 -gz=zlib -o packed a.c && objcopy --decompress-debug-sections packed plain"),
                     0);
}

TestSuite(unpacked, .init = set_up, .fini = work_directory_remove);

static bool all(const char *name) {
        return true;
}

static bool all_but_macros(const char *name) {
        return strcmp(name, ".debug_macro") != 0;
}

static size_t map(const char *name, UnpackedWanted is_wanted, char **datap) {
        struct stat st;
        size_t mapped;
        _cleanup_(closep) int fd = open(work_path(name), O_RDONLY | O_CLOEXEC);

        cr_assert_eq(fstat(fd, &st), 0);
        cr_assert_eq(unpacked_map(fd, (uint64_t)st.st_size, is_wanted, datap, &mapped), 0);
        cr_assert_geq(mapped, (size_t)st.st_size);
        return mapped;
}

/* The header of a section of a file in memory; NULL = there is none of that name. */
static const Elf64_Shdr *find(const char *data, const char *name) {
        const Elf64_Ehdr *header = (const Elf64_Ehdr *)data;
        const Elf64_Shdr *sections = (const Elf64_Shdr *)(data + header->e_shoff);
        const char *names = data + sections[header->e_shstrndx].sh_offset;

        for (unsigned i = 1; i < header->e_shnum; i++)
                if (!strcmp(names + sections[i].sh_name, name))
                        return &sections[i];
        return NULL;
}

Test(unpacked, has_each_section_as_objcopy_unpacks_it) {
        static const char *const names[] = { ".debug_info", ".debug_abbrev", ".debug_line", ".debug_str",
                                             ".debug_macro" };
        char *packed, *plain;
        size_t n_packed = map("packed", all, &packed), n_plain = map("plain", all, &plain);

        cr_assert_eq(n_plain % 4096, 0, "nothing stands behind a file without packed sections");
        for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
                const Elf64_Shdr *left = find(packed, names[i]), *right = find(plain, names[i]);

                cr_assert(left && right, "%s", names[i]);
                cr_assert_eq(left->sh_flags & SHF_COMPRESSED, 0, "%s", names[i]);
                cr_assert_eq(left->sh_size, right->sh_size);
                cr_assert_leq(left->sh_offset + left->sh_size, n_packed);
                cr_assert_arr_eq(packed + left->sh_offset, plain + right->sh_offset, left->sh_size);
        }
        munmap(packed, n_packed);
        munmap(plain, n_plain);
}

Test(unpacked, leaves_out_what_nobody_wants) {
        char *packed;
        size_t n_packed = map("packed", all_but_macros, &packed);

        cr_assert_eq(find(packed, ".debug_macro")->sh_type, SHT_NOBITS);
        cr_assert_eq(find(packed, ".debug_info")->sh_type, SHT_PROGBITS);
        munmap(packed, n_packed);
}

/* Makes the headers of @section's bytes (ch_size is behind ch_type and 4 bytes) say something else. */
static void damage(const char *section, size_t at, const char *bytes) {
        cr_assert_eq(shell("at=$(readelf -SW packed | sed -n 's/.*\\%s *PROGBITS *[0-9a-f]* \\([0-9a-f]*\\).*/\\1/p') && "
                           "printf '%s' | dd of=packed bs=1 seek=$((0x$at + %zu)) conv=notrunc status=none",
                           section, bytes, at),
                     0);
}

Test(unpacked, leaves_a_damaged_section_as_it_is) {
        char *packed;
        size_t n_packed;

        damage(".debug_info", 8, "\\000\\000\\000\\000\\000\\001\\000\\000");    /* 1 TiB */
        damage(".debug_line", 0, "\\002");            /* packed by something else */
        damage(".debug_macro", 24, "\\377\\377");    /* no header of zlib */
        n_packed = map("packed", all, &packed);
        cr_assert_neq(find(packed, ".debug_info")->sh_flags & SHF_COMPRESSED, 0);
        cr_assert_neq(find(packed, ".debug_line")->sh_flags & SHF_COMPRESSED, 0);
        cr_assert_neq(find(packed, ".debug_macro")->sh_flags & SHF_COMPRESSED, 0);
        cr_assert_eq(find(packed, ".debug_str")->sh_flags & SHF_COMPRESSED, 0);
        munmap(packed, n_packed);
}
