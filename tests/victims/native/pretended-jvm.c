/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Says that it is a JVM: exports what libjvm does, and has the memory of one that never ran
 * (tests/harness/c/hotspot-image.h) at its addresses. Code is put to where this memory says that some is, and
 * runs there as long as the process lives:
 *
 *     main ──▶ call stub ──▶ nmethod, in a loop
 *
 * usage: pretended-jvm IMAGE        prints `ready`
 *
 * Compiled by test-run-pretended-jvm.py; x86-64 alone.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum {
        N_SYMBOLS = 18,
        PAGE = 4096,
        MAX_IMAGE = 1 << 20,
        FRAME_WORDS = 3,
        /* nmethod_pc + 2 of make-hotspot-corpus.py */
        FIRST_FRAME_AT = 52,
        STUB_BEFORE = 6,
        GIANT_PIECE = 2 << 20,
        N_GIANT_PIECES = 1024,
};

#define GIANT 0x7b0000000000ull         /* as in make-hotspot-corpus.py */

/* In the order of hotspot_symbol_names. */
#define SYMBOLS(X) \
        X(gHotSpotVMStructs) X(gHotSpotVMStructEntryArrayStride) X(gHotSpotVMStructEntryTypeNameOffset) \
        X(gHotSpotVMStructEntryFieldNameOffset) X(gHotSpotVMStructEntryTypeStringOffset) \
        X(gHotSpotVMStructEntryIsStaticOffset) X(gHotSpotVMStructEntryOffsetOffset) \
        X(gHotSpotVMStructEntryAddressOffset) X(gHotSpotVMTypes) X(gHotSpotVMTypeEntryArrayStride) \
        X(gHotSpotVMTypeEntryTypeNameOffset) X(gHotSpotVMTypeEntrySuperclassNameOffset) \
        X(gHotSpotVMTypeEntrySizeOffset) X(gHotSpotVMIntConstants) X(gHotSpotVMIntConstantEntryArrayStride) \
        X(gHotSpotVMIntConstantEntryNameOffset) X(gHotSpotVMIntConstantEntryValueOffset) \
        X(gHotSpotVMLongConstants)

#define DEFINE(_name) uint64_t _name;
SYMBOLS(DEFINE)

#define ADDRESS(_name) &_name,
static uint64_t *const symbols[N_SYMBOLS] = { SYMBOLS(ADDRESS) };

/* A file with less code is not looked into. */
__asm__(".text\n .skip 2 << 20, 0xcc\n");

static const uint8_t compiled[] = {
        0x48, 0x83, 0xec, 0x28,                         /* sub $40,%rsp */
        0x48, 0x89, 0x6c, 0x24, 0x20,                   /* mov %rbp,32(%rsp) */
        0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
        0xb9, 0x00, 0x00, 0x00, 0x10,                   /* mov $0x10000000,%ecx */
        0xff, 0xc9,                                     /* dec %ecx */
        0x75, 0xfc,                                     /* jne */
        0x48, 0x83, 0xc4, 0x20,                         /* add $32,%rsp */
        0x5d,                                           /* pop %rbp */
        0xc3,
};

static const uint8_t stub[] = {
        0x55,                                           /* push %rbp */
        0x48, 0x89, 0xe5,                               /* mov %rsp,%rbp */
        0xff, 0xd7,                                     /* call *%rdi */
        0x5d,                                           /* the call stub's return address */
        0xc3,
};

static void map_piece(uint64_t address, const uint8_t *data, uint32_t size) {
        for (uint64_t page = address & -(uint64_t)PAGE; page < address + size; page += PAGE)
                /* one that another piece has brought stays */
                mmap((void *)page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
        memcpy((void *)address, data, size);
}

/* A text of 2 GiB, which takes 2 MiB of memory. */
static void map_giant(void) {
        int fd = memfd_create("giant", 0);
        void *text;

        if (fd < 0 || ftruncate(fd, GIANT_PIECE))
                exit(EXIT_FAILURE);
        for (uint64_t i = 0; i < N_GIANT_PIECES; i++) {
                text = mmap((void *)(GIANT + i * GIANT_PIECE), GIANT_PIECE, PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
                if (text == MAP_FAILED)
                        exit(EXIT_FAILURE);
                if (!i)
                        memset(text, 'x', GIANT_PIECE);
        }
}

int main(int argc, char *argv[]) {
        static uint8_t image[MAX_IMAGE];
        uint64_t addresses[1 + N_SYMBOLS + 1], first[FRAME_WORDS], last[FRAME_WORDS], code, call_stub;
        FILE *file = argc == 2 ? fopen(argv[1], "r") : NULL;
        size_t size, at = sizeof(addresses);
        uint32_t n_frames;

        if (!file)
                return EXIT_FAILURE;
        size = fread(image, 1, sizeof(image), file);
        memcpy(addresses, image, sizeof(addresses));
        memcpy(&n_frames, image + at, sizeof(n_frames));
        at += sizeof(n_frames);
        memcpy(first, image + at, sizeof(first));
        memcpy(last, image + at + 2 * sizeof(first), sizeof(last));
        for (at += n_frames * sizeof(first); at < size;) {
                uint64_t address;
                uint32_t length;

                memcpy(&address, image + at, sizeof(address));
                memcpy(&length, image + at + sizeof(address), sizeof(length));
                at += sizeof(address) + sizeof(length);
                map_piece(address, image + at, length);
                at += length;
        }
        for (int i = 0; i < N_SYMBOLS; i++)
                *symbols[i] = *(uint64_t *)addresses[1 + i];
        map_giant();
        code = (first[0] & 0xffffffffffffff) - FIRST_FRAME_AT;
        call_stub = (last[0] & 0xffffffffffffff) - STUB_BEFORE;
        memcpy((void *)code, compiled, sizeof(compiled));
        memcpy((void *)call_stub, stub, sizeof(stub));
        puts("ready");
        fflush(stdout);
        for (;;)
                ((void (*)(uint64_t))call_stub)(code);
}
