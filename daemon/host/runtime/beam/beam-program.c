/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every build exports what extensions call (enif_*, driver_*), and OTP 29 exports no other symbol. So none is
 * needed: the file says its release and whether it has the JIT in the text that `erl` prints, and beam-find.c
 * finds variables in a process. The interpreter, and releases that beam-layout.h does not know, are refused.
 */
#include "host/runtime/beam/beam-program.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/macro.h"
#include "host/runtime/beam/beam-layout.h"
#include "host/sampling/process/dynamic-symbol.h"

enum {
        OVERLAP = 256,                  /* bytes of a text that lies across two chunks */
        MAX_DIGITS = 3,
};

static const char banner[] = "Erlang/OTP ";     /* `Erlang/OTP 25%s [erts-13.1.5] … [jit:ns%s]` */
static const char banner_end[] = "%s [erts-";
static const char banner_jit[] = " [jit";
static const char atoms_name[] = "atom_tab";

typedef struct Texts {
        unsigned release;               /* 0 = there is no banner */
        bool has_jit;
        uint64_t atoms;                 /* ELF address of the name of the table of atoms; 0 = there is none */
} Texts;

/* Return: the ELF address of what the file exports as @name; 0 = nothing. */
static uint64_t find(const DynamicImage *image, const char *name) {
        Elf64_Sym symbol;
        uint32_t index;

        return dynamic_image_find(image, name, &index, &symbol) ? symbol.st_value : 0;
}

bool beam_recognises(int fd, const void *data, uint64_t size) {
        DynamicImage image;

        return dynamic_image_open(&image, fd, data, size) && find(&image, "enif_schedule_nif") &&
                find(&image, "driver_output_term") && find(&image, "erl_drv_init_ack");
}

/* Reads the banner at @text, if it is one that ends before @end. */
static void take_banner(Texts *texts, const char *text, const char *end) {
        const char *digits = text + sizeof(banner) - 1;
        size_t n = strspn(digits, "0123456789");

        if (!n || n > MAX_DIGITS || strncmp(digits + n, banner_end, sizeof(banner_end) - 1) != 0 ||
            digits + strlen(digits) == end)     /* cut: the next chunk has it whole */
                return;
        texts->release = (unsigned)strtoul(digits, NULL, 10);
        texts->has_jit = strstr(digits, banner_jit);
}

static bool search_chunk(void *userdata, uint64_t address, const char *chunk, size_t n) {
        const char *end = chunk + n, *at = chunk;
        Texts *texts = userdata;

        while (!texts->release && (at = memmem(at, (size_t)(end - at), banner, sizeof(banner) - 1)))
                take_banner(texts, at++, end);
        at = texts->atoms ? NULL : memmem(chunk, n, atoms_name, sizeof(atoms_name));
        if (at)
                texts->atoms = address + (uint64_t)(at - chunk);
        return texts->release && texts->atoms;
}

/* Looks for what the file says of itself; of a large one not all is searched. */
static void search(const DynamicImage *image, Texts *texts) {
        dynamic_image_search(image, PF_X, OVERLAP, search_chunk, texts);
}

static bool find_data(const DynamicImage *image, BeamOpened *opened) {
        for (unsigned i = 0; i < image->n_headers; i++) {
                const Elf64_Phdr *header = &image->headers[i];

                if (header->p_type != PT_LOAD || !(header->p_flags & PF_W))
                        continue;
                opened->data = header->p_vaddr & ~7ull;
                opened->data_size = header->p_memsz;
                return header->p_memsz <= BEAM_MAX_DATA;
        }
        return false;
}

static int unknown(BeamOpened *opened, unsigned release, const char *what) {
        if (release)
                snprintf(opened->reason, sizeof(opened->reason), "Erlang/OTP %u: not walked: %s", release, what);
        else
                snprintf(opened->reason, sizeof(opened->reason), "Erlang/OTP: not walked: %s", what);
        return BEAM_OPEN_E_UNKNOWN;
}

int beam_open(int fd, const void *data, uint64_t size, BeamOpened *opened) {
        Texts texts = { 0 };
        DynamicImage image;

        memset(opened, 0, sizeof(*opened));
        if (!dynamic_image_open(&image, fd, data, size))
                return unknown(opened, 0, "the file has changed");
        search(&image, &texts);
        if (ELF_MACHINE != EM_X86_64)
                return unknown(opened, texts.release, "this processor");
        if (!beam_layout(texts.release))
                return unknown(opened, texts.release, "layout unknown; 25, 27 and 29 are known");
        if (!texts.has_jit)
                return unknown(opened, texts.release, "the interpreter (emu): a build with the JIT is");
        if (!texts.atoms || !find_data(&image, opened))
                return unknown(opened, texts.release, "its variables are not found");
        opened->atoms = texts.atoms;
        opened->release = texts.release;
        opened->frame_layout = find(&image, "erts_frame_layout");
        snprintf(opened->reason, sizeof(opened->reason), "Erlang/OTP %u", texts.release);
        return 0;
}

bool beam_opened_is_sound(const BeamOpened *opened) {
        return opened->atoms && opened->data && opened->data_size && opened->data_size <= BEAM_MAX_DATA &&
                beam_layout(opened->release) && !opened->reserved;
}
