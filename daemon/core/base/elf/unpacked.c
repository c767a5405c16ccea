/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Lays a file and its unpacked sections into one map, so that a reader finds all by offsets:
 *
 *     [ the file, a private map         | unpacked | unpacked | ]
 *        headers of sections ───────────^──────────^
 *
 * libelf unpacks by itself, too, but by zlib, and all sections at once. Of glibc's debug file, two thirds of
 * the time went there, each time that somebody asked for a line. It still does so with what is left packed
 * here (UNPACKED_MAX_BYTES, zstd), as far as its process may have memory.
 */

#include "core/base/elf/unpacked.h"

#include <elf.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/file/gzip.h"
#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum { ALIGNMENT = 64 };        /* bytes of a section: more than any reader of DWARF wants */

/* The layout of an image. */
typedef struct Layout {
        const ElfImage *image;
        UnpackedWanted is_wanted;
        char *data;             /* the map */
        uint64_t end;           /* bytes of it that are taken */
} Layout;

static bool is_packed(const Layout *layout, const Elf64_Shdr *section) {
        return section->sh_flags & SHF_COMPRESSED && section->sh_type != SHT_NOBITS &&
                section->sh_size >= sizeof(Elf64_Chdr) && section->sh_offset <= layout->image->size &&
                section->sh_size <= layout->image->size - section->sh_offset;
}

/* Reads how a section is packed. Return: whether it can be unpacked. */
static bool read_head(const Layout *layout, const Elf64_Shdr *section, Elf64_Chdr *head) {
        _cleanup_(freep) char *bytes = NULL;

        if (elf_image_read(layout->image, section->sh_offset, sizeof(*head), &bytes))
                return false;
        memcpy(head, bytes, sizeof(*head));
        return head->ch_type == ELFCOMPRESS_ZLIB && head->ch_size <= UNPACKED_MAX_BYTES;
}

/* Bytes for all wanted sections at most. */
static uint64_t room_for(const Layout *layout) {
        uint64_t room = 0;
        Elf64_Chdr head;

        for (uint32_t i = 0; i < layout->image->n_sections; i++) {
                const Elf64_Shdr *section = &layout->image->sections[i];

                if (is_packed(layout, section) &&
                    layout->is_wanted(elf_image_section_name(layout->image, i)) &&
                    read_head(layout, section, &head) &&
                    room + head.ch_size + ALIGNMENT <= UNPACKED_MAX_BYTES)
                        room += head.ch_size + ALIGNMENT;
        }
        return room;
}

/* Unpacks a section behind what is there. Return: 0, GZIP_E_*, -ENOMEM. */
static int unpack(Layout *layout, uint64_t room, Elf64_Shdr *section, const Elf64_Chdr *head) {
        uint64_t at = (layout->end + ALIGNMENT - 1) & ~(uint64_t)(ALIGNMENT - 1);
        int r;

        if (head->ch_size > room || at > room - head->ch_size)
                return GZIP_E_TOO_LARGE;
        r = zlib_expand(layout->data + section->sh_offset + sizeof(*head), section->sh_size - sizeof(*head),
                        layout->data + at, head->ch_size);
        if (r)
                return r;
        section->sh_offset = at;
        section->sh_size = head->ch_size;
        section->sh_addralign = head->ch_addralign;
        section->sh_flags &= ~(Elf64_Xword)SHF_COMPRESSED;
        layout->end = at + head->ch_size;
        return 0;
}

/* @room: bytes of the map. Return: 0, -ENOMEM. */
static int place(Layout *layout, uint64_t room) {
        char *headers = layout->data + layout->image->header.e_shoff;

        for (uint32_t i = 0; i < layout->image->n_sections; i++) {
                Elf64_Shdr section = layout->image->sections[i];
                Elf64_Chdr head;
                int r = 0;

                if (!is_packed(layout, &section))
                        continue;
                if (!layout->is_wanted(elf_image_section_name(layout->image, i)))
                        section.sh_type = SHT_NOBITS;
                else if (read_head(layout, &section, &head))
                        r = unpack(layout, room, &section, &head);
                if (r < 0)
                        return error_fold(r);
                memcpy(headers + i * sizeof(section), &section, sizeof(section));
        }
        return 0;
}

/* Maps the file into the front of the layout's map, and lets headers be written. */
static int map_file(const Layout *layout, int fd) {
        const ElfImage *image = layout->image;
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), from = image->header.e_shoff & ~(page - 1);
        uint64_t end = image->header.e_shoff + image->n_sections * (uint64_t)sizeof(Elf64_Shdr);

        if (mmap(layout->data, image->size, PROT_READ, MAP_PRIVATE | MAP_FIXED, fd, 0) == MAP_FAILED)
                return IMAGE_E_UNREADABLE;
        return image->n_sections && mprotect(layout->data + from, end - from, PROT_READ | PROT_WRITE)
                ? error_origin(-ENOMEM)
                : 0;
}

static uint64_t round_to_page(uint64_t size) {
        uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);

        return (size + page - 1) & ~(page - 1);
}

/* The file may be larger than a worker's memory may be: so only what is behind it can be written at first. */
static int map_image(Layout *layout, int fd, size_t *mappedp) {
        uint64_t front = round_to_page(layout->image->size), room = room_for(layout), end = front + room;
        char *data = mmap(NULL, end, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        int r;

        if (data == MAP_FAILED)
                return error_origin(-ENOMEM);
        if (room && mprotect(data + front, room, PROT_READ | PROT_WRITE))
                room = 0;
        layout->data = data;
        layout->end = front;
        r = map_file(layout, fd);
        if (!r)
                r = place(layout, front + room);
        *mappedp = layout->end;
        front = r ? 0 : round_to_page(layout->end);
        if (end > front)
                munmap(data + front, end - front);        /* memory that nobody has taken */
        return r < 0 ? error_fold(r) : r;
}

int unpacked_map(int fd, uint64_t size, UnpackedWanted is_wanted, char **datap, size_t *mappedp) {
        ElfImage image;
        Layout layout = { .image = &image, .is_wanted = is_wanted };
        int r = elf_image_init(&image, fd, 0, size);

        if (r)
                return r < 0 ? error_fold(r) : r;
        r = map_image(&layout, fd, mappedp);
        elf_image_deinit(&image);
        if (r)
                return r < 0 ? error_fold(r) : r;
        *datap = layout.data;
        return 0;
}
