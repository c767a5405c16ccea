/* SPDX-License-Identifier: Apache-2.0 */
/*
 * victim-text FORM LIBRARY [SECONDS]: a library whose text is no file's, or very many executable mappings
 *
 * Loads LIBRARY (a build of swap-library.c) and works in main() → text_outer() → library_burn() until it is
 * told to stop, or SECONDS long. First, by FORM:
 *     plain            nothing
 *     moved            a copy of the library's text is moved over it (mremap)
 *     written          memory is mapped over the text, and the copy written to it
 *     huge             the same with huge pages of hugetlbfs; exits with 77 if there are none
 *     changed          as `moved`, and its first byte is another one
 *     areas:N:GAP      before the library is loaded: N executable pages, GAP pages apart, below it
 * Prints:
 *     pid 4711
 */
#include <dlfcn.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>

#include "victim.h"

enum { PAGE = 4096 };

#define LOW ((char *)0x10000000)

typedef uint64_t (*Burn)(uint64_t rounds);

typedef struct Text {
        void *library;
        char *start;
        size_t size;
        size_t align;                   /* of the segment */
} Text;

static void fail(const char *what) {
        perror(what);
        exit(77);
}

/* The executable segment that holds library_burn(). */
static int find_text(struct dl_phdr_info *info, size_t size, void *userdata) {
        Text *text = userdata;
        uintptr_t burn = (uintptr_t)dlsym(text->library, "library_burn");

        for (int i = 0; i < info->dlpi_phnum; i++) {
                const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
                uintptr_t start = info->dlpi_addr + segment->p_vaddr;

                if (segment->p_type != PT_LOAD || burn < start || burn >= start + segment->p_memsz)
                        continue;
                text->start = (char *)(start & -(uintptr_t)PAGE);
                text->size = (start + segment->p_memsz - (uintptr_t)text->start + PAGE - 1) & -(size_t)PAGE;
                text->align = segment->p_align;
                return 1;
        }
        return 0;
}

static char *map(char *at, size_t size, int rights, int flags) {
        char *p = mmap(at, size, rights, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);

        if (p == MAP_FAILED)
                fail("mmap");
        return p;
}

static char *copy_of(const Text *text) {
        char *copy = map(NULL, text->size, PROT_READ | PROT_WRITE, 0);

        memcpy(copy, text->start, text->size);
        return copy;
}

static void move_over(const Text *text, char *copy) {
        if (mprotect(copy, text->size, PROT_READ | PROT_EXEC) ||
            mremap(copy, text->size, text->size, MREMAP_MAYMOVE | MREMAP_FIXED, text->start) == MAP_FAILED)
                fail("mremap");
}

static void write_over(const Text *text, const char *copy, size_t size, int flags) {
        map(text->start, size, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_FIXED | flags);
        memcpy(text->start, copy, text->size);
        if (mprotect(text->start, size, PROT_READ | PROT_EXEC))
                fail("mprotect");
}

/* The first byte of its text is of _init(), which has run and is called no more. */
static void change(char *copy) {
        copy[0]++;
}

static void replace_text(const char *form, const Text *text) {
        char *copy = copy_of(text);

        if (!strcmp(form, "changed"))
                change(copy);
        if (!strcmp(form, "moved") || !strcmp(form, "changed"))
                move_over(text, copy);
        else if (!strcmp(form, "written"))
                write_over(text, copy, text->size, 0);
        else if (!strcmp(form, "huge"))
                write_over(text, copy, (text->size + text->align - 1) & -text->align, MAP_HUGETLB);
}

static void make_areas(long n, long gap) {
        for (long i = 0; i < n; i++)
                map(LOW + i * (gap + 1) * PAGE, PAGE, PROT_READ | PROT_EXEC, MAP_FIXED_NOREPLACE);
}

STEP uint64_t text_outer(Burn burn);

STEP uint64_t text_outer(Burn burn) {
        return burn(40000) + 1;
}

int main(int argc, char **argv) {
        const char *form = argc > 2 ? argv[1] : "";
        long n = 0, gap = 0;
        Text text = { 0 };
        Burn burn;

        if (argc < 3) {
                fprintf(stderr, "usage: victim-text FORM LIBRARY [SECONDS]\n");
                return 2;
        }
        if (sscanf(form, "areas:%ld:%ld", &n, &gap) == 2)
                make_areas(n, gap);
        text.library = dlopen(argv[2], RTLD_NOW);
        burn = text.library ? (Burn)dlsym(text.library, "library_burn") : NULL;
        if (!burn || !dl_iterate_phdr(find_text, &text)) {
                fprintf(stderr, "%s\n", dlerror());
                return 1;
        }
        replace_text(form, &text);
        victim_stop_after(victim_argument(argc, argv, 3, 0, 0, 1e6, "victim-text FORM LIBRARY [SECONDS]"));
        printf("pid %d\n", getpid());
        fflush(stdout);
        while (!victim_stopped)
                victim_sink = text_outer(burn);
        return 0;
}
