/* SPDX-License-Identifier: Apache-2.0 */

/*
 *     0                headers
 *     4096             the code, a hole as large as the area: a file of 64 MiB takes no memory for it
 *     4096 + area      .eh_frame, then names and headers of sections
 */

#include "host/sampling/unwind/made/made-image.h"

#include <elf.h>
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"

#if defined(__x86_64__)
enum { MACHINE = EM_X86_64 };
#else
enum { MACHINE = EM_AARCH64 };
#endif

enum { TEXT_OFFSET = 4096 };

typedef struct Head {
        Elf64_Ehdr header;
        Elf64_Phdr segment;
} Head;

typedef struct Tail {
        char names[24];
        Elf64_Shdr sections[3];
} Tail;

/* Return: 0, -errno. */
static int write_at(int fd, const void *data, size_t size, uint64_t offset) {
        size_t done = 0;

        while (done < size) {
                ssize_t n = pwrite(fd, (const char *)data + done, size - done, (off_t)(offset + done));

                if (n <= 0)
                        return error_origin(n ? -errno : -EIO);
                done += (size_t)n;
        }
        return 0;
}

int made_image_write(const FrameView *view, int *fdp) {
        const FrameCluster *cluster = &view->cluster;
        uint64_t area = cluster->high - cluster->low, section = TEXT_OFFSET + area;
        uint64_t tail_at = (section + cluster->size + 7) & ~UINT64_C(7);
        const Head head = {
                .header = { .e_ident = { ELFMAG0, ELFMAG1, ELFMAG2, ELFMAG3, ELFCLASS64, ELFDATA2LSB,
                                         EV_CURRENT },
                            .e_type = ET_DYN, .e_machine = MACHINE, .e_version = EV_CURRENT,
                            .e_phoff = offsetof(Head, segment),
                            .e_shoff = tail_at + offsetof(Tail, sections),
                            .e_ehsize = sizeof(Elf64_Ehdr), .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 1,
                            .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 3, .e_shstrndx = 2 },
                .segment = { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = TEXT_OFFSET,
                             .p_vaddr = cluster->low, .p_filesz = area, .p_memsz = area, .p_align = 4096 },
        };
        const Tail tail = {
                .names = "\0.eh_frame\0.shstrtab",
                .sections = {
                        { 0 },
                        { .sh_name = 1, .sh_type = SHT_PROGBITS, .sh_flags = SHF_ALLOC,
                          .sh_addr = cluster->high + FRAME_SECTION_DISTANCE, .sh_offset = section,
                          .sh_size = cluster->size, .sh_addralign = 8 },
                        { .sh_name = 11, .sh_type = SHT_STRTAB, .sh_offset = tail_at,
                          .sh_size = sizeof(tail.names), .sh_addralign = 1 },
                },
        };
        _cleanup_(closep) int fd = memfd_create("spanprof-made", MFD_CLOEXEC);
        int r;

        if (fd < 0)
                return error_origin(-errno);
        r = write_at(fd, &head, sizeof(head), 0);
        if (!r)
                r = write_at(fd, view->section, cluster->size, section);
        if (!r)
                r = write_at(fd, &tail, sizeof(tail), tail_at);
        if (r)
                return r;
        *fdp = take_fd(fd);
        return 0;
}
