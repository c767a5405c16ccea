/* SPDX-License-Identifier: Apache-2.0 */

/*
 * The section .note.stapsdt, as <sys/sdt.h> and others write it. A note of type 3:
 *
 *     length of name, of the rest, 3 │ "stapsdt" │ address of the nop, of a base, of the semaphore │
 *     provider \0 name \0 arguments \0
 *
 * Addresses are those that the linker gave. Where prelink has moved the file since, .stapsdt.base lies by as
 * much elsewhere than the note says.
 *
 * The file is a target's, so a note may say anything, and the kernel would put a breakpoint there: into code
 * of all who run that file. So a probe must be in a segment of code, and a nop; its semaphore, into which the
 * kernel counts, in one that is written to.
 */

#include "host/sampling/process/probe-notes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/util/error.h"
#include "core/base/util/macro.h"

enum {
        NOTE_TYPE = 3,
        NOTE_HEAD = 12,
        NOTE_ADDRESSES = 24,
        NOP_BYTES = 8,                  /* room for a nop */
};

#define PROVIDER "otel_memory"

typedef struct Reading {
        const ElfImage *image;
        Elf64_Phdr *segments;
        uint32_t n_segments;
        uint64_t base;                  /* address of .stapsdt.base; 0 = there is none */
        bool lacks_frees;               /* probes that tell frees are left out */
        ProbeNotes *notes;
} Reading;

/* ---- arguments ---- */

#if defined(__x86_64__)
/* Names of 64, 32, 16 and 8 bits, by the order in pt_regs. Registers r8 to r15 have other rules. */
static const struct {
        const char *names[4];
        uint8_t index;
} registers[] = {
        { { "rbp", "ebp", "bp", "bpl" }, 4 },  { { "rbx", "ebx", "bx", "bl" }, 5 },
        { { "rax", "eax", "ax", "al" }, 10 },  { { "rcx", "ecx", "cx", "cl" }, 11 },
        { { "rdx", "edx", "dx", "dl" }, 12 },  { { "rsi", "esi", "si", "sil" }, 13 },
        { { "rdi", "edi", "di", "dil" }, 14 }, { { "rsp", "esp", "sp", "spl" }, 19 },
};
static const uint8_t numbered[] = { 9, 8, 7, 6, 3, 2, 1, 0 };    /* r8 … r15 */

/* @text: behind the %. Return: where the name ends, NULL = no register. */
static const char *parse_register(const char *text, uint8_t *indexp) {
        size_t n = strspn(text, "abcdefghijklmnopqrstuvwxyz0123456789");
        unsigned number = 0, digits = 0;

        for (size_t i = 0; i < ARRAY_SIZE(registers); i++)
                for (size_t j = 0; j < ARRAY_SIZE(registers[i].names); j++)
                        if (strlen(registers[i].names[j]) == n && !memcmp(text, registers[i].names[j], n)) {
                                *indexp = registers[i].index;
                                return text + n;
                        }
        if (*text != 'r')
                return NULL;
        for (; digits < 2 && text[1 + digits] >= '0' && text[1 + digits] <= '9'; digits++)
                number = 10 * number + (unsigned)(text[1 + digits] - '0');
        if (number < 8 || number > 15 || n > 1 + digits + 1 ||
            (n == 1 + digits + 1 && !strchr("dwb", text[1 + digits])))
                return NULL;
        *indexp = numbered[number - 8];
        return text + n;
}

static const char *parse_place(const char *text, struct alloc_argument *argument) {
        char *end;

        if (*text == '%') {
                argument->place = ALLOC_REGISTER;
                return parse_register(text + 1, &argument->index);
        }
        if (*text == '$') {
                argument->value = strtoll(text + 1, &end, 0);
                return end == text + 1 ? NULL : end;
        }
        argument->value = strtoll(text, &end, 0);
        if (end[0] != '(' || end[1] != '%')
                return NULL;
        argument->place = ALLOC_MEMORY;
        text = parse_register(end + 2, &argument->index);
        return text && *text == ')' ? text + 1 : NULL;
}
#else
/* @text: "x3", "w3", "sp". Return: as above. */
static const char *parse_register(const char *text, uint8_t *indexp) {
        unsigned long number;
        char *end;

        if (!strncmp(text, "sp", 2)) {
                *indexp = 31;
                return text + 2;
        }
        if ((*text != 'x' && *text != 'w') || text[1] < '0' || text[1] > '9')
                return NULL;
        number = strtoul(text + 1, &end, 10);
        *indexp = (uint8_t)number;
        return number <= 30 ? end : NULL;
}

static const char *parse_place(const char *text, struct alloc_argument *argument) {
        char *end;

        if (*text != '[') {
                const char *behind = parse_register(text, &argument->index);

                if (behind) {
                        argument->place = ALLOC_REGISTER;
                        return behind;
                }
                argument->value = strtoll(text, &end, 0);
                return end == text ? NULL : end;
        }
        argument->place = ALLOC_MEMORY;
        text = parse_register(text + 1, &argument->index);
        if (text && *text == ',') {
                argument->value = strtoll(text + 1, &end, 0);
                text = end == text + 1 ? NULL : end;
        }
        return text && *text == ']' ? text + 1 : NULL;
}
#endif

/* "-4@%eax": signed, of 4 bytes. Return: where it ends, NULL = not known. */
static const char *parse_argument(const char *text, struct alloc_argument *argument) {
        *argument = (struct alloc_argument){ .is_signed = *text == '-' };
        text += argument->is_signed;
        if (!*text || !strchr("1248", *text) || text[1] != '@')
                return NULL;
        argument->size = (uint8_t)(*text - '0');
        return parse_place(text + 2, argument);
}

int probe_arguments_parse(const char *text, size_t n, struct alloc_probe *probe) {
        struct alloc_probe parsed = { 0 };

        for (size_t i = 0; i < n; i++) {
                text += strspn(text, " ");
                text = parse_argument(text, &parsed.arguments[i]);
                if (!text || (*text && *text != ' '))
                        return 1;
        }
        *probe = parsed;
        return 0;
}

/* ---- places ---- */

/* Offset in the file of @size bytes at an address, in a segment that has all of @flags. Return: 0, 1. */
static int find_offset(const Reading *reading, uint64_t address, uint64_t size, uint32_t flags,
                       uint64_t *offsetp) {
        for (uint32_t i = 0; i < reading->n_segments; i++) {
                const Elf64_Phdr *segment = &reading->segments[i];
                uint64_t at = address - segment->p_vaddr;

                if (segment->p_type != PT_LOAD || (segment->p_flags & flags) != flags ||
                    address < segment->p_vaddr || at >= segment->p_filesz || size > segment->p_filesz - at ||
                    segment->p_offset > reading->image->size || at > reading->image->size - segment->p_offset)
                        continue;
                *offsetp = segment->p_offset + at;
                return 0;
        }
        return 1;
}

/* Return: 0, 1 = no nop, -ENOMEM. */
static int check_nop(const ElfImage *image, uint64_t offset) {
#if defined(__x86_64__)
        static const char *const nops[] = { "\x90", "\x0f\x1f\x44\0\0", "\x66\x90" };
        static const size_t sizes[] = { 1, 5, 2 };
#else
        static const char *const nops[] = { "\x1f\x20\x03\xd5" };
        static const size_t sizes[] = { 4 };
#endif
        const uint64_t size = MIN(image->size - MIN(offset, image->size), (uint64_t)NOP_BYTES);
        _cleanup_(freep) char *bytes = NULL;
        int r = elf_image_read(image, offset, size, &bytes);

        if (r)
                return r < 0 ? error_fold(r) : 1;
        for (size_t i = 0; i < ARRAY_SIZE(nops); i++)
                if (sizes[i] <= size && !memcmp(bytes, nops[i], sizes[i]))
                        return 0;
        return 1;
}

/* @addresses: three. Return: 0, 1 = refused, -ENOMEM. */
static int make_note(const Reading *reading, const char *addresses, const char *arguments, bool is_free,
                     ProbeNote *note) {
        uint64_t place, base, semaphore, moved;

        memcpy(&place, addresses, 8);
        memcpy(&base, addresses + 8, 8);
        memcpy(&semaphore, addresses + 16, 8);
        moved = reading->base && base ? reading->base - base : 0;
        *note = (ProbeNote){ .is_free = is_free };
        if (probe_arguments_parse(arguments, is_free ? 1 : ALLOC_N_ARGUMENTS, &note->probe) ||
            find_offset(reading, place + moved, 1, PF_X, &note->offset) ||
            (semaphore && find_offset(reading, semaphore + moved, 2, PF_W, &note->semaphore)))
                return 1;
        return check_nop(reading->image, note->offset);
}

/* ---- notes ---- */

/* The text at *@atp, and moves *@atp behind it. Return: NULL = it has no end. */
static const char *take_text(const char **atp, const char *end) {
        const char *text = *atp, *nul = memchr(text, 0, (size_t)(end - text));

        if (nul)
                *atp = nul + 1;
        return nul ? text : NULL;
}

/* Behind all frees. */
static void insert_free(ProbeNotes *notes, const ProbeNote *note) {
        size_t at = 0;

        while (at < notes->n && notes->notes[at].is_free)
                at++;
        memmove(&notes->notes[at + 1], &notes->notes[at], (notes->n - at) * sizeof(*note));
        notes->notes[at] = *note;
        notes->n++;
}

static int add_note(Reading *reading, const char *rest, size_t size) {
        const char *at = rest + NOTE_ADDRESSES, *end = rest + size, *provider, *name, *arguments;
        ProbeNotes *notes = reading->notes;
        ProbeNote note;
        bool is_free;
        int r;

        if (size < NOTE_ADDRESSES)
                return 0;
        provider = take_text(&at, end);
        name = provider ? take_text(&at, end) : NULL;
        arguments = name ? take_text(&at, end) : NULL;
        if (!arguments || strcmp(provider, PROVIDER) || (strcmp(name, "alloc") && strcmp(name, "free")))
                return 0;
        is_free = !strcmp(name, "free");
        if (notes->n + notes->n_refused >= ARRAY_SIZE(notes->notes)) {
                notes->n_over_cap++;
                reading->lacks_frees |= is_free;
                return 0;
        }
        r = make_note(reading, rest, arguments, is_free, &note);
        if (!r && is_free)
                insert_free(notes, &note);
        else if (!r)
                notes->notes[notes->n++] = note;
        notes->n_refused += r > 0;
        reading->lacks_frees |= r > 0 && is_free;
        return MIN(r, 0);
}

static int read_notes(Reading *reading, const char *data, uint64_t size) {
        uint64_t at = 0;

        while (at + NOTE_HEAD <= size) {
                uint32_t head[3];
                uint64_t name, rest;
                int r;

                memcpy(head, data + at, sizeof(head));
                name = at + NOTE_HEAD;
                rest = name + ((uint64_t)head[0] + 3) / 4 * 4;
                at = rest + ((uint64_t)head[1] + 3) / 4 * 4;
                if (rest > size || head[1] > size - rest) {
                        reading->notes->n_refused++;
                        reading->lacks_frees = true;    /* notes of frees may be behind it */
                        return 0;
                }
                if (head[2] != NOTE_TYPE || head[0] != sizeof("stapsdt") || memcmp(data + name, "stapsdt", 8))
                        continue;
                r = add_note(reading, data + rest, head[1]);
                if (r)
                        return r;
        }
        return 0;
}

int probe_notes_read(ProbeNotes *notes, const ElfImage *image) {
        _cleanup_(freep) Elf64_Phdr *segments = NULL;
        _cleanup_(freep) char *data = NULL;
        Reading reading = { .image = image, .notes = notes };
        const Elf64_Shdr *section;
        uint64_t size;
        int r;

        *notes = (ProbeNotes){ 0 };
        if (elf_image_find_section(image, ".note.stapsdt", &section))
                return 0;
        if (section->sh_size > PROBE_MAX_NOTES) {
                notes->n_over_cap = 1;
                return 0;
        }
        r = elf_image_segments(image, &segments, &reading.n_segments);
        if (!r)
                r = elf_image_read_section(image, ".note.stapsdt", PROBE_MAX_NOTES, &data, &size);
        if (r)
                return r < 0 ? error_fold(r) : 0;
        reading.segments = segments;
        if (!elf_image_find_section(image, ".stapsdt.base", &section))
                reading.base = section->sh_addr;
        r = read_notes(&reading, data, size);
        notes->has_all_frees = !reading.lacks_frees && notes->n && notes->notes[0].is_free;
        return error_fold(r);
}
