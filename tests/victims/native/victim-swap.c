/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-swap A B [SECONDS]: two libraries take turns at one address
 *
 * A and B are two builds of swap-library.c: the same functions at other offsets and with other frames. Maps
 * the code of one of them, works a few milliseconds in it by way of swap_a() or swap_b(), maps the other over
 * it, and so on. A profile is right where a frame of A has swap_a() below it, and one of B has swap_b().
 * Prints first, and at the end:
 *     pid 4711 address 7f0012340000
 *     swaps 1713
 */
#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "victim.h"

enum { ROUNDS = 40000 };

typedef uint64_t (*Burn)(uint64_t rounds);

typedef struct Library {
        int fd;
        uint64_t offset, size;          /* of its code in the file */
        uint64_t burn;                  /* offset of the function in the code */
} Library;

STEP void swap_a(Burn burn);
STEP void swap_b(Burn burn);

static void fail(const char *what) {
        perror(what);
        exit(1);
}

/* Finds the one executable segment, and `library_burn` by the symbol table of the dynamic section. */
static Library open_library(const char *path) {
        Library library = { .fd = open(path, O_RDONLY | O_CLOEXEC) };
        const Elf64_Shdr *sections, *symbols = NULL;
        const Elf64_Phdr *segments;
        const Elf64_Ehdr *header;
        uint64_t address = 0;
        const char *file;
        struct stat st;

        if (library.fd < 0 || fstat(library.fd, &st))
                fail(path);
        file = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, library.fd, 0);
        if (file == MAP_FAILED)
                fail(path);
        header = (const void *)file;
        segments = (const void *)(file + header->e_phoff);
        sections = (const void *)(file + header->e_shoff);
        for (int i = 0; i < header->e_phnum; i++)
                if (segments[i].p_type == PT_LOAD && segments[i].p_flags & PF_X) {
                        library.offset = segments[i].p_offset & ~(uint64_t)4095;
                        library.size = segments[i].p_offset + segments[i].p_filesz - library.offset;
                        address = segments[i].p_vaddr - segments[i].p_offset;
                }
        for (int i = 0; i < header->e_shnum; i++)
                if (sections[i].sh_type == SHT_DYNSYM)
                        symbols = &sections[i];
        for (uint64_t i = 0; symbols && i < symbols->sh_size / sizeof(Elf64_Sym); i++) {
                const Elf64_Sym *symbol = (const Elf64_Sym *)(file + symbols->sh_offset) + i;

                if (!strcmp(file + sections[symbols->sh_link].sh_offset + symbol->st_name, "library_burn"))
                        library.burn = symbol->st_value - address - library.offset;
        }
        munmap((void *)file, (size_t)st.st_size);
        return library;
}

/* Its code needs nothing but itself: no relocation is made. */
static Burn map_library(const Library *library, char *place) {
        if (mmap(place, library->size, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, library->fd,
                 (off_t)library->offset) == MAP_FAILED)
                fail("mmap");
        return (Burn)(void *)(place + library->burn);
}

STEP void swap_a(Burn burn) {
        victim_sink = burn(ROUNDS);
}

STEP void swap_b(Burn burn) {
        victim_sink = burn(ROUNDS) + 1;
}

int main(int argc, char **argv) {
        unsigned long n = 0;
        Library a, b;
        char *place;

        if (argc < 3) {
                fprintf(stderr, "usage: victim-swap A B [SECONDS]\n");
                return 2;
        }
        victim_stop_after(victim_argument(argc, argv, 3, 0, 0, 1e6, "victim-swap A B [SECONDS]"));
        a = open_library(argv[1]);
        b = open_library(argv[2]);
        place = mmap(NULL, a.size + b.size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (place == MAP_FAILED)
                fail("mmap");
        printf("pid %d address %lx\n", getpid(), (unsigned long)place);
        fflush(stdout);
        for (; !victim_stopped; n += 2) {
                swap_a(map_library(&a, place));
                swap_b(map_library(&b, place));
        }
        printf("swaps %lu\n", n);
        return 0;
}
