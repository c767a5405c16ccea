/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/*
 * Notes of Probes (USDT)
 *
 * Which probes otel_memory:alloc and free a file has, where each is, and where its arguments lie. Pure, but
 * for reads of the image.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "border/alloc_abi.h"
#include "core/base/elf/image.h"

enum {
        PROBE_MAX_NOTES = 1 << 20,      /* bytes of a file's notes; of more, none is read */
};

typedef struct ProbeNote {
        uint64_t offset;                /* place of the nop in the file */
        uint64_t semaphore;             /* offset of its counter in the file; 0 = it has none */
        bool is_free;
        struct alloc_probe probe;
} ProbeNote;

typedef struct ProbeNotes {
        ProbeNote notes[ALLOC_MAX_FILE_PROBES];         /* notes that tell frees come first */
        size_t n;
        size_t n_over_cap;              /* probes behind as many, refused ones too */
        size_t n_refused;               /* no nop in code, other arguments, or a note that is cut */
        bool has_all_frees;             /* probes tell frees, and none of those is left out */
} ProbeNotes;

/* Return: 0, also where there is none; -ENOMEM. */
int probe_notes_read(ProbeNotes *notes, const ElfImage *image);

/*
 * Where the first @n arguments lie, in the words of the processor's assembler: "8@%rdi 8@-16(%rbp) 4@$42".
 * @n: at most ALLOC_N_ARGUMENTS. @text: NUL-terminated. Return: 0, 1 = they are fewer, or not known.
 */
int probe_arguments_parse(const char *text, size_t n, struct alloc_probe *probe);
