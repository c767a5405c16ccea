/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Notes of probes in files that are made byte by byte: a page of code at 0x1000, one of data at 0x2000, and
 * the notes behind. That they are what compilers and <sys/sdt.h> write, readelf says of libspanprof-alloc
 * (test-alloc-library.py).
 */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "host/sampling/process/probe-notes.h"

enum { CODE = 0x1000, DATA = 0x2000, NOTES = 0x3000, MAX_NOTES = (1 << 20) + 4096 };

#if defined(__x86_64__)
static const char nop[] = "\x90", three[] = "8@%rdi 8@%rsi 8@%rdx";
#define FIRST "%rdi"
enum { NOP_SIZE = 1, RDI = 14, RSI = 13, RDX = 12 };
#else
static const char nop[] = "\x1f\x20\x03\xd5", three[] = "8@x0 8@x1 8@x2";
#define FIRST "x0"
enum { NOP_SIZE = 4, RDI = 0, RSI = 1, RDX = 2 };
#endif

typedef struct Note {
        uint64_t place, base, semaphore;
        const char *provider, *name, *arguments;
} Note;

static uint8_t notes[MAX_NOTES];
static size_t n_notes;

static void put(const void *bytes, size_t size) {
        cr_assert(n_notes + size <= sizeof(notes));
        memcpy(notes + n_notes, bytes, size);
        n_notes += size;
}

static void add(const Note *note) {
        const char *texts[] = { note->provider ?: "otel_memory", note->name ?: "alloc",
                                note->arguments ?: three };
        uint32_t head[3] = { 8, 24, 3 };

        for (int i = 0; i < 3; i++)
                head[1] += (uint32_t)strlen(texts[i]) + 1;
        put(head, sizeof(head));
        put("stapsdt", 8);
        put(note, 24);
        for (int i = 0; i < 3; i++)
                put(texts[i], strlen(texts[i]) + 1);
        while (n_notes % 4)
                put("", 1);
}

/* @base: address of .stapsdt.base; 0 = there is none. */
static ProbeNotes read_file(uint64_t base) {
        static const char names[] = "\0.note.stapsdt\0.stapsdt.base\0.shstrtab";
        const size_t table = (NOTES + n_notes + sizeof(names) + 7) / 8 * 8;
        const size_t size = table + 4 * sizeof(Elf64_Shdr);
        uint8_t *file = calloc(1, size);
        Elf64_Ehdr header = { .e_ident = "\177ELF\2\1\1", .e_type = ET_DYN, .e_version = 1,
#if defined(__x86_64__)
                              .e_machine = EM_X86_64,
#else
                              .e_machine = EM_AARCH64,
#endif
                              .e_phoff = sizeof(header), .e_shoff = table, .e_ehsize = sizeof(header),
                              .e_phentsize = sizeof(Elf64_Phdr), .e_phnum = 2,
                              .e_shentsize = sizeof(Elf64_Shdr), .e_shnum = 4, .e_shstrndx = 3 };
        const Elf64_Phdr segments[] = {
                { .p_type = PT_LOAD, .p_flags = PF_R | PF_X, .p_offset = CODE, .p_vaddr = CODE,
                  .p_filesz = 0x1000, .p_memsz = 0x1000 },
                { .p_type = PT_LOAD, .p_flags = PF_R | PF_W, .p_offset = DATA, .p_vaddr = DATA,
                  .p_filesz = 0x1000, .p_memsz = 0x1000 },
        };
        const Elf64_Shdr sections[] = {
                { 0 },
                { .sh_name = 1, .sh_type = SHT_NOTE, .sh_offset = NOTES, .sh_size = n_notes },
                { .sh_name = base ? 15 : 0, .sh_type = SHT_PROGBITS, .sh_addr = base, .sh_offset = CODE,
                  .sh_size = 1 },
                { .sh_name = 29, .sh_type = SHT_STRTAB, .sh_offset = NOTES + n_notes,
                  .sh_size = sizeof(names) },
        };
        ProbeNotes found;
        ElfImage image;

        memcpy(file, &header, sizeof(header));
        memcpy(file + sizeof(header), segments, sizeof(segments));
        for (int i = 0; i < 16; i++)
                memcpy(file + CODE + i * NOP_SIZE, nop, NOP_SIZE);
        file[CODE + 0x100] = 0xc3;
        memcpy(file + NOTES, notes, n_notes);
        memcpy(file + NOTES + n_notes, names, sizeof(names));
        memcpy(file + table, sections, sizeof(sections));
        cr_assert_eq(elf_image_init_memory(&image, file, size), 0);
        cr_assert_eq(probe_notes_read(&found, &image), 0);
        elf_image_deinit(&image);
        free(file);
        n_notes = 0;
        return found;
}

/* What a file with one note has. */
static ProbeNotes one(const Note *note) {
        add(note);
        return read_file(0);
}

Test(probe_notes, finds_place_semaphore_and_arguments) {
        ProbeNotes found = one(&(Note){ CODE + 4, 0, DATA + 10, NULL, NULL, NULL });

        cr_assert(found.n == 1 && !found.n_over_cap && !found.n_refused);
        cr_assert_eq(found.notes[0].offset, CODE + 4);
        cr_assert_eq(found.notes[0].semaphore, DATA + 10);
        for (size_t i = 0; i < ALLOC_N_ARGUMENTS; i++) {
                const uint8_t registers[] = { RDI, RSI, RDX };
                const struct alloc_argument *argument = &found.notes[0].probe.arguments[i];

                cr_assert_eq(argument->place, ALLOC_REGISTER);
                cr_assert_eq(argument->index, registers[i]);
                cr_assert_eq(argument->size, 8);
                cr_assert(!argument->is_signed);
        }
        cr_assert_eq(one(&(Note){ CODE, 0, 0, NULL, NULL, NULL }).notes[0].semaphore, 0);
}

Test(probe_notes, leaves_out_other_probes) {
        add(&(Note){ CODE, 0, 0, "libc", NULL, NULL });
        add(&(Note){ CODE, 0, 0, NULL, "mmap", NULL });
        add(&(Note){ CODE, 0, 0, NULL, NULL, NULL });
        cr_assert_eq(read_file(0).n, 1);
}

/* Frees come first, in the order of the file, and one argument is enough for them. */
Test(probe_notes, knows_whether_all_frees_are_told) {
        const Note free_note = { CODE + 8, 0, DATA + 2, NULL, "free", "8@" FIRST };
        ProbeNotes found;

        add(&(Note){ CODE, 0, DATA, NULL, NULL, NULL });
        add(&free_note);
        add(&(Note){ CODE + 4, 0, DATA, NULL, NULL, NULL });
        add(&(Note){ CODE + 12, 0, DATA + 2, NULL, "free", NULL });
        found = read_file(0);
        cr_assert(found.n == 4 && found.has_all_frees && !found.n_refused);
        cr_assert(found.notes[0].is_free && found.notes[0].offset == CODE + 8);
        cr_assert(found.notes[0].probe.arguments[0].place == ALLOC_REGISTER);
        cr_assert(found.notes[1].is_free && found.notes[1].offset == CODE + 12);
        cr_assert(!found.notes[2].is_free && found.notes[2].offset == CODE);
        cr_assert(!found.notes[3].is_free && found.notes[3].offset == CODE + 4);
        cr_assert_not(one(&(Note){ CODE, 0, DATA, NULL, NULL, NULL }).has_all_frees, "there is none");
        add(&free_note);
        add(&(Note){ CODE + 0x200, 0, 0, NULL, "free", NULL });
        found = read_file(0);
        cr_assert(found.n == 1 && found.n_refused == 1 && !found.has_all_frees, "one is refused");
        for (size_t i = 0; i < ALLOC_MAX_FILE_PROBES; i++)
                add(i ? &(Note){ CODE, 0, DATA, NULL, NULL, NULL } : &free_note);
        add(&free_note);
        found = read_file(0);
        cr_assert(found.n == ALLOC_MAX_FILE_PROBES && !found.has_all_frees, "one is over the cap");
        add(&free_note);
        put((uint32_t[]){ 8, UINT32_MAX, 3 }, 12);
        cr_assert_not(read_file(0).has_all_frees, "they may be behind what is cut");
}

/* All that follows lies by 0x80 further on than the notes say. */
Test(probe_notes, follows_a_file_that_was_moved) {
        ProbeNotes found;

        add(&(Note){ CODE - 0x80 + 8, 0x5000, DATA - 0x80, NULL, NULL, NULL });
        found = read_file(0x5080);
        cr_assert(found.n == 1 && found.notes[0].offset == CODE + 8 && found.notes[0].semaphore == DATA);
}

Test(probe_notes, refuses_what_is_no_place_for_a_breakpoint) {
        const Note wrong[] = {
                { DATA, 0, 0, NULL, NULL, NULL },               /* no code */
                { NOTES, 0, 0, NULL, NULL, NULL },              /* in no segment */
                { UINT64_MAX, 0, 0, NULL, NULL, NULL },
                { CODE + 0x1000, 0, 0, NULL, NULL, NULL },      /* behind the segment */
                { CODE + 0x100, 0, 0, NULL, NULL, NULL },       /* an instruction */
                { CODE + 0x200, 0, 0, NULL, NULL, NULL },
                { CODE, 0, CODE, NULL, NULL, NULL },            /* counts in code */
                { CODE, 0, DATA + 0xfff, NULL, NULL, NULL },    /* half of it behind the segment */
                { CODE, 0, 1, NULL, NULL, NULL },
                { CODE, 0, 0, NULL, NULL, "" },
                { CODE, 0, 0, NULL, NULL, "8@%rdi 8@%rsi" },
        };

        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++) {
                ProbeNotes found = one(&wrong[i]);

                cr_assert(found.n == 0 && found.n_refused == 1, "%zu", i);
        }
}

Test(probe_notes, bounds_the_probes_of_a_file) {
        ProbeNotes found;

        for (size_t i = 0; i < ALLOC_MAX_FILE_PROBES + 3; i++)
                add(&(Note){ CODE, 0, DATA, NULL, NULL, NULL });
        found = read_file(0);
        cr_assert(found.n == ALLOC_MAX_FILE_PROBES && found.n_over_cap == 3);
}

/* Each costs a read of the file. */
Test(probe_notes, bounds_those_that_are_refused) {
        ProbeNotes found;

        for (size_t i = 0; i < ALLOC_MAX_FILE_PROBES + 3; i++)
                add(&(Note){ i ? CODE + 0x200 : CODE, 0, DATA, NULL, NULL, NULL });
        found = read_file(0);
        cr_assert(found.n == 1 && found.n_refused == ALLOC_MAX_FILE_PROBES - 1 && found.n_over_cap == 3);
}

Test(probe_notes, reads_no_more_than_a_mebibyte) {
        ProbeNotes found;

        while (n_notes <= PROBE_MAX_NOTES)
                add(&(Note){ CODE, 0, DATA, NULL, NULL, NULL });
        found = read_file(0);
        cr_assert(found.n == 0 && found.n_over_cap == 1);
}

Test(probe_notes, ends_at_a_note_that_is_cut) {
        ProbeNotes found;

        add(&(Note){ CODE, 0, DATA, NULL, NULL, NULL });
        put((uint32_t[]){ 8, UINT32_MAX, 3 }, 12);
        add(&(Note){ CODE, 0, DATA, NULL, NULL, NULL });
        found = read_file(0);
        cr_assert(found.n == 1 && found.n_refused == 1);
        add(&(Note){ CODE, 0, DATA, NULL, NULL, NULL });
        n_notes -= 8;
        found = read_file(0);
        cr_assert(found.n == 0 && found.n_refused == 1);
}

#if defined(__x86_64__)
Test(probe_notes, knows_the_words_of_the_assembler) {
        static const char *const wrong[] = {
                "8@%rip 8@%rsi 8@%rdx", "8@%r16 8@%rsi 8@%rdx", "8@%r8x 8@%rsi 8@%rdx", "3@%rdi 8@%rsi 8@%rdx",
                "8f@%xmm0 8@%rsi 8@%rdx", "8@8(%rax,%rbx,4) 8@%rsi 8@%rdx", "8@8(%rax 8@%rsi 8@%rdx",
                "8@$ 8@%rsi 8@%rdx", "8@ 8@%rsi 8@%rdx", "@%rdi 8@%rsi 8@%rdx", "8@%rdi,8@%rsi,8@%rdx",
                "8@%r 8@%r 8@%r",
        };
        struct alloc_probe probe;

        cr_assert_eq(probe_arguments_parse("-4@%eax 8@-16(%rbp)  2@$0x2a", 3, &probe), 0);
        cr_assert(probe.arguments[0].place == ALLOC_REGISTER && probe.arguments[0].index == 10 &&
                  probe.arguments[0].size == 4 && probe.arguments[0].is_signed);
        cr_assert(probe.arguments[1].place == ALLOC_MEMORY && probe.arguments[1].index == 4 &&
                  probe.arguments[1].value == -16);
        cr_assert(probe.arguments[2].place == ALLOC_CONSTANT && probe.arguments[2].value == 42 &&
                  probe.arguments[2].size == 2);
        cr_assert_eq(probe_arguments_parse("8@%r15 8@%r8d 8@(%rsp)", 3, &probe), 0);
        cr_assert(probe.arguments[0].index == 0 && probe.arguments[1].index == 9 &&
                  probe.arguments[2].index == 19);
        for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
                cr_assert_eq(probe_arguments_parse(wrong[i], 3, &probe), 1, "%s", wrong[i]);
}
#endif
