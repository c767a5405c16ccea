/* SPDX-License-Identifier: Apache-2.0 */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

#include "hand-elf.h"
#include "core/base/elf/image.h"

static ImageIds ids_of(const void *data, size_t size) {
        ElfImage image;
        ImageIds ids;
        int fd = hand_fd(data, size);

        cr_assert_eq(elf_image_init(&image, fd, 0, size), 0);
        cr_assert_eq(elf_image_ids(&image, &ids), 0);
        elf_image_deinit(&image);
        close(fd);
        return ids;
}

/* An ELF file with one program header, PT_NOTE, over @notes. */
static ImageIds ids_of_notes(const void *notes, size_t size, uint64_t align) {
        HandElf elf = hand_elf(NULL, 0, NULL);
        Elf64_Phdr segment = { .p_type = PT_NOTE, .p_filesz = size, .p_align = align };
        uint64_t at;
        ImageIds ids;

        segment.p_offset = hand_add(&elf, notes, size);
        at = hand_add(&elf, &segment, sizeof(segment));
        elf.header = (Elf64_Ehdr *)elf.data;
        elf.header->e_phoff = at;
        elf.header->e_phnum = 1;
        elf.header->e_phentsize = sizeof(segment);
        ids = ids_of(elf.data, elf.size);
        free(elf.data);
        return ids;
}

Test(image, reads_the_build_id_that_readelf_prints) {
        const char *command = "readelf -nW /proc/self/exe | sed -n 's/.*Build ID: //p'";
        _cleanup_(freep) char *self = realpath("/usr/bin/readelf", NULL);
        char expected[256] = "";
        ElfImage image;
        ImageIds ids;
        struct stat st;
        FILE *pipe;
        int fd;

        cr_assert_not_null(self, "binutils is a build dependency");
        pipe = popen(command, "r");     /* /proc/self is readelf there */
        cr_assert_eq(fscanf(pipe, "%255s", expected), 1);
        pclose(pipe);
        fd = open(self, O_RDONLY | O_CLOEXEC);
        cr_assert_eq(fstat(fd, &st), 0);
        cr_assert_eq(elf_image_init(&image, fd, 0, (uint64_t)st.st_size), 0);
        cr_assert_eq(elf_image_ids(&image, &ids), 0);
        cr_assert_str_eq(ids.gnu, expected);
        elf_image_deinit(&image);
        close(fd);
}

Test(image, reads_an_image_in_memory) {
        int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
        ElfImage image;
        ImageIds ids;

        cr_assert_eq(elf_image_init(&image, fd, getauxval(AT_SYSINFO_EHDR), 16 << 10), 0);
        cr_assert_eq(elf_image_ids(&image, &ids), 0);
        cr_assert_gt(strlen(ids.gnu), 8);
        elf_image_deinit(&image);
        close(fd);
}

Test(image, reads_the_id_of_a_file_with_sections_alone) {
        HandElf elf = hand_elf(
                NULL, 0,
                (const uint8_t
                         *)"\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\x0b\x0c\x0d\x0e\x0f\xfc\xfd\xfe\xff");

        cr_assert_str_eq(ids_of(elf.data, elf.size).gnu, "000102030405060708090a0b0c0d0e0ffcfdfeff");
        free(elf.data);
}

Test(image, finds_both_ids_among_other_notes) {
        static const uint8_t notes[] = {
                4, 0, 0, 0, 16, 0, 0, 0, 1, 0, 0, 0, 'G', 'N', 'U', 0,          /* ABI tag */
                0, 0, 0, 0, 3, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0,
                3, 0, 0, 0, 5, 0, 0, 0, 9, 0, 0, 0, 'x', 'y', 'z', 0,           /* odd sizes are padded */
                1, 2, 3, 4, 5, 0, 0, 0,
                4, 0, 0, 0, 2, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 0xab, 0xcd, 0, 0,
                4, 0, 0, 0, 5, 0, 0, 0, 4, 0, 0, 0, 'G', 'o', 0, 0, 'a', '/', 'b', '/', 'c', 0, 0, 0,
        };
        ImageIds ids = ids_of_notes(notes, sizeof(notes), 4);

        cr_assert_str_eq(ids.gnu, "abcd");
        cr_assert_str_eq(ids.go, "a/b/c");
}

Test(image, pads_notes_to_8_where_the_segment_says_so) {
        static const uint8_t notes[] = {
                4, 0, 0, 0, 4, 0, 0, 0, 5, 0, 0, 0, 'G', 'N', 'U', 0, 1, 2, 3, 4, 0, 0, 0, 0,
                4, 0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 0x5a,
        };

        cr_assert_str_eq(ids_of_notes(notes, sizeof(notes), 8).gnu, "5a");
        cr_assert_str_eq(ids_of_notes(notes, sizeof(notes), 4).gnu, "", "the second is elsewhere then");
}

Test(image, ignores_notes_that_are_cut_off_or_too_long) {
        static const uint8_t cut[] = { 4, 0, 0, 0, 20, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0, 1, 2, 3 };
        static const uint8_t huge[] = { 0xff, 0xff, 0xff, 0xff, 4,   0, 0, 0, 3, 0,
                                        0,    0,    'G',  'N',  'U', 0, 1, 2, 3, 4 };
        uint8_t long_id[16 + IMAGE_MAX_BUILD_ID + 1] = {
                4, 0, 0, 0, IMAGE_MAX_BUILD_ID + 1, 0, 0, 0, 3, 0, 0, 0, 'G', 'N', 'U', 0
        };

        cr_assert_str_eq(ids_of_notes(cut, sizeof(cut), 4).gnu, "");
        cr_assert_str_eq(ids_of_notes(huge, sizeof(huge), 4).gnu, "");
        cr_assert_str_eq(ids_of_notes(long_id, sizeof(long_id), 4).gnu, "");
        long_id[4] = IMAGE_MAX_BUILD_ID;
        cr_assert_eq(strlen(ids_of_notes(long_id, sizeof(long_id) - 1, 4).gnu), 2 * IMAGE_MAX_BUILD_ID);
}

/* What the kernel maps begins with a page, of 4, 16 or 64 KiB. */
Test(image, maps_bytes_that_begin_anywhere) {
        enum { SIZE = 200 << 10, PART = 1000 };
        static const uint64_t places[] = { 1, 5000, 5 << 12, 9 << 13, 70000, 131071 };
        uint8_t *filler = malloc(SIZE);
        HandElf elf = hand_elf(NULL, 0, NULL);
        ElfImage image;
        int fd;

        for (size_t i = 0; i < SIZE; i++)
                filler[i] = (uint8_t)(i >> 4);
        hand_add(&elf, filler, SIZE);
        fd = hand_fd(elf.data, elf.size);
        cr_assert_eq(elf_image_init(&image, fd, 0, elf.size), 0);
        for (size_t i = 0; i < sizeof(places) / sizeof(*places); i++) {
                ImageBytes bytes;

                cr_assert_eq(image_bytes_init(&bytes, &image, places[i], PART, true), 0);
                cr_assert_not_null(bytes.map);
                cr_assert_arr_eq(bytes.data, elf.data + places[i], PART);
                image_bytes_deinit(&bytes);
        }
        elf_image_deinit(&image);
        close(fd);
        free(elf.data);
        free(filler);
}
