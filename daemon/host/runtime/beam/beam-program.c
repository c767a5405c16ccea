/* SPDX-License-Identifier: Apache-2.0 */

/*
 * Every build exports what extensions call (enif_*, driver_*). Most releases export all other symbols, too,
 * the variables that are wanted among them; those that lack one are refused. So is the interpreter, which has
 * no assembler (beamasm_*), and each release whose structs beam-code.c does not know.
 */
#include "host/runtime/beam/beam-program.h"

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/base/elf/machine.h"
#include "core/base/util/macro.h"
#include "host/sampling/process/dynamic-symbol.h"

enum {
        CHUNK = 64 << 10,
        RELEASE = 25,                   /* the release whose structs beam-code.c knows */
        MAX_DIGITS = 3,
        MAX_SEARCHED = 64 << 20,        /* bytes of all segments, for the banner */
};

static const char banner[] = "Erlang/OTP ";     /* `Erlang/OTP 25%s [erts-13.1.5] …`, which `erl` prints */
static const char banner_end[] = "%s [erts-";

static bool find(const DynamicImage *image, const char *name, uint64_t *addressp) {
        Elf64_Sym symbol;
        uint32_t index;

        if (!dynamic_image_find(image, name, &index, &symbol))
                return false;
        *addressp = symbol.st_value;
        return true;
}

bool beam_recognises(int fd, const void *data, uint64_t size) {
        DynamicImage image;
        uint64_t address;

        return dynamic_image_open(&image, fd, data, size) && find(&image, "enif_schedule_nif", &address) &&
                find(&image, "driver_output_term", &address) && find(&image, "erl_drv_init_ack", &address);
}

/* The release in the banner at @text; 0 = it is another text. */
static unsigned banner_release(const char *text) {
        const char *digits = text + sizeof(banner) - 1;
        size_t n = strspn(digits, "0123456789");

        if (!n || n > MAX_DIGITS || strncmp(digits + n, banner_end, sizeof(banner_end) - 1) != 0)
                return 0;
        return (unsigned)strtoul(digits, NULL, 10);
}

static unsigned chunk_release(const char *chunk, size_t n) {
        const char *end = chunk + n;
        unsigned release = 0;

        for (const char *at = chunk; !release && at && at < end; at++) {
                at = memmem(at, (size_t)(end - at), banner, sizeof(banner) - 1);
                if (!at)
                        break;
                release = banner_release(at);
        }
        return release;
}

/* Return: 0 = the file does not say, or is too large to be searched. */
static unsigned find_release(const DynamicImage *image) {
        static char chunk[CHUNK + 1];
        const size_t step = CHUNK - sizeof(banner) - MAX_DIGITS - sizeof(banner_end);
        uint64_t n_left = MAX_SEARCHED;

        for (unsigned i = 0; i < image->n_headers; i++) {
                const Elf64_Phdr *header = &image->headers[i];

                if (header->p_type != PT_LOAD || header->p_flags & PF_X)
                        continue;
                for (uint64_t at = 0; at < header->p_filesz; at += step) {
                        size_t n = MIN(header->p_filesz - at, (uint64_t)CHUNK);
                        unsigned release;

                        if (n > n_left)
                                return 0;
                        n_left -= n;
                        if (!dynamic_image_read(image, header->p_vaddr + at, chunk, n))
                                break;
                        chunk[n] = '\0';
                        release = chunk_release(chunk, n);
                        if (release)
                                return release;
                }
        }
        return 0;
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
        DynamicImage image;
        unsigned release;
        uint64_t jit;

        memset(opened, 0, sizeof(*opened));
        if (!dynamic_image_open(&image, fd, data, size))
                return unknown(opened, 0, "the file has changed");
        release = find_release(&image);
        if (ELF_MACHINE != EM_X86_64)
                return unknown(opened, release, "this processor");
        if (release != RELEASE)
                return unknown(opened, release, "layout unknown; 25 is known");
        if (!find(&image, "beamasm_init", &jit))
                return unknown(opened, release, "the interpreter (emu): a build with the JIT is");
        if (!find(&image, "beam_normal_exit", &opened->bottom) ||
            !find(&image, "the_active_code_index", &opened->active) ||
            !find(&image, "erts_aligned_scheduler_data", &opened->schedulers) ||
            !find(&image, "erts_no_schedulers", &opened->n_schedulers) ||
            !find(&image, "erts_atom_table", &opened->atoms) || !find_data(&image, opened))
                return unknown(opened, release, "its variables have no symbols");
        find(&image, "erts_frame_layout", &opened->frame_layout);
        snprintf(opened->reason, sizeof(opened->reason), "Erlang/OTP %u", release);
        return 0;
}

bool beam_opened_is_sound(const BeamOpened *opened) {
        return opened->bottom && opened->active && opened->schedulers && opened->n_schedulers &&
                opened->atoms && opened->data && opened->data_size && opened->data_size <= BEAM_MAX_DATA;
}
